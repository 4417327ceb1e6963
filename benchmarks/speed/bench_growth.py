"""Plot the time of each metric against the number of samples.

    OMP_NUM_THREADS=1 python benchmarks/speed/bench_growth.py doc/images/growth.png

Measures 10,000 to 10,000,000 samples of ten classes in single precision, and the linear
programme up to 1,000,000. Prints the minimum seconds over `--repeats`, and the exponent
of the growth over the last step: 1 for linear growth, about 1.07 for n log n.
`bench_metrics.py` measures the kernel errors, which grow quadratically.
"""

import argparse
from functools import partial
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from bench_metrics import problem

from sklearn_calib import metrics

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
ece = metrics.expected_calibration_error
METRICS = {
    "ECE": ece,
    "ECE, quantile": partial(ece, strategy="quantile"),
    "ECE, isotonic": partial(ece, strategy="isotonic"),
    "ECE, sweep": partial(ece, n_bins="sweep", strategy="quantile"),
    "class-wise ECE": metrics.classwise_calibration_error,
    "smooth ECE": metrics.smooth_expected_calibration_error,
    "smooth calibration error": metrics.smooth_calibration_error,
    "KS": metrics.ks_calibration_error,
    "root Brier score": metrics.root_brier_score_loss,
    "AURC": metrics.aurc_loss,
    "refinement, isotonic": partial(
        metrics.refinement_error, loss="brier", recalibration="isotonic"
    ),
}
LARGEST = {"smooth calibration error": 1_000_000}


def seconds(metric, data, repeats):
    """Return the minimum time of a call."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        metric(*data)
        times.append(perf_counter() - start)
    return min(times)


def measure(repeats):
    """Return the times of each metric; slow metrics have fewer sizes."""
    times = {name: [] for name in METRICS}
    for size in SIZES:
        data = problem(size, 10, np.float32)
        for name, metric in METRICS.items():
            if size <= LARGEST.get(name, size):
                times[name].append(seconds(metric, data, repeats))
                print(f"{name:28}{size:10}{times[name][-1]:12.4f} s", flush=True)
    return times


def draw(times, path):
    """Plot the times and a line of linear growth."""
    figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
    styles = [(line, marker) for line in ("-", "--") for marker in "osv^Dx"]
    for (name, values), (line, marker) in zip(times.items(), styles, strict=False):
        ax.loglog(SIZES[: len(values)], values, line, marker=marker, label=name)
    ax.loglog(SIZES, np.array(SIZES) * 1e-9, ":", color="grey", label="1 ns a sample")
    ax.set(xlabel="samples (10 classes)", ylabel="seconds")
    ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path, help="output figure")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    times = measure(args.repeats)
    print("\nexponent of the last step")
    for name, values in times.items():
        print(f"{name:28}{np.log10(values[-1] / values[-2]):6.2f}")
    draw(times, args.path)


if __name__ == "__main__":
    main()
