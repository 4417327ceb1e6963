"""Write the recipe for conda-forge: recipe/meta.yaml with the hash of a built sdist.

    python -m build --outdir dist . && python tools/conda_recipe.py dist recipe_output
    python tools/conda_recipe.py dist recipe_output --local

With `--local`, the recipe reads the sdist from its folder instead of PyPI, so that it
can be built before a release: `conda build -c conda-forge recipe_output`.
"""

import argparse
import hashlib
import re
from pathlib import Path

RECIPE = Path(__file__).resolve().parent.parent / "recipe" / "meta.yaml"


def fill(sdist, *, local=False):
    """Return the recipe for an sdist."""
    text = RECIPE.read_text(encoding="utf-8")
    version = re.search(r'set version = "(.+)"', text)[1]
    if f"-{version}.tar.gz" not in sdist.name:
        raise SystemExit(f"{sdist.name} is not the version of the recipe, {version}.")
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    text = re.sub(r"sha256: \w+", f"sha256: {digest}", text)
    url = f"url: {sdist.resolve().as_uri()}"
    return re.sub(r"url: .+", url, text) if local else text


def main():
    """Write the recipe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path, help="folder of the sdist")
    parser.add_argument("output", type=Path, help="folder for the recipe")
    parser.add_argument("--local", action="store_true")
    args = parser.parse_args()
    (sdist,) = args.dist.glob("*.tar.gz")
    args.output.mkdir(exist_ok=True)
    recipe = fill(sdist, local=args.local)
    (args.output / "meta.yaml").write_text(recipe, encoding="utf-8")


if __name__ == "__main__":
    main()
