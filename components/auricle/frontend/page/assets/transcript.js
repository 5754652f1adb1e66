// @ts-check
// What a session has said so far, and how soon and how steadily. No page, no network.
/** @typedef {import("./messages").StreamEvent} StreamEvent */
/** @typedef {{ segment: number, start: number, end: number, text: string, language: string }} Segment in seconds */
/** @typedef {{ words?: import("./messages").WordsEvent, speakers?: import("./messages").SpeakersEvent }} Details of a segment */
/** @typedef {{ committed: string, partial: string, final: boolean, missing?: string }} Translated */
/**
 * A segment to be saved; `missing` says why its text is not all there.
 * @typedef {Segment & { missing?: string } & Partial<{ words: readonly import("./messages").TimedWord[], speakers: readonly import("./messages").SpeakerPart[] }>} Saved
 */

// Why a translation is missing: it is spoken in that language; its session failed; it is still to come.
export const [SAME, SESSION_FAILED, LATER] = ["same_language", "session_failed", "later"];
/** @param {number} segment @param {string} language */
export const keyOf = (segment, language) => `${segment} ${language}`;
const REMEMBERED = 20; // partials whose delay counts
/** @param {string} text */
const words = (text) => text.split(/\s+/).filter(Boolean);

export class Transcript {
  /** @type {Segment[]} */ segments = [];
  /** @type {Map<number, Details>} by segment */ details = new Map();
  /** @type {Map<string, Translated>} by `keyOf` */ translations = new Map();
  open = -1; // the number of the segment that is not final
  committed = ""; // of the open segment: never changes
  partial = ""; // after it: may change
  speaking = false;
  heard = 0; // seconds of audio that text was told of
  /** @type {number[]} seconds from the last sample to its text */ delays = [];
  shown = 0; // words that were shown before they were final
  changed = 0; // of them, those that were taken back

  /** @param {string[]} languages that it is translated into */
  constructor(languages = []) {
    this.languages = languages;
  }
  /**
   * @param {StreamEvent} event
   * @param {number} spoken seconds of audio that were spoken when the event came
   */
  take(event, spoken) {
    if (event.type === "speech_started") this.speaking = true;
    if (event.type === "speech_stopped") this.speaking = false;
    if (event.type === "partial") {
      this.heard = event.audio_ms / 1000;
      this.open = event.segment;
      this.delays = [...this.delays, Math.max(0, spoken - this.heard)].slice(-REMEMBERED);
      this.replace(event.committed, event.partial);
    }
    if (event.type === "final") {
      this.heard = Math.max(this.heard, event.end_ms / 1000);
      this.replace(event.text, "");
      this.committed = "";
      if (event.text) {
        const [start, end] = [event.start_ms / 1000, event.end_ms / 1000];
        this.segments.push({ segment: event.segment, start, end, text: event.text, language: event.language });
      }
    }
    if (event.type === "words") this.details.set(event.segment, { ...this.details.get(event.segment), words: event });
    if (event.type === "speakers") this.details.set(event.segment, { ...this.details.get(event.segment), speakers: event });
    if (event.type === "translation") this.translations.set(keyOf(event.segment, event.language), event);
    if (event.type === "error") this.leaveUntranslated();
  }
  /** The session failed: what is not translated by now never will be. */
  leaveUntranslated() {
    for (const key of this.segments.flatMap(({ segment }) => this.languages.map((language) => keyOf(segment, language)))) {
      const told = this.translations.get(key);
      if (told?.final) continue;
      this.translations.set(key, { committed: told?.committed ?? "", partial: "", final: true, missing: SESSION_FAILED });
    }
  }
  /**
   * What was said, in `language`; as it was spoken with an empty one.
   * @param {string} language
   * @returns {Saved[]}
   */
  textIn(language) {
    if (!language) return this.segments.map((segment) => ({ ...segment, ...this.known(segment.segment) }));
    return this.segments.map((segment) => {
      const told = this.translations.get(keyOf(segment.segment, language));
      if (told?.missing === SAME) return { ...segment, language };
      const missing = told?.final ? told.missing : LATER;
      return { ...segment, language, text: told?.committed.trim() ?? "", missing };
    });
  }
  /** @param {number} segment */
  known(segment) {
    const { words, speakers } = this.details.get(segment) ?? {};
    return { words: words?.words, speakers: speakers?.parts };
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
