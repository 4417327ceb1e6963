"""How often tests of calibration reject, calibrated predictions and others.

    python benchmarks/bench_calibration_tests.py --n-samples 200 1000

Logits are normal with the standard deviation 2, labels are drawn from their softmax.
Each row is a test, at the level 0.05; each column a temperature: for 1 the share
rejected is the level, for others the power, of `--repeats` samples, with a standard
error of 0.007 for a level of 0.05 and 1000 repeats. `--difference` asks
`difference_test` in the same way: model A says the truth and B the truth with a
temperature, both with the same amount of noise on the logits; beside the share rejected
stands that of the intervals of level 0.95 that hold the difference of the population,
which is that of `--n-population` samples.
"""

import argparse
from functools import partial

import numpy as np
from sklearn.metrics import brier_score_loss

from sklearn_calib import metrics as m

kernel = partial(m.kernel_calibration_test, n_resamples=200)
TESTS = {
    "spiegelhalter": m.spiegelhalter_test,
    "spiegelhalter, top label": partial(m.spiegelhalter_test, mode="top_label"),
    "hosmer-lemeshow": m.hosmer_lemeshow_test,
    "hosmer-lemeshow, 5 bins": partial(m.hosmer_lemeshow_test, n_bins=5),
    "hosmer-lemeshow, top label": partial(m.hosmer_lemeshow_test, mode="top_label"),
    "kernel, consistency": kernel,
    "kernel, bootstrap": partial(kernel, method="bootstrap"),
    "kernel, asymptotic": partial(kernel, method="asymptotic"),
    "kernel, asymptotic, 20": partial(kernel, method="asymptotic", block_size=20),
    "ece": partial(m.consistency_test, m.expected_calibration_error, n_resamples=200),
    "ks": partial(m.consistency_test, m.ks_calibration_error, n_resamples=200),
}
METRICS = {
    "aurc": m.aurc_loss,
    "brier": brier_score_loss,
    "ece": m.expected_calibration_error,
    "ks": m.ks_calibration_error,
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
    """Return the share of the samples with a p-value of at most 0.05."""
    rng, labels, count = np.random.default_rng(0), range(n_classes), 0
    for _ in range(repeats):
        logits, y_true = draw(rng, n_samples, n_classes)
        result = test(y_true, softmax(temperature * logits), labels=labels)
        count += result.pvalue <= 0.05
    return count / repeats


def draw_models(rng, n_samples, temperature):
    """Draw labels and the probabilities of two models."""
    logits, y_true = draw(rng, n_samples, 2)
    noise = 0.5 * rng.normal(size=(2, *logits.shape))
    return y_true, *(
        softmax(t * logits + e)[:, 1]
        for t, e in zip((1, temperature), noise, strict=True)
    )


def differing(metric, temperature, n_samples, repeats, n_population):
    """Return the share rejected, and of intervals that hold the difference."""
    rng = np.random.default_rng(0)
    y_true, a, b = draw_models(rng, n_population, temperature)
    truth, count, held = metric(y_true, a) - metric(y_true, b), 0, 0
    for _ in range(repeats):
        models = draw_models(rng, n_samples, temperature)
        result = m.difference_test(metric, *models, n_resamples=200, random_state=0)
        count += result.pvalue <= 0.05
        held += result.low <= truth <= result.high
    return count / repeats, held / repeats


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-samples", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--n-classes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[1, 1.5])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--tests", nargs="+", choices=TESTS, default=list(TESTS))
    parser.add_argument("--difference", action="store_true")
    parser.add_argument("--n-population", type=int, default=10**6)
    options = parser.parse_args()
    for n_samples in options.n_samples:
        if options.difference:
            for name, metric in METRICS.items():
                row = [
                    differing(
                        metric, t, n_samples, options.repeats, options.n_population
                    )
                    for t in options.temperatures
                ]
                print(f"{n_samples:6} {name:8}", *(f"{r:.3f} {h:.3f}" for r, h in row))
            continue
        for n_classes in options.n_classes:
            for name in options.tests:
                settings = n_samples, n_classes, options.repeats
                row = [
                    rejected(TESTS[name], t, *settings) for t in options.temperatures
                ]
                shares = "  ".join(f"{share:.3f}" for share in row)
                print(f"{n_samples:6} {n_classes:3}  {name:28}{shares}", flush=True)


if __name__ == "__main__":
    main()
