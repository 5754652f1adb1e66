// Uses what the page has beside text, as a person would: node scripted.mjs URL FOLDER. The server
// tells what its test says. Prints what was found as JSON; screenshots and downloads are in FOLDER.
import { downloadsTo, PHONE, started } from "./setup.mjs";

const [url, folder] = process.argv.slice(2);
const DESK = { width: 1280, height: 800 };
const SETTLED = { until: "networkidle0" };
const { found, opened, look, ended } = await started({
  url,
  folder,
  ours: /^\/(page\/.*)?$/,
  seconds: 60,
  prefix: "scripted-",
  failures: true,
  args: ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"],
});

// As if the server's model could be asked for any language.
const ANY = (request) =>
  request.url().endsWith("/v1/models")
    ? request.respond({ contentType: "application/json", body: '{"data": [{"id": "demo", "capabilities": {"translate": []}}]}' })
    : request.continue();

const lines = (page, below) => page.$$eval(`${below} .translation`, (all) => all.map((line) => ({
  lang: line.lang,
  tongue: line.querySelector(".tongue").textContent,
  committed: line.children[1].textContent,
  partial: line.querySelector(".partial")?.textContent ?? "",
  missing: line.querySelector(".missing")?.textContent ?? "",
  told: line.ariaLive !== "off",
})));
const idle = (page) => page.waitForFunction(() => document.getElementById("listen").textContent === "Start microphone");
const half = (page) => page.waitForFunction(() => document.querySelector("#open-translations .partial")?.textContent);

// By keyboard alone: two of the languages that the server has, and a session.
const page = await opened(DESK, SETTLED);
found.offered = await page.$$eval("#translate label", (all) => all.map((label) => label.textContent));
for (const code of ["es", "fr"]) {
  await page.focus(`#translate input[value=${code}]`);
  await page.keyboard.press("Space");
}
await page.focus("#listen");
await page.keyboard.press("Enter");
await half(page);
found.final = await lines(page, "#final");
found.open = await lines(page, "#open-translations");
found.said = await page.$$eval("#final .said", (all) => all.map((line) => ({
  speakers: [...line.querySelectorAll(".who")].map((who) => who.textContent),
  words: [...line.querySelectorAll("span[title]")].map((word) => [word.textContent, word.title, word.className]),
  missing: [...line.querySelectorAll(".missing")].map((note) => note.textContent),
  text: [...line.childNodes].filter((node) => !node.matches?.("time, .who, .missing")).map((node) => node.textContent).join(""),
})));
await look(page, "light");
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await look(page, "dark");
await page.keyboard.press("Enter");
await idle(page);
found.ended = await lines(page, "#final");
found.left = await lines(page, "#open-translations");
found.trouble = await page.$eval("#trouble", (node) => node.textContent);

// What can be saved.
found.saved = await page.$$eval("#saved option", (all) => all.map((option) => option.textContent));
await page.select("#saved", "es");
const download = await downloadsTo(page, folder);
for (const format of ["txt", "srt", "vtt", "json"]) await download(format);
await page.select("#saved", "");
await download("json");
await page.select("#saved", "fr");
found.nothing = await page.$eval("[data-format=txt]", (button) => button.disabled);

// A telephone, and a server that translates into any language.
const phone = await opened(PHONE, { ...SETTLED, answer: ANY });
await phone.type("#translate input", "es, DE es");
await phone.tap("#listen");
await half(phone);
await look(phone, "phone");
await phone.tap("#listen");
await idle(phone);
await ended();
