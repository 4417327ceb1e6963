"""Check the links and the images of the built documentation, and count its words.

    python tools/check_site.py build/html

Only links to files in the folder are checked, so no network is needed. Sphinx's builder
linkcheck asks the network, and reads neither images nor the links of the theme. Words
are those of the pages that are written by hand, with their code, as a reader sees them.
"""

import argparse
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Collect the links, the images, the anchors and the words of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {"", "top"}
        self.n_words, self.in_article = 0, False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.in_article |= tag == "article"
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.links.append(value)
            elif name in {"id", "name"} and value:
                self.anchors.add(value)

    def handle_endtag(self, tag):
        self.in_article &= tag != "article"

    def handle_data(self, data):
        self.n_words += self.in_article * len(data.split())


def html_pages(folder):
    """Return the pages, without the templates that the theme leaves behind."""
    return [path for path in folder.rglob("*.html") if "_static" not in path.parts]


def read(folder):
    """Return what is on each page."""
    return {path.resolve(): Page(path) for path in html_pages(folder)}


def faults(pages, folder):
    """Yield one line for each link that leads nowhere."""
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            relative = unquote(parts.path)
            target = (path.parent / relative).resolve() if relative else path
            where = f"{path.relative_to(folder.resolve())}: {link}"
            if not target.exists():
                yield f"{where} is not there"
            elif (
                target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                yield f"{where} has no such place"


def main():
    """Print the faults and return whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    pages = read(folder)
    words = {
        str(path.relative_to(folder.resolve())): page.n_words
        for path, page in pages.items()
        if "generated" not in path.parts and path.stem not in {"genindex", "search"}
    }
    for name, n_words in sorted(words.items(), key=lambda row: row[1]):
        print(f"{n_words:7,} {name}")
    print(f"{sum(words.values()):7,} words")
    found = sorted(set(faults(pages, folder)))
    print("\n".join(found) or f"{folder}: all links of {len(pages)} pages work")
    return bool(found) or not pages


if __name__ == "__main__":
    sys.exit(main())
