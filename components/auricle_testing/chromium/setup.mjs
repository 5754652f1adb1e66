// What the scripts beside have in common: a headless Chromium, pages that are watched, axe-core.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const WAIT_MS = 240_000; // an upper bound, for busy machines
export const PHONE = { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

// Returns what saves the transcript in a format, as a file in `folder`.
export async function downloadsTo(page, folder) {
  const client = await page.createCDPSession();
  await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder, eventsEnabled: true });
  return (format) => new Promise((resolve) => {
    const progress = ({ state }) => {
      if (state !== "completed") return;
      client.off("Browser.downloadProgress", progress);
      resolve();
    };
    client.on("Browser.downloadProgress", progress);
    page.click(`[data-format=${format}]`);
  });
}

// Starts Chromium. `ours` matches the paths of the page itself, whose bytes are its weight;
// screenshots are PREFIXNAME.png in `folder`. With `failures` requests that failed count as said on the
// console (a stream that is left does, and need not).
// `found` has what the console said, every request, and of each page opened its weight in bytes.
export async function started({ url, folder, ours, prefix = "", args = [], failures = false }) {
  const found = { console: [], requests: [], violations: [], overflow: [], weights: [] };
  const browser = await puppeteer.launch({
    executablePath: await chromium.executablePath(),
    headless: "shell",
    args: [...chromium.args, ...args],
  });

  // With `answer` the page's requests are answered by it, and what Chromium says of that is not kept.
  async function opened(viewport, { answer, until = "load" } = {}) {
    const page = await browser.newPage();
    const number = found.weights.push(0) - 1;
    if (answer) {
      await page.setRequestInterception(true);
      page.on("request", answer);
    }
    page.setDefaultTimeout(WAIT_MS);
    if (!answer) page.on("console", (message) => found.console.push(message.text()));
    page.on("pageerror", (error) => found.console.push(String(error)));
    // A player leaves parts of its recording, whose address is a blob's, unread.
    if (failures) page.on("requestfailed", (request) => request.url().startsWith("blob:") || found.console.push(`failed: ${request.url()}`));
    page.on("response", (response) => {
      found.requests.push(response.url().slice(0, 200)); // a page may have its sound in an address
      if (ours.test(new URL(response.url()).pathname)) found.weights[number] += Number(response.headers()["content-length"] ?? 0);
    });
    await page.setViewport(viewport);
    await page.goto(url, { waitUntil: until });
    return page;
  }

  async function look(page, name) {
    await page.evaluate(AXE); // by the debugger, which no Content-Security-Policy concerns
    const { violations } = await page.evaluate(() => axe.run());
    for (const { id, nodes } of violations) found.violations.push(`${name}: ${id}: ${nodes.map((n) => n.html).join(" ")}`);
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wider > 0) found.overflow.push(`${name}: ${wider} px`);
    await page.screenshot({ path: join(folder, `${prefix}${name}.png`) });
  }

  // Prints what was found as JSON, which components/auricle_testing/chromium/driving.py reads.
  async function ended() {
    browser.process().kill("SIGKILL"); // one that has used devices may never close: it is a single process
    await browser.disconnect();
    console.log(JSON.stringify(found));
  }

  return { found, opened, look, ended };
}
