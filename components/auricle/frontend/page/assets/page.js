// @ts-check
// The page: what is pressed, and what is shown.
import { Captions, View } from "./captions.js";
import { at, button, clock, copy, field, made, show, text } from "./dom.js";
import { download, FORMATS } from "./downloads.js";
import { play, SAMPLE_RATE, samplesOf } from "./file.js";
import { capture, microphones, whyNot } from "./microphone.js";
import { write } from "./programs.js";
import { forget, forgetAll, keep, sessions } from "./sessions.js";
import { chosen, nameOf, offer } from "./translations.js";
/** @typedef {import("./messages").ErrorEvent} ErrorEvent */
/** @typedef {import("./sessions.js").Session} Session */

const SERVER = new URL(".", location.href);
const LISTEN = at("listen", HTMLButtonElement);
const FILE = at("file", HTMLInputElement);
const SAMPLE = at("sample", HTMLButtonElement);
const SAVED = at("saved", HTMLSelectElement);
const COPY = at("copy", HTMLButtonElement);
const DEVICE = at("device", HTMLSelectElement);
const PLAYER = at("player", HTMLAudioElement);
const DOWNLOADS = [...document.querySelectorAll("button[data-format]")].filter((b) => b instanceof HTMLButtonElement);
const SAVE_AFTER_MS = 300;

/** @type {Captions | undefined} that runs, or ran last */ let captions;
/** @type {View | undefined} */ let view;
/** @type {Session | undefined} that is shown */ let shown;
/** @type {Partial<import("./models").ServerCapabilities>} */ let able = {};
let model = "";
let needsKey = false;
/** @type {ReturnType<typeof setInterval> | undefined} */ let counting;
/** @type {ReturnType<typeof setTimeout> | undefined} */ let saving;

// The server: what it serves, and why it refuses.

/** @param {ErrorEvent} error */
async function tellTrouble({ code, message }) {
  text("trouble", message);
  if (code === "invalid_api_key" || code === "forbidden") askForKey(message);
  // It may be the network, or an address with too many connections: the same key at another path tells.
  if (code === "connection_lost") await askServer();
}

/** @param {string} why */
function askForKey(why) {
  needsKey = true;
  show("key-row", true);
  text("trouble", field("key") ? why : "This server needs an API key.");
  at("key", HTMLInputElement).focus();
}

/** Count down to the next try. @param {ErrorEvent} why @param {number} seconds */
function wait({ message }, seconds) {
  const until = Date.now() + 1000 * seconds;
  text("trouble", `The server lets nobody else in now: ${message}. This page tries again by itself.`);
  text("speech", "waiting");
  clearInterval(counting);
  const count = () => text("countdown", `${Math.max(0, Math.ceil((until - Date.now()) / 1000))} s`);
  count();
  counting = setInterval(count, 250);
}
function waitNoMore() {
  clearInterval(counting);
  text("countdown", "");
}

/** Show the served model and what it can hear, or ask for a key if one is needed. */
async function askServer() {
  const key = field("key");
  try {
    const answer = await fetch(new URL("v1/models", SERVER), key ? { headers: { Authorization: `Bearer ${key}` } } : {});
    const body = await answer.json();
    if (answer.ok) {
      model = body.data[0].id;
      able = body.data[0].capabilities;
      text("model", [model, ...abilities(able)].join(" · "));
      offer(at("translate", HTMLElement), able.translate ?? null);
      at("languages", HTMLElement).replaceChildren(...(able.languages ?? []).map((code) => made("option", { value: code }, nameOf(code))));
      warnOfVocabulary(able.vocabulary ?? null);
      if (needsKey) text("trouble", "");
    } else if (answer.status === 401 || answer.status === 403) askForKey(body.error.message);
    else text("trouble", body.error.message);
  } catch {
    text("trouble", "The server does not answer.");
  }
  writePrograms();
}

/** @param {typeof able} capabilities */
function abilities({ languages = [], vocabulary, words, speakers, translate }) {
  const names = languages.map(nameOf);
  return [
    ...(names.length ? [names.length > 3 ? `${names.length} languages` : names.join(", ")] : []),
    ...(vocabulary ? [`${vocabulary} words`] : []),
    ...(words ? ["word times"] : []),
    ...(speakers ? ["speakers"] : []),
    ...(translate ? ["translation"] : []),
  ];
}

/** Say that the model knows few words, if it does. @param {number | null} words */
function warnOfVocabulary(words) {
  show("vocabulary", Boolean(words));
  if (words) {
    text("vocabulary", `This model knows ${words} words and writes nonsense for all others. For ordinary speech run: auricle models pull whisper-base, and serve configs/whisper.yaml.`);
  }
}

function writePrograms() {
  const [language] = field("language").split(",");
  write(at("programs", HTMLElement), { server: SERVER.href, model, language: language.trim(), key: needsKey });
}

// The transcript that is shown: a session's, or an earlier one's.

/** @param {Session} session @param {View} its */
function look(session, its) {
  [shown, view] = [session, its];
  const { languages, segments } = session.transcript;
  text("source", `${session.source}, ${new Date(session.id).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`);
  show("hint", false);
  show("saved-row", languages.length > 0);
  SAVED.replaceChildren(new Option("as spoken", ""), ...languages.map((code) => new Option(nameOf(code), code)));
  PLAYER.pause();
  if (PLAYER.src) URL.revokeObjectURL(PLAYER.src);
  PLAYER.removeAttribute("src");
  PLAYER.hidden = true;
  text("heard", segments.length ? clock(session.transcript.heard) : "–");
  allowSaving();
}

function allowSaving() {
  const nothing = !shown?.transcript.textIn(SAVED.value).some((segment) => segment.text);
  for (const pressed of [COPY, ...DOWNLOADS]) pressed.disabled = nothing;
}

/** Its audio is at hand. @param {Blob} audio */
function playable(audio) {
  PLAYER.src = URL.createObjectURL(audio);
  PLAYER.hidden = false;
  view?.spoken.playable((seconds) => {
    PLAYER.currentTime = seconds;
    void PLAYER.play();
  });
}

function save() {
  clearTimeout(saving);
  saving = undefined;
  if (captions?.transcript.segments.length) void keep(captions).then(list, () => {});
}

async function list() {
  const kept = await sessions().catch(() => []);
  show("earlier", kept.length > 0);
  at("sessions", HTMLElement).replaceChildren(...kept.map((session) => {
    const when = new Date(session.id).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    const begins = session.transcript.segments.map(({ text }) => text).join(" ");
    const open = button(`${when}, ${session.source}`, () => reopen(session));
    const remove = button("Delete", () => void forget(session.id).then(list), { ariaLabel: `Delete ${when}` });
    return made("li", {}, open, made("p", {}, begins), remove);
  }));
}

/** @param {Session} session */
function reopen(session) {
  if (captions && !captions.over) return void text("trouble", "Stop first: a session is running.");
  text("trouble", "");
  look(session, new View(session.transcript));
  at("captions", HTMLElement).focus();
}

// A session.

/**
 * @param {string} source its name
 * @param {number} sampleRate
 * @param {() => Promise<void>} [stopSource]
 */
function begin(source, sampleRate, stopSource) {
  text("trouble", "");
  text("delay-name", stopSource ? "Text behind speech" : "Speed");
  const options = {
    sample_rate: sampleRate,
    languages: field("language").split(",").map((name) => name.trim()).filter(Boolean),
    context: field("context"),
    words: true,
    word_times: /** @type {"aligned" | "grid"} */ (able.words ? "aligned" : "grid"),
    ...(able.speakers ? { diarize: true } : {}),
    translate: chosen(at("translate", HTMLElement)),
    key: field("key") || undefined,
  };
  const mine = new Captions(source, SERVER.href, options, {
    changed: () => {
      waitNoMore();
      if (mine.session.told && !mine.over) text("trouble", "");
      allowSaving();
      saving ??= setTimeout(save, SAVE_AFTER_MS);
    },
    ended: () => {
      idle();
      save();
      if (!mine.transcript.segments.length && mine.session.told) tellNothing(mine);
    },
    failed: (error) => void tellTrouble(error),
    waits: wait,
  }, stopSource);
  captions = mine;
  look(mine, mine.view);
  LISTEN.textContent = "Stop";
  hold(false);
  return mine;
}

/** @param {Captions} ended */
function tellNothing({ session, sampleRate }) {
  show("hint", true);
  text("hint", `No speech was found in ${clock(session.samples / sampleRate)} of audio. Is the microphone muted, or the recording silent?`);
}

/** A button that is disabled loses the focus, and a keyboard its place. @param {boolean} on */
function hold(on) {
  LISTEN.setAttribute("aria-disabled", String(on));
  FILE.disabled = on || LISTEN.textContent === "Stop";
  SAMPLE.disabled = FILE.disabled;
}
const held = () => LISTEN.getAttribute("aria-disabled") === "true";

function idle() {
  waitNoMore();
  LISTEN.textContent = "Start microphone";
  hold(false);
}

async function listen() {
  hold(true);
  FILE.disabled = true;
  try {
    /** @type {Captions | undefined} */ let mine;
    const source = await capture((packet) => mine?.send(packet), DEVICE.value);
    mine = begin("Microphone", source.sampleRate, source.stop);
    void offerDevices(); // they have names now
  } catch (error) {
    idle();
    text("trouble", `No microphone: ${whyNot(error)}.`);
  }
}

/** @param {Captions} running */
async function stop(running) {
  hold(true); // until the last text has come
  text("trouble", "");
  await running.stop();
}

/** @param {Blob} audio @param {string} name */
async function transcribe(audio, name) {
  if (held() || (captions && !captions.over)) return;
  hold(true);
  FILE.disabled = true;
  try {
    const samples = await samplesOf(audio);
    const mine = begin(name, SAMPLE_RATE);
    playable(audio);
    await play(samples, mine.session, (packet) => mine.send(packet));
    if (!mine.over && !mine.session.ended) mine.session.finish();
  } catch {
    idle();
    text("trouble", `This browser cannot decode ${name}; auricle transcribe may.`);
  }
}

async function trySample() {
  try {
    const answer = await fetch(new URL(able.vocabulary ? "page/sample_demo.mp3" : "page/sample.mp3", SERVER));
    await transcribe(await answer.blob(), "Sample");
  } catch {
    text("trouble", "The server does not answer.");
  }
}

async function offerDevices() {
  const found = await microphones();
  show("device-row", found.length > 1);
  const { value } = DEVICE;
  DEVICE.replaceChildren(...found.map(({ deviceId, label }) => new Option(label || "Microphone", deviceId)));
  if (found.some(({ deviceId }) => deviceId === value)) DEVICE.value = value;
}

LISTEN.addEventListener("click", () => {
  if (!held()) void (captions && !captions.over ? stop(captions) : listen());
});
FILE.addEventListener("change", () => {
  if (FILE.files?.[0]) void transcribe(FILE.files[0], FILE.files[0].name);
  FILE.value = "";
});
SAMPLE.addEventListener("click", () => void trySample());
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    at("captions", HTMLElement).classList.toggle("drop", kind === "dragover");
  });
}
document.addEventListener("drop", ({ dataTransfer }) => {
  const [file] = dataTransfer?.files ?? [];
  if (file) void transcribe(file, file.name);
});
PLAYER.addEventListener("timeupdate", () => view?.spoken.mark(PLAYER.currentTime));
for (const pressed of DOWNLOADS) {
  pressed.addEventListener("click", () => {
    if (shown) download(shown.transcript.textIn(SAVED.value), pressed.dataset.format ?? "txt", SAVED.value);
  });
}
COPY.addEventListener("click", () => {
  if (shown) void copy(COPY, FORMATS.txt.write(shown.transcript.textIn(SAVED.value)));
});
SAVED.addEventListener("change", allowSaving);
at("forget", HTMLButtonElement).addEventListener("click", () => void forgetAll().then(list));
at("controls", HTMLFormElement).addEventListener("submit", (event) => event.preventDefault());
at("key", HTMLInputElement).addEventListener("change", askServer);
at("language", HTMLInputElement).addEventListener("change", writePrograms);
navigator.mediaDevices?.addEventListener("devicechange", () => void offerDevices());
void askServer();
void offerDevices();
void list();
