// In the audio thread: samples of one channel become packets of 100 ms of 16-bit PCM.
registerProcessor("pcm", class extends AudioWorkletProcessor {
  packet = new Int16Array(Math.round(sampleRate / 10));
  filled = 0;

  constructor() {
    super();
    // Whoever ends the capture asks for what is left.
    this.port.onmessage = () => this.tell(true);
  }
  process([[samples]]) {
    for (const sample of samples ?? []) {
      this.packet[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === this.packet.length) this.tell(false);
    }
    return true;
  }
  tell(last) {
    this.port.postMessage({ samples: this.packet.slice(0, this.filled), last });
    this.filled = 0;
  }
});
