"""The runner of the papers' experiments, killed: what is on disk is whole."""

import random
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SCRIPT = Path(__file__).with_name("train_papers.py")


@pytest.fixture
def run(start):
    """Return a function that returns the process that trains."""
    return lambda folder, moment: start(SCRIPT, folder, moment)


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
def test_twenty_kills_at_random_moments(run, end, tmp_path):
    start = time.perf_counter()
    assert end(run(tmp_path / "whole", "never")) == 0
    seconds = time.perf_counter() - start
    draw = random.Random(0)
    for i in range(20):
        process = run(tmp_path / "killed", "writing" if i % 10 == 9 else "never")
        time.sleep(draw.uniform(0, 1) * seconds)
        process.kill()
        end(process)
        file = tmp_path / "killed" / "small.csv"
        if file.exists():
            n_rows = pd.read_csv(file).groupby("loss").size()
            assert set(n_rows) == {8}
            if len(n_rows) == 3:
                file.unlink()
    assert end(run(tmp_path / "killed", "never")) == 0
    assert_same(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_a_kill_while_rows_are_written(run, end, tmp_path):
    assert end(run(tmp_path / "whole", "never")) == 0
    assert end(run(tmp_path / "killed", "writing")) == 9
    assert set(read(tmp_path / "killed")[0]["loss"]) == {"cross-entropy"}
    assert end(run(tmp_path / "killed", "never")) == 0
    assert_same(tmp_path / "killed", tmp_path / "whole")
