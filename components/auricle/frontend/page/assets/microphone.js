// @ts-check
// A microphone as the source of a session.
import { Transcription } from "./auricle.js";

const LAST_PACKET_MS = 500;

/** @type {Record<string, string>} by the name of the browser's error */
const WHY = {
  NotAllowedError: "the browser does not allow this page to use it; allow it next to the address, and start again",
  NotFoundError: "none is connected; a file works without one",
  NotReadableError: "another program uses it",
  OverconstrainedError: "it is not connected any more; choose another one",
};

/** Why there is no microphone. @param {unknown} error */
export const whyNot = (error) => (error instanceof Error ? WHY[error.name] ?? error.message : String(error));

/** The microphones; a browser names them once the page was allowed to use one. */
export async function microphones() {
  const devices = await navigator.mediaDevices?.enumerateDevices() ?? [];
  return devices.filter(({ kind, deviceId }) => kind === "audioinput" && deviceId !== "");
}

/**
 * Capture a microphone in packets of 100 ms, at its own sample rate.
 * @param {(packet: Int16Array<ArrayBuffer>) => void} onPacket
 * @param {string} device its id; the browser's choice if empty
 * @returns {Promise<{ sampleRate: number, stop: () => Promise<void> }>} `stop` returns after the
 * last packet
 */
export async function capture(onPacket, device = "") {
  if (!navigator.mediaDevices) throw new Error("browsers give one only to pages from https or localhost; a file works here, too");
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, ...(device ? { deviceId: { exact: device } } : {}) } });
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
  session = new Transcription(url, onEvent, { ...options, live: true, sample_rate: source.sampleRate });
  return async () => {
    await source.stop();
    session.finish();
  };
}
