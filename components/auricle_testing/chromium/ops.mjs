// Looks at the operations page as an operator would: node ops.mjs URL FOLDER, with the key in KEY.
// Meanwhile somebody speaks. Prints what was found as JSON; screenshots are written to FOLDER.
import { PHONE, started } from "./setup.mjs";

const [url, folder] = process.argv.slice(2);
const KEY = process.env.KEY ?? "";
const DESK = { width: 1280, height: 1700 };
const { found, opened, look, ended } = await started({ url, folder, ours: /^\/(page|ops)(\/.*)?$/, prefix: "ops-" });

const text = (page, id) => page.$eval(`#${id}`, (node) => node.textContent);
const rows = (page, id) => page.$$eval(`#${id} tbody tr`, (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));

// By keyboard alone: the key, a session, its steps.
const page = await opened(DESK);
await page.waitForSelector("#key", { visible: true });
found.asked = await text(page, "key-why");
await look(page, "key");
await page.waitForFunction(() => document.activeElement?.id === "key");
await page.keyboard.type(KEY);
await page.keyboard.press("Enter");
await page.waitForSelector("#shown", { visible: true });
await page.waitForSelector("#sessions tbody button");
await page.focus("#sessions tbody button");
await page.keyboard.press("Enter");
await page.waitForFunction(() => document.querySelectorAll("#steps tbody svg").length >= 5);
await page.waitForSelector("#decisions li.changes"); // somebody speaks: the planner orders a worker
found.focused = await page.evaluate(() => document.activeElement.closest("table")?.id); // tables have changed meanwhile
found.pressed = await page.$eval("#sessions tbody button", (button) => button.ariaPressed);
found.health = await text(page, "health");
found.planner = await text(page, "planner");
found.decisions = await page.$$eval("#decisions li", (all) => all.map((item) => item.textContent));
for (const id of ["processors", "encode_worker", "pd_worker", "sessions", "steps"]) found[id] = await rows(page, id);
found.steps_heads = await page.$$eval("#steps thead th", (all) => all.map((cell) => cell.textContent));
found.bars = await page.$$eval("#steps tbody svg", (all) => all.map((svg) => [...svg.children].map((bar) => Number(bar.getAttribute("width")))));
await look(page, "light");
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await look(page, "dark");

// Nothing is cut, at any width: tables become lists where they have no room.
found.cut = {};
for (const width of [1440, 1280, 768, 360]) {
  await page.setViewport({ ...DESK, width });
  await look(page, String(width));
  found.cut[width] = await page.$$eval(".scroll", (all) => Math.max(...all.map((region) => region.scrollWidth - region.clientWidth)));
}
await page.setViewport(DESK);
found.history = await page.$$eval("#history li", (all) => all.map((item) => ({
  title: item.querySelector("b").textContent,
  points: item.querySelector("polyline").getAttribute("points").split(" ").length,
})));

// What is live comes on by itself, and may be held still.
const reported = () => page.$eval("#steps tbody th", (cell) => cell.textContent);
const before = await reported();
await page.waitForFunction((old) => document.querySelector("#steps tbody th").textContent !== old, {}, before);
await page.click("#pause");
found.paused = await text(page, "connection");
await page.click("#pause");
await page.waitForFunction(() => document.getElementById("connection").textContent === "live");
await page.click("#examine");
await page.waitForFunction(() => document.getElementById("examined").textContent.includes("probe") && !document.getElementById("examine").ariaDisabled);
found.examined = await text(page, "examined");

// The history of the hour stays when the page is loaded again.
await page.reload();
await page.waitForSelector("#key", { visible: true });
await page.type("#key", KEY);
await page.keyboard.press("Enter");
await page.waitForFunction((least) => {
  const line = document.querySelector("#history polyline");
  return line && line.getAttribute("points").split(" ").length >= least;
}, {}, found.history[0].points);
found.kept = await page.$eval("#history polyline", (line) => line.getAttribute("points").split(" ").length);

// A telephone.
const phone = await opened(PHONE);
await phone.waitForSelector("#key", { visible: true });
await phone.type("#key", KEY);
await phone.tap("#key-row button");
await phone.waitForSelector("#sessions tbody button");
await look(phone, "phone");
await ended();
