// Open pages in a real browser and say what it says of them, as one line of JSON.
//   node look.mjs CHROMIUM AXE OUTPUT_FOLDER PAGE.html ...
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [program, axeFile, output, ...pages] = process.argv.slice(2);
const axe = readFileSync(axeFile, "utf8");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: program, args: quiet });
const results = {};
for (const file of pages) {
  const name = basename(file, ".html");
  const result = { console: [], requests: [], violations: [], tabs: 0, focusable: 0, unseen: [], overflow: [] };
  for (const scheme of ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1200, height: 900 }, bypassCSP: true });
    const page = await context.newPage();
    page.on("console", (message) => result.console.push(message.text()));
    page.on("pageerror", (error) => result.console.push(String(error)));
    page.on("request", (request) => {
      if (request.url() !== pathToFileURL(file).href) result.requests.push(request.url());
    });
    await page.goto(pathToFileURL(file).href);
    await page.screenshot({ path: join(output, `${name}-${scheme}.png`), fullPage: true });
    await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    for (const item of found.violations) {
      result.violations.push({ scheme, id: item.id, impact: item.impact, at: item.nodes.map((node) => node.html.slice(0, 120)) });
    }
    if (scheme === "light") {
      result.focusable = await page.evaluate(() =>
        [...document.querySelectorAll("a[href], summary, [tabindex='0']")].filter((node) => node.checkVisibility()).length);
      const seen = new Set();
      for (let step = 0; step < result.focusable + 2; step += 1) {
        await page.keyboard.press("Tab");
        const where = await page.evaluate(() => {
          const node = document.activeElement;
          if (!node || node === document.body) return null;
          const all = [...document.querySelectorAll("*")];
          return { place: all.indexOf(node), text: node.textContent.slice(0, 40), outline: getComputedStyle(node).outlineStyle };
        });
        if (!where || seen.has(where.place)) break;
        seen.add(where.place);
        if (where.outline === "none") result.unseen.push(where.text);
      }
      result.tabs = seen.size;
      await page.setViewportSize({ width: 390, height: 800 });
      result.overflow = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth
        ? [`${document.documentElement.scrollWidth} wide on ${window.innerWidth}`] : []);
      await page.pdf({ path: join(output, `${name}.pdf`), format: "A4" });
    }
    await context.close();
  }
  results[name] = result;
}
await browser.close();
console.log(JSON.stringify(results));
