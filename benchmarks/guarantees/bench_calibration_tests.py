"""Level and power of tests of calibration.

    python benchmarks/guarantees/bench_calibration_tests.py --n-samples 200 1000
    python benchmarks/guarantees/bench_calibration_tests.py --waves 1 4 16
    python benchmarks/guarantees/bench_calibration_tests.py --rare 1 2 0.5

Logits are normal with standard deviation 2, and labels are drawn from their softmax.
Each row is a test at the significance level 0.05, and each column a temperature. The
numbers are rejection rates over `--repeats` data sets: the level for temperature 1, and
the power for other temperatures. The standard error of a level of 0.05 is 0.007 with
1000 repeats.

With `--waves`, there are two classes, the predicted probabilities p are uniform, and
the true ones are p + 0.2 sin(2 pi k p), clipped to [0, 1]. Each column is a number k of
waves.

With `--rare`, there are two classes, the predicted probabilities p have the
distribution beta(1, 19), and the true ones are p / k, at most 1. Each column is a
factor k by which the probabilities of a rare event are too high.
"""

import argparse
from functools import partial

import numpy as np

from sklearn_calib import metrics as m

kernel = partial(m.kernel_calibration_test, n_resamples=200)
TESTS = {
    "spiegelhalter": m.spiegelhalter_test,
    "spiegelhalter, top label": partial(m.spiegelhalter_test, mode="top_label"),
    "hosmer-lemeshow": m.hosmer_lemeshow_test,
    "hosmer-lemeshow, 5 bins": partial(m.hosmer_lemeshow_test, n_bins=5),
    "hosmer-lemeshow, top label": partial(m.hosmer_lemeshow_test, mode="top_label"),
    "recalibration": m.recalibration_test,
    "calibration belt": m.calibration_belt_test,
    "kernel, consistency": kernel,
    "kernel, bootstrap": partial(kernel, method="bootstrap"),
    "kernel, asymptotic": partial(kernel, method="asymptotic"),
    "kernel, asymptotic, 20": partial(kernel, method="asymptotic", block_size=20),
    "ece": partial(m.consistency_test, m.expected_calibration_error, n_resamples=200),
    "ks": partial(m.consistency_test, m.ks_calibration_error, n_resamples=200),
    "t-cal": partial(m.tcal_test, n_resamples=200),
    "t-cal, top label": partial(m.tcal_test, mode="top_label", n_resamples=200),
}


def softmax(logits):
    """Return probabilities."""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def draw(rng, n_samples, n_classes):
    """Draw logits and labels."""
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    cumulated = softmax(logits).cumsum(axis=1)[:, :-1]
    return logits, (rng.uniform(size=(n_samples, 1)) >= cumulated).sum(axis=1)


def draw_overconfident(rng, temperature, n_samples, n_classes):
    """Draw labels and predicted probabilities."""
    logits, y_true = draw(rng, n_samples, n_classes)
    return y_true, softmax(temperature * logits)


def draw_waves(rng, n_waves, n_samples, _):
    """Draw labels and predicted probabilities of two classes."""
    proba = rng.uniform(size=n_samples)
    truth = proba + 0.2 * np.sin(2 * np.pi * n_waves * proba)
    y_true = (rng.uniform(size=n_samples) < truth).astype(int)
    return y_true, np.column_stack([1 - proba, proba])


def draw_rare(rng, factor, n_samples, _):
    """Return labels and predicted probabilities of a rare event."""
    proba = rng.beta(1, 19, size=n_samples)
    y_true = (rng.uniform(size=n_samples) < proba / factor).astype(int)
    return y_true, np.column_stack([1 - proba, proba])


def rejected(test, draw_data, column, n_samples, n_classes, repeats):
    """Return the fraction of the data sets with a p-value of at most 0.05."""
    rng, labels, count = np.random.default_rng(0), range(n_classes), 0
    for _ in range(repeats):
        y_true, proba = draw_data(rng, column, n_samples, n_classes)
        count += test(y_true, proba, labels=labels).pvalue <= 0.05
    return count / repeats


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-samples", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--n-classes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[1, 1.5])
    parser.add_argument("--waves", type=int, nargs="+", default=[])
    parser.add_argument("--rare", type=float, nargs="+", default=[])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--tests", nargs="+", choices=TESTS, default=list(TESTS))
    options = parser.parse_args()
    draw_data, columns = draw_overconfident, options.temperatures
    if options.waves:
        draw_data, columns, options.n_classes = draw_waves, options.waves, [2]
    if options.rare:
        draw_data, columns, options.n_classes = draw_rare, options.rare, [2]
    for n_samples in options.n_samples:
        for n_classes in options.n_classes:
            for name in options.tests:
                settings = n_samples, n_classes, options.repeats
                row = [rejected(TESTS[name], draw_data, c, *settings) for c in columns]
                rates = "  ".join(f"{rate:.3f}" for rate in row)
                print(f"{n_samples:6} {n_classes:3}  {name:28}{rates}", flush=True)


if __name__ == "__main__":
    main()
