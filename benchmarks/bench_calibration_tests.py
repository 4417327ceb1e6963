"""Level and power of tests of calibration.

    python benchmarks/bench_calibration_tests.py --n-samples 200 1000

Logits are normal with standard deviation 2, and labels are drawn from their softmax.
Each row is a test at the significance level 0.05, and each column a temperature. The
numbers are rejection rates over `--repeats` data sets: the level for temperature 1, and
the power for other temperatures. The standard error of a level of 0.05 is 0.007 with
1000 repeats.
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


def rejected(test, temperature, n_samples, n_classes, repeats):
    """Return the fraction of the data sets with a p-value of at most 0.05."""
    rng, labels, count = np.random.default_rng(0), range(n_classes), 0
    for _ in range(repeats):
        logits, y_true = draw(rng, n_samples, n_classes)
        result = test(y_true, softmax(temperature * logits), labels=labels)
        count += result.pvalue <= 0.05
    return count / repeats


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-samples", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--n-classes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[1, 1.5])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--tests", nargs="+", choices=TESTS, default=list(TESTS))
    options = parser.parse_args()
    for n_samples in options.n_samples:
        for n_classes in options.n_classes:
            for name in options.tests:
                settings = n_samples, n_classes, options.repeats
                row = [
                    rejected(TESTS[name], t, *settings) for t in options.temperatures
                ]
                rates = "  ".join(f"{rate:.3f}" for rate in row)
                print(f"{n_samples:6} {n_classes:3}  {name:28}{rates}", flush=True)


if __name__ == "__main__":
    main()
