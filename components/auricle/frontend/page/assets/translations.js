// @ts-check
// Translations on the page: the languages that may be asked for, and a line for each of a segment.
import { made } from "./dom.js";
import { keyOf, SAME, SESSION_FAILED } from "./transcript.js";
/** @typedef {import("./transcript.js").Segment} Segment */
/** @typedef {import("./transcript.js").Transcript} Transcript */
/** @typedef {import("./transcript.js").Translated} Translated */

const NAMES = new Intl.DisplayNames(["en"], { type: "language" });
/** @type {Record<string, string>} why a translation is missing */
const WHY = {
  [SAME]: "spoken in this language",
  [SESSION_FAILED]: "not translated, as the session ended",
  unsupported_value: "the server does not translate this",
  starting: "not translated, as the translator is starting",
  unavailable: "not translated, as no translator answers",
  overloaded: "not translated, as the translator is full",
  deadline: "not translated in time",
  length: "cut off, as it is too long",
};

/** @param {string} code of a language */
export function nameOf(code) {
  try {
    return NAMES.of(code) ?? code;
  } catch {
    return code; // somebody may type anything
  }
}

/**
 * Offer the languages into which the server translates; what is chosen of the same ones stays.
 * @param {HTMLElement} row
 * @param {readonly string[] | null} targets none: any language; null: no translator
 */
export function offer(row, targets) {
  if (row.dataset.offered === String(targets)) return;
  row.dataset.offered = String(targets);
  row.hidden = !targets;
  row.querySelectorAll("label").forEach((label) => label.remove());
  for (const value of targets ?? []) {
    row.append(made("label", { className: "button" }, made("input", { type: "checkbox", value }), nameOf(value)));
  }
  if (targets?.length === 0) {
    const typed = made("input", { type: "text", placeholder: "codes, such as es, de", autocomplete: "off", size: 18 });
    row.append(made("label", {}, "languages ", typed));
  }
}

/** The languages that are chosen, each once. @param {HTMLElement} row */
export function chosen(row) {
  const inputs = [...row.querySelectorAll("input")].filter((input) => input.type === "text" || input.checked);
  return [...new Set(inputs.flatMap(({ value }) => value.toLowerCase().split(/[\s,]+/)).filter(Boolean))];
}

/**
 * The translation of one segment into one language. What may still change is not read out.
 * @param {string} language
 * @param {Translated | undefined} told
 */
function line(language, told) {
  const inside = [made("span", { className: "tongue", lang: "en" }, nameOf(language)), made("span", {}, told?.committed ?? "")];
  if (!told?.final) inside.push(made("span", { className: "partial" }, told?.partial || (told?.committed ? "" : "…")));
  if (told?.missing) {
    const why = WHY[told.missing] ?? `not translated (${told.missing})`;
    inside.push(made("span", { className: "missing", lang: "en" }, why));
  }
  const shown = made("p", { className: "translation", lang: language, dir: "auto" }, ...inside);
  if (!told?.final) shown.ariaLive = "off";
  return shown;
}

/** The lines of one session's translations. */
export class Lines {
  /** @type {Map<string, { shown: HTMLElement, language: string, told?: Translated }>} that may change */ pending = new Map();

  /** @param {Transcript} transcript */
  constructor(transcript) {
    this.transcript = transcript;
  }
  /** Of a segment that is final. @param {number} segment */
  of(segment) {
    return this.transcript.languages.map((language) => {
      const told = this.transcript.translations.get(keyOf(segment, language));
      const shown = line(language, told);
      if (!told?.final) this.pending.set(keyOf(segment, language), { shown, language, told });
      return shown;
    });
  }
  /** Of the open segment, as far as there are any. */
  ofOpen() {
    const { languages, translations, open, committed, partial } = this.transcript;
    if (!committed && !partial) return [];
    return languages.flatMap((language) => {
      const told = translations.get(keyOf(open, language));
      return told ? [line(language, told)] : [];
    });
  }
  /** Show what has come since, of segments that are final. */
  update() {
    for (const [key, one] of this.pending) {
      const told = this.transcript.translations.get(key);
      if (told === one.told) continue;
      const shown = line(one.language, told); // a new one, which is read out when it is final
      one.shown.replaceWith(shown);
      Object.assign(one, { shown, told });
      if (told?.final) this.pending.delete(key);
    }
  }
}
