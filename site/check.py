# SPDX-License-Identifier: Apache-2.0
"""Checks a built site: check.py OUT [--browser CHROMIUM].

Each link within it leads to a file, and its part behind # to an element there. With a browser: pages are as wide as a
telephone, not wider; text is large enough, and has enough contrast, in light and in dark.
"""
import html.parser
import pathlib
import sys
import urllib.parse

# Pages of each kind, and the widest ones.
LOOKED_AT = ["index.html", "architecture.html", "performance.html", "tutorials/arrays.html", "sharding-guide.html",
             "reference/ops.html", "reference/array.html", "reference/symbols.html", "reference/errors.html", "cli.html",
             "compatibility.html", "glossary.html", "explain.html", "search.html"]


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value is not None and tag != "base":
                self.links.append(value)


def broken(out):
    pages = {p: Page(p.read_text(errors="replace")) for p in out.rglob("*.html")}
    count, faults = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            there = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if there.is_dir():
                there = there / "index.html"
            if not there.exists():
                faults.append("%s: there is no %s" % (path.relative_to(out), link))
            elif parts.fragment and there in pages and urllib.parse.unquote(parts.fragment) not in pages[there].ids:
                faults.append("%s: nothing there is %s" % (path.relative_to(out), link))
    return len(pages), count, faults


# The least contrast of text with what is behind it, over the elements that have text of their own.
CONTRAST = """() => {
  const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat([1]);
  const light = c => { const f = c.slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                       return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  let worst = [99, ""];
  for (const e of document.querySelectorAll("article p, article li, article td, article h1, article h2, article a, article pre span")) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()) || !e.offsetParent) continue;
    let chain = [], b = e;
    while (b) { chain.push(parse(getComputedStyle(b).backgroundColor)); b = b.parentElement; }
    let back = [255, 255, 255, 1];
    for (const c of chain.reverse()) back = over(c, back);
    const text = over(parse(getComputedStyle(e).color), back);
    const [x, y] = [light(text), light(back)].sort((p, q) => q - p);
    const ratio = (x + 0.05) / (y + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.tagName + "." + e.className + ": " + e.textContent.trim().slice(0, 40)];
  }
  return worst;
}"""


def looked_at(out, browser_path, shots):
    from playwright.sync_api import sync_playwright
    faults = []
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=browser_path or None, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, device_scale_factor=2)
            page = context.new_page()
            errors = []
            page.on("pageerror", lambda e: errors.append(str(e)))
            for name in LOOKED_AT:
                if not (out / name).exists():
                    faults.append("there is no page " + name)
                    continue
                page.goto((out / name).as_uri())
                width = page.evaluate("document.documentElement.scrollWidth")
                if width > 391:
                    faults.append("%s is %d pixels wide on a telephone of 390" % (name, width))
                size = page.evaluate("parseFloat(getComputedStyle(document.querySelector('article p, article') ).fontSize)")
                if size < 14:
                    faults.append("%s: text of %g pixels" % (name, size))
                back = page.evaluate("getComputedStyle(document.body).backgroundColor")
                dark = sum(int(v) for v in back[back.index("(") + 1:-1].split(",")[:3]) < 384
                if dark != (scheme == "dark"):
                    faults.append("%s: %s, but the background is %s" % (name, scheme, back))
                contrast, where = page.evaluate(CONTRAST)
                if contrast < 4.5:
                    faults.append("%s, %s: contrast %.1f of %s" % (name, scheme, contrast, where))
                if shots:
                    page.screenshot(path=str(shots / (name.replace("/", "-")[:-5] + "." + scheme + ".png")))
            faults += ["a script failed: " + e for e in errors]
            context.close()
        for width in (1024, 1440, 1920):
            page = browser.new_page(viewport={"width": width, "height": 1000})
            for name in LOOKED_AT:
                page.goto((out / name).as_uri())
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    faults.append("%s is %d pixels wide in a window of %d" % (name, wide, width))
                if shots and name == "index.html":
                    page.screenshot(path=str(shots / ("index.%d.png" % width)))
        browser.close()
    return faults


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    pages, count, faults = broken(out)
    print("%d pages, %d links, %d broken" % (pages, count, len(faults)))
    if "--browser" in sys.argv:
        at = sys.argv.index("--browser")
        shots = pathlib.Path(sys.argv[at + 2]) if len(sys.argv) > at + 2 else None
        seen = looked_at(out, sys.argv[at + 1], shots)
        print("%d pages looked at in light and dark, %d faults" % (len(LOOKED_AT), len(seen)))
        faults += seen
    for fault in faults[:50]:
        print(fault)
    return 1 if faults or pages < 100 or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
