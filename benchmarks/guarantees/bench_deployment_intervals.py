"""Coverage of intervals for data without labels, with and without a reference.

    OMP_NUM_THREADS=1 python benchmarks/guarantees/bench_deployment_intervals.py \
        --output benchmarks/guarantees/deployment_intervals.csv

Contains how often 95 % intervals of `estimate_performance` contain the metric of
`n_new` samples, computed with their labels: `with_reference` with the labels and
probabilities of other samples, and `without`. In the first three designs, the score x
of a sample is normal, and the probability of the positive class is expit(1.5 x - 0.5),
or, in "wrong map", expit(1.5 x + sin(2 x) - 0.5).

- exact: the probabilities are true, and the reference has 300 samples.
- right map: logistic regression of 300 samples, and 300 others as reference.
- wrong map: the same, of another form than the true probabilities.
- prior shift: `CalibratedClassifier` of logistic regression, trained with 1000 samples,
  in `PriorShiftClassifier`. The prevalence changes from 0.4 to 0.15. It adapts to the
  new samples, and the reference is its own.
- default: `CalibratedClassifier` of naive Bayes, with its own reference.

In the last two, the features of a class are normal with correlations, as for which
naive Bayes is overconfident. A false negative costs 4, and a false positive 1. Rows
with the metric "prevalence" contain the coverage of the prevalence in the population by
the interval of `estimate_priors`. `error` and `error_without` are standard errors, with
and without a reference. There are `--runs` data sets, of which a tenth is evaluated
without one. Designs that are complete in the output file are not computed again.
"""

import argparse
import sys
import warnings
from collections import defaultdict
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import PlattScaling
from sklearn_calib.deployment import (
    PriorShiftClassifier,
    estimate_performance,
    estimate_priors,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import open_results

FIELDS = ["design", "n_new", "metric", "with_reference", "error"]
FIELDS += ["without", "error_without", "runs"]
SIZES = 100, 500, 5000
N_RESAMPLES = 39  # the ends are the least and the largest draw, which is exact


def counts(p, y, weight):
    """Return the weights of true positives, false positives and false negatives."""
    predicted, weight = p > 0.5, np.ones(len(p)) if weight is None else weight
    hits = weight @ (predicted & (y == 1))
    return hits, weight @ predicted - hits, weight @ y - hits


# These are those of scikit-learn, without its checks, which take most of the time.
def accuracy(_, X, y, sample_weight=None):
    return np.average((X[:, 1] > 0.5) == y, weights=sample_weight)


def f1(_, X, y, sample_weight=None):
    hits, false_positive, false_negative = counts(X[:, 1], y, sample_weight)
    return 2 * hits / (2 * hits + false_positive + false_negative)


def recall(_, X, y, sample_weight=None):
    hits, _, missed = counts(X[:, 1], y, sample_weight)
    return hits / (hits + missed)


def cost(_, X, y, sample_weight=None):
    is_offered = X[:, 1] > 0.2  # the threshold of these costs
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    costs = 4 * (y == 1) * ~is_offered + (y == 0) * is_offered
    return weight @ costs / weight.sum()


def auroc(_, X, y, sample_weight=None):
    order = np.argsort(X[:, 1], kind="stable")  # fast for the sorted reference
    p, y = X[order, 1], y[order]
    weight = np.ones(len(p)) if sample_weight is None else sample_weight[order]
    first = np.flatnonzero(np.append(True, p[1:] > p[:-1]))
    positive = np.add.reduceat(weight * y, first)
    negative = np.add.reduceat(weight * (1 - y), first)
    below = negative.cumsum() - negative / 2
    return positive @ below / (positive.sum() * negative.sum())


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "recall": recall,
    "auroc": auroc,
    "cost": cost,
}


def draw_scores(design, n_samples, rng):
    x = rng.normal(size=n_samples)
    curve = np.sin(2 * x) if design == "wrong map" else 0
    chance = expit(1.5 * x - 0.5 + curve)
    return x[:, None], (rng.random(n_samples) < chance).astype(int), chance


def with_scores(design, n_new, run):
    """Return labels, probabilities and options of one of the first three designs."""
    rng = np.random.default_rng(run)
    X, y, _ = draw_scores(design, 300, rng)
    X_ref, y_ref, p_ref = draw_scores(design, 300, rng)
    X_new, y_new, p_new = draw_scores(design, n_new, rng)
    if design != "exact":
        model = LogisticRegression(C=1e6).fit(X, y)
        p_ref, p_new = (model.predict_proba(each)[:, 1] for each in (X_ref, X_new))
    return y_new, p_new, {"reference": in_order(y_ref, p_ref)}


def draw_features(n_samples, prevalence, rng):
    y = (rng.random(n_samples) < prevalence).astype(int)
    common = rng.normal(size=(n_samples, 1))
    X = 0.8 * rng.normal(size=(n_samples, 4)) + common
    X[:, :2] += y[:, None]
    return X, y


@cache
def train(design, run):
    data = draw_features(1000, 0.4, np.random.default_rng(run))
    if design == "default":
        return CalibratedClassifier(GaussianNB()).fit(*data)
    model = CalibratedClassifier(LogisticRegression(), PlattScaling())
    options = {"n_resamples": N_RESAMPLES, "random_state": 0}
    return PriorShiftClassifier(model, **options).fit(*data)


def with_classifier(design, n_new, run):
    """Return the same for the others."""
    model, rng = train(design, run), np.random.default_rng([run, n_new])
    is_shifted = design == "prior shift"
    X, y = draw_features(n_new, 0.15 if is_shifted else 0.4, rng)
    options = {"priors": model.adapt(X).priors_} if is_shifted else {}
    options["reference"] = in_order(*model.reference_)
    return y, model.predict_proba(X)[:, 1], options


def in_order(y, proba):
    positive = proba if proba.ndim == 1 else proba[:, 1]
    order = np.argsort(positive)
    return y[order], positive[order]


def covers_prevalence(n_new, run, is_corrected):
    model, rng = train("prior shift", run), np.random.default_rng([run, n_new])
    X, _ = draw_features(n_new, 0.15, rng)
    if is_corrected:
        low, high = model.adapt(X).priors_interval_[1]
    else:
        proba = model.estimator_.predict_proba(X)
        options = {"n_resamples": N_RESAMPLES, "random_state": 0}
        low, high = estimate_priors(proba, model.train_priors_, **options)[1][1]
    return low <= 0.15 <= high


DESIGNS = dict.fromkeys(["exact", "right map", "wrong map"], with_scores)
DESIGNS |= dict.fromkeys(["prior shift", "default"], with_classifier)


def covers(metric, y, p, run, options):
    value = METRICS[metric](None, np.column_stack([1 - p, p]), y)
    given = "accuracy" if metric == "accuracy" else METRICS[metric]
    options = {"n_resamples": N_RESAMPLES, "random_state": run, **options}
    low, high = estimate_performance(p, metric=given, **options).interval
    return low - 1e-9 <= value <= high + 1e-9


def measure(design, n_new, runs):
    """Yield the metrics, and the cells of their rows."""
    held = defaultdict(lambda: ([], []))
    for run in range(runs):
        y, p, options = DESIGNS[design](design, n_new, run)
        for without, given in enumerate([options, {}][: 1 + (run % 10 == 0)]):
            for metric in METRICS:
                held[metric][without].append(covers(metric, y, p, run, given))
            if design == "prior shift":
                covered = covers_prevalence(n_new, run, not without)
                held["prevalence"][without].append(covered)
    for metric, both in held.items():
        cells = []
        for each in both:
            rate = np.mean(each)
            error = np.sqrt(max(rate * (1 - rate), 0.01) / len(each))
            cells += f"{rate:.3f}", f"{error:.4f}"
        yield metric, [*cells, runs]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--designs", default=",".join(DESIGNS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with open_results(args.output, FIELDS, 3) as (done, append):
        for design, n_new in product(args.designs.split(","), SIZES):
            if (design, str(n_new), "cost") in done:
                continue
            for metric, cells in measure(design, n_new, args.runs):
                append([design, n_new, metric, *cells])


if __name__ == "__main__":
    main()
