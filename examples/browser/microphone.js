// @ts-check
// A microphone as the source of a session.
import { Transcription } from "./auricle.js";

// In the audio thread: samples become packets of 100 ms of 16-bit PCM.
const WORKLET = `registerProcessor("pcm", class extends AudioWorkletProcessor {
  packet = [];
  process([[samples]]) {
    for (const x of samples ?? []) this.packet.push(Math.max(-1, Math.min(1, x)) * 32767);
    if (this.packet.length * 10 >= sampleRate) this.port.postMessage(Int16Array.from(this.packet.splice(0)));
    return true;
  }
})`;

/**
 * Transcribe the microphone, at its own sample rate; call what this returns to end it.
 * @param {string} url @param {(event: import("./messages").StreamEvent) => void} onEvent
 * @param {import("./auricle.js").Options} options
 */
export async function microphone(url, onEvent, options = {}) {
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const audio = new AudioContext();
  const code = URL.createObjectURL(new Blob([WORKLET], { type: "text/javascript" }));
  await audio.audioWorklet.addModule(code);
  const session = new Transcription(url, onEvent, { ...options, sample_rate: audio.sampleRate });
  const pcm = new AudioWorkletNode(audio, "pcm");
  pcm.port.onmessage = ({ data }) => session.send(data);
  audio.createMediaStreamSource(media).connect(pcm);
  return () => {
    media.getTracks().forEach((track) => track.stop());
    audio.close();
    session.finish();
  };
}
