// @ts-check
// A file as the source of a session, as fast as the server takes it.

export const SAMPLE_RATE = 16000;
const PACKET_SAMPLES = 1600;
// What the socket may hold that has not left yet: the rest waits here.
const MOST_BUFFERED = 1 << 18;
const PAUSE_MS = 20;

/**
 * Decode an audio or video file; the browser must know its format.
 * @param {Blob} file
 * @returns {Promise<Int16Array<ArrayBuffer>>} one channel at 16 kHz
 */
export async function samplesOf(file) {
  const context = new OfflineAudioContext(1, 1, SAMPLE_RATE);
  const audio = await context.decodeAudioData(await file.arrayBuffer());
  const channels = Array.from({ length: audio.numberOfChannels }, (_, n) => audio.getChannelData(n));
  const mixed = new Int16Array(audio.length);
  for (let at = 0; at < mixed.length; at++) {
    let sum = 0;
    for (const channel of channels) sum += channel[at];
    mixed[at] = Math.max(-1, Math.min(1, sum / channels.length)) * 32767;
  }
  return mixed;
}

/**
 * Give samples to a session until they end or the session does.
 * @param {Int16Array<ArrayBuffer>} samples
 * @param {import("./auricle.js").Transcription} session
 * @param {(packet: Int16Array<ArrayBuffer>) => void} send
 */
export async function play(samples, session, send) {
  const mayGo = () => session.ready && session.socket.bufferedAmount < MOST_BUFFERED;
  for (let at = 0; at < samples.length && !session.over; at += PACKET_SAMPLES) {
    while (!session.over && !mayGo()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    send(samples.slice(at, at + PACKET_SAMPLES));
  }
}
