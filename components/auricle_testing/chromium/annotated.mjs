// Uses a file on the page of a server with word times and speakers, as a person would:
// node annotated.mjs URL RECORDING.wav FOLDER. Prints what was found as JSON. This browser has no
// microphone.
import { started } from "./setup.mjs";

const [url, recording, folder] = process.argv.slice(2);
const { found, opened, look, ended } = await started({
  url,
  folder,
  ours: /^\/(page\/.*)?$/,
  prefix: "annotated-",
  failures: true,
});

const page = await opened({ width: 1280, height: 800 }, { until: "networkidle0" });
await page.click("#listen");
await page.waitForFunction(() => document.getElementById("trouble").textContent);
found.noMicrophone = await page.$eval("#trouble", (node) => node.textContent);
const [chooser] = await Promise.all([page.waitForFileChooser(), page.click("#choose")]);
await chooser.accept([recording]);
await page.waitForFunction(() => document.getElementById("source").textContent.startsWith("conversation.wav"));
await page.waitForFunction(() => document.getElementById("listen").textContent === "Start microphone");
found.lines = await page.$$eval("#final .said", (all) => all.map((line) => ({
  speakers: [...line.querySelectorAll(".who")].map((who) => who.textContent),
  words: [...line.querySelectorAll("span[title]")].map((word) => ({ text: word.textContent, title: word.title })),
  missing: [...line.querySelectorAll(".missing")].map((note) => note.textContent),
})));
await look(page, "light");
await ended();
