"""Files that are whole or absent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield the path of a file that takes the place of `path` once it is written.

    A process that is killed leaves the file of before, or none, and a `.part` beside
    it that the next one overwrites.
    """
    path = Path(path).resolve()  # of a link, the file that it points to
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
