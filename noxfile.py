"""The sessions are the commands in CONTRIBUTING.md, which `nox -l` lists."""

import re
import shlex
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"

GUIDE = (Path(__file__).parent / "CONTRIBUTING.md").read_text("utf-8")
ROW = r"^\| `(.+)` \| (.+) \| `(.+)` \|$"


def add_session(name, task, command):
    """Let nox run the command of a row."""

    def run(session):
        *first, last = map(shlex.split, command.split(" && "))
        for words in first:
            session.run(*words)
        session.run(*last, *session.posargs)

    run.__doc__ = task
    nox.session(run, name=name, default=name in ("lint", "tests"))


for row in re.findall(ROW, GUIDE, re.MULTILINE):
    add_session(*row)
