"""Time of the calibration errors, compared with plain numpy and other packages.

    OMP_NUM_THREADS=1 python benchmarks/speed/bench_metrics.py --repeats 9

Prints one row per implementation: the median of `--repeats` interleaved timings in
milliseconds of CPU time, its ratio to the floor, and the value. The floor is the same
computation in plain numpy, in blocks that fit into the cache, without checks, with
labels that are encoded already; it is wrong for ties. Ours includes all checks of
values and labels.
Packages that are not installed are listed as missing.
"""

import argparse
import platform
from importlib import import_module
from importlib.metadata import version
from statistics import median
from time import process_time

import numpy as np

from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
)

N_BINS = 15
BLOCK = 65536


def problem(n_samples, n_classes, dtype, scale=3.0):
    """Return overconfident probabilities and their labels."""
    rng = np.random.default_rng(0)
    logits = scale * rng.standard_normal((n_samples, n_classes), dtype=np.float32)
    noise = rng.gumbel(size=(n_samples, n_classes))
    labels = (logits / 1.8 + noise).argmax(axis=1)
    proba = np.exp(logits.astype(np.float64))
    proba /= proba.sum(axis=1, keepdims=True)
    return labels, proba.astype(dtype)


def error(count, gap):
    """Return the sum of the absolute gaps per sample."""
    return np.abs(gap).sum() / count


def top_label_blocks(labels, proba):
    """Yield blocks of rows, their confidences and which predictions are correct."""
    n_samples, n_classes = proba.shape
    step = BLOCK // n_classes
    for start in range(0, n_samples, step):
        rows = slice(start, start + step)
        block = np.asarray(proba[rows], order="F" if n_classes < 20 else "C")
        confidence = block.max(axis=1)
        yield rows, confidence, block[np.arange(len(block)), labels[rows]] == confidence


def floor_ece(labels, proba):
    gap = np.zeros(N_BINS)
    for _, confidence, correct in top_label_blocks(labels, proba):
        index = np.ceil(confidence * N_BINS).astype(np.intp) - 1
        gap += np.bincount(index, confidence - correct, N_BINS)
    return error(len(labels), gap)


def floor_classwise(labels, proba):
    n_samples, n_classes = proba.shape
    step = BLOCK // n_classes
    first = np.arange(n_classes) * N_BINS - 1
    gap = np.zeros(n_classes * N_BINS)
    for start in range(0, n_samples, step):
        block = proba[start : start + step]
        cell = np.ceil(block * N_BINS).astype(np.intp) + first
        gap += np.bincount(cell.ravel(), block.ravel(), gap.size)
        true = labels[start : start + step]
        gap -= np.bincount(cell[np.arange(len(true)), true], minlength=gap.size)
    return error(n_samples * n_classes, gap)


def torchmetrics_ece(labels, proba):
    torch = import_module("torch")
    torch.set_num_threads(1)
    measure = import_module("torchmetrics.functional").calibration_error
    tensors = torch.from_numpy(proba), torch.from_numpy(labels)
    options = {"task": "multiclass", "num_classes": proba.shape[1]}
    return measure(*tensors, n_bins=N_BINS, **options).item()


def torch_uncertainty_measure(name, **options):
    """Return a metric of torch-uncertainty as a function."""

    def measure(labels, proba):
        torch = import_module("torch")
        torch.set_num_threads(1)
        metric = getattr(import_module("torch_uncertainty.metrics"), name)(**options)
        metric.update(torch.from_numpy(proba), torch.from_numpy(labels))
        return metric.compute().item()

    return measure


def netcal_ece(labels, proba):
    return import_module("netcal.metrics").ECE(N_BINS).measure(proba, labels)


def sklearn_curve(labels, proba):
    """Calibration curve of scikit-learn, from confidences computed with numpy."""
    curve = import_module("sklearn.calibration").calibration_curve
    correct = proba.argmax(axis=1) == labels
    true, predicted = curve(correct, proba.max(axis=1), n_bins=N_BINS)
    return np.abs(true - predicted).mean()


TOP_LABEL = {
    "floor": floor_ece,
    "sklearn_calib": expected_calibration_error,
    "torchmetrics": torchmetrics_ece,
    "netcal": netcal_ece,
    "scikit-learn curve": sklearn_curve,
}
CLASSWISE = {
    "floor": floor_classwise,
    "sklearn_calib": classwise_calibration_error,
    "torch-uncertainty": torch_uncertainty_measure(
        "ClasswiseCalibrationError", num_classes=1000, num_bins=N_BINS
    ),
}
TASKS = [
    ("top-label ECE", (1_000_000, 10), np.float64, TOP_LABEL),
    ("top-label ECE", (1_000_000, 10), np.float32, TOP_LABEL),
    ("top-label ECE", (50_000, 1000), np.float64, TOP_LABEL),
    ("class-wise ECE", (50_000, 1000), np.float64, CLASSWISE),
    ("class-wise ECE", (50_000, 1000), np.float32, CLASSWISE),
]


def timings(functions, data, repeats):
    """Return the times and the value of each function, or the reason for none."""
    times, values = {name: [] for name in functions}, {}
    for _ in range(repeats):
        for name, function in functions.items():
            try:
                start = process_time()
                values[name] = function(*data)
                times[name].append(1e3 * (process_time() - start))
            except ImportError as missing:
                values[name] = missing
    return times, values


def report(functions, data, repeats):
    """Print a row for each function, with the ratio to the floor if there is one."""
    timings(functions, data, 1)
    times, values = timings(functions, data, repeats)
    floor = median(times["floor"]) if "floor" in times else None
    for name, value in values.items():
        if not times[name]:
            print(f"{name:<22} not installed: {value}")
            continue
        middle = median(times[name])
        ratio = f"x{middle / floor:.2f}" if floor else ""
        print(f"{name:<22}{middle:10.1f} ms  {ratio:<8}{value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "scikit-learn")
    )
    print(f"# Python {platform.python_version()}, {packages}, {N_BINS} bins")
    for title, shape, dtype, functions in TASKS:
        print(f"\n# {title}, {shape[0]} x {shape[1]}, {np.dtype(dtype)}")
        report(functions, problem(*shape, dtype), repeats)


if __name__ == "__main__":
    main()
