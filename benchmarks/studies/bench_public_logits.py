"""All calibrators on all public logits files, compared with other packages.

    python benchmarks/studies/bench_public_logits.py results --peers

Reads the folder `logits` of the shared data (`SKLEARN_CALIB_DATA`). Calibrators are
fitted to the validation set and evaluated on the test set of a file. A file without
these sets is split into two random halves (COCO by images; MNIST only its test set,
since the network was trained on the other images). Not used are files with the top
label only, since a calibrator needs all classes; the chest X-rays, which are
multilabel; and human votes, which are not a classifier's predictions.

Writes a row for each calibrator and data set to `results/public_logits.csv`: log loss,
Brier score, top-label and class-wise ECE, and smooth ECE on the test set, and the CPU
seconds of fit and prediction together. Existing rows are not computed again. Then
prints the mean ranks over the data sets of the uncalibrated input ("none") and of our
calibrators that finished on all data sets, and a 95 % interval of that in log loss,
from a bootstrap over the kinds of data (CIFAR-10 is one, with many networks). For each
other package, prints the largest and the mean difference in log loss between our
calibrator and the same method there. Uses one thread.
"""

import argparse
import csv
import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from calarena.custom_calibrators import SETTINGS
from calarena.win_rates import intervals
from helpers.peers import PEERS
from helpers.resumable import open_results
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from sklearn_calib import metrics
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names

DATA = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("SKLEARN_CALIB_DATA", DATA))
MEASURES = ["nll", "brier", "ece", "classwise_ece", "smooth_ece", "seconds"]
FIELDS = ["data", "method", "package", *MEASURES, "failure"]
OURS = "sklearn_calib"
# Our calibrators with the parameters of the packages they are compared with.
VARIANTS = {
    "dirichlet, diagonal": {"diagonal": True},
    "dirichlet, ODIR": {"penalty": "odir", "lambd": 1e-3},
    "ensemble_temperature, Brier": {"objective": "brier"},
    "histogram, uniform": {"strategy": "uniform"},
}


def halves(X, y, groups=None):
    """Return two random halves of the rows, or of groups of rows."""
    groups = np.arange(len(y)) if groups is None else groups
    first = (np.random.default_rng(0).random(groups.max() + 1) < 0.5)[groups]
    return X[first], y[first], X[~first], y[~first]


def read_data():
    """Yield the name, whether it has logits, and the calibration and test sets."""

    def load(name):
        return np.load(DATA / "logits" / f"{name}.npz", allow_pickle=False)

    for part, name in [
        ("val", "cifar10_resnet110_kull"),
        ("val", "cifar10_resnet50_mukhoti_ce"),
        ("valid", "cifar10_noisylabels_nlcc"),
    ]:
        keys = [f"{p}_{what}" for p in (part, "test") for what in ("logits", "labels")]
        yield name, True, *(load(name)[key] for key in keys)
    for name in ("cifar10_playground_convnet", "cifar10_resnet18_weak"):
        yield name, True, *halves(load(name)["logits"], load(name)["labels"])
    file = load("mnist_cnn_metacal")
    yield "mnist_cnn", True, *halves(file["test_logits"], file["test_labels"])
    for name in ("cifar10_chenyaofo", "cifar100_chenyaofo"):
        file = load(name)
        for net in file.files[1:]:
            yield f"{name}_{net}", True, *halves(file[net], file["labels"])
    for name in ("20news_cleanlab", "cifar10_netcal_wideresnet-16-4"):
        file = load(f"{name}_probs")
        yield name, False, *halves(file["probs"], file["labels"])
    file = load("cifar100_netcal_wideresnet-16-4_probs")
    yield "cifar100_netcal", False, *halves(file["probs"], file["labels"])
    file = load("coco_faster-rcnn-resnet50_iou60_netcal")
    scores = np.column_stack([1 - file["scores"], file["scores"]]).astype(np.float64)
    yield (
        "coco_faster-rcnn",
        False,
        *halves(scores, file["matched"], file["image_index"]),
    )


def run_ours(name, X, y, X_test, from_logits):
    if name == "none":
        return softmax(X_test) if from_logits else X_test
    if name in SETTINGS:
        calibrator = SETTINGS[name](from_logits=from_logits)
    else:
        kind = get_calibrator(name.partition(",")[0])
        calibrator = kind(from_logits=from_logits, **VARIANTS.get(name, {}))
    return calibrator.fit(X, y, labels=np.arange(X.shape[1])).predict_proba(X_test)


def contestants(X, X_test, *, from_logits, with_peers):
    """Yield the names of the method and of the package, and a function to run."""
    variants = VARIANTS if with_peers else []
    ours = dict.fromkeys([*get_calibrator_names(), *SETTINGS])
    for name in ["none", *ours, *variants]:
        yield (
            name,
            OURS,
            lambda _, y, __, name=name: run_ours(name, X, y, X_test, from_logits),
        )
    for name, package, make in PEERS if with_peers else []:
        is_too_much = package == "betacal" and X.shape[1] > 2
        if not is_too_much:
            yield name, package, lambda *data, make=make: make()(*data)


def measure(proba, y):
    """Return the measures of probabilities."""
    proba = np.asarray(proba, dtype=np.float64)
    proba = proba / proba.sum(axis=1, keepdims=True)
    labels = np.arange(proba.shape[1])
    true = proba[np.arange(len(y)), y]
    smooth = metrics.smooth_expected_calibration_error
    with np.errstate(divide="ignore"):
        nll = -np.log(true).mean()
    return {
        "nll": nll,
        "brier": np.mean((proba**2).sum(axis=1) - 2 * true + 1),
        "ece": metrics.expected_calibration_error(y, proba, labels=labels),
        "classwise_ece": metrics.classwise_calibration_error(y, proba, labels=labels),
        "smooth_ece": smooth(y, proba, labels=labels),
    }


def timed_run(run, arguments, y_test, limit, measure=measure):
    """Return the measures and CPU seconds, or the reason for none."""
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError))
    signal.alarm(limit)
    start = time.process_time()
    try:
        proba = run(*arguments)
        return {"seconds": time.process_time() - start} | measure(proba, y_test)
    except TimeoutError:
        return {"failure": f"more than {limit} s"}
    except Exception as error:  # other packages raise errors of many types
        return {"failure": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    finally:
        signal.alarm(0)


def run_all(path, *, with_peers, limit):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=3) as (done, append):
        for data, from_logits, X, y, X_test, y_test in read_data():
            tiny = np.finfo(np.float64).tiny
            seen = [
                softmax(part.astype(np.float64)) if from_logits else part
                for part in (X, X_test)
            ]
            # Another package cannot take the logarithm of zero.
            seen = [np.maximum(part, tiny) for part in seen]
            for method, package, run in contestants(
                X, X_test, from_logits=from_logits, with_peers=with_peers
            ):
                if (data, method, package) not in done:
                    row = timed_run(run, (seen[0], y, seen[1]), y_test, limit)
                    values = [row.get(field, "") for field in FIELDS[3:]]
                    append([data, method, package, *values])


def print_ranks(rows):
    """Print the mean ranks of our calibrators that finished on all data sets."""
    rows = [row for row in rows if row["package"] == OURS and not row["failure"]]
    data = sorted({row["data"] for row in rows})
    by_key = {(row["data"], row["method"]): row for row in rows}
    methods = sorted({row["method"] for row in rows})
    whole = [m for m in methods if all((d, m) in by_key for d in data)]
    print(f"\nMean ranks of {len(whole)} over {len(data)} data sets, and mean log loss")
    values = np.array(
        [[[float(by_key[d, m][k]) for k in MEASURES] for m in whole] for d in data]
    )
    every = rankdata(values, axis=1)
    ranks = every.mean(axis=0)
    kinds = [name.partition("_")[0] for name in data]
    bounds = intervals(pd.DataFrame(every[:, :, 0], columns=whole), kinds)
    columns = [*MEASURES[:-1], "time", "log loss", "low", "high"]
    print(f"{'':24}" + "".join(f"{name:>15}" for name in columns))
    for i in ranks[:, 0].argsort():
        cells = [*ranks[i], values[:, i, 0].mean(), *bounds.loc[whole[i]]]
        print(f"{whole[i]:24}" + "".join(f"{cell:15.3f}" for cell in cells))
    print("not everywhere:", sorted(set(methods) - set(whole)))


def print_peers(rows):
    """Print the differences in log loss from the same methods of other packages."""
    finished = {
        (row["method"], row["package"], row["data"]): row
        for row in rows
        if not row["failure"]
    }
    pairs = sorted({(m, p) for m, p, _ in finished if p != OURS})
    print("\nOur log loss and CPU seconds over those of the same method elsewhere")
    print(f"{'':52}{'data sets':>10}{'worst':>10}{'mean':>10}{'seconds':>10}")
    for method, package in pairs:
        common = [
            (finished[method, OURS, d], row)
            for (m, p, d), row in finished.items()
            if (m, p) == (method, package) and (method, OURS, d) in finished
        ]
        nll, seconds = (
            np.array([float(a[k]) / max(float(b[k]), 1e-9) for a, b in common])
            for k in ("nll", "seconds")
        )
        cells = f"{nll.max():10.4f}{nll.mean():10.4f}{np.median(seconds):10.3f}"
        print(f"{method:28}{package:24}{len(common):10}{cells}")
    failed = [(r["method"], r["package"], r["failure"]) for r in rows if r["failure"]]
    for failure in sorted(set(failed)):
        print(*failure, f"({failed.count(failure)} times)", sep="  ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", action="store_true", help="also run other packages")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = args.folder / "public_logits.csv"
    with threadpool_limits(1):
        run_all(path, with_peers=args.peers, limit=args.limit)
    rows = list(csv.DictReader(path.open()))
    print_ranks(rows)
    if args.peers:
        print_peers(rows)


if __name__ == "__main__":
    main()
