// @ts-check
// One session on the page, from its source to its text.
import { Transcription } from "./auricle.js";
import { at, clock, text } from "./dom.js";
import { Spoken } from "./spoken.js";
import { Transcript } from "./transcript.js";
import { Lines } from "./translations.js";
/** @typedef {import("./messages").ErrorEvent} ErrorEvent */
/**
 * @typedef {object} Listener what a session tells the page
 * @property {() => void} changed its transcript did
 * @property {() => void} ended
 * @property {(error: ErrorEvent) => void} failed
 * @property {(why: ErrorEvent, seconds: number) => void} waits it is tried again after these seconds
 */

/** The lines of a transcript on the page; each final segment is told once. */
export class View {
  told = 0; // segments on the page

  /** @param {Transcript} transcript */
  constructor(transcript) {
    this.transcript = transcript;
    this.lines = new Lines(transcript);
    this.spoken = new Spoken(transcript);
    at("final", HTMLElement).replaceChildren();
    this.show();
  }
  show() {
    const { segments, committed, partial } = this.transcript;
    const captions = at("captions", HTMLElement);
    const atEnd = captions.scrollTop + captions.clientHeight >= captions.scrollHeight - 40;
    this.lines.update();
    this.spoken.update();
    for (; this.told < segments.length; this.told++) {
      const segment = segments[this.told];
      at("final", HTMLElement).append(this.spoken.of(segment), ...this.lines.of(segment.segment));
    }
    at("open-translations", HTMLElement).replaceChildren(...this.lines.ofOpen());
    text("committed", committed);
    text("partial", partial);
    if (atEnd) captions.scrollTop = captions.scrollHeight;
  }
}

export class Captions {
  over = false;
  id = Date.now(); // when it began

  /**
   * @param {string} source its name
   * @param {string} server its address
   * @param {import("./auricle.js").Options & { sample_rate: number, translate: string[] }} options
   * @param {Listener} listener
   * @param {(() => Promise<void>)} [stopSource] of what is live
   */
  constructor(source, server, options, listener, stopSource) {
    this.source = source;
    this.listener = listener;
    this.sampleRate = options.sample_rate;
    this.live = stopSource !== undefined;
    this.stopSource = stopSource;
    this.began = performance.now();
    this.transcript = new Transcript(options.translate);
    this.view = new View(this.transcript);
    this.session = new Transcription(server, (event) => this.hear(event), {
      ...options,
      live: this.live,
      onWait: (why, seconds) => listener.waits(why, seconds),
    });
  }
  /** @param {Int16Array<ArrayBuffer>} packet */
  send(packet) {
    this.session.send(packet);
    let loudest = 0;
    for (const sample of packet) loudest = Math.max(loudest, Math.abs(sample));
    at("level", HTMLMeterElement).value = loudest / 32768;
  }
  /** @param {import("./messages").StreamEvent} event */
  hear(event) {
    if (event.type === "ready") this.began = performance.now();
    this.transcript.take(event, this.session.samples / this.sampleRate);
    if (event.type === "final" || event.type === "partial") text("spoken", event.language || "–");
    if (event.type === "done" || event.type === "error") this.finished();
    if (event.type === "error") this.listener.failed(event);
    this.show();
    this.listener.changed();
  }
  show() {
    const { delay, unstable, heard, speaking } = this.transcript;
    this.view.show();
    if (this.live) text("delay", delay === undefined ? "–" : `${delay.toFixed(1)} s`);
    else text("delay", `${(heard / (performance.now() - this.began) * 1000).toFixed(1)} × real time`);
    text("unstable", unstable === undefined ? "–" : `${(100 * unstable).toFixed(0)} %`);
    text("heard", clock(heard));
    text("speech", this.over ? "not listening" : speaking ? "speech" : "silence");
    at("light", HTMLElement).classList.toggle("on", speaking && !this.over);
  }
  /** The source ends; the rest of the text follows, if the server has begun the session. */
  async stop() {
    const stop = this.stopSource;
    this.stopSource = undefined;
    await stop?.();
    if (this.session.told) return this.session.finish();
    this.session.cancel();
    this.finished();
    this.show();
  }
  finished() {
    if (this.over) return;
    this.over = true;
    void this.stopSource?.();
    this.stopSource = undefined;
    at("level", HTMLMeterElement).value = 0;
    this.listener.ended();
  }
}
