// @ts-check
// The last hour, as far as this page has seen it; it stays when the page is loaded again.
import { clock, percent, rate, time } from "./words.js";
/** @typedef {import("./operations").Operations} Operations */
/** @typedef {Record<string, number> & { at: number }} Moment `at` in Unix seconds; the rest by name of a curve */

const HOUR = 3600;
const SHORTEST = 300; // seconds that fill the width
const EVERY = 10; // seconds; the most of each is kept
const KEPT = "auricle history";
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [360, 40];

/** @param {Operations} found @param {(one: import("./operations").ProcessorState) => number} of */
const sum = ({ processors }, of) => processors.reduce((all, one) => all + of(one), 0);
/** @type {{ name: string, title: string, of: (found: Operations) => number, text: (value: number) => string }[]} */
const CURVES = [
  { name: "sessions", title: "Sessions", of: (found) => sum(found, (one) => one.sessions), text: String },
  { name: "speaking", title: "Speaking", of: (found) => sum(found, (one) => one.speaking), text: String },
  { name: "waiting", title: "Waiting to be let in", of: (found) => sum(found, (one) => one.waiting), text: rate },
  { name: "chunk", title: "Chunk p95", of: ({ processors }) => Math.max(0, ...processors.map((one) => one.chunk_seconds)), text: time },
];
/** The busiest worker of a pool. @param {import("./operations").PoolState} pool */
const busiest = ({ workers }) => Math.max(0, ...workers.map(({ load }) => load?.busy ?? 0));

/** Curves in `list`, one for each measure and each pool. */
export class History {
  /** @type {Moment[]} */ moments = [];
  /** @type {Map<string, { value: HTMLElement, line: SVGElement }>} by name */ drawn = new Map();

  /** @param {HTMLElement} list @param {HTMLElement} note says since when */
  constructor(list, note) {
    this.list = list;
    this.note = note;
    try {
      this.moments = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    } catch {
      // kept by another version: it begins anew
    }
  }
  /** @param {Operations} found */
  add(found) {
    const pools = found.pools.map((pool) => ({ name: pool.component, title: `Busiest of the ${pool.name}`, of: () => busiest(pool), text: percent }));
    const curves = [...CURVES, ...pools];
    const at = Math.floor(found.at / EVERY) * EVERY;
    const last = this.moments[this.moments.length - 1];
    /** @type {Moment} */ const now = last?.at === at ? last : { at };
    for (const { name, of } of curves) now[name] = Math.max(now[name] ?? 0, of(found));
    if (now !== last) this.moments = [...this.moments.filter((one) => at - HOUR < one.at && one.at < at), now];
    sessionStorage.setItem(KEPT, JSON.stringify(this.moments));
    this.note.textContent = `Since ${clock(this.moments[0].at)}, as far as this page was open; at most an hour.`;
    for (const { name, title, of, text } of curves) this.draw(name, title, at, `${text(of(found))} now, at most ${text(this.most(name))}`);
  }
  /** @param {string} name */
  most(name) {
    return Math.max(0, ...this.moments.map((one) => one[name] ?? 0));
  }
  /** @param {string} name @param {string} title @param {number} now @param {string} told */
  draw(name, title, now, told) {
    const { value, line } = this.drawn.get(name) ?? this.made(name, title);
    if (value.textContent !== told) value.textContent = told;
    const most = this.most(name) || 1;
    const span = Math.max(SHORTEST, now - this.moments[0].at);
    const points = this.moments.filter((one) => name in one).map((one) => {
      const x = WIDTH * (1 - (now - one.at) / span);
      return `${x.toFixed(1)},${(HEIGHT - 2 - (HEIGHT - 4) * one[name] / most).toFixed(1)}`;
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
