// @ts-check
// A chunk's steps as bars one after the other; the same numbers stand beside them.
/** @typedef {import("./operations").ChunkSteps & { around: number }} Chunk `around`: at the frontend, and the way */

/** @typedef {"around" | "wait" | "mel" | "encode" | "read" | "decode" | "rest"} Step */

/** @type {[Step, string][]} in the order of time, each with its title */
export const STEPS = [["around", "Frontend"], ["wait", "Waits"], ["mel", "Log-mel"], ["encode", "Encode"], ["read", "Read"], ["decode", "Decode"], ["rest", "Other"]];
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;

/**
 * A chunk's time at the frontend and on the way is what its text came later than it was decoded.
 * @param {import("./operations").ChosenSession} session
 * @returns {Chunk[]} latest first
 */
export function rows({ chunks, lags }) {
  // A segment may end where a partial did: the first text there is the partial, the last the final.
  const first = new Map([...lags].reverse().map(({ audio_seconds, seconds }) => [audio_seconds, seconds]));
  const last = new Map(lags.map(({ audio_seconds, seconds }) => [audio_seconds, seconds]));
  return chunks.map((chunk) => {
    const late = chunk.skipped ? 0 : (chunk.final ? last : first).get(chunk.audio_seconds) ?? 0;
    return { ...chunk, around: Math.max(0, late - chunk.whole) };
  }).reverse();
}

/** @param {HTMLElement} cell @param {Chunk} chunk @param {number} longest seconds that fill the width */
export function draw(cell, chunk, longest) {
  const drawn = `${chunk.audio_seconds} ${chunk.around} ${chunk.whole} ${longest}`;
  if (cell.dataset.drawn === drawn) return;
  cell.dataset.drawn = drawn;
  const svg = document.createElementNS(SVG, "svg");
  const sizes = { class: "bars", viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", "aria-hidden": "true" };
  for (const [name, value] of Object.entries(sizes)) svg.setAttribute(name, value);
  let at = 0;
  for (const [step] of STEPS) {
    const width = (WIDTH * chunk[step]) / longest;
    const bar = document.createElementNS(SVG, "rect");
    const place = { class: step, x: at, y: 0, width: Math.max(0, width), height: 10 };
    for (const [name, value] of Object.entries(place)) bar.setAttribute(name, String(value));
    svg.append(bar);
    at += width;
  }
  cell.replaceChildren(svg);
}
