"""Time of calibrators and metrics for torch tensors, compared with numpy arrays.

    OMP_NUM_THREADS=1 python benchmarks/speed/bench_arrays.py --samples 200000

Prints one row per function: the median CPU time of `--repeats` interleaved calls with
numpy arrays, in milliseconds, its multiple for tensors on the CPU, and the largest
difference of the results. Calibrators are fitted to the first 5000 rows. With
`--device cuda`, a third column has the multiple of the elapsed time for tensors on the
GPU.
"""

import argparse
import os
import platform
import warnings
from functools import partial
from statistics import median
from time import perf_counter, process_time

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import torch
from sklearn import config_context

from sklearn_calib.calibrators import (
    HistogramBinning,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    classwise_calibration_error,
    expected_calibration_error,
    failure_auroc_score,
    ks_calibration_error,
    root_brier_score_loss,
    smooth_expected_calibration_error,
)


def problem(n_samples, n_classes, dtype):
    """Return labels, overconfident logits, and their probabilities."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n_samples, n_classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(3 * logits)
    proba /= proba.sum(axis=1, keepdims=True)
    return labels, (3 * logits).astype(dtype), proba.astype(dtype)


def accumulated(labels, proba):
    classes = range(proba.shape[1])
    return CalibrationAccumulator(labels=classes).update(labels, proba).compute()


METRICS = {
    "ECE": expected_calibration_error,
    "ECE, quantile bins": partial(expected_calibration_error, strategy="quantile"),
    "class-wise ECE": classwise_calibration_error,
    "CalibrationAccumulator.update": accumulated,
    "AURC": aurc_loss,
    "failure AUROC": failure_auroc_score,
    "KS calibration error": ks_calibration_error,
    "smooth ECE": smooth_expected_calibration_error,
    "root Brier loss": root_brier_score_loss,
}
CALIBRATORS = [
    TemperatureScaling(from_logits=True),
    VectorScaling(from_logits=True),
    MatrixScaling(from_logits=True),
    HistogramBinning(from_logits=True),
]
FIT_ROWS = 5000


def functions(labels, logits, proba):
    """Yield the name of each function, the function and its arguments."""
    for name, metric in METRICS.items():
        yield name, metric, (labels, proba)
    for each in CALIBRATORS:
        name, few = type(each).__name__, slice(FIT_ROWS)
        each.fit(logits[few], labels[few])
        yield f"{name}.fit", fitted(each), (logits[few], labels[few])
        yield f"{name}.predict_proba", each.predict_proba, (logits,)


def fitted(calibrator):
    """Return a function that fits, and returns the probabilities of a few rows."""

    def fit(logits, labels):
        return calibrator.fit(logits, labels).predict_proba(logits[:10])

    return fit


def seconds(call, clock):
    """Return the time of a call and its result."""
    start = clock()
    result = call()
    if torch.is_tensor(result) and result.is_cuda:
        torch.cuda.synchronize()
    return clock() - start, result


def compare(call, arrays, device, repeats):
    """Return the median time for arrays, its multiple for tensors, and the gap."""
    clock = process_time if device == "cpu" else perf_counter
    tensors = [torch.from_numpy(each).to(device) for each in arrays]
    results = [(call, arrays), (call, tensors)]
    times = [[], []]
    for _ in range(repeats + 1):  # the first is a warm-up
        outcomes = [seconds(partial(f, *data), clock) for f, data in results]
        for row, (time, _) in zip(times, outcomes, strict=True):
            row.append(time)
    ours, theirs = (median(row[1:]) for row in times)
    values = [value.cpu() if torch.is_tensor(value) else value for _, value in outcomes]
    gap = np.abs(np.asarray(values[0]) - np.asarray(values[1])).max()
    return 1000 * ours, theirs / ours, gap


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = problem(options.samples, options.classes, options.dtype)
    print(f"{options}, torch {torch.__version__}, {platform.machine()}")
    print("| function | numpy, ms | tensors on the CPU | difference |")
    print("|---|---|---|---|")
    is_gpu = options.device != "cpu"
    with config_context(array_api_dispatch=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call, arrays in functions(*data):
            time, ratio, gap = compare(call, arrays, "cpu", options.repeats)
            row = f"| {name} | {time:.1f} | {ratio:.2f} | {gap:.1g} |"
            if is_gpu:
                _, ratio, gap = compare(call, arrays, options.device, options.repeats)
                row += f" {options.device}: {ratio:.3f}, {gap:.1g} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
