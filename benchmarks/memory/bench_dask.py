"""Extra memory and time of the errors of Dask arrays: sums of blocks, or gathering.

    OMP_NUM_THREADS=1 python benchmarks/memory/bench_dask.py --samples 2000000

The probabilities are the lazy `predict_proba` of a temperature for logits in memory.
Each call runs in a fresh process with two threads of Dask, and its extra anonymous
memory is measured as in bench_memory.py. Prints MiB and CPU seconds.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from bench_memory import MIB, make_data, measure

from sklearn_calib.calibrators import TemperatureScaling
from sklearn_calib.metrics import CalibrationAccumulator, expected_calibration_error

N_FITTED = 10_000


def gathered(y_true, y_proba, labels):
    """Return the error of the arrays in memory."""
    y_true, y_proba = y_true.compute(), y_proba.compute()
    return expected_calibration_error(y_true, y_proba, labels=labels)


def reduced(y_true, y_proba, labels):
    """Return the error from the sums of the blocks."""
    return expected_calibration_error(y_true, y_proba, labels=labels)


def quantile(y_true, y_proba, labels):
    """Return the error for bins of equal mass from the cells of the blocks."""
    accumulator = CalibrationAccumulator(labels=labels, strategy="quantile")
    return accumulator.update(y_true, y_proba).compute()


CALLS = {
    "compute(), then the error": gathered,
    "error of the Dask arrays": reduced,
    "accumulator, quantile bins": quantile,
}


def make_call(name, rows, _, scores, labels):
    """Return the call with Dask arrays of blocks of rows."""
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=2)
    classes = np.arange(scores.shape[1])
    calibrator = TemperatureScaling(from_logits=True)
    calibrator.fit(scores[:N_FITTED], labels[:N_FITTED], labels=classes)
    # Without a name of our own, Dask would first hash the data.
    logits = da.from_array(scores, chunks=(rows, -1), name="logits")
    y_true = da.from_array(labels, chunks=rows, name="labels")
    CALLS[name](y_true[:2], calibrator.predict_proba(logits[:2]), classes)
    return partial(CALLS[name], y_true, calibrator.predict_proba(logits), classes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a block")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each call")
    args = parser.parse_args()
    if not Path("/proc/self/status").exists():
        sys.exit("skipped: resident anonymous memory is read from /proc of Linux")
    size = args.samples * args.classes * 8 / MIB
    print(f"# {args.samples} x {args.classes}, float64: {size:.0f} MiB")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder, args.samples, args.classes, "float64")
        for title in CALLS:
            case = make_call, title, args.rows, True
            extra, seconds = measure(folder, case, args.limit)
            print(f"{title:30}{extra / MIB:8.0f} MiB{seconds:8.2f} s", flush=True)


if __name__ == "__main__":
    main()
