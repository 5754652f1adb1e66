// @ts-check
// The last hour: curves of the load that the frontend has recorded, and of what has come since.
import { clock, rate, time } from "./words.js";
/** @typedef {import("./operations").LoadMoment} Moment */

const HOUR = 3600;
const SHORTEST = 300; // seconds that fill the width
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [360, 40];

/** @type {{ name: Exclude<keyof Moment, "at">, title: string, text: (value: number) => string }[]} */
const CURVES = [
  { name: "sessions", title: "Sessions", text: String },
  { name: "speaking", title: "Speaking", text: String },
  { name: "waiting", title: "Waiting to be let in", text: rate },
  { name: "chunk_seconds", title: "Chunk p95", text: time },
];
/** The load that a document of operations shows. @param {import("./operations").Operations} found @returns {Moment} */
function momentOf({ at, processors }) {
  const sum = (/** @type {"sessions" | "speaking" | "waiting"} */ of) => processors.reduce((all, one) => all + one[of], 0);
  const chunk_seconds = Math.max(0, ...processors.map((one) => one.chunk_seconds));
  return { at, sessions: sum("sessions"), speaking: sum("speaking"), waiting: sum("waiting"), chunk_seconds };
}

/** Curves in `list`. */
export class History {
  /** @type {Moment[]} */ moments = [];
  every = 10; // seconds from one moment to the next
  /** @type {Map<string, { value: HTMLElement, line: SVGElement }>} by name */ drawn = new Map();

  /** @param {HTMLElement} list @param {HTMLElement} note tells since when */
  constructor(list, note) {
    this.list = list;
    this.note = note;
  }
  /** Begin with the moments that the server has. @param {string} url @param {HeadersInit} [headers] */
  async load(url, headers) {
    try {
      const answer = await fetch(url, { headers, cache: "no-store" });
      if (!answer.ok) return; // the stream tells why
      const { every_seconds, moments } = await answer.json();
      this.every = every_seconds;
      this.moments = moments;
    } catch {
      // The stream tells that the server does not answer.
    }
  }
  /** @param {import("./operations").Operations} found */
  add(found) {
    const now = momentOf(found);
    const last = this.moments[this.moments.length - 1];
    if (!last || now.at - last.at >= this.every) this.moments = [...this.moments.filter(({ at }) => now.at - at <= HOUR), now];
    this.note.textContent = `Since ${clock(this.moments[0].at)}, when this frontend started or an hour ago.`;
    for (const curve of CURVES) this.draw(curve, now);
  }
  /** @param {typeof CURVES[number]} curve @param {Moment} now */
  draw({ name, title, text }, now) {
    const { value, line } = this.drawn.get(name) ?? this.made(name, title);
    const most = Math.max(now[name], ...this.moments.map((one) => one[name]));
    const told = `${text(now[name])} now, at most ${text(most)}`;
    if (value.textContent !== told) value.textContent = told;
    const span = Math.max(SHORTEST, now.at - this.moments[0].at);
    const points = [...this.moments, now].map((one) => {
      const x = WIDTH * (1 - (now.at - one.at) / span);
      return `${x.toFixed(1)},${(HEIGHT - 2 - (HEIGHT - 4) * one[name] / (most || 1)).toFixed(1)}`;
    });
    line.setAttribute("points", points.join(" "));
  }
  /** @param {string} name @param {string} title */
  made(name, title) {
    const svg = document.createElementNS(SVG, "svg");
    for (const [key, set] of Object.entries({ viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(key, set);
    const line = document.createElementNS(SVG, "polyline");
    svg.append(line);
    const item = document.createElement("li");
    const heading = Object.assign(document.createElement("b"), { textContent: title });
    const value = document.createElement("span");
    item.append(heading, value, svg);
    this.list.append(item);
    const fresh = { value, line };
    this.drawn.set(name, fresh);
    return fresh;
  }
}
