// @ts-check
// The same from a program: commands and code with this server's address, model and options.
import { button, copy, made } from "./dom.js";
/** @typedef {{ server: string, model: string, language: string, key: boolean }} Asked */

/** @type {[string, (asked: Asked) => string][]} */
const PROGRAMS = [
  ["curl, a recording", ({ server, model, language, key }) => [
    `curl ${server}v1/audio/transcriptions`,
    ...(key ? ["-H \"Authorization: Bearer $AURICLE_KEY\""] : []),
    "-F file=@talk.wav",
    `-F model=${model}`,
    ...(language ? [`-F language=${language}`] : []),
  ].join(" \\\n  ")],
  ["Python, a recording as a live session", ({ server, language, key }) => [
    ...(key ? ["import os\n"] : []),
    "from auricle.client import Final, SyncClient\n",
    `client = SyncClient("${server.slice(0, -1)}"${key ? ", api_key=os.environ[\"AURICLE_KEY\"]" : ""})`,
    `for event in client.stream("talk.wav"${language ? `, language="${language}"` : ""}):`,
    "    if isinstance(event, Final):",
    "        print(event.text)",
  ].join("\n")],
  ["JavaScript, the microphone", ({ server, language, key }) => [
    `import { microphone } from "${server}page/microphone.js"; // from a page that Frontend.cors_origins lists\n`,
    `const stop = await microphone("${server.slice(0, -1)}", (event) => {`,
    "  if (event.type === \"final\") console.log(event.text);",
    `}, { ${[...(language ? [`language: "${language}"`] : []), ...(key ? ["key: KEY"] : [])].join(", ")} });`.replace("{  }", "{}"),
  ].join("\n")],
];

/** @param {HTMLElement} below @param {Asked} asked */
export function write(below, asked) {
  below.querySelectorAll("section").forEach((old) => old.remove());
  below.append(...PROGRAMS.map(([title, code]) => {
    const written = code(asked);
    const pressed = button("Copy", () => void copy(pressed, written), { ariaLabel: `Copy: ${title}` });
    return made("section", {}, made("div", { className: "row" }, made("h3", {}, title), pressed), made("pre", { tabIndex: 0 }, made("code", {}, written)));
  }));
}
