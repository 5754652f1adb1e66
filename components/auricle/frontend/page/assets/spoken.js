// @ts-check
// What was said, on the page: the lines of final segments, and who said which word when.
import { button, clock, made } from "./dom.js";
/** @typedef {import("./transcript.js").Segment} Segment */
/** @typedef {import("./transcript.js").Transcript} Transcript */

// Below these a word is underlined: with dots, with waves.
const [UNSURE, DOUBTFUL] = [0.8, 0.5];
const COLOURS = 6; // of speakers, in turn

/** A word, and what follows it, which is not underlined. @param {import("./messages").TimedWord} word */
function wordNodes({ text, start_ms, end_ms, confidence }) {
  const said = `${(start_ms / 1000).toFixed(2)} to ${(end_ms / 1000).toFixed(2)} s`;
  const sure = confidence ?? 1;
  const span = made("span", {
    className: sure < DOUBTFUL ? "doubtful" : sure < UNSURE ? "unsure" : "",
    title: confidence === undefined ? said : `${said}, ${(100 * confidence).toFixed(0)} % sure`,
  }, text.trimEnd());
  [span.dataset.start, span.dataset.end] = [String(start_ms / 1000), String(end_ms / 1000)];
  return [span, text.slice(text.trimEnd().length)];
}

/**
 * The text of a segment, with its words and who said them where that is known.
 * @param {Segment} segment
 * @param {import("./transcript.js").Details} details
 */
function text({ text }, { words, speakers }) {
  let at = 0;
  const spans = (words?.words ?? []).map((word) => ({ at: (at += word.text.length) - word.text.length, nodes: wordNodes(word) }));
  if (!spans.length) spans.push({ at: 0, nodes: [made("span", {}, text)] });
  const parts = (speakers?.parts ?? []).filter((part) => part.text);
  let end = 0;
  const inside = parts.flatMap(({ speaker, text }) => {
    const begin = end;
    end += text.length;
    const who = made("b", { className: `who who${(speaker - 1) % COLOURS + 1}` }, `Speaker ${speaker}`);
    const own = spans.filter(({ at }) => begin <= at && at < end).flatMap(({ nodes }) => nodes);
    return words?.words.length ? [who, ...own] : [who, text];
  });
  return inside.length ? inside : spans.flatMap(({ nodes }) => nodes);
}

/** @param {import("./transcript.js").Details} details */
function notes({ words, speakers }) {
  const missing = [words?.missing && `word times: ${words.missing}`, speakers?.missing && `speakers: ${speakers.missing}`];
  return missing.filter(Boolean).map((why) => made("span", { className: "missing" }, `no ${why}`));
}

/** The lines of one session's final segments. */
export class Spoken {
  /** @type {Map<number, { line: HTMLElement, segment: Segment, details?: object }>} */ lines = new Map();

  /** @param {Transcript} transcript */
  constructor(transcript) {
    this.transcript = transcript;
  }
  /** The line of a segment that has become final. @param {Segment} segment */
  of(segment) {
    const line = made("p", { className: "said" });
    this.lines.set(segment.segment, { line, segment });
    this.write(segment.segment);
    return line;
  }
  /** Show what has come since. */
  update() {
    for (const [number, { line, details }] of this.lines) {
      if (this.transcript.details.get(number) === details) continue;
      line.ariaLive = "off"; // its text was read out
      this.write(number);
    }
  }
  /** @param {number} number of a segment */
  write(number) {
    const one = this.lines.get(number);
    if (!one) return;
    one.details = this.transcript.details.get(number);
    const details = one.details ?? {};
    const time = made("time", {}, this.seek ? this.seeker(one.segment.start, this.seek) : clock(one.segment.start));
    one.line.replaceChildren(time, ...text(one.segment, details), ...notes(details));
  }
  /** @type {((seconds: number) => void) | undefined} plays from there, if the audio is at hand */ seek;

  /** The audio is at hand from now on: times are buttons. @param {(seconds: number) => void} seek */
  playable(seek) {
    this.seek = seek;
    for (const number of this.lines.keys()) this.write(number);
  }
  /** @param {number} start @param {(seconds: number) => void} seek */
  seeker(start, seek) {
    return button(clock(start), () => seek(start), { className: "seek", ariaLabel: `Play from ${clock(start)}` });
  }
  /** Mark the line and the word that are played at `seconds`. @param {number} seconds */
  mark(seconds) {
    for (const { line, segment } of this.lines.values()) {
      const now = segment.start <= seconds && seconds < segment.end;
      if (!now && !line.classList.contains("now")) continue;
      line.classList.toggle("now", now);
      for (const word of line.querySelectorAll("span")) {
        const { start, end } = word.dataset;
        if (start) word.classList.toggle("now", now && Number(start) <= seconds && seconds < Number(end));
      }
    }
  }
}
