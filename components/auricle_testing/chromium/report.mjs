// Looks at a page that `auricle transcribe --report` wrote: node report.mjs FILE-URL FOLDER. Prints
// what was found as JSON; screenshots are written to FOLDER.
import { PHONE, started } from "./setup.mjs";

const [url, folder] = process.argv.slice(2);
const DESK = { width: 900, height: 640 };
const { found, opened, look, ended } = await started({ url, folder, ours: /$^/, prefix: "report-", failures: true });

const page = await opened(DESK);
found.about = await page.$eval(".about", (line) => line.textContent);
found.segments = await page.$$eval("li", (all) => all.map((line) => ({
  start: Number(line.dataset.start),
  speakers: [...line.querySelectorAll("p > b[class]")].map((name) => name.textContent),
  text: [...line.querySelectorAll("p:not(.translation, .note)")].map((part) => (part.querySelector("span[lang]") ?? part).textContent).join(""),
  translation: line.querySelector(".translation")?.lastChild.textContent.trim(),
})));

// Slowly, and what is found while it plays is read as it is paused: a busy machine may stand still.
await page.$eval("audio", (audio) => (audio.defaultPlaybackRate = audio.playbackRate = 0.0625));

// By keyboard: a line is played from where it was said; it is marked meanwhile, and its word.
await page.focus("li:nth-child(2) button");
await page.keyboard.press("Enter");
const second = await page.waitForFunction(() => {
  if (!document.querySelector("li:nth-child(2).now .word.now")) return null;
  const audio = document.querySelector("audio");
  audio.pause();
  return audio.currentTime;
});
found.playedFrom = await second.jsonValue();
found.seconds = await page.$eval("audio", (audio) => audio.duration);
[found.line, found.at] = await page.$eval("#at", (line) => [
  Number(line.getAttribute("x1")) / line.ownerSVGElement.viewBox.baseVal.width,
  document.querySelector("audio").currentTime,
]);
await page.evaluate(() => scrollTo(0, 0));
await look(page, "light");
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await look(page, "dark");

// The words of a segment, each to be played.
await page.focus("li:first-child summary");
await page.keyboard.press("Enter");
found.words = await page.$$eval("li:first-child tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
await page.focus("li:first-child tbody tr:last-child button");
await page.keyboard.press("Enter");
const last = await page.waitForFunction(() => {
  const word = document.querySelector("li:first-child .word.now");
  if (!word || document.querySelector("li:nth-child(2).now")) return null;
  document.querySelector("audio").pause();
  return word.textContent;
});
found.word = await last.jsonValue();
const phone = await opened(PHONE);
await look(phone, "phone");
await ended();
