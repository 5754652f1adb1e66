// @ts-check
// A session of /v1/audio/stream in a browser, without a build step; see docs/client.md.
/** @typedef {import("./messages").StreamEvent} StreamEvent */
/** @typedef {Partial<import("./messages").StartMessage> & { key?: string }} Options */
const RESUME_MS = 120_000; // Frontend.resume_seconds

/** One session; it is resumed when its connection is lost, and tells each event once. */
export class Transcription {
  /** @type {Int16Array<ArrayBuffer>[]} packets that a server may want again */ kept = [];
  /** @type {import("./messages").Resume | undefined} of the last message */ resume;
  from = 0; // the sample that `kept` begins with
  ready = false; told = false; ended = false; over = false; lostAt = 0;

  /** @param {string} url @param {(event: StreamEvent) => void} onEvent @param {Options} options */
  constructor(url, onEvent, { key, ...options } = {}) {
    this.url = url.replace(/^http/, "ws").replace(/\/$/, "") + "/v1/audio/stream";
    this.protocols = key ? [`openai-insecure-api-key.${key}`] : [];
    this.start = { type: "start", sample_rate: 16000, ...options };
    this.onEvent = onEvent;
    /** @type {WebSocket} */ this.socket = this.connect();
  }
  /** @returns {WebSocket} */
  connect() {
    const socket = new WebSocket(this.url + (this.resume ? "?resume=true" : ""), this.protocols);
    socket.onopen = () => socket.send(JSON.stringify({ ...this.start, resume: this.resume }));
    socket.onmessage = ({ data }) => this.hear(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.closed(`${code} ${reason}`);
    return (this.socket = socket);
  }
  /** @param {Int16Array<ArrayBuffer>} packet samples, of a microphone or of whatever speaks */
  send(packet) {
    this.kept.push(packet);
    if (this.ready) this.socket.send(packet);
  }
  /** The audio has ended: the rest of the text and `done` follow. */
  finish() {
    this.ended = true;
    if (this.ready) this.socket.send('{"type": "end"}');
  }
  /** @param {StreamEvent} event */
  hear(event) {
    if ("resume" in event) this.resume = event.resume;
    const needed = this.resume?.from_sample ?? 0;
    while (this.kept.length && this.from + this.kept[0].length <= needed) this.from += this.kept.splice(0, 1)[0].length;
    if (event.type === "ready") {
      this.ready = true;
      this.kept.forEach((packet, n) => this.socket.send(n ? packet : packet.subarray(needed - this.from)));
      if (this.ended) this.finish();
    } else this.lostAt = 0; // the session is served again
    this.over ||= event.type === "done" || event.type === "error";
    const again = event.type === "ready" && this.told;
    if (!again && event.type !== "checkpoint" && event.type !== "going_away") this.onEvent(event);
    this.told = true;
  }
  /** @param {string} why */
  closed(why) {
    this.ready = false;
    this.lostAt ||= Date.now();
    if (this.over) return;
    if (this.resume && Date.now() < this.lostAt + RESUME_MS) setTimeout(() => this.connect(), 500 + 1000 * Math.random());
    else this.onEvent({ type: "error", code: "connection_lost", message: `the connection was lost: ${why}` });
  }
}
