"""Size of prediction sets for classifiers with probabilities of zero.

    python benchmarks/studies/bench_zero_probabilities.py FOLDER

Reads the tables of `bench_trees.py` with more than five classes. For each seed, 2000
samples fit `PredictionSetClassifier`, in its default of five folds or with half of them
for the calibration, and 2000 others measure the coverage, the mean size of the sets,
and the fraction of sets with all classes. The classes with probability zero have

    tied     equal scores
    sample   a random number for each sample, which all these classes share
    class    a random number for each sample and class, which is the default

Writes a row for each table, classifier, calibration, score, order, level and seed to
`FOLDER/zero_probabilities.csv`; existing rows are not computed again. Prints the means
of the seeds.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_trees import read_tables
from helpers.resumable import open_results
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from sklearn_calib import PredictionSetClassifier
from sklearn_calib.metrics import mean_set_size_loss, set_coverage_score

CLASSIFIERS = {
    "tree": DecisionTreeClassifier(random_state=0),
    "tree, leaves of 5": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "forest of 10": RandomForestClassifier(10, random_state=0),
}
SPLITS = {"folds": 5, "split": ShuffleSplit(1, test_size=0.5, random_state=0)}
SCORES, ORDERS = ["aps", "raps"], ["tied", "sample", "class"]
LEVELS, N_SAMPLES, N_SEEDS = [0.9, 0.99], 2000, 5
FIELDS = ["data", "classifier", "seed", "calibration", "score", "order", "level"]
FIELDS += ["classes", "coverage", "size", "full"]


class Draws(np.random.RandomState):
    """Random numbers of which those for classes have an order of `ORDERS`."""

    def __init__(self, seed, order):
        super().__init__(seed)
        self.order = order

    def uniform(self, size):
        draws = super().uniform(size=size)
        if self.order != "class":
            draws[:, 1:] = draws[:, 1:2] if self.order == "sample" else 0
        return draws


def evaluate(classifier, X, y, seed):
    """Yield the keys of a row after the seed, and its measures."""
    n_samples = min(N_SAMPLES, len(y) // 2)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n_samples, test_size=n_samples, stratify=y, random_state=seed
    )
    for name, score, order in product(SPLITS, SCORES, ORDERS):
        model = PredictionSetClassifier(
            classifier,
            conformity_score=score,
            cv=SPLITS[name],
            random_state=Draws(seed, order),
        )
        with warnings.catch_warnings():  # of classes that are absent from a fold
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y)
        labels = model.classes_
        for level in LEVELS:
            y_set = model.set_params(confidence_level=level).predict_set(X_test)
            measured = [
                metric(y_test, y_set, labels=labels)
                for metric in (set_coverage_score, mean_set_size_loss)
            ]
            measured.append(y_set.all(axis=1).mean())
            yield name, score, order, level, len(labels), *measured


def run_all(path):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=3) as (done, append):
        for (data, X, y), (name, classifier) in product(
            read_tables(), CLASSIFIERS.items()
        ):
            for seed in range(N_SEEDS if y.max() > 4 else 0):
                if (data, name, str(seed)) not in done:
                    for *keys, coverage, size, full in [
                        *evaluate(classifier, X, y, seed)
                    ]:
                        found = f"{coverage:.4f}", f"{size:.3f}", f"{full:.4f}"
                        append([data, name, seed, *keys, *found])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    path = parser.parse_args().folder / "zero_probabilities.csv"
    with threadpool_limits(1):
        run_all(path)
    table = pd.read_csv(path)
    keys = ["level", "calibration", "classifier", "data", "score", "order"]
    means = table.groupby(keys, sort=False)[["coverage", "size", "full"]].mean()
    print(means.unstack().round(3).to_string())


if __name__ == "__main__":
    main()
