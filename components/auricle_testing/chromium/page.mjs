// Uses the page as a person would: node page.mjs URL RECORDING.wav FOLDER. Prints what was found as
// JSON; screenshots and downloads are written to FOLDER.
import { readFileSync } from "node:fs";
import { downloadsTo, PHONE, started } from "./setup.mjs";

const [url, recording, folder] = process.argv.slice(2);
const WAV = readFileSync(recording);
const RECORDED_SECONDS = (WAV.length - 44) / (2 * WAV.readUInt32LE(24)); // 16-bit, one channel
const DESK = { width: 1280, height: 800 };
const SETTLED = { until: "networkidle0" };
const { found, opened, look, ended } = await started({
  url,
  folder,
  ours: /^\/(page\/.*)?$/,
  failures: true,
  args: [
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

const said = (page) => page.$$eval("#final .said", (lines) => lines.map((line) => [...line.childNodes].filter((node) => !node.matches?.("time, .who, .missing")).map((node) => node.textContent).join("")).join(" "));
const idle = (page) => page.waitForFunction(() => {
  const listen = document.getElementById("listen");
  return listen.ariaDisabled !== "true" && listen.textContent === "Start microphone" && document.querySelector("#final p");
});

// A microphone, by keyboard alone.
const page = await opened(DESK, SETTLED);
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
found.offered = await page.$eval("#translate", (row) => !row.hidden); // there is no translator
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
const download = await downloadsTo(page, folder);
for (const format of ["txt", "srt", "vtt", "json"]) await download(format);

// A sample that the model understands, and the confidence in its words.
await page.click("#sample");
await page.waitForFunction(() => document.getElementById("source").textContent.startsWith("Sample"));
await idle(page);
found.sample = await said(page);
found.confidence = await page.$$eval("#final span[title]", (all) => all.map((word) => word.title));
await page.waitForFunction(() => document.getElementById("player").duration > 0);
await look(page, "file");
found.programs = await page.$$eval("#programs code", (all) => all.map((code) => code.textContent));

// The reference of the API.
const reference = await opened(DESK, { until: "load" });
await reference.goto(new URL("docs", url), { waitUntil: "networkidle0" });
await reference.waitForSelector("#operations summary");
found.reference = await reference.$$eval("#operations > details > summary code", (all) => all.map((code) => code.textContent));
await reference.evaluate(() => [...document.querySelectorAll("details")].slice(0, 12).forEach((one) => (one.open = true)));
await look(reference, "reference");

// A telephone, and a server that wants a key.
found.keyAskedInVain = await page.$eval("#key-row", (row) => !row.hidden);
const phone = await opened(PHONE, { ...SETTLED, answer: WANTS_KEY });
await phone.waitForSelector("#key", { visible: true });
await look(phone, "phone");
await ended();
