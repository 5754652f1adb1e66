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
  const mean = audible(channels);
  for (let at = 0; at < mixed.length; at++) {
    mixed[at] = Math.max(-1, Math.min(1, mean(at))) * 32767;
  }
  return mixed;
}

/**
 * Channels that cancel each other would be silence: as on the server, the louder one is used then.
 * @param {Float32Array[]} channels
 * @returns {(at: number) => number} the mean of the channels at a sample, or the louder one's value
 */
function audible(channels) {
  const mean = (/** @type {number} */ at) => {
    let sum = 0;
    for (const channel of channels) sum += channel[at];
    return sum / channels.length;
  };
  const energy = (/** @type {(at: number) => number} */ value) => {
    let sum = 0;
    for (let at = 0; at < channels[0].length; at++) sum += value(at) ** 2;
    return sum;
  };
  const energies = channels.map((channel) => energy((at) => channel[at]));
  const loudest = energies.indexOf(Math.max(...energies));
  const cancelled = energy(mean) < (0.25 * energies[loudest]) / channels.length ** 2;
  return cancelled ? (at) => channels[loudest][at] : mean;
}

/**
 * Give samples to a session until they end or the session does.
 * @param {Int16Array<ArrayBuffer>} samples
 * @param {import("./auricle.js").Transcription} session
 * @param {(packet: Int16Array<ArrayBuffer>) => void} send
 */
export async function play(samples, session, send) {
  const mayGo = () => session.ready && session.socket.bufferedAmount < MOST_BUFFERED;
  for (let at = 0; at < samples.length && !session.over && !session.ended; at += PACKET_SAMPLES) {
    while (!session.over && !mayGo()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    send(samples.slice(at, at + PACKET_SAMPLES));
  }
}
