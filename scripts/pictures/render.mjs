// Renders job summaries as GitHub shows them, for docs/images: node render.mjs FOLDER SUMMARY.md...
// Needs, from npm: @sparticuz/chromium puppeteer-core markdown-it mermaid github-markdown-css
import fs from "node:fs";
import path from "node:path";
import chromium from "@sparticuz/chromium";
import MarkdownIt from "markdown-it";
import puppeteer from "puppeteer-core";

const [, , folder, ...files] = process.argv;
const css = fs.readFileSync("node_modules/github-markdown-css/github-markdown-light.css", "utf8");
const mermaid = fs.readFileSync("node_modules/mermaid/dist/mermaid.min.js", "utf8");

// This browser has no font with coloured pictures in it.
const mark = (text) =>
  text
    .replaceAll("✅", '<span style="color:#1a7f37">✔</span>')
    .replaceAll("❌", '<span style="color:#cf222e">✘</span>');

function page(text) {
  const reader = new MarkdownIt({ html: true });
  const fence = reader.renderer.rules.fence;
  reader.renderer.rules.fence = (tokens, index, ...rest) =>
    tokens[index].info.trim() === "mermaid"
      ? `<pre class="mermaid">${reader.utils.escapeHtml(tokens[index].content)}</pre>`
      : fence(tokens, index, ...rest);
  return `<style>${css} body { margin: 24px; width: 860px }</style>
    <article class="markdown-body">${mark(reader.render(text))}</article>`;
}

const browser = await puppeteer.launch({
  args: chromium.args,
  executablePath: await chromium.executablePath(),
  headless: "shell",
});
try {
  for (const file of files) {
    const tab = await browser.newPage();
    await tab.setViewport({ width: 910, height: 400, deviceScaleFactor: 1 });
    await tab.setContent(page(fs.readFileSync(file, "utf8")));
    await tab.addScriptTag({ content: mermaid });
    await tab.evaluate(async () => {
      globalThis.mermaid.initialize({ startOnLoad: false });
      await globalThis.mermaid.run();
    });
    const picture = path.join(folder, `${path.basename(file, ".md")}.png`);
    await tab.screenshot({ path: picture, fullPage: true });
  }
} finally {
  await browser.close();
}
