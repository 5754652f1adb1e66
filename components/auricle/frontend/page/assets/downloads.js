// @ts-check
// A transcript as a file, in the formats that people expect.
/** @typedef {import("./transcript.js").Saved} Segment */

const LINE_CHARACTERS = 42; // what subtitles usually have

/** @param {number} seconds @param {string} point before the milliseconds */
function clock(seconds, point) {
  const ms = Math.round(seconds * 1000);
  /** @param {number} value @param {number} digits */
  const padded = (value, digits) => String(Math.floor(value)).padStart(digits, "0");
  return `${padded(ms / 3600000, 2)}:${padded((ms / 60000) % 60, 2)}:${padded((ms / 1000) % 60, 2)}${point}${padded(ms % 1000, 3)}`;
}

/** @param {string} text */
function lines(text) {
  const found = [""];
  for (const word of text.split(/\s+/)) {
    const longer = `${found[found.length - 1]} ${word}`.trim();
    if (longer.length <= LINE_CHARACTERS || !found[found.length - 1]) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found.join("\n");
}

/** @param {Segment[]} segments */
const spoken = (segments) => segments.filter(({ text }) => text);

/** @param {Segment[]} segments @param {string} point */
const cues = (segments, point) =>
  spoken(segments).map(({ start, end, text }) => `${clock(start, point)} --> ${clock(end, point)}\n${lines(text)}\n`);

/** @type {Record<string, { type: string, write: (segments: Segment[]) => string }>} */
export const FORMATS = {
  txt: { type: "text/plain", write: (segments) => spoken(segments).map(({ text }) => text + "\n").join("") },
  srt: {
    type: "application/x-subrip",
    write: (segments) => cues(segments, ",").map((cue, n) => `${n + 1}\n${cue}`).join("\n"),
  },
  vtt: { type: "text/vtt", write: (segments) => ["WEBVTT\n", ...cues(segments, ".")].join("\n") },
  json: {
    type: "application/json",
    write: (segments) =>
      JSON.stringify(
        {
          text: spoken(segments).map(({ text }) => text).join(" "),
          segments: segments.map(({ segment, ...rest }) => rest),
        },
        null,
        1,
      ) + "\n",
  },
};

/** Offer `segments` as a file. @param {Segment[]} segments @param {string} format of FORMATS @param {string} language or empty */
export function download(segments, format, language) {
  const { type, write } = FORMATS[format];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([write(segments)], { type }));
  link.download = `transcript${language && `.${language}`}.${format}`;
  link.click();
  URL.revokeObjectURL(link.href);
}
