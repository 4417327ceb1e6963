"""Atomic replacement of files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` atomically at the end.

    If the process is killed, `path` is unchanged, and a `.part` file remains, which the
    next call overwrites.
    """
    path = Path(path).resolve()  # follow links
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
