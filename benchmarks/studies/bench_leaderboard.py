"""Win rates of the calibrators against the methods of CalArena.

    python benchmarks/studies/bench_leaderboard.py results
    python benchmarks/studies/bench_leaderboard.py results --field
    python benchmarks/studies/bench_leaderboard.py results --again log_odds_spline

An experiment is a data set with the predictions of one model, for which CalArena's
protocol is followed: calibrators get the probabilities in single precision, are fitted
to the calibration set and evaluated on the test set. The groups are two classes, three
to ten, and more.

- `tables` are those of `bench_trees.py`, with five classifiers of scikit-learn. At most
  10,000 rows are used: half to train the classifier, a quarter to calibrate it, and a
  quarter as the test set.
- `logits` are those of `bench_public_logits.py`, with one network of each family. At
  most 2500 samples are used to calibrate, and at most 5000 as the test set. The ten
  classes of CIFAR-10 are also merged into animals and machines, as in CalArena.

`calarena/custom_calibrators.py` lists our methods: all registered calibrators and some
with other parameters. The methods of CalArena (`calarena/field.py`) run with `--field`,
which needs `probmetrics[extra]`. Each result is a row of `calarena/leaderboard.csv`;
existing rows are not computed again, except those of the methods in `--again`. The
folder keeps the predictions of the trained classifiers.

Then writes `tables/win_rates.csv` (`--tables` does only this): for each group and
method, the win rates by Brier score and by log loss, the fraction of CalArena's methods
with a larger score, with 95 % intervals from a bootstrap of the data sets, and the
median improvement, in hundredths. A failure neither wins nor loses. Uses one thread.
"""

import argparse
import signal
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import read_data
from bench_trees import read_tables
from calarena.custom_calibrators import METHODS, Entry, to_columns
from calarena.field import BASE, BINARY, MANY, MULTICLASS
from calarena.make_inputs import to_animals
from calarena.win_rates import improvement, intervals, win_shares
from helpers.resumable import open_results
from scipy.special import log_softmax, softmax
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib._state.whole_file import whole_file

RESULTS = Path(__file__).parent / "calarena" / "leaderboard.csv"
TABLE = Path(__file__).parent / "tables" / "win_rates.csv"
FIELDS = ["group", "data", "model", "seed", "method", "brier", "nll", "seconds"]
GROUPS = {
    "two classes": BINARY,
    "3 to 10 classes": MULTICLASS,
    "more than 10 classes": MANY,
}
MOST_CALIBRATION, MOST_TEST = 2500, 5000
CLASSIFIERS = {
    "forest": RandomForestClassifier,
    "extra trees": ExtraTreesClassifier,
    "boosting": HistGradientBoostingClassifier,
    "logistic regression": partial(LogisticRegression, max_iter=300),
    "network": partial(MLPClassifier, early_stopping=True, max_iter=60),
}
# Other networks of the same families on the same images, which add little.
TWINS = ["resnet56", "vgg19_bn", "mobilenetv2_x1_4", "shufflenetv2_x1_5", "repvgg_a2"]


def group_of(n_classes):
    return list(GROUPS)[(n_classes > 2) + (n_classes > 10)]


def train(name, X, y, seed):
    """Return the probabilities and labels of the calibration and test set."""
    parts = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    X, X_test, y, y_test = parts
    parts = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=seed)
    X, X_rest, y, y_rest = parts
    model = make_pipeline(StandardScaler(), CLASSIFIERS[name](random_state=seed))
    model.fit(X, y)
    return model.predict_proba(X_rest), y_rest, model.predict_proba(X_test), y_test


def cached(path, compute):
    """Return the arrays in a file, computed first if it does not exist."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part, part.open("wb") as file:
            np.savez_compressed(file, *compute())
    return list(np.load(path).values())


def table_experiments(folder, seed):
    """Yield the names of a table and of a classifier, and the predictions."""
    for table, X, y in read_tables():
        for name in CLASSIFIERS:
            path = folder / f"{table}-{name}-{seed}.npz"
            yield table, name, cached(path, partial(train, name, X, y, seed))


def family(name):
    """Return the names of the data and of the model of a file of logits."""
    data, _, model = name.partition("_")
    return data, model or "network"


def logit_experiments(seed):
    """Yield the names of the data and of the model, and the predictions."""
    rng = np.random.default_rng(seed)
    for name, has_logits, X, y, X_test, y_test in read_data():
        data, model = family(name)
        if data == "cifar10" and any(name.endswith(twin) for twin in TWINS):
            continue
        kept = rng.permutation(len(y))[:MOST_CALIBRATION]
        kept_test = rng.permutation(len(y_test))[:MOST_TEST]
        parts = [X[kept], y[kept], X_test[kept_test], y_test[kept_test]]
        scores = parts[::2]
        if has_logits:
            parts[::2] = [softmax(s.astype(np.float64), axis=1) for s in scores]
        yield data, model, parts
        if data == "cifar10":
            logits = scores if has_logits else [np.log(s) for s in scores]
            sets = zip(logits, parts[1::2], strict=True)
            merged = [part for one in sets for part in to_animals(*one)]
            yield "cifar10 animals", model, merged


def measure(proba, y):
    """Return the Brier score and log loss; probabilities of zero are replaced."""
    proba = to_columns(proba)
    index = np.arange(len(y))
    brier = ((proba**2).sum(axis=1) - 2 * proba[index, y] + 1).mean()
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(proba), np.log(np.finfo(np.float32).tiny))
    return brier, -log_softmax(logs, axis=1)[index, y].mean()


def evaluate(make, X, y, X_test, y_test, limit):
    """Return the measures and CPU seconds of a method, or no numbers if it fails."""

    def stop(*_):
        raise TimeoutError(f"more than {limit} s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    start = time.process_time()
    try:
        calibrator = make()
        calibrator.fit(X, y)
        proba = calibrator.predict_proba(X_test)
        return [*measure(proba, y_test), time.process_time() - start]
    except ImportError:
        raise
    except Exception as error:  # other packages raise errors of many types
        print(f"{type(error).__name__}: {error}".splitlines()[0][:100], flush=True)
        return [np.nan] * 3
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def digits(numbers):
    return [f"{number:.7g}" for number in numbers]


def run_all(folder, n_seeds, *, with_field, limit):
    """Compute the missing rows."""
    with open_results(RESULTS, FIELDS, n_keys=5) as (done, append):
        for seed in range(n_seeds):
            experiments = [
                *table_experiments(folder, seed),
                *logit_experiments(seed),
            ]
            for data, model, (X, y, X_test, y_test) in experiments:
                n_classes = X.shape[1] if X.ndim == 2 else 2
                group = group_of(n_classes)
                X, X_test = X.astype(np.float32), X_test.astype(np.float32)
                if n_classes == 2:  # as CalArena stores them
                    X, X_test = (to_columns(part)[:, 1] for part in (X, X_test))
                key = [group, data, model, str(seed)]
                methods = {name: partial(Entry, name) for name in METHODS}
                if with_field:
                    methods |= GROUPS[group]
                if (*key, BASE) not in done:
                    append([*key, BASE, *digits([*measure(X_test, y_test), 0])])
                for method, make in methods.items():
                    if (*key, method) in done:
                        continue
                    print(*key, method, flush=True)
                    try:
                        row = evaluate(make, X, y, X_test, y_test, limit)
                    except ImportError as error:
                        print(error)  # no row, to be computed when it is installed
                    else:
                        append([*key, method, *digits(row)])


def forget(methods):
    """Remove the rows of some methods, to compute them again."""
    rows = pd.read_csv(RESULTS, dtype=str, keep_default_na=False)
    rows[~rows["method"].isin(methods)].to_csv(RESULTS, index=False)


def summarise(rows):
    """Return win rates, their intervals and improvements by group and method."""
    tables = {}
    for group, part in rows.groupby("group", sort=False):
        columns = {}
        for measured in ("brier", "nll"):
            values = part.pivot_table(
                measured, ["data", "model", "seed"], "method", dropna=False
            ).dropna(how="all")
            field = [name for name in (BASE, *GROUPS[group]) if name in values]
            shares = win_shares(values, field)
            columns[f"{measured} win rate"] = shares.mean()
            data = values.index.get_level_values("data")
            bounds = intervals(shares, data).add_prefix(f"{measured} ")
            columns |= dict(bounds.items())
            columns[f"{measured} improvement"] = improvement(values, BASE)
        tables[group] = pd.DataFrame(columns)
    return {group: tables[group] for group in GROUPS if group in tables}


def write_table(tables):
    """Write the statistics of all groups to `TABLE`."""
    table = pd.concat(tables, names=["group", "method"])
    table.to_csv(TABLE, float_format="%.3f", lineterminator="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--field", action="store_true", help="run CalArena's methods")
    parser.add_argument("--again", nargs="*", default=[], help="methods to run again")
    parser.add_argument("--tables", action="store_true", help="compute no rows")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=60, help="CPU seconds for each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.again:
        forget(args.again)
    if not args.tables:
        with threadpool_limits(1):
            run_all(args.folder, args.seeds, with_field=args.field, limit=args.limit)
    tables = summarise(pd.read_csv(RESULTS))
    print(pd.concat(tables).filter(regex="win rate|low|high").round(2).to_string())
    write_table(tables)


if __name__ == "__main__":
    main()
