"""Time and memory of `CalibrationAccumulator` on data that do not fit into memory.

    OMP_NUM_THREADS=1 python benchmarks/memory/bench_accumulator.py --millions 100

Generates chunks of a million rows of ten classes in float32 one after the other, as if
they were read from a disk. Prints the CPU seconds per chunk and those of one call of
`expected_calibration_error` on a chunk, both without generating the chunk. Also prints
the peak memory of the process, and the difference between this result and the merged
results of two joblib workers. The smallest run (`--millions 1`) shows the memory of
Python, its libraries and one chunk. A table compares metrics from the cells of the
first chunk with those of its samples, and the time of an interval of 1000 draws with
that of 10 draws in memory. Then come the CPU seconds of a temperature from a
`TemperatureAccumulator` and from a fit to the same chunks, and the sizes of pickled
accumulators of 100,000 rows with weights.
"""

import argparse
import pickle
import resource
from functools import partial, reduce
from operator import add
from statistics import median
from time import process_time

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from sklearn_calib.calibrators import TemperatureAccumulator, TemperatureScaling
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    augrc_loss,
    aurc_loss,
    bootstrap_interval,
    expected_calibration_error,
    failure_auroc_score,
    ks_calibration_error,
    risk_at_coverage,
    smooth_expected_calibration_error,
    spiegelhalter_test,
)

N_CLASSES = 10
N_ROWS = 1_000_000


def chunk(seed):
    """Return the labels and overconfident probabilities of a million rows."""
    rng = np.random.default_rng(seed)
    proba = rng.standard_exponential((N_ROWS, N_CLASSES), dtype=np.float32)
    # Squaring the probabilities after drawing the labels makes them overconfident.
    totals = proba.sum(axis=1).astype(np.float64)
    drawn = rng.uniform(size=N_ROWS) * totals
    labels = np.zeros(N_ROWS, dtype=np.int64)
    cumulated = np.zeros(N_ROWS)
    for column in proba.T[:-1]:
        cumulated += column
        labels += cumulated < drawn
    proba **= 2
    proba /= proba.sum(axis=1, keepdims=True)
    return labels, proba


def seconds(function, *arguments):
    """Return the CPU seconds of a call and its result."""
    start = process_time()
    result = function(*arguments)
    return process_time() - start, result


def accumulated(seeds, strategy):
    """Return the accumulator of all chunks, and the times of it and of the function."""
    accumulator = CalibrationAccumulator(labels=range(N_CLASSES), strategy=strategy)
    times = []
    for seed in seeds:
        data = chunk(seed)
        pair = [seconds(accumulator.update, *data)[0]]
        if len(times) < 5:
            call = partial(expected_calibration_error, strategy=strategy)
            pair.append(seconds(call, *data)[0])
        times.append(pair)
    return accumulator, times


# With the options of the function that give the metric of the predicted class.
TOP_LABEL = {"mode": "top_label"}
METRICS = [
    (aurc_loss, {}, {}),
    (augrc_loss, {}, {}),
    (failure_auroc_score, {}, {}),
    (risk_at_coverage, {"coverage": 0.8}, {}),
    (ks_calibration_error, {}, TOP_LABEL),
    (smooth_expected_calibration_error, {}, TOP_LABEL),
    (expected_calibration_error, {"strategy": "isotonic"}, TOP_LABEL),
    (spiegelhalter_test, {}, TOP_LABEL),
]


def compare_metrics():
    """Print the metrics of a chunk from its cells and from its samples."""
    data = chunk(0)
    accumulator = CalibrationAccumulator(labels=range(N_CLASSES)).update(*data)
    print("metric: value, difference of the value from cells, seconds of both")
    for metric, options, mode in METRICS:
        function = partial(metric, **options, **mode)
        in_memory, value = seconds(function, *data)
        from_cells, other = seconds(partial(accumulator.compute, metric, **options))
        value, other = np.ravel(value)[0], np.ravel(other)[0]
        print(
            f"{metric.__name__}: {value:.6f}, {abs(value - other):.1e}, "
            f"{in_memory:.3f}, {from_cells:.3f}"
        )
    draw = partial(bootstrap_interval, aurc_loss, method="percentile", random_state=0)
    in_memory, _ = seconds(partial(draw, n_resamples=10), *data)
    options = {"method": "percentile", "random_state": 0, "n_resamples": 1000}
    from_cells, _ = seconds(partial(accumulator.interval, aurc_loss, **options))
    print(f"interval of the AURC: 10 draws in memory {in_memory:.1f} s", end=", ")
    print(f"1000 draws of the cells {from_cells:.1f} s")


def compare_temperatures(n_chunks=4):
    """Print the CPU seconds of a temperature from sums and from a fit in chunks."""
    options = {"labels": range(N_CLASSES), "from_logits": True}
    chunks = []
    for seed in range(n_chunks):
        labels, proba = chunk(seed)
        chunks.append((np.log(np.maximum(proba, 1e-30)), labels))

    def add():
        total = TemperatureAccumulator(**options)
        for part in chunks:
            total.update(*part)
        return total.calibrator()

    def fit():
        scaling = TemperatureScaling(from_logits=True)
        return scaling.fit(batches=lambda: chunks, labels=range(N_CLASSES))

    from_sums, one = seconds(add)
    exact, other = seconds(fit)
    error = abs(one.temperature_ / other.temperature_ - 1)
    print(
        f"temperature of {n_chunks}e6 rows: sums {from_sums:.1f} s, fit {exact:.1f} s, "
        f"ratio {from_sums / exact:.1f}, relative difference {error:.0e}"
    )


def show_sizes():
    """Print the sizes of accumulators, by strategy, mode and number of classes."""
    rng = np.random.default_rng(0)
    for n_classes in (10, 100):
        proba = rng.standard_exponential((N_ROWS // 10, n_classes)) ** 2
        proba /= proba.sum(axis=1, keepdims=True)
        data = rng.integers(n_classes, size=len(proba)), proba, rng.random(len(proba))
        for mode in ("top_label", "classwise"):
            for strategy in ("uniform", "quantile"):
                options = {"mode": mode, "strategy": strategy}
                total = CalibrationAccumulator(labels=range(n_classes), **options)
                size = len(pickle.dumps(total.update(*data)))
                print(f"{n_classes} classes, {mode}, {strategy}: {size / 1e6:.2f} MB")


def peak():
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=int, default=100, help="rows")
    parser.add_argument("--merged", type=int, default=4, help="millions for workers")
    parser.add_argument(
        "--strategy", choices=["uniform", "quantile"], default="uniform"
    )
    options = parser.parse_args()
    strategy = options.strategy
    accumulator, times = accumulated(range(options.millions), strategy)
    ours = median(pair[0] for pair in times)
    function = median(pair[1] for pair in times if len(pair) > 1)
    print(f"rows {accumulator.totals_[0]:.0f}, {strategy} bins")
    print(f"error {accumulator.compute():.6f}, bound {accumulator.error_bound():.1e}")
    print(f"update {ours:.3f} s per 1e6 rows, function {function:.3f} s", end=", ")
    print(f"ratio {ours / function:.2f}")
    print(f"peak memory {peak():.0f} MiB")
    compare_metrics()
    compare_temperatures()
    show_sizes()
    seeds = np.array_split(np.arange(options.merged), 2)
    one, _ = accumulated(range(options.merged), strategy)
    parts = Parallel(n_jobs=2)(delayed(accumulated)(part, strategy) for part in seeds)
    merged = reduce(add, [part for part, _ in parts])
    difference = abs(merged.compute() - one.compute())
    print(
        f"merged over 2 workers, {options.merged}e6 rows: differs by {difference:.1e}"
    )


if __name__ == "__main__":
    main()
