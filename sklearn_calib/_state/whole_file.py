"""Atomic replacement of files."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from uuid import uuid4


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` atomically at the end.

    Each call has its own temporary file, so several processes may write one path at a
    time: the last to finish wins. The mode of an existing file is kept. If the process
    is killed, `path` is unchanged, and the temporary file remains, whose name ends in
    `.part`.
    """
    path = Path(path).resolve()  # follow links
    # Names may have 255 bytes, and a character up to 4.
    part = path.with_name(f"{path.name[:50]}.{uuid4().hex}.part")
    with _naming(path, part):
        mode = _create(part, path)
        try:
            yield part
            with part.open("rb+") as file:
                part.chmod(mode)  # safetensors writes a file of its own, with mode 0600
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def _naming(path: Path, part: Path) -> Iterator[None]:
    """Name the path instead of its temporary file in an OSError."""
    try:
        yield
    except OSError as error:
        is_own = error.filename is None or str(error.filename) == str(part)
        if error.errno is None or not is_own:
            raise
        reason = error.strerror
        if isinstance(error, FileNotFoundError) and not path.parent.exists():
            reason = "No such folder, create it first"
        raise OSError(error.errno, reason, str(path)) from error


def _create(part: Path, path: Path) -> int:
    """Create the temporary file of a path, and return the mode it has at the end.

    Raises FileExistsError if there is a file or a link of its name, and ValueError for
    a path of a device or a pipe, which would be replaced by a file.
    """
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        part.touch(exist_ok=False)  # with the mode of new files
        return stat.S_IMODE(part.stat().st_mode)
    if not (stat.S_ISREG(found) or stat.S_ISDIR(found)):  # folders raise an OSError
        raise ValueError(
            f"path must be a file, got the device, pipe or socket {str(path)!r}. Pass "
            "the path of a new or a regular file."
        )
    mode = stat.S_IMODE(found)
    part.touch(0o600, exist_ok=False)  # no one else reads it before it has the mode
    return mode
