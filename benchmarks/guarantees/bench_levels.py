"""Rejection rates of true null hypotheses at the significance level 0.05.

    python benchmarks/guarantees/bench_levels.py --output levels_output.csv
    python benchmarks/guarantees/bench_levels.py --difference --output levels_output.csv

Without `--difference`, the predictions are calibrated, because labels are drawn from
the predicted probabilities. Each row has a test, a kind of predictions, a number of
samples, the rejection rate and its standard error. The kinds of predictions are

    rare 1 %, rare 5 %   a rare positive class, beta(1, 99) and beta(1, 19)
    10 to 100 classes    softmax of normal logits with the standard deviation 2
    ties                 two classes, with one of five probabilities
    saturated            ten classes, normal logits with the standard deviation 10

"recalibration, random weights" has lognormal weights, and "recalibration, weights of
p" the weights exp(2 p), where p is the probability of the first class. Where the
recalibration has no estimate, the test does not reject.

With `--difference`, `difference_test` compares two models. In the setting "blunter",
both are calibrated and one is less informative, so that both calibration errors are 0.
In "opposite", one is overconfident and one underconfident, with equal population
errors. In "power", one is calibrated and the other overconfident. There are two
classes, or three for class-wise errors.

Each rate is estimated from `--repeats` data sets, or fewer if they take more than
`--seconds` of CPU time. Rows in the output file are not computed again.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from inspect import signature
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import brier_score_loss

from sklearn_calib import metrics as m

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import add_missing

FIELDS = ["test", "kind", "n_samples", "rate", "error", "repeats"]
DRAWS = {"n_resamples": 99}
kernel = partial(m.kernel_calibration_test, **DRAWS)
# The level is exact with 19 draws, too, and each draw is a fit.
FEW_DRAWS = {"n_resamples": 19}


def weighted_recalibration(
    y_true, y_proba, *, labels, random_state, depends=False, method="auto"
):
    """Return the result of the recalibration test with weights."""
    noise = np.random.default_rng(random_state).normal(size=len(y_true))
    weight = np.exp(2 * y_proba[:, 0] if depends else noise)
    options = {"method": method, "random_state": random_state, **FEW_DRAWS}
    return m.recalibration_test(
        y_true, y_proba, labels=labels, sample_weight=weight, **options
    )


TESTS = {
    "spiegelhalter": m.spiegelhalter_test,
    "hosmer_lemeshow": partial(m.hosmer_lemeshow_test, **DRAWS),
    "hosmer_lemeshow, asymptotic": partial(m.hosmer_lemeshow_test, method="asymptotic"),
    "recalibration": partial(m.recalibration_test, **FEW_DRAWS),
    "recalibration, asymptotic": partial(m.recalibration_test, method="asymptotic"),
    "recalibration, random weights": weighted_recalibration,
    "recalibration, weights of p": partial(weighted_recalibration, depends=True),
    "calibration_belt": m.calibration_belt_test,
    "kernel, consistency": kernel,
    "kernel, bootstrap": partial(kernel, method="bootstrap"),
    "kernel, asymptotic": partial(kernel, method="asymptotic"),
    "consistency_test, ece": partial(
        m.consistency_test, m.expected_calibration_error, **DRAWS
    ),
}


def draw_softmax(rng, n_samples, n_classes, scale):
    return softmax(scale * rng.normal(size=(n_samples, n_classes)), axis=1)


KINDS = {
    "rare 1 %": lambda rng, n: two(rng.beta(1, 99, size=n)),
    "rare 5 %": lambda rng, n: two(rng.beta(1, 19, size=n)),
    "10 classes": partial(draw_softmax, n_classes=10, scale=2),
    "20 classes": partial(draw_softmax, n_classes=20, scale=2),
    "50 classes": partial(draw_softmax, n_classes=50, scale=2),
    "100 classes": partial(draw_softmax, n_classes=100, scale=2),
    "ties": lambda rng, n: two(rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], size=n)),
    "saturated": partial(draw_softmax, n_classes=10, scale=10),
}
OVERCONFIDENT = 2.0
METRICS = {
    "ece": m.expected_calibration_error,
    "ece, quantile": partial(m.expected_calibration_error, strategy="quantile"),
    "ece, l2": partial(m.expected_calibration_error, norm="l2"),
    "mce, quantile": partial(m.maximum_calibration_error, strategy="quantile"),
    "classwise": m.classwise_calibration_error,
    "ks": m.ks_calibration_error,
    "brier": brier_score_loss,
}


def two(proba):
    """Return both columns."""
    return np.column_stack([1 - proba, proba])


def draw_labels(rng, proba):
    """Draw true labels."""
    uniform = rng.uniform(size=(len(proba), 1))
    return (uniform >= proba.cumsum(axis=1)[:, :-1]).sum(axis=1)


def draw_calibrated(test, kind, n_samples, rng):
    """Return a p-value of calibrated predictions."""
    proba = KINDS[kind](rng, n_samples)
    options = {"labels": range(proba.shape[1])}
    if "random_state" in signature(test).parameters:
        options["random_state"] = rng.integers(2**31)
    return test(draw_labels(rng, proba), proba, **options).pvalue


def population_error(metric, logits, temperature):
    """Return the expected error, with each label weighted by its probability."""
    truth, said = softmax(logits, axis=1), softmax(temperature * logits, axis=1)
    n_samples, n_classes = truth.shape
    labels = np.repeat(np.arange(n_classes), n_samples)
    proba = np.tile(said, (n_classes, 1))
    # Weights are large, since smoothing and debiasing may regard counts.
    return metric(labels, proba, sample_weight=1000 * truth.T.ravel())


def draw_models(rng, n_samples, setting, n_classes, opposite):
    """Return the true labels and the predictions of two models."""
    if setting == "blunter":
        blunt = rng.dirichlet(np.ones(n_classes), size=n_samples)
        parts = rng.gamma(2 * blunt) + 1e-300
        sharp = parts / parts.sum(axis=1, keepdims=True)
        return draw_labels(rng, sharp), sharp, blunt
    logits = 1.5 * rng.normal(size=(n_samples, n_classes))
    truth = softmax(logits, axis=1)
    other = opposite if setting == "opposite" else 1
    models = (softmax(t * logits, axis=1) for t in (OVERCONFIDENT, other))
    return draw_labels(rng, truth), *models


def draw_difference(metric, setting, n_samples, rng, *, n_classes, opposite):
    """Return a p-value of two models."""
    y_true, *models = draw_models(rng, n_samples, setting, n_classes, opposite)
    if metric is brier_score_loss:
        models = [each[:, 1] for each in models]
    options = {"labels": range(n_classes), "random_state": rng.integers(2**31)}
    return m.difference_test(metric, y_true, *models, **options).pvalue


def opposite_temperature(metric, n_classes):
    """Return the temperature of an underconfident model with the same error."""
    if metric is brier_score_loss:
        return 1
    rng = np.random.default_rng(1)
    logits = 1.5 * rng.normal(size=(50_000, n_classes))
    error = population_error(metric, logits, OVERCONFIDENT)
    return brentq(
        lambda t: population_error(metric, logits, t) - error, 0.05, 0.98, xtol=1e-3
    )


def rows(args):
    """Yield the key of each row and a function that draws a p-value."""
    if not args.difference:
        for name in args.tests or TESTS:
            for kind in args.kinds or KINDS:
                for n_samples in args.n_samples or [30, 100, 300, 1000]:
                    draw = partial(draw_calibrated, TESTS[name], kind, n_samples)
                    yield (name, kind, n_samples), draw
        return
    for name in args.metrics or METRICS:
        metric, n_classes = METRICS[name], 3 if name == "classwise" else 2
        opposite = opposite_temperature(metric, n_classes)
        options = {"n_classes": n_classes, "opposite": opposite}
        for setting in args.settings or ["blunter", "opposite", "power"]:
            if name == "brier" and setting != "power":
                continue  # the Brier scores differ there
            for n_samples in args.n_samples or [200, 500, 5000]:
                draw = partial(draw_difference, metric, setting, n_samples, **options)
                yield (f"difference_test, {name}", setting, n_samples), draw


def measure(draw, args):
    """Return the rejection rate, its standard error, and the number of data sets."""
    warnings.simplefilter("ignore", UndefinedMetricWarning)
    rng, rejected, start = np.random.default_rng(args.seed), [], time.process_time()
    while len(rejected) < args.repeats:
        rejected.append(draw(rng=rng) <= 0.05)
        if time.process_time() - start > args.seconds and len(rejected) >= 20:
            break
    rate = np.mean(rejected)
    error = np.sqrt(rate * (1 - rate) / len(rejected))
    return f"{rate:.3f}", f"{error:.3f}", len(rejected)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--difference", action="store_true")
    parser.add_argument("--tests", nargs="+", choices=TESTS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS)
    parser.add_argument("--metrics", nargs="+", choices=METRICS)
    parser.add_argument("--settings", nargs="+")
    parser.add_argument("--n-samples", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    draws = dict(rows(args))
    add_missing(args.output, FIELDS, draws, lambda *key: measure(draws[key], args))
    print(args.output.read_text("utf-8"))


if __name__ == "__main__":
    main()
