"""Check that the version in the checkout can be released under a tag.

    python tools/check_release.py v0.1.0

The package, the citation and the conda recipe must state this version, the changelog
must have a dated heading for it, and no URL may have the placeholder host.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "example.org"
# Each file states the version once, in this form.
VERSIONS = {
    "sklearn_calib/_version.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "recipe/meta.yaml": r'^{% set version = "(.+)" %}$',
    "CHANGELOG.md": r"^## \[(\d.+)\] - \d{4}-\d\d-\d\d$",
}


def faults(tag, root=ROOT):
    """Yield one line for each reason not to release."""
    for name, pattern in VERSIONS.items():
        text = (root / name).read_text(encoding="utf-8")
        found = re.search(pattern, text, re.MULTILINE)
        if found is None or f"v{found[1]}" != tag:
            stated = "no version" if found is None else f"the version {found[1]}"
            yield f"{name} has {stated}, the tag is {tag}"
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    for name, url in project["urls"].items():
        if PLACEHOLDER in url:
            yield f"pyproject.toml: the URL {name} is a placeholder, {url}"


def main():
    """Print the faults and return whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag")
    tag = parser.parse_args().tag
    found = list(faults(tag))
    print("\n".join(found) or f"{tag} can be released")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
