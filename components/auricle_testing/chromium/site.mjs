// Searches the site of docs/ from its folder: node site.mjs FILE-URL FOLDER WORD. Prints what was found.
import { started } from "./setup.mjs";

const [url, folder, word] = process.argv.slice(2);
const { found, opened, ended } = await started({ url, folder, ours: /$^/, prefix: "site-", failures: true });
const page = await opened({ width: 1280, height: 800 });
await page.click("input[data-md-component=search-query]");
await page.keyboard.type(word);
await page.waitForSelector(".md-search-result__item a", { visible: true });
found.results = await page.$$eval(".md-search-result__item a", (all) => all.map((link) => link.href));
await page.screenshot({ path: `${folder}/site-search.png` });
await ended();
