// Uses the page as a person would: node page.mjs URL RECORDING.wav FOLDER. Prints what was found as
// JSON; screenshots and downloads are written to FOLDER.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const [url, recording, folder] = process.argv.slice(2);
const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const WAV = readFileSync(recording);
const RECORDED_SECONDS = (WAV.length - 44) / (2 * WAV.readUInt32LE(24)); // 16-bit, one channel
const SECONDS = 60;
const DESK = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const found = { console: [], requests: [], violations: [], overflow: [], weight: 0 };

const browser = await puppeteer.launch({
  executablePath: await chromium.executablePath(),
  headless: "shell",
  args: [
    ...chromium.args,
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    `--use-file-for-fake-audio-capture=${recording}%noloop`,
  ],
});

// As if the server wanted a key: the door's own tests show that it does.
const WANTS_KEY = (request) =>
  request.url().endsWith("/v1/models")
    ? request.respond({ status: 401, contentType: "application/json", body: '{"error": {"message": "a key is needed"}}' })
    : request.continue();

async function opened(viewport, answer) {
  const page = await browser.newPage();
  if (answer) {
    await page.setRequestInterception(true);
    page.on("request", answer);
  }
  page.setDefaultTimeout(1000 * SECONDS);
  if (!answer) page.on("console", (message) => found.console.push(message.text()));
  page.on("pageerror", (error) => found.console.push(String(error)));
  page.on("requestfailed", (request) => found.console.push(`failed: ${request.url()}`));
  page.on("response", async (response) => {
    found.requests.push(response.url());
    if (new URL(response.url()).pathname.match(/^\/(page\/.*)?$/)) found.weight += Number(response.headers()["content-length"] ?? 0);
  });
  await page.setViewport(viewport);
  await page.goto(url, { waitUntil: "networkidle0" });
  return page;
}

async function look(page, name) {
  await page.evaluate(AXE); // by the debugger, which no Content-Security-Policy concerns
  const { violations } = await page.evaluate(() => axe.run());
  for (const { id, nodes } of violations) found.violations.push(`${name}: ${id}: ${nodes.map((n) => n.html).join(" ")}`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (wider > 0) found.overflow.push(`${name}: ${wider} px`);
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

const said = (page) => page.$$eval("#final p", (lines) => lines.map((line) => line.lastChild.textContent).join(" "));
const idle = (page) => page.waitForFunction(() => {
  const listen = document.getElementById("listen");
  return listen.ariaDisabled !== "true" && listen.textContent === "Start microphone" && document.querySelector("#final p");
});
const downloadsTo = async (page) => {
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
};

// A microphone, by keyboard alone.
const page = await opened(DESK);
await look(page, "begin");
await page.focus("#listen");
await page.keyboard.press("Enter");
await page.waitForFunction(() => document.getElementById("speech").textContent === "speech");
await page.waitForFunction(() => document.getElementById("committed").textContent && document.getElementById("partial").textContent);
await look(page, "light");
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await look(page, "dark");
await page.waitForFunction((seconds) => {
  const [minutes, rest] = document.getElementById("heard").textContent.split(":").map(Number);
  return 60 * minutes + rest > seconds - 2 && document.getElementById("speech").textContent === "silence";
}, {}, RECORDED_SECONDS);
found.focused = await page.evaluate(() => document.activeElement.id);
await page.keyboard.press("Enter");
await idle(page);
found.microphone = await said(page);
found.delay = await page.$eval("#delay", (node) => node.textContent);

// A file, and what can be saved of it.
const [chooser] = await Promise.all([page.waitForFileChooser(), page.click("#choose")]);
await chooser.accept([recording]);
await page.waitForFunction(() => document.getElementById("delay-name").textContent === "Speed");
await idle(page);
found.file = await said(page);
const download = await downloadsTo(page);
for (const format of ["txt", "srt", "vtt", "json"]) await download(format);

// A telephone, and a server that wants a key.
found.keyAskedInVain = await page.$eval("#key-row", (row) => !row.hidden);
const phone = await opened(PHONE, WANTS_KEY);
await phone.waitForSelector("#key", { visible: true });
await look(phone, "phone");
await browser.close();
console.log(JSON.stringify(found));
