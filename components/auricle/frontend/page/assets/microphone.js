// @ts-check
// A microphone as the source of a session.
import { Transcription } from "./auricle.js";

const LAST_PACKET_MS = 500;

/**
 * Capture the microphone in packets of 100 ms, at its own sample rate.
 * @param {(packet: Int16Array<ArrayBuffer>) => void} onPacket
 * @returns {Promise<{ sampleRate: number, stop: () => Promise<void> }>} `stop` returns after the
 * last packet
 */
export async function capture(onPacket) {
  if (!navigator.mediaDevices) throw new Error("browsers give a microphone only to pages from https or localhost");
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const audio = new AudioContext();
  await audio.audioWorklet.addModule(new URL("./worklet.js", import.meta.url));
  const pcm = new AudioWorkletNode(audio, "pcm");
  /** @type {(last: boolean) => void} */ let ended;
  const last = new Promise((resolve) => (ended = resolve));
  pcm.port.onmessage = ({ data }) => {
    if (data.samples.length) onPacket(data.samples);
    if (data.last) ended(true);
  };
  audio.createMediaStreamSource(media).connect(pcm);
  return {
    sampleRate: audio.sampleRate,
    stop: async () => {
      pcm.port.postMessage("end");
      await Promise.race([last, new Promise((resolve) => setTimeout(resolve, LAST_PACKET_MS))]);
      media.getTracks().forEach((track) => track.stop());
      await audio.close();
    },
  };
}

/**
 * Transcribe the microphone; call what this returns to end it.
 * @param {string} url @param {(event: import("./messages").StreamEvent) => void} onEvent
 * @param {import("./auricle.js").Options} options
 */
export async function microphone(url, onEvent, options = {}) {
  /** @type {Transcription | undefined} */ let session;
  const source = await capture((packet) => session?.send(packet));
  session = new Transcription(url, onEvent, { ...options, sample_rate: source.sampleRate });
  return async () => {
    await source.stop();
    session.finish();
  };
}
