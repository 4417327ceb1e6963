"""Check the links and the images of the built documentation.

    python tools/check_site.py build/html

Only links to files in the folder are checked, so no network is needed. Sphinx's builder
linkcheck asks the network, and reads neither images nor the links of the theme.
"""

import argparse
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Collect the links, the images and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the parser hands it over
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.links.append(value)
            elif name in {"id", "name"} and value:
                self.anchors.add(value)


def html_pages(folder):
    """Return the pages, without the templates that the theme leaves behind."""
    return [path for path in folder.rglob("*.html") if "_static" not in path.parts]


def faults(folder):
    """Yield one line for each link that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in html_pages(folder)}
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
    n_pages = len(html_pages(folder))
    found = sorted(set(faults(folder)))
    print("\n".join(found) or f"{folder}: all links of {n_pages} pages lead somewhere")
    return bool(found) or not n_pages


if __name__ == "__main__":
    sys.exit(main())
