"""Run a recipe in a process of its own, with its output in files of its folder.

Its argument is the script. test_recipes.py starts it.
"""

import os
import runpy
import sys
import warnings
from pathlib import Path

OUTPUTS = "stdout.txt", "stderr.txt"
# PySpark's warning of versions of pandas that it may not support, and Dask's of a busy
# machine.
IGNORED = [("PySpark does not yet", FutureWarning), ("Creating scratch", UserWarning)]


def main(script):
    folder = Path(script).parent
    os.chdir(folder)
    for number, name in enumerate(OUTPUTS, start=1):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    for message, category in IGNORED:
        warnings.filterwarnings("ignore", message, category)
    sys.argv = [script]
    sys.path.insert(0, str(folder))
    runpy.run_path(script, run_name="__main__")


if "ARGUMENTS" in globals():
    main(*ARGUMENTS)  # noqa: F821 - given by the test
