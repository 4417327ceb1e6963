"""`AutoCalibrator` against its calibrators and against no calibration.

    python benchmarks/studies/bench_auto.py results public
    python benchmarks/studies/bench_auto.py results tune
    python benchmarks/studies/bench_auto.py results evaluate
    python benchmarks/studies/bench_auto.py results harm
    python benchmarks/studies/bench_auto.py results cost

- `public`: the files of bench_public_logits.py with at most 20 classes, in random
  halves: one to draw the calibration samples from, and the other is the test set.
- `tune` and `evaluate`: gradient boosting, forests, naive Bayes and nets with their
  default parameters on the tables of bench_trees.py, images and texts. A third of the
  rows trains the classifier, whose scores for the others are saved in `results/scores`.
  The pseudo-counts and the calibrators were chosen with `public` and `tune`, every
  second of `TABLES`, and `evaluate` was run once afterwards.
- `harm`: draws of calibration samples for the simulated calibrated classifiers of
  bench_calibration_size.py and two more, for the public files, and for the tables of
  `tune`. Prints the mean increase of the log loss by calibration as a multiple of the
  limit, the larger of 0.5 % and 0.5 / n; and by the number of errors, the part of draws
  with an increase above 5 %, and quantiles of the change. `--odds` lists values of
  `prior_odds` to compare.
- `cost`: CPU seconds of a fit.

`public`, `tune` and `evaluate` draw 50, 200, 1000 and 3000 calibration samples, but at
most half of the samples, and test with at most 2500 others. They print mean ranks in
log loss and Brier score among the calibrators and none, and for log loss a 95 %
interval from a bootstrap over the data sets. The last columns are the mean change of
the log loss by averaging, relative to each method, with its interval. "average"
(`AutoCalibrator`) is ranked together with them, and so are "best", the one with the
lowest cross-validated log loss, and "one_se", the one with the fewest parameters within
a standard error of it. Existing rows of the CSV files are not computed again; those of
`evaluate` are in the folder `results` next to this file. Uses one thread.
"""

import argparse
import io
import itertools
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_calibration_size import Simulated
from bench_public_logits import DATA, read_data
from bench_trees import read_tables
from calarena.win_rates import intervals
from helpers.resumable import open_results
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib._numerics.softmax import lift_zeros, softmax
from sklearn_calib._sklearn.response import holds_logits, predict_scores
from sklearn_calib._state.whole_file import whole_file
from sklearn_calib.calibrators import (
    AutoCalibrator,
    JointBetaCalibration,
    JointLogOddsSplineCalibration,
    LogOddsSplineCalibration,
    StructuredMatrixScaling,
    TemperatureScaling,
)

EB = "empirical_bayes"
# In the order of complexity. All but the last are averaged by default for 3 to 100
# classes, and the second and the last for two classes.
CALIBRATORS = {
    "temperature": TemperatureScaling(),
    "joint_beta, EB": JointBetaCalibration(penalty=EB),
    "structured_matrix, EB": StructuredMatrixScaling(lambd=EB),
    "structured_matrix": StructuredMatrixScaling(lambd=1.0),
    "joint_log_odds_spline": JointLogOddsSplineCalibration(),
    "log_odds_spline": LogOddsSplineCalibration(),
}
# Numbers of calibration samples, and of draws.
SIZES = {50: 3, 200: 3, 1000: 2, 3000: 1}
HARM_SIZES = [50, 200, 1000]
N_TEST = 2500
MOST_CLASSES = 26
SIMULATED = [(2, 0.97), (2, 0.8), (10, 0.9), (10, 0.99), (10, 0.999)]
# Public files that are (nearly) calibrated or have few errors: all sizes are drawn.
CRITICAL = {"mnist_cnn", "cifar10_noisylabels_nlcc", "coco_faster-rcnn"}
COSTS = list(product((200, 1000, 5000, 20_000), (2, 4, 10, 30, 100)))
FIELDS = ["data", "samples", "draw", "method", "nll", "brier"]
CLASSIFIERS = {
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest": RandomForestClassifier(random_state=0),
    "naive_bayes": make_pipeline(StandardScaler(), GaussianNB()),
    "net": make_pipeline(StandardScaler(), MLPClassifier(max_iter=100, random_state=0)),
}
N_COMPONENTS = 50
# Names of all tables, so that none has to be read to know the halves.
TABLES = [
    "adult",
    "breast_cancer",
    "cifar10",
    "digits",
    "fashion_mnist",
    "german_credit",
    "krkopt",
    "letter",
    "mnist",
    "newsgroups",
    "pendigits",
    "satimage",
    "segment",
    "spambase",
]
# The method was chosen with the first half, and evaluated once on the second half.
HALVES = {"tune": TABLES[::2], "evaluate": TABLES[1::2]}


def read_images_and_text():
    """Yield the name of each data set, its features and its labels."""
    for name in ("fashion_mnist", "mnist"):
        file = np.load(DATA / "images" / f"{name}_test.npz", allow_pickle=False)
        yield name, lambda file=file: (reduced(file["images"]), file["labels"])
    yield "cifar10", read_cifar10
    yield "newsgroups", read_newsgroups


def reduced(images):
    """Return the principal components of images."""
    pixels = images.reshape(len(images), -1) / 255
    return PCA(N_COMPONENTS, random_state=0).fit_transform(pixels)


def read_cifar10():
    from PIL import Image

    file = np.load(DATA / "images" / "cifar10_jpeg_test.npz", allow_pickle=False)
    data, ends = file["jpeg"].tobytes(), file["offsets"]
    images = [
        np.asarray(Image.open(io.BytesIO(data[low:high])).convert("RGB"))
        for low, high in itertools.pairwise(ends)
    ]
    return reduced(np.stack(images)), file["labels"]


def read_newsgroups():
    frame = pd.read_csv(DATA / "text" / "20news_bydate_test.csv.gz")
    counts = TfidfVectorizer(min_df=5, sublinear_tf=True).fit_transform(frame["text"])
    svd = TruncatedSVD(N_COMPONENTS, random_state=0)
    return svd.fit_transform(counts), frame["label"].to_numpy()


def read_half(half):
    """Yield the name, the features and the labels of each table of a half."""
    for name, read in read_images_and_text():
        if name in HALVES[half]:
            yield name, *read()
    for name, X, y in read_tables():
        if name in HALVES[half]:
            yield name, X, y


def predict_all(folder, half):
    """Train the missing classifiers, and save their scores for the other rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, X, y in read_half(half):
        X, rest, y, y_rest = train_test_split(
            X, y, train_size=1 / 3, stratify=y, random_state=0
        )
        for kind, classifier in CLASSIFIERS.items():
            path = folder / f"{name}_{kind}.npz"
            if path.exists():
                continue
            classifier.fit(X, y)
            from_logits = holds_logits(classifier)
            scores = predict_scores(classifier, rest, from_logits)
            arrays = {"scores": scores, "labels": y_rest, "from_logits": from_logits}
            with whole_file(path) as part, part.open("wb") as file:
                np.savez(file, **arrays)


def read_scores(folder, half):
    """Yield the name of each table and classifier, its logits, and its labels."""
    predict_all(folder, half)
    for path in sorted(folder.glob("*.npz")):
        if path.stem.rsplit("_", 1)[0].removesuffix("_naive") in HALVES[half]:
            file = np.load(path)
            yield path.stem, file["scores"], file["labels"], bool(file["from_logits"])


def read_public():
    """Yield the name of each public file, its scores, its labels and their kind."""
    for name, from_logits, *parts in read_data():
        X, y, X_test, y_test = parts
        scores = np.concatenate([X, X_test]).astype(np.float64)
        if scores.shape[1] <= MOST_CLASSES:
            yield name, scores, np.append(y, y_test).astype(int), from_logits


class Recorded(AutoCalibrator):
    """It also keeps the held-out probabilities of the true classes, and weights."""

    def _held_out(self, *arguments):
        self.held_out_, self.held_out_weights_ = super()._held_out(*arguments)
        return self.held_out_, self.held_out_weights_


def probabilities(X, y, X_test, *, from_logits):
    """Yield each method and its probabilities of the test set."""
    labels = np.arange(X.shape[1])
    auto = Recorded(from_logits=from_logits).fit(X, y, labels=labels)
    yield "average", auto.predict_proba(X_test)
    fitted = {repr(each): each for each in auto.calibrators_}
    plain = before_calibration(auto, X_test)
    proba, held_out = {"none": plain}, {"none": auto.held_out_[:, 0]}
    for name, given in CALIBRATORS.items():
        new = clone(given).set_params(from_logits=from_logits)
        column = [*fitted].index(repr(new)) + 1 if repr(new) in fitted else None
        known = fitted.get(repr(new)) or new.fit(X, y, labels=labels)
        proba[name] = known.predict_proba(X_test)
        if column:
            held_out[name] = auto.held_out_[:, column]
    yield from proba.items()
    weight = auto.held_out_weights_
    losses = {name: -np.log(each) for name, each in held_out.items()}
    means = {k: np.average(loss, weights=weight) for k, loss in losses.items()}
    best = min(means, key=means.get)
    yield "best", proba[best]
    for name, loss in losses.items():
        gap = loss - losses[best]
        if gap.mean() <= gap.std(ddof=1) / np.sqrt(len(gap)):
            yield "one_se", proba[name]
            break


def before_calibration(auto, X):
    return softmax(X) if auto.from_logits else lift_zeros(X, auto.zero_replacement_)


def measure(proba, y):
    """Return the log loss and the Brier score."""
    proba = proba / proba.sum(axis=1, keepdims=True)
    true = proba[np.arange(len(y)), y]
    brier = np.mean((proba**2).sum(axis=1) - 2 * true + 1)
    return -np.log(np.maximum(true, 1e-15)).mean(), brier


def run_ranks(path, data):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=3) as (done, append):
        for name, X, y, from_logits in data:
            for size, n_draws in SIZES.items():
                for draw in range(n_draws if size <= len(y) // 2 else 0):
                    if (name, str(size), str(draw)) in done:
                        continue
                    order = np.random.default_rng(draw).permutation(len(y))
                    few, test = order[:size], order[size : size + N_TEST]
                    methods = [
                        *probabilities(X[few], y[few], X[test], from_logits=from_logits)
                    ]
                    for method, proba in methods:
                        append([name, size, draw, method, *measure(proba, y[test])])


def print_ranks(path):
    rows = pd.read_csv(path)
    singles = ["none", *CALIBRATORS]
    known = rows["samples"].unique().tolist()
    for sizes in [*([size] for size in known), known]:
        some = rows[rows["samples"].isin(sizes)]
        columns = {}
        for measure_ in ("nll", "brier"):
            wide = some.pivot_table(measure_, ["data", "samples", "draw"], "method")
            ranks = wide[singles].rank(axis=1)
            for method in wide.columns.drop(singles):
                own = wide[[*singles, method]].rank(axis=1)[method]
                ranks[method] = own
            columns[f"rank {measure_}"] = ranks.mean()
            if measure_ == "nll":
                bounds = intervals(ranks, ranks.index.get_level_values("data"))
                columns |= {"low": bounds["low"], "high": bounds["high"]}
            columns[measure_] = wide.mean()
        ratio = some.pivot_table("nll", ["data", "samples", "draw"], "method")
        change = 100 * (ratio.div(ratio["none"], axis=0) - 1)
        columns["mean change %"] = change.mean()
        columns["worst change %"] = change.groupby(level=[0, 1]).mean().max()
        paired = 100 * (ratio.rdiv(ratio["average"], axis=0) - 1)
        bounds = intervals(paired, paired.index.get_level_values("data"))
        columns |= {"average against it %": paired.mean()}
        columns |= dict(bounds.add_prefix("its ").items())
        n_cells = len(ratio)
        print(
            f"\n{sizes} samples, {n_cells} cells of {some['data'].nunique()} data sets"
        )
        print(pd.DataFrame(columns).sort_values("rank nll").round(4).to_string())


def run_harm(path, scores, all_odds, n_draws):
    """Compute the missing log losses before and after calibration."""
    fields = ["data", "samples", "draw", "odds", "errors", "before", "after"]
    with open_results(path, fields, n_keys=4) as (done, append):
        for name, draw, sizes in harm_sources(scores):
            for size, i, odds in product(sizes, range(n_draws), all_odds):
                if (name, str(size), str(i), str(odds)) not in done:
                    losses = draw(size, np.random.default_rng(i), prior_odds=odds)
                    append([name, size, i, odds, *losses])


def harm_sources(scores):
    """Yield names, functions that return the losses of a draw, and sizes."""
    for setting in SIMULATED:
        source = Simulated(*setting, 1)

        def simulated(size, rng, source=source, **params):
            X, y, X_test, truth = source.draw(size, rng)
            auto = AutoCalibrator(from_logits=True, **params)
            auto.fit(X, y, labels=np.arange(X.shape[1]))
            after = auto.predict_proba(X_test)
            losses = [-xlogy(truth, p).sum(axis=1).mean() for p in (truth, after)]
            return auto.n_errors_, *losses

        yield source.name, simulated, HARM_SIZES
    for name, X, y, from_logits in [*read_public(), *read_scores(scores, "tune")]:

        def measured(size, rng, X=X, y=y, from_logits=from_logits, **params):
            order = rng.permutation(len(y))
            few, test = order[:size], order[size : size + N_TEST]
            auto = AutoCalibrator(from_logits=from_logits, **params)
            auto.fit(X[few], y[few], labels=np.arange(X.shape[1]))
            before = before_calibration(auto, X[test])
            after = auto.predict_proba(X[test])
            return auto.n_errors_, *(measure(p, y[test])[0] for p in (before, after))

        yield name, measured, HARM_SIZES if name in CRITICAL else HARM_SIZES[:1]


def print_harm(path):
    rows = pd.read_csv(path)
    means = rows.groupby(["data", "samples", "odds"], as_index=False).mean()
    limit = np.maximum(0.005 * means["before"], 0.5 / means["samples"])
    means["part of limit"] = (means["after"] - means["before"]) / limit
    means["change %"] = 100 * (means["after"] / means["before"] - 1)
    means = means.drop(columns="draw").round(4).sort_values("part of limit")
    print(means.to_string())
    rows["change %"] = 100 * (rows["after"] / rows["before"] - 1)
    rows["errors"] = pd.cut(rows["errors"], [-1, 0, 1, 2, 5, 10, 1e9])
    changes = rows.groupby(["odds", "errors"], observed=True)["change %"]
    table = changes.quantile([0.5, 0.9, 0.95, 0.99]).unstack()
    table.insert(0, "mean", changes.mean())
    table.insert(0, "above 5 %", changes.apply(lambda x: 100 * np.mean(x > 5)))
    table.insert(0, "draws", changes.size())
    print(table.round(2).to_string())
    # Part of draws above 5 %, and mean log loss, with two errors or more.
    rows = rows[rows["errors"].cat.codes >= 2].assign(above=rows["change %"] > 5)
    real = rows[~rows["data"].str.startswith("simulated")]
    parts = {
        name: part.groupby("odds")[["above", "after"]].mean()
        for name, part in {"all": rows, "real": real}.items()
    }
    print(pd.concat(parts, axis=1).round(4).to_string())


def print_cost():
    """Print the CPU seconds of a fit."""
    print(f"{'classes':>8}{'samples':>9}{'seconds':>10}")
    for n_samples, n_classes in COSTS:
        seconds = measure_cost(n_samples, n_classes)
        print(f"{n_classes:8}{n_samples:9}{seconds:10.3f}", flush=True)


def measure_cost(n_samples, n_classes):
    """Return the CPU seconds of the quickest of three fits."""
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(n_samples, n_classes))
    y = (X / 2 + rng.gumbel(size=X.shape)).argmax(axis=1)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        AutoCalibrator(from_logits=True).fit(X, y, labels=np.arange(n_classes))
        seconds.append(time.process_time() - start)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("part", choices=["public", *HALVES, "harm", "cost"])
    parser.add_argument("--odds", type=float, nargs="+", default=[1.0], help="of harm")
    parser.add_argument("--draws", type=int, default=50, help="of harm")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = args.folder / f"auto_{args.part}.csv"
    scores = args.folder / "scores"
    with threadpool_limits(1):
        if args.part == "cost":
            print_cost()
        elif args.part == "harm":
            run_harm(path, scores, args.odds, args.draws)
            print_harm(path)
        else:
            is_public = args.part == "public"
            data = read_public() if is_public else read_scores(scores, args.part)
            run_ranks(path, data)
            print_ranks(path)


if __name__ == "__main__":
    main()
