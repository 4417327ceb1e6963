"""Coverage of `PredictionSetClassifier`, compared with its exact law and its guarantee.

    python benchmarks/guarantees/bench_prediction_sets.py --output sets_output.csv

Each repetition draws held-out samples of four classes, calibrates the sets for the
level 0.9, and measures the coverage on 1000 new samples. The probabilities are

    distinct     too extreme, and without ties
    rounded      the same, rounded to one decimal, so that many scores are equal
    equal        0.25 for each class
    zeros        1 for the most probable class, and 0 for the others
    trained      of naive Bayes, trained in five folds (CV+), for Gaussian classes

The sets are those of a score, or with thresholds of each class. Without ties, the
number of covered samples has a beta-binomial distribution, whose mean and standard
deviation are "law mean" and "law sd"; "aps" and "raps" break the ties of zeros. "low"
is how often the coverage is at or below the 5 % quantile of this distribution, which
happens with the probability "law low". The "bound" is the guaranteed mean. With
thresholds of each class, "coverage" is that of the class with the lowest mean coverage.

With `--shift`, the features of the new samples have another distribution than those of
the held-out ones, and the labels are noisier. The sets of "lac" are unweighted, or
weighted by the exact ratio of the densities, or by that of `DensityRatioEstimator` with
as many new samples and logistic regression, which is of the right form, or boosting (a
quarter of the draws):

    python benchmarks/guarantees/bench_prediction_sets.py --shift --n-samples 1000 \
        --repeats 200 --output sets_output.csv

Rows that are in the output file already are not measured again.
"""

import argparse
import sys
import warnings
from itertools import product
from math import ceil
from pathlib import Path

import numpy as np
from scipy.stats import betabinom
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.deployment import DensityRatioEstimator
from sklearn_calib.estimators import PredictionSetClassifier

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.recorded import Recorded
from helpers.resumable import add_missing

LEVEL, N_NEW, N_FOLDS, CLASSES = 0.9, 1000, 5, np.arange(4)
FIELDS = ["sets", "probabilities", "n_samples", "coverage", "bound", "law mean"]
FIELDS += ["sd", "law sd", "low", "law low", "mean size", "repeats"]
SETS = {
    "lac": {},
    "aps": {"conformity_score": "aps"},
    "raps": {"conformity_score": "raps", "k_reg": 1, "lambd": 0.05},
    "lac, each class": {"per_class": True},
}
PROBABILITIES = ["distinct", "rounded", "equal", "zeros", "trained"]
HAVE_LAW = {(name, "distinct") for name in ("lac", "aps", "raps")}
HAVE_LAW |= {("aps", "zeros"), ("raps", "zeros")}
SHIFTED = {
    "unweighted": None,
    "exact ratios": None,
    "estimated ratios": DensityRatioEstimator(),
    "boosted ratios": DensityRatioEstimator(HistGradientBoostingClassifier()),
}


def draw_shifted(rng, shift, n_samples):
    """Return five features, of which the first has the mean `shift`, and labels."""
    X = rng.normal(size=(n_samples, 5)) + shift * np.eye(5)[0]
    noise = 0.15 + 0.5 * np.maximum(X[:, 0] + 0.5, 0)
    return X, np.digitize(X[:, 1] + noise * rng.normal(size=n_samples), [-0.8, 0, 0.8])


def measure_shifted(name, n_samples, repeats, seed):
    """Return the columns of one row."""
    rng = np.random.default_rng(seed)
    classifier = LogisticRegression().fit(*draw_shifted(rng, 0, 1000))
    model = PredictionSetClassifier(FrozenEstimator(classifier), confidence_level=LEVEL)
    found = []
    for _ in range(repeats):
        X, y = draw_shifted(rng, 0, n_samples)
        X_known, _ = draw_shifted(rng, 1, n_samples)
        X_new, y_new = draw_shifted(rng, 1, N_NEW)
        weight = new_weight = None
        if name == "exact ratios":  # of normal distributions with the means 0 and 1
            weight, new_weight = (np.exp(data[:, 0] - 0.5) for data in (X, X_new))
        elif SHIFTED[name] is not None:
            ratio = SHIFTED[name].fit(X, X_known)
            weight, new_weight = ratio.source_weight_, ratio.predict_weight(X_new)
        with warnings.catch_warnings():  # of full sets for large weights
            warnings.simplefilter("ignore", UserWarning)
            y_set = model.fit(X, y, weight).predict_set(X_new, new_weight)
        found.append((y_set[np.arange(N_NEW), y_new].mean(), y_set.sum(axis=1).mean()))
    (mean, size), sd = np.mean(found, axis=0), np.std(found, axis=0)[0]
    bound = f"{LEVEL:.4f}" if name == "exact ratios" else ""
    return f"{mean:.4f}", bound, "", f"{sd:.4f}", "", "", "", f"{size:.3f}", repeats


def draw(rng, kind, n_samples):
    """Return features, which are probabilities unless a classifier is trained."""
    if kind == "trained":
        y = rng.integers(4, size=n_samples)
        return 1.5 * np.eye(4)[y] + rng.normal(size=(n_samples, 4)), y
    true = rng.dirichlet([1, 1, 1, 0.5], size=n_samples)
    y = (rng.uniform(size=(n_samples, 1)) > true.cumsum(axis=1)[:, :-1]).sum(axis=1)
    proba = true**2
    if kind == "equal":
        proba = np.ones_like(true)
    elif kind == "zeros":
        proba = np.eye(4)[true.argmax(axis=1)]
    elif kind == "rounded":
        proba = (proba / proba.sum(axis=1, keepdims=True)).round(1) + 1e-3
    return proba / proba.sum(axis=1, keepdims=True), y


def bound_of(kind, n_samples):
    """Return the coverage that is guaranteed on average."""
    if kind != "trained":
        return LEVEL
    loss = min(
        2 * (1 - 1 / N_FOLDS) / (n_samples / N_FOLDS + 1),
        (1 - N_FOLDS / n_samples) / (N_FOLDS + 1),
    )
    return 1 - 2 * (1 - LEVEL) - loss


def measure(name, kind, n_samples, repeats, seed):
    """Return the columns of one row."""
    rng = np.random.default_rng(seed)
    cv = KFold(N_FOLDS, shuffle=True, random_state=seed)
    params = {"confidence_level": LEVEL, "cv": cv, **SETS[name]}
    by_class = "per_class" in params
    inner = (
        GaussianNB() if kind == "trained" else FrozenEstimator(Recorded(len(CLASSES)))
    )
    model = PredictionSetClassifier(inner, random_state=seed, **params)
    covered, sizes = np.full((repeats, len(CLASSES)), np.nan), []
    for i in range(repeats):
        model.set_params(random_state=seed + i)
        X, y = draw(rng, kind, n_samples)
        with warnings.catch_warnings():  # of absent classes, and of full sets
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y)
        X, y = draw(rng, kind, N_NEW)
        y_set = np.zeros((N_NEW, len(CLASSES)), dtype=bool)
        y_set[:, model.classes_] = model.predict_set(X)  # few samples may lack a class
        is_in = y_set[np.arange(N_NEW), y]
        sizes.append(y_set.sum(axis=1).mean())
        for k in CLASSES if by_class else [0]:
            covered[i, k] = is_in[y == k].mean() if by_class else is_in.mean()
    column = np.nanargmin(np.nanmean(covered, axis=0)) if by_class else 0
    found = covered[:, column]
    # The folds of a class differ in size.
    bound = "" if by_class and kind == "trained" else f"{bound_of(kind, n_samples):.4f}"
    law_mean = law_sd = low = law_low = ""
    if (name, kind) in HAVE_LAW:
        rank = ceil((n_samples + 1) * LEVEL - 1e-9)
        law = betabinom(N_NEW, rank, n_samples + 1 - rank)
        law_mean, law_sd = f"{law.mean() / N_NEW:.4f}", f"{law.std() / N_NEW:.4f}"
        limit = law.ppf(0.05)
        low = f"{np.mean(np.rint(N_NEW * found) <= limit):.4f}"
        law_low = f"{law.cdf(limit):.4f}"
    mean, sd, size = np.nanmean(found), np.nanstd(found), np.mean(sizes)
    law = law_mean, f"{sd:.4f}", law_sd, low, law_low
    return f"{mean:.4f}", bound, *law, f"{size:.3f}", repeats


def main():
    """Write and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument(
        "--probabilities", nargs="+", choices=PROBABILITIES, default=PROBABILITIES
    )
    parser.add_argument("--shift", action="store_true")
    parser.add_argument(
        "--n-samples", type=int, nargs="+", default=[30, 100, 300, 3000]
    )
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    def row(name, kind, n_samples):
        return measure(name, kind, n_samples, args.repeats, args.seed)

    def row_of_shift(name, _, n_samples):
        repeats = args.repeats // 4 if name == "boosted ratios" else args.repeats
        return measure_shifted(name, n_samples, repeats, args.seed)

    keys = product(args.sets, args.probabilities, args.n_samples)
    if args.shift:
        keys, row = product(SHIFTED, ["shift"], args.n_samples), row_of_shift
    add_missing(args.output, FIELDS, keys, row)
    print(args.output.read_text("utf-8"))


if __name__ == "__main__":
    main()
