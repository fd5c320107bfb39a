// Opens pages of `rot report` in Chromium, wide and narrow, light and dark. Checks that the console shows no error, the page
// sends no network request, the pictures are present, nothing is wider than the window, and the view of test rows responds.
//
// Run: node check_report.mjs PAGE… [--shots DIR]. Needs playwright-core and a Chromium (CHROMIUM, or /usr/bin/chromium).

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const words = process.argv.slice(2);
const at = words.indexOf("--shots");
const shots = at < 0 ? null : words.splice(at, 2)[1];
if (shots) mkdirSync(shots, { recursive: true });
assert.ok(words.length > 0, "name at least one page");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

const SETTINGS = [
  { name: "wide", viewport: { width: 1200, height: 900 }, colorScheme: "light" },
  { name: "dark", viewport: { width: 1200, height: 900 }, colorScheme: "dark" },
  { name: "phone", viewport: { width: 390, height: 844 }, colorScheme: "light" },
];

for (const file of words) {
  const stem = path.basename(path.dirname(path.resolve(file)));
  for (const { name, ...settings } of SETTINGS) {
    const page = await browser.newPage(settings);
    const wrong = [];
    page.on("console", (message) => wrong.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
    page.on("request", (request) => {
      if (!/^(file|data):/.test(request.url())) wrong.push(`request: ${request.url()}`);
    });
    await page.goto(pathToFileURL(path.resolve(file)).href);
    const pictures = page.locator("figure svg");
    const count = await pictures.count();
    for (let i = 0; i < count; i += 1) {
      const box = await pictures.nth(i).boundingBox();
      assert.ok(box && box.width > 100 && box.height > 50, `${file}: picture ${i + 1} has no size`);
      assert.ok((await pictures.nth(i).locator("text").count()) > 0, `${file}: picture ${i + 1} has no text`);
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(overflow <= 0, `${file}, ${name}: the page is ${overflow} pixels too wide`);
    if (await page.locator("#view").count()) await react(page, file);
    if (shots) await page.screenshot({ path: path.join(shots, `${stem}-${name}.png`), fullPage: true });
    assert.deepEqual(wrong, [], `${file}, ${name}`);
    await page.close();
    console.log(`${file}, ${name}: ${count} pictures, no problems`);
  }
}
await browser.close();

/// Checks that another row changes the text, that going back restores it, and that "only mistakes" lists fewer rows.
async function react(page, file) {
  const says = page.locator("#view .says");
  const first = await says.textContent();
  assert.match(first, /Row \d+\. True: .+ of the mass is where it should be/, `${file}: no row is shown`);
  assert.ok((await page.locator("#view path").count()) > 0, `${file}: no mass is shown`);
  await page.locator("#view .on").click();
  assert.notEqual(await says.textContent(), first, `${file}: the next row is the same`);
  await page.locator("#view .back").click();
  assert.equal(await says.textContent(), first, `${file}: going back shows another row`);
  const rows = await page.locator("#view option").count();
  await page.locator("#view input").check();
  assert.ok((await page.locator("#view option").count()) < rows, `${file}: "only mistakes" lists every row`);
  await page.locator("#view select").selectOption({ index: 0 });
}
