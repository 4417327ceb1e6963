"""Open each page of the documentation on a desktop and a phone, light and dark.

    python tools/view_site.py build/html screenshots_output [--chromium FILE]

Printed are pages that are wider than the screen, code that is cut off on a desktop,
pictures and formulas that do not show, errors of scripts and missing files. A picture
of each page is saved. It needs `pip install playwright` and a Chromium.
"""

import argparse
import shutil
import sys
from itertools import product
from pathlib import Path

from check_site import html_pages
from playwright.sync_api import sync_playwright

WIDTHS = {"desktop": 1280, "phone": 390}
SCHEMES = ["light", "dark"]
# What is wide may lie in a box that scrolls.
FAULTS = """() => {
    const width = window.innerWidth;
    const scrolls = e => e.tagName !== "ARTICLE" &&
        (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const name = e => e.outerHTML.slice(0, 90).replaceAll("\\n", " ");
    const out = [...document.querySelectorAll("article *")]
        .filter(e => e.getBoundingClientRect().right > width + 1 && !scrolls(e));
    const blank = [...document.images].filter(i => !i.naturalWidth);
    const math = [...document.querySelectorAll("mjx-merror, .MathJax_Error")];
    const raw = [...document.querySelectorAll("span.math, div.math")]
        .filter(e => !e.querySelector("mjx-container"));
    const cut = [...document.querySelectorAll("article pre")]
        .filter(e => width > 1000 && e.scrollWidth > e.clientWidth + 1);
    return [
        ...(document.documentElement.scrollWidth > width + 1 ? ["is too wide"] : []),
        ...out.slice(0, 1).map(e => "sticks out: " + name(e)),
        ...cut.map(e => "is cut off: " + name(e)),
        ...blank.map(e => "is blank: " + name(e)),
        ...math.concat(raw).map(e => "is no formula: " + name(e)),
    ];
}"""


def look(sheet, path):
    """Return a line for each fault of a page."""
    found = []
    sheet.on("pageerror", lambda error: found.append(str(error)))
    sheet.on("requestfailed", lambda request: found.append(f"lacks {request.url}"))
    sheet.goto(path.resolve().as_uri(), wait_until="networkidle")
    return found + sheet.evaluate(FAULTS)


def look_at_all(browser, pages, folder, pictures):
    """Yield a line for each fault of the pages, and save their pictures."""
    for path, (device, width), scheme in product(pages, WIDTHS.items(), SCHEMES):
        size = {"width": width, "height": 900}
        sheet = browser.new_page(viewport=size, color_scheme=scheme)
        name = path.relative_to(folder)
        kind = f"{device}, {scheme}"
        yield from (f"{name} ({kind}): {fault}" for fault in look(sheet, path))
        picture = "-".join([*name.with_suffix("").parts, device, scheme]) + ".png"
        sheet.screenshot(path=pictures / picture, full_page=True)
        sheet.close()


def main():
    """Print the faults and return whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("pictures", type=Path, help="folder for the pictures")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    args = parser.parse_args()
    args.pictures.mkdir(exist_ok=True)
    pages = sorted(html_pages(args.folder))
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=args.chromium, args=["--no-sandbox"]
        )
        found = list(look_at_all(browser, pages, args.folder, args.pictures))
    print("\n".join(found) or f"{len(pages)} pages can be read at both widths")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
