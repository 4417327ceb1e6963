"""Check that the sdist and the wheel contain all files of the checkout.

    python -m build --outdir dist . && python tools/check_dist.py dist
    .venv/bin/python tools/check_dist.py dist --installed

Run it in the root of a clean checkout. The second form also compares the hashes of the
installed package with those of the wheel.
"""

import argparse
import base64
import hashlib
import sys
import tarfile
from importlib.metadata import files
from pathlib import Path
from zipfile import ZipFile

PACKAGE = "sklearn_calib"
# Made by tools, or of use in a clone only.
NOT_PACKED = ("__pycache__", "build", "dist", "generated", f"{PACKAGE}.egg-info")


def checkout_files():
    """Return the paths of all files except dotfiles."""
    paths = (path for path in Path().rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in paths
        if not any(part in NOT_PACKED or part.startswith(".") for part in path.parts)
    }


def sdist_files(archive):
    """Return the paths in the sdist, without its top folder."""
    with tarfile.open(archive) as tar:
        return {name.partition("/")[2] for name in tar.getnames()}


def wheel_hashes(archive):
    """Return the sha256 of each file of the package in the wheel."""
    with ZipFile(archive) as wheel:
        return {
            name: encoded_sha256(wheel.read(name))
            for name in wheel.namelist()
            if name.startswith(f"{PACKAGE}/")
        }


def installed_hashes():
    """Return the sha256 of each file of the installed package."""
    return {
        file.as_posix(): encoded_sha256(file.read_binary())
        for file in files(PACKAGE)
        if file.parts[0] == PACKAGE and file.suffix != ".pyc"
    }


def encoded_sha256(content):
    """Return the sha256 in the form of the RECORD file of a wheel."""
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def missing_files(dist):
    """Yield one line for each file that is in the checkout and not in an archive."""
    checkout = checkout_files()
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    for path in sorted(checkout - sdist_files(sdist)):
        yield f"{sdist.name} lacks {path}: add it to MANIFEST.in"
    package = {path for path in checkout if path.startswith(f"{PACKAGE}/")}
    for path in sorted(package - wheel_hashes(wheel).keys()):
        yield f"{wheel.name} lacks {path}: see [tool.setuptools] in pyproject.toml"


def different_files(dist):
    """Yield one line for each installed file that differs from the wheel."""
    (wheel,) = dist.glob("*.whl")
    for path, _ in sorted(wheel_hashes(wheel).items() ^ installed_hashes().items()):
        yield f"{path} is not the same in {wheel.name} and where it is installed"


def main():
    """Print the faults and return their number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path, help="folder of the sdist and the wheel")
    parser.add_argument("--installed", action="store_true")
    args = parser.parse_args()
    check = different_files if args.installed else missing_files
    faults = list(check(args.dist))
    print("\n".join(faults) or f"{args.dist}: {check.__name__} found nothing wrong")
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
