// @ts-check
// Server-sent events over fetch, as an EventSource cannot send a key.
const AGAIN_MS = 3000;

/**
 * @typedef {object} Listener
 * @property {(document: import("./operations").Operations) => void} shown
 * @property {(why: string) => void} lost it is tried again by itself
 * @property {(status: number, why: string) => void} refused it is not
 */

/** One stream of documents, until it is closed. */
export class Stream {
  closed = new AbortController();

  /** @param {string} url @param {string} key @param {Listener} listener */
  constructor(url, key, listener) {
    this.url = url;
    this.headers = key ? { Authorization: `Bearer ${key}` } : undefined;
    this.listener = listener;
    void this.run();
  }
  close() {
    this.closed.abort();
  }
  async run() {
    while (!this.closed.signal.aborted) {
      const again = await this.once();
      if (!again) return;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
  /** Read one response to its end. @returns {Promise<boolean>} whether to ask again */
  async once() {
    let why = "the connection was lost";
    try {
      const answer = await fetch(this.url, { headers: this.headers, signal: this.closed.signal, cache: "no-store" });
      if (!answer.ok || !answer.body) {
        why = (await answer.json()).error.message;
        if (answer.status === 401 || answer.status === 403) {
          if (!this.closed.signal.aborted) this.listener.refused(answer.status, why);
          return false;
        }
      } else {
        why = (await this.read(answer.body)) ?? why;
      }
    } catch {
      // Refused connections, half answers and our own abort: all are asked again, or are over.
    }
    if (this.closed.signal.aborted) return false;
    this.listener.lost(why);
    return true;
  }
  /** @param {ReadableStream<Uint8Array>} body @returns {Promise<string | undefined>} why it ended */
  async read(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return undefined;
      rest += decoder.decode(value, { stream: true });
      const events = rest.split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        const [, name, data] = /^event: (\w+)\ndata: ([^]*)$/.exec(event) ?? [];
        if (this.closed.signal.aborted) return undefined;
        if (name === "operations") this.listener.shown(JSON.parse(data));
        if (name === "end") return JSON.parse(data).message;
      }
    }
  }
}
