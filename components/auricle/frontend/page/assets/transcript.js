// @ts-check
// What a session has said so far, and how soon and how steadily. No page, no network.
/** @typedef {import("./messages").StreamEvent} StreamEvent */
/** @typedef {{ start: number, end: number, text: string, language: string }} Segment in seconds */

const REMEMBERED = 20; // partials whose delay counts
/** @param {string} text */
const words = (text) => text.split(/\s+/).filter(Boolean);

export class Transcript {
  /** @type {Segment[]} */ segments = [];
  committed = ""; // of the open segment: never changes
  partial = ""; // after it: may change
  speaking = false;
  heard = 0; // seconds of audio that text was told of
  /** @type {number[]} seconds from the last sample to its text */ delays = [];
  shown = 0; // words that were shown before they were final
  changed = 0; // of them, those that were taken back

  /**
   * @param {StreamEvent} event
   * @param {number} spoken seconds of audio that were spoken when the event came
   */
  take(event, spoken) {
    if (event.type === "speech_started") this.speaking = true;
    if (event.type === "speech_stopped") this.speaking = false;
    if (event.type === "partial") {
      this.heard = event.audio_ms / 1000;
      this.delays = [...this.delays, Math.max(0, spoken - this.heard)].slice(-REMEMBERED);
      this.replace(event.committed, event.partial);
    }
    if (event.type === "final") {
      this.heard = Math.max(this.heard, event.end_ms / 1000);
      this.replace(event.text, "");
      this.committed = "";
      if (event.text) {
        const [start, end] = [event.start_ms / 1000, event.end_ms / 1000];
        this.segments.push({ start, end, text: event.text, language: event.language });
      }
    }
  }
  /** @param {string} committed @param {string} partial */
  replace(committed, partial) {
    const [before, now] = [words(`${this.committed} ${this.partial}`), words(`${committed} ${partial}`)];
    const same = before.findIndex((word, at) => word !== now[at]);
    const kept = same < 0 ? before.length : same;
    this.changed += before.length - kept;
    this.shown += now.length - kept;
    [this.committed, this.partial] = [committed, partial];
  }
  /** The median delay of the last texts in seconds; undefined before the first. */
  get delay() {
    return [...this.delays].sort((a, b) => a - b)[this.delays.length >> 1];
  }
  /** The share of shown words that were taken back; undefined before the first. */
  get unstable() {
    return this.shown ? this.changed / this.shown : undefined;
  }
}
