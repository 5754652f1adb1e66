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
  prefix: "scripted-",
  failures: true,
  args: ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", "--host-resolver-rules=MAP auricle.test 127.0.0.1"],
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

// Sessions that this browser has kept: listed after a reload, opened and deleted.
const kept = await opened(DESK, SETTLED);
await kept.waitForSelector("#earlier", { visible: true });
await kept.click("#earlier summary");
await kept.waitForSelector("#sessions button", { visible: true });
found.kept = await kept.$$eval("#sessions p", (all) => all.map((line) => line.textContent));
await kept.click("#sessions button");
found.reopened = await kept.$$eval("#final .said", (all) => all.length);
found.reopenedTranslations = (await lines(kept, "#final")).filter(({ committed }) => committed).length;
const permissions = await kept.createCDPSession();
for (const name of ["clipboard-write", "clipboard-read"]) {
  await permissions.send("Browser.setPermission", { permission: { name }, setting: "granted", origin: new URL(url).origin });
}
await kept.bringToFront();
await kept.click("#copy");
await kept.waitForFunction(() => document.getElementById("copy").textContent === "Copied");
found.copied = await kept.evaluate(() => navigator.clipboard.readText());
await kept.click("#programs summary");
found.programs = await kept.$$eval("#programs code", (all) => all.map((code) => code.textContent));
await look(kept, "kept");
await kept.click("#sessions li button:last-child");
await kept.waitForSelector("#earlier", { hidden: true });
await kept.reload({ waitUntil: "networkidle0" });
found.deleted = await kept.$eval("#earlier", (list) => list.hidden);

// A dropped file: its lines play it. Another one is silent.
const dropped = (context) => kept.evaluate((context) => {
  const wav = new DataView(new ArrayBuffer(44 + 2 * 16000 * 5)); // five seconds without a sound
  [..."RIFF____WAVEfmt "].forEach((letter, at) => wav.setUint8(at, letter.charCodeAt(0)));
  [16, 0x10001, 16000, 32000, 0x100002].forEach((field, n) => wav.setUint32(16 + 4 * n, field, true));
  [..."data"].forEach((letter, at) => wav.setUint8(36 + at, letter.charCodeAt(0)));
  wav.setUint32(4, wav.byteLength - 8, true);
  wav.setUint32(40, wav.byteLength - 44, true);
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([wav], "talk.wav", { type: "audio/wav" }));
  document.getElementById("context").value = context;
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
}, context);
const trouble = (page) => page.$eval("#trouble", (node) => node.textContent);
await dropped("file");
await kept.waitForFunction(() => document.querySelectorAll("#final .said").length > 1 && document.getElementById("listen").textContent === "Start microphone");
found.source = await kept.$eval("#source", (node) => node.textContent);
await kept.focus("#final .said:nth-of-type(2) .seek");
await kept.$eval("#player", (player) => (player.defaultPlaybackRate = player.playbackRate = 0.0625)); // a busy machine may stand still
await kept.keyboard.press("Enter");
const playing = await kept.waitForFunction(() => {
  const line = document.querySelector("#final .said.now");
  return line && [document.getElementById("player").currentTime, line.querySelector(".seek").textContent];
});
found.played = await playing.jsonValue();
await look(kept, "played");
await dropped("silence");
await kept.waitForFunction(() => document.getElementById("hint").textContent.startsWith("No speech"));
found.silent = await kept.$eval("#hint", (hint) => hint.textContent);

// Refusals. A full server is tried again by itself; a key that is missing is asked for.
await dropped("full");
await kept.waitForFunction(() => document.getElementById("countdown").textContent);
found.full = await trouble(kept);
await look(kept, "full");
await kept.waitForFunction(() => document.querySelector("#final .said"));
await idle(kept);
await dropped("key");
await kept.waitForSelector("#key", { visible: true });
found.keyless = await trouble(kept);
found.askedForKey = await kept.evaluate(() => document.activeElement.id);
await look(kept, "key");

// A page without https has no microphone, but files.
const plain = await opened(DESK, SETTLED);
await plain.goto(url.replace("127.0.0.1", "auricle.test"), { waitUntil: "networkidle0" });
await plain.click("#listen");
await plain.waitForFunction(() => document.getElementById("trouble").textContent);
found.noMicrophone = [await trouble(plain)];

// Other reasons for no microphone: one that was unplugged, and two that Chromium cannot have here,
// whose device is allowed and never in use.
const microphone = await opened(DESK, SETTLED);
const refused = async () => {
  await microphone.click("#listen");
  await microphone.waitForFunction(() => document.getElementById("trouble").textContent);
  found.noMicrophone.push(await trouble(microphone));
};
await microphone.evaluate(() => document.getElementById("device").replaceChildren(new Option("Headset", "unplugged")));
await refused();
for (const reason of ["NotReadableError", "NotAllowedError"]) {
  await microphone.evaluate((reason) => {
    navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", reason));
    document.getElementById("trouble").textContent = "";
  }, reason);
  await refused();
}

// The page at other widths.
for (const [name, width, scheme] of [["360", 360, "light"], ["768", 768, "dark"], ["1440", 1440, "light"]]) {
  await kept.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await kept.setViewport({ width, height: 800 });
  await look(kept, name);
}

// A telephone, and a server that translates into any language.
const phone = await opened(PHONE, { ...SETTLED, answer: ANY });
await phone.type("#translate input", "es, DE es");
await phone.tap("#listen");
await half(phone);
await look(phone, "phone");
await phone.tap("#listen");
await idle(phone);
await ended();
