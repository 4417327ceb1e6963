"""Groups: calibration errors and log loss by group, with calibrators of groups.

    python benchmarks/populations/bench_groups.py results

The table adult, in the folder `tabular` of the shared data (`SKLEARN_CALIB_DATA`), is
split at random: 8,000 rows train a classifier (logistic regression, gradient boosting
or a random forest), 10,000 fit a calibrator, and the rest measure. The groups are
those of `GROUPS`. The classifier gets all columns, or, with `hidden`, all but those
from which the groups are made, as for a sensitive feature. Compared are the methods of
`METHODS`: each is a function that is fitted to the probabilities, labels and groups of
the calibration data and returns a function from probabilities and groups to calibrated
probabilities.

There are two experiments. `groups` reports the log loss, and of the groups with at
least 500 test samples the largest and the mean debiased ECE (15 bins, of the
probability of the second class) and the largest log loss. `size` keeps only
`n_members` of the calibration samples of one group, which is drawn at random from the
education groups with at least 1,000 test samples, and reports the log loss in this
group. Both repeat the split with several seeds.

Each result is a row of `results/groups.csv`; existing rows are not computed again. Then
prints the means, and for `size` the mean and the standard error of the difference from
the map of all samples. Uses one thread.
"""

import argparse
import sys
import warnings
from functools import cache, reduce
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib.calibrators import PerGroupCalibrator, PlattScaling
from sklearn_calib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from bench_trees import DATA
from helpers.resumable import open_results

N_TRAIN, N_CALIBRATION = 8000, 10_000
SEEDS, SIZE_SEEDS = 5, 30
SIZES = [20, 50, 100, 200, 500, 1000]
GROUPS = {
    "sex": ["sex"],
    "sex, race": ["sex", "race"],
    "education": ["education"],
    "sex, education": ["sex", "education"],
    "country": ["native_country"],
}
SMALLEST, SMALLEST_OF_SIZE = 500, 1000
FIELDS = [
    *("experiment", "groups", "classifier", "hidden", "size", "seed", "method"),
    *("log_loss", "worst_log_loss", "worst_ece", "mean_ece"),
]


def none(proba, y, groups):  # noqa: ARG001 - all METHODS are called alike
    return lambda proba, groups: proba  # noqa: ARG005 - as all predictions


def without_groups(proba, y, groups):  # noqa: ARG001 - all METHODS are called alike
    calibrator = PlattScaling().fit(proba, y)
    predict = calibrator.predict_proba
    return lambda proba, groups: predict(proba)  # noqa: ARG005 - as all predictions


def separate(proba, y, groups):
    """Fit a calibrator to each group alone, if it has samples of both classes."""
    overall, keys = PlattScaling().fit(proba, y), as_keys(groups)
    own = {
        key: PlattScaling().fit(proba[keys == key], y[keys == key])
        for key in np.unique(keys)
        if len(np.unique(y[keys == key])) == 2
    }

    def predict(proba, groups):
        found, keys = overall.predict_proba(proba), as_keys(groups)
        for key, calibrator in own.items():
            if (rows := keys == key).any():
                found[rows] = calibrator.predict_proba(proba[rows])
        return found

    return predict


def per_group(proba, y, groups):
    calibrator = PerGroupCalibrator(PlattScaling()).fit(proba, y, groups=groups)
    return lambda proba, groups: calibrator.predict_proba(proba, groups=groups)


# Functions of calibration data that return a function of new data. All have the same
# arguments, which not all of them need.
METHODS = {
    "none": none,
    "without groups": without_groups,
    "separate": separate,
    "PerGroupCalibrator": per_group,
}


def as_keys(groups):
    """Return the groups of several columns as strings."""
    columns = [column.to_numpy().astype(str) for _, column in groups.items()]
    return reduce(np.char.add, columns)


@cache
def read_table():
    """Return the features and the codes of the classes."""
    frame = pd.read_csv(DATA / "tabular" / "adult.csv.gz").drop(columns="split")
    return frame.drop(columns="target"), pd.factorize(frame["target"], sort=True)[0]


def make_classifier(name):
    words = make_column_selector(dtype_exclude="number")
    if name == "logistic":
        encoder = OneHotEncoder(min_frequency=20, handle_unknown="ignore")
        features = make_column_transformer((encoder, words), remainder=StandardScaler())
        return make_pipeline(features, LogisticRegression(max_iter=1000))
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    classifiers = {
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "forest": RandomForestClassifier(min_samples_leaf=3, random_state=0),
    }
    features = make_column_transformer((encoder, words), remainder="passthrough")
    return make_pipeline(features, clone(classifiers[name]))


@cache
def predict(classifier, hidden, seed):
    """Return probabilities of the samples that did not train, and their rows."""
    X, y = read_table()
    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[:N_TRAIN], order[N_TRAIN:]
    # Numbers of years of education are the same as its names.
    also = ["education_num"] if "education" in hidden else []
    X = X.drop(columns=[*hidden, *also])
    model = make_classifier(classifier).fit(X.iloc[train], y[train])
    return model.predict_proba(X.iloc[rest]), rest


def measure(experiment, groups, classifier, is_hidden, size, seed):
    """Yield the results of each method for one split."""
    X, y = read_table()
    hidden = tuple(GROUPS[groups]) if is_hidden else ()
    proba, rows = predict(classifier, hidden, seed)
    y, frame = y[rows], X[GROUPS[groups]].iloc[rows].reset_index(drop=True)
    keys = as_keys(frame)
    used, new = np.arange(N_CALIBRATION), np.arange(N_CALIBRATION, len(y))
    names, sizes = np.unique(keys[new], return_counts=True)
    tested = names[sizes >= SMALLEST]
    if experiment == "size":
        rng = np.random.default_rng([seed, size])
        one = rng.choice(names[sizes >= SMALLEST_OF_SIZE])
        members = np.flatnonzero(keys[used] == one)
        # Sizes are at most those that the group has.
        left = rng.permutation(members)[: min(size, len(members))]
        used = np.sort(np.append(np.flatnonzero(keys[used] != one), left))
        new, tested = new[keys[new] == one], [one]
    for name, method in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = method(proba[used], y[used], frame.iloc[used])
        found = fitted(proba[new], frame.iloc[new])
        losses, errors, weights = [], [], []
        for key in tested:
            own = keys[new] == key
            labels, own_proba = y[new][own], found[own]
            losses.append(log_loss(labels, own_proba, labels=[0, 1]))
            errors.append(
                expected_calibration_error(
                    labels, own_proba[:, 1], labels=[0, 1], reduce_bias=True
                )
            )
            weights.append(own.sum())
        overall = log_loss(y[new], found, labels=[0, 1])
        mean = np.average(errors, weights=weights)
        yield name, overall, max(losses), max(errors), mean


def tasks():
    """Yield the experiment, groups, classifier, hidden, size and seed."""
    for seed in range(SEEDS):
        for classifier in ("logistic", "boosting", "forest"):
            for is_hidden in (True, False):
                for groups in GROUPS:
                    yield "groups", groups, classifier, is_hidden, 0, seed
    for seed in range(SIZE_SEEDS):
        for is_hidden in (True, False):
            for size in SIZES:
                yield "size", "education", "boosting", is_hidden, size, seed


def report(path):
    """Print means over the seeds, and differences from the map of all samples."""
    results = pd.read_csv(path, dtype={"hidden": str})
    measures = FIELDS[7:]
    groups = results[results["experiment"] == "groups"]
    keys = ["hidden", "groups", "method"]
    print(groups.groupby(keys, sort=False)[measures].mean().round(4).to_string())
    keys = ["hidden", "classifier", "method"]
    print(groups.groupby(keys, sort=False)[measures].mean().round(4).to_string())
    sizes = results[results["experiment"] == "size"]
    keys = ["hidden", "size", "seed"]
    table = sizes.pivot_table(index=keys, columns="method", values="log_loss")
    print("\nLog loss in a group of this size minus that without groups, times 1000")
    differences = 1000 * table.sub(table["without groups"], axis=0)
    differences = differences.drop(columns="without groups")
    summary = differences.groupby(["hidden", "size"]).agg(["mean", "sem"])
    print(summary.round(2).to_string())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    path = args.folder / "groups.csv"
    with threadpool_limits(1), open_results(path, FIELDS, 7) as (keys, append):
        for task in tasks():
            wanted = {(*map(str, task), method) for method in METHODS}
            if wanted <= keys:
                continue
            for method, *values in measure(*task):
                if (*map(str, task), method) not in keys:
                    append([*task, method, *values])
    report(path)


if __name__ == "__main__":
    main()
