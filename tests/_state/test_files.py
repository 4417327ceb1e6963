"""Files are replaced as a whole, whatever other processes and links do."""

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sklearn_calib._state import whole_file as files
from sklearn_calib._state.whole_file import whole_file

# Loads the module alone: the package takes longer to import than the test to run.
WRITER = """
import runpy, sys, time
module, path, letter = sys.argv[1:]
whole_file = runpy.run_path(module)["whole_file"]
print(flush=True)
sys.stdin.readline()
end = time.monotonic() + 0.1
while time.monotonic() < end:
    with whole_file(path) as part, part.open("w") as file:
        for _ in range(20):
            file.write(letter * 1000)
            file.flush()
"""

on_posix = pytest.mark.skipif(
    os.name == "nt",
    reason="Windows has no such modes, asks for rights to create links, does not "
    "replace open files, and has short paths",
)


@on_posix
def test_two_writers_and_a_reader(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("a" * 20_000)
    command = [sys.executable, "-I", "-c", WRITER, files.__file__, path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writers = [subprocess.Popen([*command, each], **pipes) for each in "ab"]
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    found = []
    while any(writer.poll() is None for writer in writers):
        found.append(path.read_text("utf-8"))
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert set(found) == {"a" * 20_000, "b" * 20_000}
    assert list(tmp_path.iterdir()) == [path]


@on_posix
def test_a_link_is_not_followed(monkeypatch, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("unchanged")
    monkeypatch.setattr(files, "uuid4", lambda: SimpleNamespace(hex="guessed"))
    for name in ("m.json.part", "m.json.guessed.part"):
        (tmp_path / name).symlink_to(victim)
    with pytest.raises(FileExistsError), whole_file(tmp_path / "m.json"):
        pytest.fail("the file of the link was opened")
    assert victim.read_text("utf-8") == "unchanged"
    assert (tmp_path / "m.json.guessed.part").is_symlink()
    monkeypatch.undo()
    with whole_file(tmp_path / "m.json") as part:
        part.write_text("new")
    assert victim.read_text("utf-8") == "unchanged"


def write_anew(part):
    """Write as safetensors does: another file, which only the owner may read."""
    part.with_name("other").write_text("new")
    part.with_name("other").chmod(0o600)
    part.with_name("other").replace(part)


@on_posix
@pytest.mark.parametrize("write", [lambda part: part.write_text("new"), write_anew])
@pytest.mark.parametrize("mode", [None, 0o600, 0o640, 0o444])
def test_the_mode_is_kept(write, mode, tmp_path):
    """Without a file, it is that of other new files."""
    path = tmp_path / "model"
    path.write_text("old")
    if mode is not None:
        path.chmod(mode)
    expected = path.stat().st_mode
    if mode is None:
        path.unlink()
    with whole_file(path) as part:
        assert mode is None or part.stat().st_mode & 0o777 == 0o600
        write(part)
    assert path.stat().st_mode == expected
    assert path.read_text("utf-8") == "new"
    path.unlink()


@on_posix
def test_a_link_to_the_file_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with whole_file(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "model").read_text("utf-8") == "new"


@on_posix
@pytest.mark.parametrize("name", ["m" * 255, "é" * 127, "模" * 85, "𝒎" * 63])
def test_long_names(name, tmp_path):
    with whole_file(tmp_path / name) as part:
        part.write_text("new")
    assert (tmp_path / name).read_text("utf-8") == "new"


def test_an_error_leaves_nothing(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")

    def fail(part):
        part.write_text("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), whole_file(path) as part:
        fail(part)
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def fill(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill)
    path = tmp_path / "model"
    with pytest.raises(OSError, match="No space left") as caught, whole_file(path):
        pass
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path.resolve())
    assert not [*tmp_path.iterdir()]


@on_posix
def test_a_pipe_is_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"path must be a file.*pipe'\. Pass"):
        whole_file(path).__enter__()
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]
