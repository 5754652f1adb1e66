// @ts-check
// The operations page: what is shown, and which session is looked at.
import { History } from "./history.js";
import { Stream } from "./stream.js";
import { share, Table, words, write } from "./table.js";
import { draw, rows, STEPS } from "./waterfall.js";
import { clock, decided, duration, many, percent, rate, summary, time } from "./words.js";

/** @typedef {import("./operations").Operations} Operations */
/** @typedef {import("./operations").WorkerState} Worker */
/** @typedef {import("./operations").ProcessorState} Processor */
/** @typedef {import("./operations").SessionRow} Session */
/** @typedef {import("./waterfall.js").Chunk} Chunk */

/** @template {HTMLElement} E @param {string} id @param {new () => E} type @returns {E} */
function at(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`);
  return found;
}
const text = (/** @type {string} */ id, /** @type {string} */ value) => write(at(id, HTMLElement), value);
const hide = (/** @type {string} */ id, /** @type {boolean} */ hidden) => (at(id, HTMLElement).hidden = hidden);

const SERVER = new URL(".", location.href);
const PAUSE = at("pause", HTMLButtonElement);
const EXAMINE = at("examine", HTMLButtonElement);
const KEY = at("key", HTMLInputElement);

const HISTORY = new History(at("history", HTMLElement), at("history-note", HTMLElement));

/** @type {Stream | undefined} */ let stream;
/** @type {Operations | undefined} */ let last;
/** @type {readonly import("./operations").Finding[] | undefined} */ let probed; // found with probes
let chosen = "";
/** @type {Map<string, string>} names by instance */ let names = new Map();
let longest = 1;

const named = (/** @type {string} */ instance) => names.get(instance) ?? (instance || "–");

/** @template {{ place: import("./operations").ProcessEntry }} T @returns {import("./table.js").Column<T>[]} */
const place = () => [
  words("Process", ({ place: { name } }) => name),
  {
    title: "State",
    show: (cell, { place: { state } }) => {
      cell.className = state === "ready" ? "" : "bad";
      write(cell, state);
    },
  },
  words("Where", ({ place: { host, pid } }) => (host ? `${host}, pid ${pid}` : "–")),
];
const loaded = (/** @type {Worker} */ { load }, /** @type {(l: NonNullable<Worker["load"]>) => string} */ value) => (load ? value(load) : "–");
/** @type {import("./table.js").Column<Worker>[]} */
const LOAD = [
  share("Busy", ({ load }) => load && { share: load.busy, text: percent(load.busy) }),
  share("Requests in progress", ({ load }) => load && { share: load.slots_used / load.slots, text: `${rate(load.slots_used)} of ${load.slots}` }),
  share("Slots leased", ({ slab }) => slab && { share: slab.leased / slab.slots, text: `${slab.leased} of ${slab.slots}, ${slab.used} used` }),
  words("Per second", (row) => loaded(row, (load) => rate(load.requests_per_second))),
  words("Refused", (row) => loaded(row, (load) => rate(load.refused_per_second))),
  words("Failed", (row) => loaded(row, (load) => rate(load.failed_per_second))),
  words("Queue p95", (row) => loaded(row, (load) => time(load.queue_wait_seconds))),
  words("Response p95", (row) => loaded(row, (load) => time(load.response_seconds))),
  words("Reported", (row) => loaded(row, (load) => `${time(load.age_seconds)} ago`)),
];
const instance = (/** @type {{ place: { instance: string } }} */ { place: { instance } }) => instance;

/** @type {Table<Processor>} */
const PROCESSORS = new Table(at("processors", HTMLTableElement), [
  ...place(),
  words("Sessions", ({ sessions }) => String(sessions)),
  words("Speaking", ({ speaking }) => String(speaking)),
  words("Admits", ({ admits }) => String(admits)),
  words("Waiting", ({ waiting }) => rate(waiting)),
  words("Chunk p95", ({ chunk_seconds }) => (chunk_seconds ? time(chunk_seconds) : "–")),
], instance, "There is no processor.");
/** @type {import("./table.js").Column<Worker>} */
const KV = share("KV cache", ({ load, kv }) => load && { share: load.kv_usage, text: percent(load.kv_usage) + (kv ? ` of ${kv.tokens} tokens` : "") });
const STEP = words("Step", (/** @type {Worker} */ row) => loaded(row, (load) => time(load.step_seconds)));
/** @type {Map<string, Table<Worker>>} by component; a pool may come later */ const POOLS = new Map();
/** @param {import("./operations").PoolState} pool */
function poolTable({ component, name }) {
  const made = POOLS.get(component);
  if (made) return made;
  const title = document.createElement("h3");
  title.id = `${component}-title`;
  title.textContent = name[0].toUpperCase() + name.slice(1);
  const region = document.createElement("div");
  region.className = "scroll";
  region.tabIndex = 0;
  region.setAttribute("role", "group");
  const table = document.createElement("table");
  table.id = component;
  for (const one of [region, table]) one.setAttribute("aria-labelledby", title.id);
  region.append(table);
  at("pools", HTMLElement).append(title, region);
  const columns = component === "pd_worker" ? [...place(), KV, ...LOAD, STEP] : [...place(), ...LOAD];
  const fresh = new Table(table, columns, instance, `There are no ${name}.`);
  POOLS.set(component, fresh);
  return fresh;
}
/** @type {Table<Session>} */
const SESSIONS = new Table(at("sessions", HTMLTableElement), [
  {
    title: "Session",
    show: (cell, { state: { session } }) => {
      let button = cell.querySelector("button");
      if (!button) {
        button = document.createElement("button");
        button.type = "button";
        button.textContent = session.replace(/^(sess_\w{8})\w+/, "$1…");
        button.title = session;
        button.addEventListener("click", () => choose(session));
        cell.append(button);
      }
      button.setAttribute("aria-pressed", String(session === chosen));
    },
  },
  words("Tenant", ({ state }) => state.tenant),
  words("Kind", ({ state }) => (state.background ? "recording" : state.speaking ? "speaking" : "silent")),
  words("Open", ({ state }) => duration(state.open_seconds)),
  words("Audio", ({ state }) => duration(state.audio_seconds)),
  words("Segment", ({ state }) => `${state.segment}, ${state.segment_seconds.toFixed(1)} s`),
  words("Last chunk", ({ state }) => (state.chunk_seconds ? time(state.chunk_seconds) : "–")),
  words("Decodes", ({ state }) => String(state.decodes)),
  words("Skipped", ({ state }) => String(state.decodes_skipped)),
  words("Processor", ({ processor }) => named(processor)),
  words("Encode worker", ({ state }) => named(state.encode_worker)),
  words("PD worker", ({ state }) => named(state.pd_worker)),
], ({ state }) => state.session, "No session is open.");
/** @type {Table<Chunk>} */
const CHUNKS = new Table(at("steps", HTMLTableElement), [
  words("Audio up to", (chunk) => `${chunk.audio_seconds.toFixed(2)} s`),
  { title: "Steps", show: (cell, chunk) => draw(cell, chunk, longest) },
  words("Whole", ({ around, whole, skipped, final }) => time(around + whole) + (skipped ? ", given up" : final ? ", final" : "")),
  ...STEPS.map(([step, title]) => words(title, (/** @type {Chunk} */ chunk) => (step === "around" && !chunk.around ? "–" : time(chunk[step])))),
  words("Prompt tokens", (chunk) => `${chunk.prompt_tokens}, ${chunk.cached_tokens} cached`),
  words("New tokens", (chunk) => String(chunk.output_tokens)),
  words("PD worker", (chunk) => named(chunk.pd_worker)),
], (chunk) => `${chunk.segment} ${chunk.audio_seconds} ${chunk.final} ${chunk.whole}`, "No chunk was decoded since the session was chosen.");

/** @param {Operations} found */
function show(found) {
  last = found;
  text("trouble", "");
  hide("key-row", true);
  hide("shown", false);
  hide("no-keys", found.keys);
  text("namespace", `namespace ${found.namespace}${found.frontend.draining ? ", this frontend drains" : ""}`);
  names = new Map([...found.processors, ...found.pools.flatMap(({ workers }) => [...workers])].map(({ place }) => [place.instance, place.name]));
  showHealth(found);
  const { sessions, sessions_limit } = found.frontend;
  const sum = (/** @type {(p: Processor) => number} */ of) => found.processors.reduce((all, one) => all + of(one), 0);
  text("here", `${sessions} of ${sessions_limit}`);
  text("sessions-count", String(sum((one) => one.sessions)));
  text("speaking", String(sum((one) => one.speaking)));
  text("waiting", rate(sum((one) => one.waiting)));
  PROCESSORS.show(found.processors);
  for (const pool of found.pools) poolTable(pool).show(pool.workers);
  for (const [component, table] of POOLS) if (!found.pools.some((pool) => pool.component === component)) table.show([]);
  SESSIONS.show(found.sessions);
  text("sessions-note", found.sessions_left_out
    ? `${many(found.sessions_left_out, "more session")} not shown. Choose a session to see how long the steps of its chunks take.`
    : "Choose a session to see how long the steps of its chunks take.");
  showSteps(found);
  showPlanner(found);
}

/** @param {Operations} found */
function showHealth({ health }) {
  const findings = probed ?? health.findings;
  const wrong = findings.filter((finding) => finding.wrong).length;
  text("health", summary({ wrong, findings }));
  at("health", HTMLElement).className = wrong ? "bad" : "";
  const list = at("findings", HTMLElement);
  const told = JSON.stringify(findings);
  if (list.dataset.told === told) return; // it is being read
  list.dataset.told = told;
  list.replaceChildren(...findings.map(({ what, why, remedy, wrong }) => {
    const item = document.createElement("li");
    item.className = wrong ? "wrong" : "";
    for (const line of [`${wrong ? "Wrong" : "Notice"}: ${what}`, `Why it matters: ${why}`, `What to do: ${remedy}`]) {
      item.append(Object.assign(document.createElement("p"), { textContent: line }));
    }
    return item;
  }));
}

/** @param {Operations} found */
function showSteps(found) {
  hide("steps-section", !chosen);
  if (!chosen) return;
  const open = found.sessions.some(({ state }) => state.session === chosen);
  // A session that has ended leaves its last chunks to be read.
  if (!open) text("steps-of", `${chosen} has ended, or moved to another processor.`);
  if (!open || found.chosen?.session !== chosen) return;
  const chunks = rows(found.chosen);
  longest = Math.max(0.001, ...chunks.map((chunk) => chunk.around + chunk.whole));
  text("steps-of", `${chosen}: latest chunk first`);
  CHUNKS.show(chunks);
}

/** @param {Operations} found */
function showPlanner({ planners }) {
  const leader = planners.find(({ leads }) => leads) ?? planners[0];
  const standby = planners.length > 1 ? `; ${many(planners.length - 1, "standby")}` : "";
  text("planner", !leader
    ? "No planner is running: pools stay as they are. Planner.replicas=1 starts one."
    : leader.place.state !== "ready"
      ? `${leader.place.name} is ${leader.place.state}.`
      : `${leader.place.name} ${leader.leads ? "decides" : "watches; no planner leads"}, every ${leader.step_seconds} s${standby}. Latest: ${leader.latest.join("; ") || "nothing yet"}.`);
  const list = at("decisions", HTMLElement);
  const past = [...(leader?.past ?? [])].reverse();
  const told = JSON.stringify(past);
  if (list.dataset.told === told) return;
  list.dataset.told = told;
  list.replaceChildren(...past.map((decision) => {
    const item = document.createElement("li");
    item.className = decision.was === decision.replicas ? "" : "changes";
    const when = document.createElement("time");
    when.dateTime = new Date(1000 * decision.at).toISOString();
    when.textContent = clock(decision.at);
    const detail = document.createElement("span");
    detail.textContent = decision.detail + (decision.steps > 1 ? ` (for ${decision.steps} steps)` : "");
    item.append(when, decided(decision), detail);
    return item;
  }));
}

/** @param {string} session */
function choose(session) {
  chosen = session === chosen ? "" : session;
  CHUNKS.show([]);
  text("steps-of", chosen && `${chosen}: waiting for its next chunk`);
  if (last) show(last);
  open();
}

function open() {
  stream?.close();
  if (PAUSE.getAttribute("aria-pressed") === "true") return;
  const key = KEY.value.trim();
  void HISTORY.load(new URL("v1/operations/history", SERVER).href, key ? { Authorization: `Bearer ${key}` } : undefined);
  const address = new URL("v1/operations/events", SERVER);
  if (chosen) address.searchParams.set("session", chosen);
  stream = new Stream(address.href, key, {
    shown: (found) => {
      text("connection", "live");
      HISTORY.add(found);
      show(found);
    },
    lost: (why) => text("connection", `${why}; trying again`),
    refused: (status, why) => {
      text("connection", "not open");
      text("key-why", `This page is for operators: ${why}.`);
      hide("key-row", false);
      hide("shown", true);
      if (KEY.value) text("trouble", `${status}: ${why}`);
      else KEY.focus();
    },
  });
}

async function examine() {
  EXAMINE.setAttribute("aria-disabled", "true");
  text("examined", "probing every worker");
  const key = KEY.value.trim();
  try {
    const answer = await fetch(new URL("v1/operations/examination", SERVER), key ? { headers: { Authorization: `Bearer ${key}` } } : {});
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error.message);
    probed = body.findings;
    text("examined", `${many(body.probes, "probe")} in ${time(body.seconds)} at ${clock(body.at)}`);
    setTimeout(() => (probed = undefined), 60_000); // then what is found all the time is shown again
  } catch (error) {
    text("examined", error instanceof Error ? error.message : String(error));
  }
  EXAMINE.removeAttribute("aria-disabled");
  if (last) showHealth(last);
}

PAUSE.addEventListener("click", () => {
  const paused = PAUSE.getAttribute("aria-pressed") !== "true";
  PAUSE.setAttribute("aria-pressed", String(paused));
  open();
  if (paused) text("connection", "paused");
});
EXAMINE.addEventListener("click", () => {
  if (EXAMINE.getAttribute("aria-disabled") !== "true") void examine();
});
at("unchoose", HTMLButtonElement).addEventListener("click", () => choose(chosen));
at("key-row", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  text("trouble", "");
  open();
});
open();
