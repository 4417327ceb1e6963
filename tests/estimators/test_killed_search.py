"""A search with a cache on disk that was killed gives the results of a whole one."""

import importlib.util
import random
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("search_with_memory.py")
spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


@pytest.fixture
def run(start):
    """Return a function that returns the process that searches."""
    return lambda folder, moment: start(
        SCRIPT, folder / "cache", folder / "result.npz", moment
    )


@cache
def find(cache_folder):
    """Return what a search finds with what is left in the cache."""
    return script.describe(script.search(cache_folder))


def check_equals_whole(folder):
    found, expected = find(str(folder / "cache")), find(None)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


# Files of the cache are the code of the function, then a result and its metadata.
@pytest.mark.slow
@pytest.mark.parametrize(
    "moments", [[2, 3], pytest.param([1, 4], marks=pytest.mark.slow)]
)
def test_kills_while_results_are_written(moments, run, end, tmp_path):
    for moment in moments:
        assert end(run(tmp_path, moment)) == 9
    check_equals_whole(tmp_path)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(run, end, tmp_path):
    start = time.perf_counter()
    assert end(run(tmp_path, "never")) == 0
    seconds = time.perf_counter() - start
    draw = random.Random(0)
    for i in range(20):
        folder = tmp_path / str(i % 4)
        folder.mkdir(exist_ok=True)
        process = run(folder, "never")
        time.sleep(draw.uniform(0, 1) * seconds)
        process.kill()
        end(process)
    for i in range(4):
        check_equals_whole(tmp_path / str(i))
