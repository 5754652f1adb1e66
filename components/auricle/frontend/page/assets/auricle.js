// @ts-check
// A session of /v1/audio/stream in a browser, without a build step; see docs/client.md.
/** @typedef {import("./messages").StreamEvent} StreamEvent */
/** @typedef {import("./messages").ErrorEvent} ErrorEvent */
/**
 * Fields of `start`, and: `key`, an API key; `live`, for audio that does not wait for the server;
 * `onWait`, called when the server is full and is tried again after these seconds.
 * @typedef {Partial<import("./messages").StartMessage> & { key?: string, live?: boolean, onWait?: (why: ErrorEvent, seconds: number) => void }} Options
 */
const RESUME_MS = 120_000; // Frontend.resume_seconds
const LIVE_SECONDS = 5; // of live audio that is kept until a session begins

/** One session; it is resumed when its connection is lost, and tells each event once. */
export class Transcription {
  /** @type {Int16Array<ArrayBuffer>[]} packets that a server may want again */ kept = [];
  /** @type {import("./messages").Resume | undefined} of the last message */ resume;
  /** @type {ErrorEvent | undefined} why this connection was refused */ refused;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the next connection */ timer;
  from = 0; // the sample that `kept` begins with
  samples = 0; // of the session so far
  ready = false; told = false; ended = false; over = false; lostAt = 0;

  /** @param {string} url @param {(event: StreamEvent) => void} onEvent @param {Options} options */
  constructor(url, onEvent, { key, live = false, onWait = () => {}, ...options } = {}) {
    this.url = url.replace(/^http/, "ws").replace(/\/$/, "") + "/v1/audio/stream?refusal_message=true";
    this.protocols = key ? [`openai-insecure-api-key.${key}`] : [];
    this.start = { type: "start", sample_rate: 16000, ...options };
    this.onEvent = onEvent;
    this.onWait = onWait;
    this.live = live;
    /** @type {WebSocket} */ this.socket = this.connect();
  }
  /** @returns {WebSocket} */
  connect() {
    const socket = new WebSocket(this.url + (this.resume ? "&resume=true" : ""), this.protocols);
    socket.onopen = () => socket.send(JSON.stringify({ ...this.start, resume: this.resume }));
    socket.onmessage = ({ data }) => this.hear(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.closed(`${code} ${reason}`);
    return (this.socket = socket);
  }
  /** @param {Int16Array<ArrayBuffer>} packet samples, of a microphone or of whatever speaks */
  send(packet) {
    this.kept.push(packet);
    this.samples += packet.length;
    if (this.ready) this.socket.send(packet);
    while (this.live && !this.told && this.samples > LIVE_SECONDS * this.start.sample_rate) this.samples -= this.kept.splice(0, 1)[0].length;
  }
  /** The audio has ended: the rest of the text and `done` follow. */
  finish() {
    this.ended = true;
    if (this.ready) this.socket.send('{"type": "end"}');
  }
  /** Give up: nothing follows. */
  cancel() {
    this.over = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
  /** @param {StreamEvent} event */
  hear(event) {
    if (event.type === "error" && !this.ready && event.retry_after_seconds && this.mayReturn()) {
      this.refused = event; // the server closes the connection now
      return;
    }
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
  /** Whether the session is new, or may still be resumed. */
  mayReturn() {
    return !this.told || (this.resume !== undefined && Date.now() < this.lostAt + RESUME_MS);
  }
  /** @param {string} why */
  closed(why) {
    const { refused } = this;
    this.ready = false;
    this.refused = undefined;
    if (this.over) return;
    if (this.told) this.lostAt ||= Date.now();
    if (refused?.retry_after_seconds) {
      this.onWait(refused, refused.retry_after_seconds);
      this.timer = setTimeout(() => this.connect(), 1000 * refused.retry_after_seconds);
    } else if (this.told && this.mayReturn()) {
      this.timer = setTimeout(() => this.connect(), 500 + 1000 * Math.random());
    } else {
      this.over = true;
      this.onEvent({ type: "error", code: "connection_lost", message: `the connection was lost: ${why}` });
    }
  }
}
