// @ts-check
// The page: what is pressed, and what is shown.
import { Transcription } from "./auricle.js";
import { download } from "./downloads.js";
import { play, SAMPLE_RATE, samplesOf } from "./file.js";
import { capture } from "./microphone.js";
import { clock, Spoken } from "./spoken.js";
import { Transcript } from "./transcript.js";
import { chosen, Lines, nameOf, offer } from "./translations.js";

/** @template {HTMLElement} E @param {string} id @param {new () => E} type @returns {E} */
function at(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`);
  return found;
}
const text = (/** @type {string} */ id, /** @type {string} */ value) => (at(id, HTMLElement).textContent = value);
const field = (/** @type {string} */ id) => at(id, HTMLInputElement).value.trim();

const SERVER = new URL(".", location.href);
const LISTEN = at("listen", HTMLButtonElement);
const FILE = at("file", HTMLInputElement);
const SAVED = at("saved", HTMLSelectElement);
const DOWNLOADS = [...document.querySelectorAll("button[data-format]")].filter((b) => b instanceof HTMLButtonElement);

/** One session, from its source to the page. */
class Captions {
  samples = 0; // that the source has given
  told = 0; // segments on the page
  over = false;

  /** @param {number} sampleRate @param {(() => Promise<void>) | undefined} stopSource of what is live */
  constructor(sampleRate, stopSource) {
    this.sampleRate = sampleRate;
    this.live = stopSource !== undefined;
    this.stopSource = stopSource;
    this.began = performance.now();
    const translate = chosen(at("translate", HTMLElement));
    this.transcript = new Transcript(translate);
    this.lines = new Lines(this.transcript);
    this.spoken = new Spoken(this.transcript);
    this.session = new Transcription(SERVER.href, (event) => this.hear(event), {
      sample_rate: sampleRate,
      languages: field("language").split(",").map((name) => name.trim()).filter(Boolean),
      context: field("context"),
      ...(able.words ? { words: true } : {}),
      ...(able.speakers ? { diarize: true } : {}),
      ...(translate.length ? { translate } : {}),
      key: field("key") || undefined,
    });
  }
  /** @param {Int16Array<ArrayBuffer>} packet */
  send(packet) {
    this.samples += packet.length;
    this.session.send(packet);
    let loudest = 0;
    for (const sample of packet) loudest = Math.max(loudest, Math.abs(sample));
    at("level", HTMLMeterElement).value = loudest / 32768;
  }
  /** @param {import("./messages").StreamEvent} event */
  hear(event) {
    this.transcript.take(event, this.samples / this.sampleRate);
    if (event.type === "final" || event.type === "partial") text("spoken", event.language || "–");
    if (event.type === "done" || event.type === "error") this.finished();
    if (event.type === "error") tellTrouble(event);
    this.show();
  }
  show() {
    const { segments, committed, partial, delay, unstable, heard, speaking } = this.transcript;
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
    if (this.live) text("delay", delay === undefined ? "–" : `${delay.toFixed(1)} s`);
    else text("delay", `${(heard / (performance.now() - this.began) * 1000).toFixed(1)} × real time`);
    text("unstable", unstable === undefined ? "–" : `${(100 * unstable).toFixed(0)} %`);
    text("heard", clock(heard));
    text("speech", this.over ? "not listening" : speaking ? "speech" : "silence");
    at("light", HTMLElement).classList.toggle("on", speaking && !this.over);
    allowSaving(this.transcript);
    if (atEnd) captions.scrollTop = captions.scrollHeight;
  }
  async endSource() {
    const stop = this.stopSource;
    this.stopSource = undefined;
    await stop?.();
  }
  finished() {
    if (this.over) return;
    this.over = true;
    void this.endSource();
    at("level", HTMLMeterElement).value = 0;
    LISTEN.textContent = "Start microphone";
    wait(false);
    FILE.disabled = false;
  }
}

/** @type {Captions | undefined} */ let captions;
/** @type {Partial<import("./models").ServerCapabilities>} */ let able = {};

/** @param {Transcript} transcript */
function allowSaving(transcript) {
  const nothing = !transcript.textIn(SAVED.value).some((segment) => segment.text);
  DOWNLOADS.forEach((button) => (button.disabled = nothing));
}

/** @param {{ code: string, message: string, retry_after_seconds?: number }} error */
async function tellTrouble({ code, message, retry_after_seconds }) {
  const again = retry_after_seconds ? `; try again in ${Math.ceil(retry_after_seconds)} s` : "";
  text("trouble", message + again);
  // A browser does not say why a handshake was refused; the same key at another path does.
  if (code === "connection_lost") await askWhoMayCall();
}

/** Show which model is served, or ask for a key if one is needed. */
async function askWhoMayCall() {
  const key = field("key");
  try {
    const answer = await fetch(new URL("v1/models", SERVER), key ? { headers: { Authorization: `Bearer ${key}` } } : {});
    const body = await answer.json();
    if (answer.ok) {
      text("model", body.data[0].id);
      able = body.data[0].capabilities ?? {}; // an older server says nothing
      offer(at("translate", HTMLElement), able.translate ?? null);
      warnOfVocabulary(able.vocabulary ?? null);
      return;
    }
    at("key-row", HTMLElement).hidden = false;
    if (key) text("trouble", body.error.message);
  } catch {
    text("trouble", "the server does not answer");
  }
}

/** Say that the model knows few words, if it does. @param {number | null} words */
function warnOfVocabulary(words) {
  at("vocabulary", HTMLElement).hidden = !words;
  if (words) {
    text("vocabulary", `This model knows ${words} words and writes nonsense for all others. For ordinary speech run: auricle models pull whisper-base, and serve configs/whisper.yaml.`);
  }
}

/** @param {number} sampleRate @param {() => Promise<void>} [stopSource] */
function begin(sampleRate, stopSource) {
  text("trouble", "");
  at("hint", HTMLElement).hidden = true;
  text("delay-name", stopSource ? "Text behind speech" : "Speed");
  at("final", HTMLElement).replaceChildren();
  captions = new Captions(sampleRate, stopSource);
  const { languages } = captions.transcript;
  at("saved-row", HTMLElement).hidden = !languages.length;
  SAVED.replaceChildren(new Option("as spoken", ""), ...languages.map((code) => new Option(nameOf(code), code)));
  return captions;
}

/** A button that is disabled loses the focus, and a keyboard its place. @param {boolean} on */
const wait = (on) => LISTEN.setAttribute("aria-disabled", String(on));
const waits = () => LISTEN.getAttribute("aria-disabled") === "true";

async function listen() {
  wait(true);
  FILE.disabled = true;
  try {
    /** @type {Captions | undefined} */ let mine;
    const source = await capture((packet) => mine?.send(packet));
    mine = begin(source.sampleRate, source.stop);
    LISTEN.textContent = "Stop";
    wait(false);
  } catch (error) {
    wait(false);
    FILE.disabled = false;
    text("trouble", `no microphone: ${error instanceof Error ? error.message : error}`);
  }
}

/** @param {Captions} running */
async function stop(running) {
  wait(true); // until the last text has come
  await running.endSource();
  running.session.finish();
}

/** @param {File} file */
async function transcribe(file) {
  wait(true);
  FILE.disabled = true;
  try {
    const samples = await samplesOf(file);
    const mine = begin(SAMPLE_RATE);
    await play(samples, mine.session, (packet) => mine.send(packet));
    mine.session.finish();
  } catch {
    wait(false);
    FILE.disabled = false;
    text("trouble", `this browser cannot decode ${file.name}; auricle transcribe may`);
  }
}

LISTEN.addEventListener("click", () => {
  if (!waits()) void (captions && !captions.over ? stop(captions) : listen());
});
FILE.addEventListener("change", () => {
  if (FILE.files?.[0]) void transcribe(FILE.files[0]);
  FILE.value = "";
});
for (const button of DOWNLOADS) {
  button.addEventListener("click", () => {
    if (captions) download(captions.transcript.textIn(SAVED.value), button.dataset.format ?? "txt", SAVED.value);
  });
}
SAVED.addEventListener("change", () => captions && allowSaving(captions.transcript));
at("controls", HTMLFormElement).addEventListener("submit", (event) => event.preventDefault());
at("key", HTMLInputElement).addEventListener("change", askWhoMayCall);
void askWhoMayCall();
