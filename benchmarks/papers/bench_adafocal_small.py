"""Compare AdaFocal with other losses on small training and validation sets.

    python benchmarks/papers/bench_adafocal_small.py FILE --workers 2
    python benchmarks/papers/bench_adafocal_small.py FILE --table
    python benchmarks/papers/bench_adafocal_small.py results/adafocal_fresh.csv \
        --fresh --seeds 0 1 2 3 4 --variants cross-entropy AdaFocal "AdaFocal, authors"

The first command trains networks on 3,200 samples of each data set, for each loss and
seed. All losses use the same 800 validation samples: a loss learns gamma from them, and
they are the calibration set of the temperature. The metrics are those of up to 8,000
test samples. Results in the CSV file are not computed again, so an interrupted run
continues with the next network. The second command prints the ECE of each loss as ratio
to the ECE of cross-entropy, both averaged over the seeds, for each data set, and the
arithmetic mean of the ratios, with its standard error over the data sets. The defaults
of AdaFocal were chosen on these data sets. `--fresh` takes six others, on which nothing
was chosen, and up to 8,000 test samples of each.

The images `images/{mnist,fashion_mnist,cifar10_jpeg}_test.npz` and the table
`tabular/letter.csv.gz`, and for `--fresh` files of `tabular` and `text`, are read from
the folder in the environment variable SKLEARN_CALIB_DATA, or from `shared/data` next to
the checkout. The other data sets are simulated.
"""

import argparse
import io
import sys
import time
import warnings
from functools import cache, partial
from itertools import pairwise, product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from data import DATA
from PIL import Image
from sklearn.datasets import make_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import log_loss
from sklearn.preprocessing import OrdinalEncoder
from skorch.dataset import Dataset
from skorch.helper import predefined_split

from sklearn_calib import NeuralClassifier, TemperatureScaling
from sklearn_calib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import open_results

N_TRAIN, N_VALID, N_LARGE, MOST_TEST = 3_200, 800, 2_000, 8_000
N_SIMULATED = N_TRAIN + N_VALID + N_LARGE + MOST_TEST
BASELINE = "cross-entropy"
KEYS = ["data", "variant", "epochs", "seed"]
TEXTS = "20news_bydate_train", "clinc150_full_oos"
TABLES = "adult", "pendigits", "satimage", "spambase"
METRICS = ["ECE", "log loss", "accuracy", "confidence", "scaled ECE", "T"]
FIELDS = [*KEYS, *METRICS, "train accuracy", "gamma", "seconds"]


def ada(n_bins=1, lambd=20.0, every="auto", n_valid=N_VALID, loss="adafocal", **params):
    """Return a variant of AdaFocal, with parameters of the loss."""
    params = {"n_bins": n_bins, "lambd": lambd, **params}
    settings = {"loss": loss, "every": every, "n_valid": n_valid}
    return settings | {f"loss__{name}": value for name, value in params.items()}


AUTHORS = {"n_bins": 15, "lambd": 1.0}
VARIANTS = {
    BASELINE: {"loss": "cross_entropy"},
    "focal 3": {"loss": "focal", "loss__gamma": 3.0},
    "focal 5": {"loss": "focal", "loss__gamma": 5.0},
    "dual focal 5": {"loss": "dual_focal", "loss__gamma": 5.0},
    "AdaFocal": ada(),
    "AdaFocal, authors": ada(**AUTHORS),
    "AdaDualFocal, 1 bin, lambd 20": ada(loss="ada_dual_focal"),
    "AdaDualFocal, authors": ada(**AUTHORS, loss="ada_dual_focal"),
    "5 bins, lambd 1": ada(5, 1.0),
    "1 bin, lambd 1": ada(1, 1.0),
    "1 bin, lambd 10": ada(1, 10.0),
    "15 bins, lambd 5": ada(15, 5.0),
    "15 bins, lambd 20": ada(15, 20.0),
    "15 bins, lambd 1, every 5 batches": ada(15, 1.0, 5),
    "15 bins, lambd 5, every 5 batches": ada(15, 5.0, 5),
    "5 bins, lambd 5, every 5 batches": ada(5, 5.0, 5),
    "1 bin, lambd 5, every 5 batches": ada(1, 5.0, 5),
    "1 bin, lambd 20, every 5 batches": ada(1, 20.0, 5),
    "authors, gamma_initial 3": ada(**AUTHORS, gamma_initial=3.0),
    "authors, no switch": ada(**AUTHORS, switch=0.0),
    "authors, 2,800 samples": ada(**AUTHORS, n_valid=N_VALID + N_LARGE),
    "1 bin, lambd 5, every 5 batches, 2,800 samples": ada(
        1, 5.0, 5, n_valid=N_VALID + N_LARGE
    ),
    # The weights of the epoch with the lowest validation loss.
    "authors, early stopping": ada(**AUTHORS)
    | {"early_stopping": True, "n_iter_no_change": 50},
}


def flip(y, n_classes, fraction, rng):
    """Replace a fraction of the labels by random ones."""
    is_random = rng.random(len(y)) < fraction
    return np.where(is_random, rng.integers(n_classes, size=len(y)), y)


def read_waveform():
    """Breiman's waveforms with 19 features of noise, and 20 % of random labels."""
    rng = np.random.default_rng(0)
    waves = np.maximum(6 - np.abs(np.arange(1, 22) - [[11], [15], [7]]), 0)
    y = rng.integers(3, size=N_SIMULATED)
    mix = rng.random((N_SIMULATED, 1))
    first, second = waves[np.array([0, 0, 1])[y]], waves[np.array([1, 2, 2])[y]]
    X = np.hstack([mix * first + (1 - mix) * second, np.zeros((N_SIMULATED, 19))])
    return X + rng.normal(size=X.shape), flip(y, 3, 0.2, rng)


def read_clusters():
    """Ten classes of two clusters each, with 10 % of random labels."""
    return make_classification(
        n_samples=N_SIMULATED,
        n_features=30,
        n_informative=10,
        n_redundant=5,
        n_classes=10,
        class_sep=1.5,
        flip_y=0.1,
        random_state=0,
    )


def read_mixture():
    """Twenty overlapping Gaussian classes in 20 dimensions."""
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=N_SIMULATED)
    return rng.normal(size=(20, 20))[y] + 1.2 * rng.normal(size=(len(y), 20)), y


def read_binary():
    """Two classes with a nonlinear boundary in 20 dimensions, and noisy labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_SIMULATED, 20))
    score = 2 * (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3])
    return X, (rng.random(N_SIMULATED) < 1 / (1 + np.exp(-score))).astype(int)


def read_letter():
    """Read the table of letters, with 16 features."""
    table = pd.read_csv(DATA / "tabular" / "letter.csv.gz")
    features = table.drop(columns="target")
    return features.to_numpy(float), pd.factorize(table["target"], sort=True)[0]


def read_images(name):
    """Read the images of 28 x 28 pixels as rows."""
    packed = np.load(DATA / "images" / f"{name}_test.npz")
    return packed["images"].reshape(len(packed["labels"]), -1), packed["labels"]


def read_cifar10():
    """Read the test images of CIFAR-10, reduced to 12 x 12 pixels, as rows."""
    packed = np.load(DATA / "images" / "cifar10_jpeg_test.npz")
    content, images = packed["jpeg"].tobytes(), []
    for start, stop in pairwise(packed["offsets"]):
        image = Image.open(io.BytesIO(content[start:stop])).convert("RGB")
        image = image.resize((12, 12), Image.Resampling.BOX)
        images.append(np.asarray(image, dtype=np.float32).transpose(2, 0, 1).ravel())
    return np.stack(images), packed["labels"]


def read_table(name):
    """Read a table, with words as numbers."""
    table = pd.read_csv(DATA / "tabular" / f"{name}.csv.gz")
    X = table.drop(columns=["target", "split"], errors="ignore")
    words = X.select_dtypes(exclude="number").columns
    X[words] = OrdinalEncoder().fit_transform(X[words])
    return X.to_numpy(float), pd.factorize(table["target"], sort=True)[0]


def read_texts(name):
    """Read texts with known labels as 100 components of their word frequencies."""
    table = pd.read_csv(DATA / "text" / f"{name}.csv.gz").query("label >= 0")
    words = TfidfVectorizer(min_df=5, sublinear_tf=True).fit_transform(table["text"])
    svd = TruncatedSVD(100, random_state=0)
    return svd.fit_transform(words), table["label"].to_numpy()


FRESH = {
    **{name: partial(read_texts, name) for name in TEXTS},
    **{name: partial(read_table, name) for name in TABLES},
}
READERS = {
    "waveform": read_waveform,
    "clusters": read_clusters,
    "mixture": read_mixture,
    "binary": read_binary,
    "letter": read_letter,
    "mnist": lambda: read_images("mnist"),
    "fashion": lambda: read_images("fashion_mnist"),
    "cifar10": read_cifar10,
}


@cache
def read_data(name):
    """Return all samples of a data set."""
    X, y = {**READERS, **FRESH}[name]()
    return X.astype(np.float32), y.astype(np.int64)


def read_splits(name, seed, n_valid=N_VALID):
    """Return the training, validation, calibration and test sets of a seed.

    The calibration set is the first samples of the validation set.
    """
    X, y = read_data(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n_large = 0 if name in FRESH else N_LARGE
    stops = np.cumsum([N_TRAIN, N_VALID, n_large, MOST_TEST])
    train, small, large, test, *_ = np.split(order, stops)
    valid = np.concatenate([small, large])[:n_valid]
    mean, std = (
        statistic(X[train], axis=0, dtype=np.float64).astype(np.float32)
        for statistic in (np.mean, np.std)
    )
    std[std < 1e-3] = 1  # pixels that are always 0
    parts = train, valid, small, test
    return [((X[part] - mean) / std, y[part]) for part in parts]


def measure(key):
    """Train the network of a key, and return the fields of its result."""
    name, variant, epochs, seed = key
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="n_bins must be small enough")
    params = dict(VARIANTS[variant])
    every = params.pop("every", "auto")
    splits = read_splits(name, seed, params.pop("n_valid", N_VALID))
    (X_train, y_train), valid, (X, y), (X_test, y_test) = splits
    start = time.process_time()
    model = NeuralClassifier(
        max_epochs=epochs,
        train_split=predefined_split(Dataset(*valid)),
        callbacks__update_loss__update_every=every,
        random_state=seed,
        verbose=0,
        **params,
    ).fit(X_train, y_train)
    seconds = time.process_time() - start
    proba = model.predict_proba(X_test)
    scaling = TemperatureScaling(from_logits=True)
    scaling.fit(model.decision_function(X), y, labels=model.classes_)
    scaled = scaling.predict_proba(model.decision_function(X_test))
    values = [
        expected_calibration_error(y_test, proba),
        log_loss(y_test, proba),
        np.mean(proba.argmax(1) == y_test),
        proba.max(1).mean(),
        expected_calibration_error(y_test, scaled),
        scaling.temperature_,
        model.score(X_train, y_train),
        np.mean(model.history_[-1].get("gamma", np.nan)),
        seconds,
    ]
    return *key, *(f"{value:.5g}" for value in values)


def train_missing(options):
    """Train the networks that are missing in the file, and append their results."""
    wanted = product(options.seeds, options.epochs, options.variants, options.data)
    keys = [(name, variant, epochs, seed) for seed, epochs, variant, name in wanted]
    with open_results(options.file, FIELDS, len(KEYS)) as (done, append):
        missing = [key for key in keys if tuple(map(str, key)) not in done]
        for name in options.data if missing else ():
            read_data(name)  # once for all processes
        with get_context("fork").Pool(options.workers) as pool:
            for row in pool.imap_unordered(measure, missing):
                append(row)


def make_table(results):
    """Return the ECE as ratio to cross-entropy, for each variant and data set.

    The mean ratio is over the data sets on which cross-entropy is overconfident by
    more than 0.02. The last columns are means over all data sets.
    """
    baseline = results[results["variant"] == BASELINE]
    scaled = baseline.assign(ECE=baseline["scaled ECE"], variant=f"{BASELINE}, scaled")
    results = pd.concat([results, scaled])
    tables = []
    for epochs, rows in results.groupby("epochs"):
        metrics = ["ECE", "log loss", "accuracy", "confidence", "seconds"]
        table = rows.pivot_table(metrics, "variant", "data", sort=False)
        base = table.loc[BASELINE]
        ratio = table["ECE"] / base["ECE"]
        excess = base["confidence"] - base["accuracy"]
        table = ratio.assign(
            **{
                "mean ratio": ratio[excess[excess > 0.02].index].mean(axis=1),
                "standard error": ratio[excess[excess > 0.02].index].sem(axis=1),
                "mean ECE": table["ECE"].mean(axis=1),
                "log loss": table["log loss"].mean(axis=1),
                "accuracy": table["accuracy"].mean(axis=1),
                "seconds": table["seconds"].mean(axis=1),
                "n": rows.groupby("variant").size(),
            }
        )
        tables.append(pd.concat({epochs: table}, names=["epochs"]))
    return pd.concat(tables)


def read_options():
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", nargs="+", default=list(READERS), choices=READERS)
    parser.add_argument("--fresh", dest="data", action="store_const", const=list(FRESH))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--epochs", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--seeds", type=int, nargs="+", default=range(3))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print the results")
    return parser.parse_args()


def main():
    """Compute the missing results, and print the tables."""
    options = read_options()
    if not options.table:
        train_missing(options)
    results = pd.read_csv(options.file)
    print(make_table(results).round(3).to_string())


if __name__ == "__main__":
    main()
