// Opens pages of `rot report` in Chromium, wide and narrow, light, dark and printed. Checks that the console shows no error, the
// page sends no network request, the pictures are present, as wide as the text and readable, nothing is wider than the window, text
// stands out, long tables unfold, commands can be copied, and the view of test rows opens on a mistake and responds.
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
  { name: "wide", viewport: { width: 1300, height: 900 }, colorScheme: "light" },
  { name: "dark", viewport: { width: 1300, height: 900 }, colorScheme: "dark" },
  { name: "phone", viewport: { width: 390, height: 844 }, colorScheme: "light" },
  { name: "phone-dark", viewport: { width: 390, height: 844 }, colorScheme: "dark" },
  { name: "print", viewport: { width: 700, height: 990 }, colorScheme: "light", print: true },
];
/** The least height of letters in a picture, in pixels on the screen. */
const READABLE = 8;
/** The least contrast of text, by the Web Content Accessibility Guidelines. */
const CONTRAST = 4.5;

for (const file of words) {
  const stem = path.basename(path.dirname(path.resolve(file)));
  for (const { name, print, ...settings } of SETTINGS) {
    const page = await browser.newPage(settings);
    if (print) await page.emulateMedia({ media: "print" });
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
    for (const { width, text, letters } of await page.evaluate(measurePictures)) {
      assert.ok(width >= text - 1, `${file}, ${name}: a picture is ${width} pixels wide in a text of ${text}`);
      assert.ok(print || letters >= READABLE, `${file}, ${name}: letters of ${letters} pixels`);
    }
    for (const { what, contrast } of await page.evaluate(measureContrast)) {
      assert.ok(contrast >= CONTRAST, `${file}, ${name}: the contrast of "${what}" is ${contrast.toFixed(2)}`);
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(overflow <= 0, `${file}, ${name}: the page is ${overflow} pixels too wide`);
    await unfold(page, file, print);
    if (!print) await copy(page, file);
    if (shots) await page.screenshot({ path: path.join(shots, `${stem}-${name}.png`), fullPage: true });
    if (!print && (await page.locator("#view").count())) await react(page, file);
    assert.deepEqual(wrong, [], `${file}, ${name}`);
    await page.close();
    console.log(`${file}, ${name}: ${count} pictures, no problems`);
  }
}
await browser.close();

/** The width of each picture, of the text around it, and the height of its smallest letters. */
function measurePictures() {
  return [...document.querySelectorAll("figure svg")].map((svg) => {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const sizes = [...svg.querySelectorAll("text")].map((text) => parseFloat(getComputedStyle(text).fontSize) * scale);
    return {
      width: svg.getBoundingClientRect().width,
      text: svg.closest("figure").getBoundingClientRect().width,
      letters: Math.min(...sizes),
    };
  });
}

/** The contrast of every element with text of its own to what is behind it. */
function measureContrast() {
  const parts = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = (color) => {
    const linear = parts(color).slice(0, 3).map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  const all = [...document.querySelectorAll("main :not(svg, svg *, script, option), footer")].filter(own);
  return all.map((element) => {
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
    return { what: element.textContent.slice(0, 30), contrast: Math.max(one, other) / Math.min(one, other) };
  });
}

/// Checks that the end of a long table is hidden until the reader asks, and is on paper.
async function unfold(page, file, print) {
  const hidden = page.locator("tr.more");
  if ((await hidden.count()) === 0) return;
  assert.equal(await hidden.first().isVisible(), Boolean(print), `${file}: the end of a long table`);
  if (print) return;
  await page.locator(".unfold label").first().click();
  assert.ok(await hidden.first().isVisible(), `${file}: a table does not unfold`);
  await page.locator(".unfold label").first().click();
}

/// Checks that the button copies the command, or selects it where there is no clipboard.
async function copy(page, file) {
  await page.locator("button.copy").click();
  await page.locator("button.copy", { hasText: /copied|selected/ }).waitFor({ timeout: 2000 });
  assert.match(await page.locator(".command code").textContent(), /^rot /, `${file}: the command`);
}

/// Checks that the first row is a mistake, another row changes the text, that going back restores it, and that "only mistakes" lists fewer rows.
async function react(page, file) {
  const says = page.locator("#view .says");
  const first = await says.textContent();
  assert.match(first, /Row \d+\. True: .+ of the mass is where it should be/, `${file}: no row is shown`);
  const best = await page.locator("#view select option:checked").textContent();
  const [, truth, predicted] = best.match(/: (.+) – predicted (.+)$/);
  assert.ok(!truth.split(", ").includes(predicted), `${file}: the first row shown is no mistake: ${best}`);
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
