"""Coverage and relative width of confidence intervals.

    python benchmarks/guarantees/bench_intervals.py --metrics ece,ks --output FILE
    python benchmarks/guarantees/bench_intervals.py --priors

The predicted probabilities p of the positive class are uniform in [0.02, 1] ("uniform")
or have a beta(1, 99) distribution with mean 0.01 ("rare"). The true probability is p
("calibrated"), p - 0.03 ("small"), p - 0.15 ("large"), p - 0.1 for p > 0.6 and p
otherwise ("half"), 2 p ("twice") or p / 2 ("halved"). The probabilities of ten classes
("classes") have a Dirichlet distribution. Their true probabilities are proportional to
p ** 0.9 ("small"), p ** 0.3 ("large"), or p ** 0.6 if the largest probability is above
0.6 and p otherwise ("half").

Writes a row for each metric, method, model, number of samples and level to a CSV file:
the coverage of the population value, and the ratio of the mean width to the sampling
spread, the distance between the quantiles of the estimates for this level. The
population value is computed for a grid of predictions with every label, weighted by its
probability. Rows in the file are not measured again.

With `--priors`, the coverage of the 95 % intervals of `estimate_priors`, over all
classes, in `--repeats` data sets of each number of samples. The features of class k are
normal with the mean 1.5 in dimension k, the training priors are equal, and the new
priors are proportional to f ** k for the factors f = 1 (no shift), 0.5 and 0.2. Also
the mean width, and the fraction of the data sets with a warning of little information.
"""

import argparse
import itertools
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import softmax
from scipy.stats import beta
from sklearn.metrics import brier_score_loss, log_loss

from sklearn_calib import metrics as m
from sklearn_calib.deployment import estimate_priors

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import add_missing

FIELDS = ["predictions", "metric", "method", "truth", "n_samples", "level"]
FIELDS += ["coverage", "width", "repeats", "n_resamples"]
N_CLASSES = 10
PREDICTIONS = {
    "uniform": lambda grid: 0.02 + 0.98 * grid,
    "rare": lambda grid: beta.ppf(grid, 1, 99),
}
TRUTHS = {
    "calibrated": lambda p: p,
    "small": lambda p: np.clip(p - 0.03, 0, 1),
    "large": lambda p: np.clip(p - 0.15, 0, 1),
    "half": lambda p: np.where(p > 0.6, p - 0.1, p),
    "twice": lambda p: np.clip(2 * p, 0, 1),
    "halved": lambda p: p / 2,
}
TRUTHS_OF_CLASSES = {
    "calibrated": lambda p: p,
    "small": lambda p: tempered(p, 0.9),
    "large": lambda p: tempered(p, 0.3),
    "half": lambda p: np.where(p.max(axis=1, keepdims=True) > 0.6, tempered(p, 0.6), p),
}
ERRORS = {
    "ece": m.expected_calibration_error,
    "ece_quantile": partial(m.expected_calibration_error, strategy="quantile"),
    "ece_l2": partial(m.expected_calibration_error, norm="l2"),
    "ece_debiased": partial(m.expected_calibration_error, reduce_bias=True),
    "mce_quantile": partial(m.maximum_calibration_error, strategy="quantile"),
    "mce": m.maximum_calibration_error,
    "mce_5": partial(m.maximum_calibration_error, strategy="quantile", n_bins=5),
    "classwise": m.classwise_calibration_error,
    "classwise_l2": partial(m.classwise_calibration_error, norm="l2"),
    "classwise_max": partial(m.classwise_calibration_error, norm="max"),
    "ece_isotonic": partial(m.expected_calibration_error, strategy="isotonic"),
    "ks": m.ks_calibration_error,
    "smece": m.smooth_expected_calibration_error,
    "smce": m.smooth_calibration_error,
    "kde": partial(m.kde_calibration_error, bandwidth=0.02),
    "kde_l2": partial(m.kde_calibration_error, bandwidth=0.02, norm="l2"),
    "proper_log": m.proper_calibration_error,
    "proper_brier": partial(
        m.proper_calibration_error, loss="brier", recalibration="isotonic"
    ),
    "gap": partial(m.post_processing_gap, loss="squared"),
}
OTHERS = {
    "aurc": m.aurc_loss,
    "excess_aurc": m.excess_aurc_loss,
    "risk_at_80": partial(m.risk_at_coverage, coverage=0.8),
    "coverage_at_20": partial(m.coverage_at_risk, max_risk=0.2),
    "failure_auroc": m.failure_auroc_score,
    "ici": m.integrated_calibration_index,
    "refinement": m.refinement_error,
    "root_brier": m.root_brier_score_loss,
    "brier": brier_score_loss,
    "log_loss": log_loss,
}


def tempered(proba, power):
    return proba**power / (proba**power).sum(axis=1, keepdims=True)


def chances(grid, rng, predictions, truth):
    """Return predicted probabilities, and the true probability of each label."""
    if predictions == "classes":
        proba = rng.dirichlet(np.full(N_CLASSES, 0.3), len(grid))
        return proba, TRUTHS_OF_CLASSES[truth](proba)
    proba = PREDICTIONS[predictions](grid)
    chance = TRUTHS[truth](proba)
    return proba, np.column_stack([1 - chance, chance])


def draw(rng, n_samples, *problem):
    proba, chance = chances(rng.uniform(size=n_samples), rng, *problem)
    above = rng.uniform(size=(n_samples, 1)) > chance.cumsum(axis=1)[:, :-1]
    return above.sum(axis=1), proba


def population_value(metric, *problem):
    """Return the value of a metric for a grid of predictions with every label.

    Weights are large, since kernel estimates leave a sample out, and some errors depend
    on counts.
    """
    n_grid = 40_000 if problem[0] == "classes" else 3000
    grid = (np.arange(n_grid) + 0.5) / n_grid
    proba, chance = chances(grid, np.random.default_rng(0), *problem)
    labels = np.repeat(np.arange(chance.shape[1]), n_grid)
    proba = np.concatenate([proba] * chance.shape[1])
    return metric(labels, proba, sample_weight=1000 * chance.T.ravel())


def interval_row(metric, method, problem, n_samples, level, args):
    """Return the coverage and the relative width of intervals."""
    value = population_value(metric, *problem)
    if problem[0] != "uniform":
        # A class may be absent from a sample.
        n_labels = N_CLASSES if problem[0] == "classes" else 2
        metric = partial(metric, labels=range(n_labels))
    ends, estimates = np.empty((args.repeats, 2)), np.empty(args.repeats)
    for row, seed in enumerate(range(args.seed, args.seed + args.repeats)):
        data = draw(np.random.default_rng(seed), n_samples, *problem)
        estimates[row] = metric(*data)
        ends[row] = m.bootstrap_interval(
            metric,
            *data,
            method=method,
            confidence_level=level,
            n_resamples=args.n_resamples,
            random_state=seed,
        )
    tail = (1 - level) / 2
    spread = np.subtract(*np.quantile(estimates, [1 - tail, tail]))
    held = (ends[:, 0] - 1e-9 <= value) & (value <= ends[:, 1] + 1e-9)
    return held.mean(), (ends[:, 1] - ends[:, 0]).mean() / spread


def write_coverage(args):
    """Compute the missing rows, and print them."""

    def row(predictions, name, method, truth, n_samples, level):
        metric, problem = (ERRORS | OTHERS)[name], (predictions, truth)
        coverage, width = interval_row(metric, method, problem, n_samples, level, args)
        return f"{coverage:.4f}", f"{width:.3f}", args.repeats, args.n_resamples

    chosen = args.metrics.split(",") if args.metrics else [*ERRORS, *OTHERS]
    for predictions, name in itertools.product(args.predictions.split(","), chosen):
        known = TRUTHS_OF_CLASSES if predictions == "classes" else TRUTHS
        keys = itertools.product(
            [predictions],
            [name],
            ["debiased"] if name in ERRORS else args.methods.split(","),
            [truth for truth in args.truths.split(",") if truth in known],
            map(int, args.n_samples.split(",")),
            args.levels,
        )
        add_missing(args.output, FIELDS, keys, row)


def priors_row(n_classes, factor, n_samples, args):
    """Return coverage and mean width of the priors, and the fraction of warnings."""
    priors = factor ** np.arange(n_classes)
    priors, train = priors / priors.sum(), np.full(n_classes, 1 / n_classes)
    held, width, warned = [], [], 0
    for seed in range(args.seed, args.seed + args.repeats):
        rng = np.random.default_rng(seed)
        y = rng.choice(n_classes, p=priors, size=n_samples)
        x = 1.5 * np.eye(n_classes)[y] + rng.normal(size=(n_samples, n_classes))
        options = {"n_resamples": args.n_resamples, "random_state": seed}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, ends = estimate_priors(softmax(1.5 * x, axis=1), train, **options)
        warned += bool(caught)
        held.append((ends[:, 0] <= priors) & (priors <= ends[:, 1]))
        width.append(ends[:, 1] - ends[:, 0])
    return np.mean(held), np.mean(width), warned / args.repeats


def show_priors(args):
    for n_classes, factor, n_samples in itertools.product(
        (2, 5), (1.0, 0.5, 0.2), map(int, args.n_samples.split(","))
    ):
        coverage, width, warned = priors_row(n_classes, factor, n_samples, args)
        print(
            f"{n_classes:3} classes, factor {factor}, {n_samples:5} samples: coverage "
            f"{coverage:.3f}, width {width:.3f}, warned {warned:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metrics", default="")
    parser.add_argument("--methods", default="bca,basic,percentile")
    parser.add_argument("--predictions", default="uniform")
    parser.add_argument("--truths", default="calibrated,small,large,half")
    parser.add_argument("--n-samples", default="200,1000,5000")
    parser.add_argument("--levels", type=float, nargs="+", default=[0.9, 0.95])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--n-resamples", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first sample")
    parser.add_argument("--output", type=Path, help="CSV file, needed without --priors")
    parser.add_argument("--priors", action="store_true")
    args = parser.parse_args()
    if args.priors:
        show_priors(args)
    elif args.output is None:
        parser.error("pass --output or --priors")
    else:
        write_coverage(args)
