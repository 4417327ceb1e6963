"""The runner of the papers' experiments, killed: what is on disk is whole."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SCRIPT = Path(__file__).with_name("train_papers.py")


def run(folder, moment):
    """Return the process that trains."""
    command = [sys.executable, str(SCRIPT), str(folder), moment]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)


def read(folder):
    """Return the results less how long they took, and the logits."""
    rows = pd.read_csv(folder / "small.csv")
    rows = rows.drop(columns=["seconds", "cpu_seconds"])
    files = sorted((folder / "logits_output" / "small").glob("*.npz"))
    logits = {path.name: dict(np.load(path)) for path in files}
    return rows.sort_values(["loss", "map"], ignore_index=True), logits


def assert_same(folder, other):
    (rows, logits), (expected_rows, expected) = read(folder), read(other)
    pd.testing.assert_frame_equal(rows, expected_rows)
    assert logits.keys() == expected.keys()
    for name, arrays in expected.items():
        np.testing.assert_equal(logits[name], arrays)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    start = time.perf_counter()
    assert run(tmp_path / "whole", "never").wait() == 0
    seconds = time.perf_counter() - start
    draw = random.Random(0)
    for i in range(20):
        process = run(tmp_path / "killed", "writing" if i % 10 == 9 else "never")
        time.sleep(draw.uniform(0.5, 1) * seconds)
        process.kill()
        process.wait()
        file = tmp_path / "killed" / "small.csv"
        if file.exists():
            n_rows = pd.read_csv(file).groupby("loss").size()
            assert set(n_rows) == {7}
            if len(n_rows) == 3:
                file.unlink()
    assert run(tmp_path / "killed", "never").wait() == 0
    assert_same(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_a_kill_while_rows_are_written(tmp_path):
    assert run(tmp_path / "whole", "never").wait() == 0
    assert run(tmp_path / "killed", "writing").wait() == 9
    assert set(read(tmp_path / "killed")[0]["loss"]) == {"cross-entropy"}
    assert run(tmp_path / "killed", "never").wait() == 0
    assert_same(tmp_path / "killed", tmp_path / "whole")
