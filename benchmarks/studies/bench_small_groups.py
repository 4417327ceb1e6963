"""What a small group gains and loses by `PerGroupCalibrator`, and by other priors.

    python benchmarks/studies/bench_small_groups.py small_groups_output.csv

One group has 20 to 1000 samples, and seven others have 1000 each. Logits z are normal
with standard deviation 2, and labels of a group are drawn from softmax(a z + b). The
slope a and the intercepts b of all groups are drawn from the same distribution:

    strong   log a with standard deviation 0.4, b with 1
    slight   log a with standard deviation 0.1, b with 0.25
    equal    a = 1 and b = 0
    many     as "strong", but with 50 other groups of the same size as the small one

The table has the log loss of the small group (exact, for 2000 new predictions) minus
that with one map for all samples: the mean of the draws, and the worst draw. The priors
of the difference of a group are

    normal    normal, with variances from all groups, as in `PerGroupCalibrator`
    mixture   no difference with probability 1 / 2, and otherwise as before. The
              difference is multiplied by its posterior probability, from the marginal
              likelihood in Laplace's approximation
    learnt    as before, with a probability that is estimated from all groups

Rows that are in the output file already are not measured again.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from helpers.resumable import add_missing
from scipy.special import expit, log_softmax, softmax

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib.calibrators import TemperatureScaling
from sklearn_calib.calibrators._linear.empirical_bayes import fit_empirical_bayes
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap

SPREAD = {"strong": (0.4, 1.0), "slight": (0.1, 0.25), "equal": (0.0, 0.0)}
SPREAD["many"] = SPREAD["strong"]
SIZES, N_TEST = (20, 50, 100, 300, 1000), 2000
PRIORS = ["normal", "mixture", "learnt"]
FIELDS = ["groups", "n_classes", "n_samples", "repeats"]
FIELDS += [f"{prior}_{value}" for prior in PRIORS for value in ("mean", "worst")]


def draw_group(spread, n_samples, n_classes, rng):
    """Return logits and labels, and new logits with the true probabilities."""
    slope, intercept = np.exp(spread[0] * rng.normal()), rng.normal(size=n_classes)
    logits = 2 * rng.normal(size=(n_samples + N_TEST, n_classes))
    scores = slope * logits + spread[1] * intercept
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return (
        logits[:n_samples],
        y[:n_samples],
        logits[n_samples:],
        softmax(scores[n_samples:], axis=1),
    )


def log_bayes_factor(log_proba, y, difference, precision):
    """Return the log marginal likelihood of a difference, relative to none.

    `difference` has the slopes minus 1, and then the intercepts, of each class. The
    prior of intercepts refers to the mean log-probabilities, as in the package.
    """
    n_classes = log_proba.shape[1]
    proba = np.exp(log_proba)
    origin = np.average(log_proba, axis=0, weights=proba * (1 - proba) + 1e-12)
    slope, intercept = difference[:n_classes], difference[n_classes:]
    moved = np.append(slope, intercept + slope * origin)
    scores = (1 + slope) * log_proba + intercept
    proba = softmax(scores, axis=1)
    rows = np.arange(len(y))
    gain = (log_softmax(scores, axis=1) - log_proba)[rows, y].sum()
    columns = np.eye(n_classes)
    jacobian = np.concatenate(
        [(log_proba - origin)[:, :, None] * columns, np.tile(columns, (len(y), 1, 1))],
        axis=2,
    )
    mean = np.einsum("ik,ikp->ip", proba, jacobian)
    hessian = np.einsum("ik,ikp,ikq->pq", proba, jacobian, jacobian) - mean.T @ mean
    prior = np.repeat(precision, n_classes)
    volume = np.linalg.slogdet(hessian + np.diag(prior))[1] - np.log(prior).sum()
    return gain - (prior * moved**2).sum() / 2 - volume / 2


def learnt_odds(factors):
    """Return the odds of a difference, with a uniform prior on its probability."""
    probability = 0.5
    for _ in range(200):
        odds = np.log(probability / (1 - probability))
        probability = (1 + expit(factors + odds).sum()) / (2 + len(factors))
    return np.log(probability / (1 - probability))


def excess(design, n_samples, n_classes, rng):
    """Return the log loss of each prior minus that of one map, in the small group."""
    others = [n_samples] * 50 if design == "many" else [1000] * 7
    groups = [
        draw_group(SPREAD[design], size, n_classes, rng)
        for size in [n_samples, *others]
    ]
    X, y, X_test, truth = zip(*groups, strict=True)
    one = TemperatureScaling(from_logits=True).fit(np.vstack(X), np.concatenate(y))
    log_proba = [np.log(one.predict_proba(each)) for each in X]
    kind = DiagonalMap()
    parameters, precision = fit_empirical_bayes(
        kind,
        [
            array_blocks(each, labels, np.ones(len(labels))).normalised()
            for each, labels in zip(log_proba, y, strict=True)
        ],
        center=kind.identity(n_classes),
        group=kind.groups(n_classes),
    )
    differences = [(each - kind.identity(n_classes)).T.ravel() for each in parameters]
    factors = np.array(
        [
            log_bayes_factor(*group, precision)
            for group in zip(log_proba, y, differences, strict=True)
        ]
    )
    log_test = np.log(one.predict_proba(X_test[0]))
    slope, intercept = np.split(differences[0], 2)

    def loss(share):
        scores = (1 + share * slope) * log_test + share * intercept
        return -(truth[0] * log_softmax(scores, axis=1)).sum(axis=1).mean()

    shares = 1.0, expit(factors[0]), expit(factors[0] + learnt_odds(factors))
    return [loss(share) - loss(0.0) for share in shares]


def main():
    """Write the rows, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    def row(groups, n_classes, n_samples):
        rng = np.random.default_rng(args.seed)
        draws = np.array(
            [excess(groups, n_samples, n_classes, rng) for _ in range(args.repeats)]
        )
        values = np.transpose([draws.mean(axis=0), draws.max(axis=0)]).ravel()
        return args.repeats, *(f"{each:.4f}" for each in values)

    keys = [
        key
        for key in product(SPREAD, (2, 3), SIZES)
        if key[0] != "many" or key[2] <= 100
    ]
    add_missing(args.output, FIELDS, keys, row)
    print(pd.read_csv(args.output).to_string(index=False))


if __name__ == "__main__":
    main()
