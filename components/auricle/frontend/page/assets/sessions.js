// @ts-check
// Sessions in this browser: text without audio, in IndexedDB.
import { Transcript } from "./transcript.js";
/** @typedef {{ id: number, source: string, transcript: Transcript }} Session `id`: when it began, in ms */

const STORE = "sessions";
const MOST = 50; // the oldest ones are deleted

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** @param {IDBTransactionMode} mode */
async function store(mode) {
  const opening = indexedDB.open("auricle", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
  return (await done(opening)).transaction(STORE, mode).objectStore(STORE);
}

/** @param {Session} session */
export async function keep({ id, source, transcript }) {
  const { segments, details, translations, languages, heard } = transcript;
  const kept = await store("readwrite");
  await done(kept.put({ id, source, segments, details, translations, languages, heard }));
  const ids = await done(kept.getAllKeys());
  for (const old of ids.slice(0, -MOST)) kept.delete(old);
}

/** The sessions, the latest first. @returns {Promise<Session[]>} */
export async function sessions() {
  const found = await done((await store("readonly")).getAll());
  return found.reverse().map(({ id, source, ...kept }) => {
    const transcript = Object.assign(new Transcript(), kept);
    transcript.leaveUntranslated(); // the session is over, however it ended
    return { id, source, transcript };
  });
}

/** @param {number} id */
export const forget = async (id) => done((await store("readwrite")).delete(id));
export const forgetAll = async () => done((await store("readwrite")).clear());
