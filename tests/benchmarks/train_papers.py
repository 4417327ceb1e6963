"""Train small networks for the papers' tables, in a process that a test kills.

Its arguments are FOLDER MOMENT. MOMENT is "never", or "writing" to die while the rows
of the second run are written.
"""

import os
import sys
from functools import cache
from pathlib import Path

import numpy as np

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
SMALL = {
    "network": "SmallNet",
    "splits": {"n_train": 80, "n_valid": 40, "n_calibration": 40},
    "optimizer": "SGD",
    "lr": 0.01,
    "epochs": 2,
    "schedule": "one-cycle",
    "chosen_after": 1,
}


@cache
def read_noise():
    """Return 160 training and 40 test images; the class is given by the brightness."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    light = 100 + rng.normal(20 * y, 20)
    X = rng.normal(light[:, None, None, None], 20, size=(200, 3, 32, 32))
    X = X.clip(0, 255).astype(np.uint8)
    return X[:160], y[:160], X[160:], y[160:]


def die_while_writing():
    """End the process when half of the second run's rows are in a file."""
    write = Path.write_text

    def write_half(path, text, **kwargs):
        if "adafocal" not in text:
            return write(path, text, **kwargs)
        write(path, text[:-300], **kwargs)
        os._exit(9)

    Path.write_text = write_half


def main(folder, moment):
    if moment == "writing":
        die_while_writing()
    sys.path.insert(0, str(PAPERS))
    import run

    run.data.READERS["cifar10"] = read_noise
    read_toml = run.read_toml
    run.read_toml = lambda name: (
        read_toml(name)
        | ({"experiments": {"cifar10": SMALL}} if name == "small" else {})
    )
    losses = ["cross-entropy", "adafocal", "brier"]
    options = run.read_options(["--seeds", "1", "--losses", *losses])
    run.do_missing(options, Path(folder) / "small")


if "ARGUMENTS" in globals():
    main(*ARGUMENTS)  # noqa: F821 - given by the test
