"""Test the lower bounds of pyproject.toml: install these versions and run the tests.

    python tools/check_lower_bounds.py [--wheels FOLDER] [ARGUMENTS OF PYTEST]

Every dependency of the package and of the extra "plot" is installed in the oldest
version that pyproject.toml allows, the rest of the extra "test" as pip finds it, on the
Python that runs this script; use the oldest supported one. The whole suite runs unless
arguments narrow it. On Linux the oldest PyTorch comes with CUDA, 2.5 GB in all, unless
`--wheels` names a folder that holds its CPU build.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lower_bounds():
    """Return the requirements of pyproject.toml with lower bounds as exact versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["plot"]
    unbounded = [requirement for requirement in requirements if ">=" not in requirement]
    if unbounded:
        raise ValueError(f"Every dependency needs a lower bound, got {unbounded}.")
    return [requirement.replace(">=", "==") for requirement in requirements]


def main():
    """Return pytest's exit status in the environment of lower bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, help="folder with further wheels")
    args, pytest_args = parser.parse_known_args()
    find_links = ["--find-links", str(args.wheels.resolve())] if args.wheels else []

    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        python = str(Path(folder, scripts, "python"))
        pins = lower_bounds()
        print("Installing", *pins, flush=True)
        install = [python, "-m", "pip", "install", "--quiet", *find_links]
        subprocess.run([*install, *pins, ".[test]"], cwd=ROOT, check=True)
        # -P: the installed package is tested, not the folder next to the tests.
        # Warnings are no errors: old versions use what newer ones of their own
        # dependencies deprecate.
        tests = [python, "-P", "-m", "pytest", "-o", "filterwarnings=", *pytest_args]
        return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
