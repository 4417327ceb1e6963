"""Cost of a search over ten calibrators, relative to a search over one.

    python benchmarks/speed/bench_calibrator_search.py --repeats 3

Runs `GridSearchCV(CalibratedClassifier(estimator, memory=...), {"calibrator": [...]})`
on synthetic data: first with `TemperatureScaling()` only, then with ten calibrators
including `None`. Each search starts with an empty cache. With `--forgetful`, the search
over ten calibrators also runs without a cache. With the cache, each classifier is
trained once, and the search only reads it back, fits the calibrators and predicts.
Prints CPU seconds, the median ratio to the first search (the project's bound is 1.5),
and the number of cached results.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib.calibrators import MetaCal, get_calibrator, get_calibrator_names

CLASSIFIERS = {
    "NeuralClassifier": NeuralClassifier(max_epochs=20, random_state=0),
    "RandomForestClassifier": RandomForestClassifier(random_state=0),
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
}


def pick_calibrators(number):
    """Return `number` calibrators: None, the registered ones, then settings of one."""
    calibrators = [None, *(get_calibrator(name)() for name in get_calibrator_names())]
    calibrators += [MetaCal(miscoverage=i / 100) for i in range(10, 10 + number)]
    return calibrators[:number]


def search(estimator, calibrators, X, y, *, with_memory):
    """Return the seconds of a search, and the number of cached classifiers."""
    with tempfile.TemporaryDirectory() as folder:
        model = CalibratedClassifier(
            clone(estimator), None, memory=folder if with_memory else None
        )
        grid = GridSearchCV(
            model,
            {"calibrator": calibrators},
            cv=3,
            scoring="neg_log_loss",
            error_score="raise",
        )
        start = time.process_time()
        grid.fit(X, y)
        seconds = time.process_time() - start
        return seconds, len(list(Path(folder).rglob("output.pkl")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--calibrators", type=int, default=10)
    parser.add_argument("--forgetful", action="store_true", help="also without a cache")
    args = parser.parse_args()
    X, y = make_classification(
        args.samples, 20, n_informative=10, n_classes=5, flip_y=0.2, random_state=0
    )
    X = X.astype(np.float32)
    many = pick_calibrators(args.calibrators)
    contestants = {
        "one": ([TemperatureScaling()], True),
        f"{len(many)}": (many, True),
    }
    if args.forgetful:
        contestants[f"{len(many)}, no memory"] = (many, False)
    print(f"# {args.samples} x {X.shape[1]}, {[type(c).__name__ for c in many]}")
    with threadpool_limits(1):
        for name, estimator in CLASSIFIERS.items():
            runs = {label: [] for label in contestants}
            for _ in range(args.repeats):
                for label, (calibrators, with_memory) in contestants.items():
                    run = search(
                        estimator,
                        calibrators,
                        X,
                        y,
                        with_memory=with_memory,
                    )
                    runs[label].append(run)
            print(name)
            one = np.array([seconds for seconds, _ in runs["one"]])
            for label, timed in runs.items():
                seconds = np.array([seconds for seconds, _ in timed])
                ratio = np.median(seconds / one)
                print(
                    f"{label:>16}{np.median(seconds):9.2f} s x{ratio:6.2f}"
                    f"{timed[0][1]:5}"
                )


if __name__ == "__main__":
    main()
