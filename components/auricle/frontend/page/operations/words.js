// @ts-check
// Numbers and decisions as people read them. No page, no network.

/** @param {number} seconds */
export function time(seconds) {
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  return seconds < 100 ? `${seconds.toFixed(1)} s` : duration(seconds);
}
/** @param {number} seconds */
export function duration(seconds) {
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}
/** @param {number} unix */
export const clock = (unix) => new Date(1000 * unix).toLocaleTimeString([], { hour12: false });
/** @param {number} value from 0 to 1 */
export const percent = (value) => `${Math.round(100 * value)}%`;
/** @param {number} value */
export const rate = (value) => (value && value < 0.1 ? "<0.1" : value.toFixed(1));
/** @param {number} number @param {string} thing */
export const many = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;

const POOLS = new Map([
  ["encode_worker", "Encode workers"],
  ["pd_worker", "PD workers"],
  ["align_encode_worker", "Align encode workers"],
  ["align_worker", "Align workers"],
  ["translate_worker", "Translate workers"],
]);
const WHY = new Map([
  ["forecast", "for the demand that is forecast"],
  ["overload", "as the pool is overloaded"],
  ["ebb", "as demand has ebbed"],
  ["hold", "as it suffices"],
  ["bounds", "because of the configured bounds"],
  ["budget", "because of the GPU budget"],
  ["asked", "as somebody asks for it"],
]);
/** @param {import("./operations").PastDecision} decision */
export function decided({ pool, was, replicas, why, applied }) {
  const what = was === replicas ? `stay ${was}` : `${was} → ${replicas}`;
  const undone = was !== replicas && !applied ? ", not carried out by this planner" : "";
  return `${POOLS.get(pool) ?? pool} ${what}, ${WHY.get(why) ?? why}${undone}`;
}
/** @param {{ wrong: number, findings: readonly unknown[] }} health */
export function summary({ wrong, findings }) {
  const notices = findings.length - wrong;
  const also = notices ? `, ${many(notices, "notice")}` : "";
  return (wrong ? `${wrong} wrong` : "Nothing is wrong") + also;
}
