"""How often the bounds of `SelectiveClassifier(max_risk=...)` are exceeded.

    python benchmarks/guarantees/bench_risk_control.py --output risk_control_output.csv

A population has 100,000 predictions for three classes and the probabilities of their
labels, so that its risks are known exactly. Each repetition draws held-out samples with
replacement and sets the threshold with `delta` = 0.1. The bounds are exceeded if any
risk of the population is above its limit at this threshold. Without a threshold (`fit`
raises an error) nothing is exceeded, and the coverage is 0. The populations are

    calibrated   predictions are calibrated; one of six samples is of class 1
    unrelated    all rates are 0.101 at every confidence, so that any threshold is wrong
    rising       errors are most frequent at the highest confidence

The limits are 0.1 for rates, and 0.1 times the mean cost of an error for costs. "best"
is the largest coverage of the population at which no risk is above its limit. Rows that
are in the output file already are not measured again.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

from sklearn_calib.estimators import SelectiveClassifier

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.recorded import Recorded
from helpers.resumable import add_missing

LIMIT, DELTA, N_POPULATION, CLASSES = 0.1, 0.1, 100_000, np.arange(3)
COST = np.array([[0, 1, 2], [4, 0, 1], [2, 1, 0]])
FIELDS = ["risks", "population", "n_samples", "exceeded", "coverage", "best", "repeats"]


def relative_cost(y_true, y_pred):
    """Return costs in [0, 1] of samples of the classes 0 and 1; others do not count."""
    return np.where(y_true < 2, COST[y_true, y_pred] / COST.max(), np.nan)


RISKS = {
    "error rate": {"error_rate": LIMIT},
    "1 - recall of class 1": {"false_negative_rate": {1: LIMIT}},
    "1 - precision of class 1": {"false_discovery_rate": {1: LIMIT}},
    "1 - recall and 1 - precision of all classes": {
        "false_negative_rate": LIMIT,
        "false_discovery_rate": LIMIT,
    },
    "cost": {"cost": LIMIT * COST.sum() / 6},
    "error rate and cost": {"error_rate": LIMIT, "cost": LIMIT * COST.sum() / 6},
    "callable": {relative_cost: LIMIT * COST[:2].sum() / 4 / COST.max()},
}


def draw_calibrated(rng):
    """Return predicted probabilities that are those of the labels."""
    proba = softmax(4 * rng.normal(size=(N_POPULATION, 3)) - [0, 3, 0], axis=1)
    return proba, proba


def draw_errors(rng, error_rate):
    """Return predictions with an error rate that depends on the confidence."""
    confidence = np.sort(rng.uniform(0.4, 1, size=(N_POPULATION, 1)), axis=0)
    # All classes are equally frequent at every confidence.
    is_predicted = np.arange(N_POPULATION)[:, None] % 3 == CLASSES
    wrong = error_rate(confidence)
    return (
        np.where(is_predicted, confidence, (1 - confidence) / 2),
        np.where(is_predicted, 1 - wrong, wrong / 2),
    )


POPULATIONS = {
    "calibrated": draw_calibrated,
    "unrelated": lambda rng: draw_errors(rng, lambda c: 0.101 + 0 * c),
    "rising": lambda rng: draw_errors(rng, lambda c: 0.34 * (c - 0.4)),
}


def losses_of(goals, predicted):
    """Yield each limit with the losses of all samples for each true class."""
    predicted = predicted[:, None]
    wrong = (predicted != CLASSES).astype(float)
    counted = {"false_negative_rate": CLASSES, "false_discovery_rate": predicted}
    for key, goal in goals.items():
        if key in counted:
            limits = goal if isinstance(goal, dict) else dict.fromkeys(CLASSES, goal)
            for k, limit in limits.items():
                yield limit, np.where(counted[key] == k, wrong, np.nan)
        elif callable(key):
            yield goal, key(*np.broadcast_arrays(CLASSES, predicted))
        else:
            yield goal, COST[CLASSES, predicted] if key == "cost" else wrong


def is_exceeded(goals, proba, truth):
    """Return, for each number of most confident samples, if a risk is too large."""
    exceeded = np.zeros(len(proba), dtype=bool)
    for limit, losses in losses_of(goals, proba.argmax(axis=1)):
        total = np.nansum(truth * losses, axis=1).cumsum()
        exceeded |= total > limit * (truth * ~np.isnan(losses)).sum(axis=1).cumsum()
    return exceeded


def measure(goals, proba, truth, n_samples, repeats, seed):
    """Return how often a risk is exceeded, the mean coverage and the best coverage."""
    order = np.argsort(-proba.max(axis=1))
    proba, truth = proba[order], truth[order]
    confidence, exceeded = proba.max(axis=1), is_exceeded(goals, proba, truth)
    rng = np.random.default_rng(seed)
    model = SelectiveClassifier(
        FrozenEstimator(Recorded(len(CLASSES))),
        max_risk=goals,
        cost_matrix=COST if "cost" in goals else None,
        delta=DELTA,
        abstain_label=-1,
    )
    n_accepted = np.zeros(repeats, dtype=int)
    for i in range(repeats):
        rows = rng.integers(N_POPULATION, size=n_samples)
        uniform = rng.uniform(size=(n_samples, 1))
        y = (uniform >= truth[rows].cumsum(axis=1)[:, :-1]).sum(axis=1)
        try:
            model.fit(proba[rows], y)
        except ValueError as error:
            if "The lowest" not in str(error):
                raise
            continue
        n_accepted[i] = np.searchsorted(-confidence, -model.threshold_, side="right")
    is_wrong = (n_accepted > 0) & exceeded[n_accepted - 1]
    best = N_POPULATION - (~exceeded[::-1]).argmax() if not exceeded.all() else 0
    return is_wrong.mean(), n_accepted.mean() / N_POPULATION, best / N_POPULATION


def main():
    """Write and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--risks", nargs="+", choices=RISKS, default=list(RISKS))
    parser.add_argument("--n-samples", type=int, nargs="+", default=[300, 1000, 5000])
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    def row(name, population, n_samples):
        data = POPULATIONS[population](np.random.default_rng(args.seed))
        found = measure(RISKS[name], *data, n_samples, args.repeats, args.seed)
        return *(f"{each:.3f}" for each in found), args.repeats

    keys = product(args.risks, POPULATIONS, args.n_samples)
    add_missing(args.output, FIELDS, keys, row)
    print(args.output.read_text("utf-8"))


if __name__ == "__main__":
    main()
