"""Compare RefCal's two training stages with a single stage on long-tailed images.

    python benchmarks/papers/bench_refcal.py
    python benchmarks/papers/bench_refcal.py --table

The first command trains a small ConvNet for each row of the table and each seed. In a
single stage, the network is trained for as many epochs as RefCal's encoder and head
together, on the original images or on one random view of each. Each result is appended
to the output file. Results in this file are not computed again, so an interrupted run
continues with the next row and seed. The second command prints the results as a table:
mean and standard deviation over the seeds, in percent.

The images are read from the folder in the environment variable SKLEARN_CALIB_DATA. The
default is `shared/data` in the parent folder of the checkout. The long-tailed training
set is drawn from `--n-images` training images. The test set has all test images; its
classes are balanced.
"""

import argparse
import io
import sys
import tempfile
import time
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from data import DATA
from joblib import Memory
from PIL import Image
from sklearn.metrics import log_loss, roc_auc_score
from skorch.callbacks import LRScheduler
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.datasets import ImageAugmentation, make_long_tailed
from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
    failure_auroc_score,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import add_missing

RESULTS = Path(__file__).parent / "results"
SIZES = {"n_images": 10_000, "refine_epochs": 20, "head_epochs": 20}
# The views of Fashion-MNIST were chosen on training images outside the long-tailed
# training set. Its garments have the same size and position, and a small crop of one
# may look like a part of another.
AUGMENT = {
    "cifar10": ImageAugmentation(),
    "fashion_mnist": ImageAugmentation(min_area=0.8, jitter=0.0),
}

LOSSES = {
    "cross-entropy": {"loss": "cross_entropy"},
    "focal": {"loss": "focal", "loss__gamma": 3.0},
    "MbLS": {"loss": "mbls"},
    # With the authors' settings.
    "AdaFocal": {"loss": "adafocal", "loss__n_bins": 15, "loss__lambd": 1.0},
}
STAGES = ["{}", "{}, augmented", "RefCal, {}", "RefCal, {}, head not augmented"]
ROWS = {stages.format(loss): (stages, loss) for stages in STAGES for loss in LOSSES}
BASELINE = "cross-entropy, augmented"
COLUMNS = ["accuracy", "AUC", "refinement AUC", "ECE", "SCE", "log loss"]


class SmallNet(nn.Sequential):
    """Three convolutional stages and a fully connected layer, laid out for speed."""

    def __init__(self, n_channels, n_classes, widths=(16, 32, 64), n_hidden=256):
        widths = (n_channels, *widths)
        layers = [layer for pair in pairwise(widths) for layer in _stage(*pair)]
        layers += [nn.AdaptiveAvgPool2d(3), nn.Flatten()]
        layers += [nn.Linear(9 * widths[-1], n_hidden, bias=False)]
        layers += [nn.BatchNorm1d(n_hidden), nn.ReLU()]
        if n_classes is not None:
            layers.append(nn.Linear(n_hidden, n_classes))
        super().__init__(*layers)
        self.to(memory_format=torch.channels_last)

    def forward(self, images):
        """Return the logits, or embeddings if there are no classes."""
        return super().forward(images.contiguous(memory_format=torch.channels_last))


def _stage(n_inputs, n_filters):
    """Convolution, pooling, normalisation and rectifier."""
    convolution = nn.Conv2d(n_inputs, n_filters, 3, padding=1, bias=False)
    return convolution, nn.MaxPool2d(2), nn.BatchNorm2d(n_filters), nn.ReLU()


def read_images(data, *names):
    """Return images of shape (n_images, n_channels, height, width), and labels."""
    images, labels = [], []
    for name in names:
        prefix = "cifar10_jpeg" if data == "cifar10" else data
        packed = np.load(DATA / "images" / f"{prefix}_{name}.npz")
        images += [packed["images"][:, None]] if "images" in packed else _jpegs(packed)
        labels.append(packed["labels"])
    return np.concatenate(images) / np.float32(255), np.concatenate(labels)


def _jpegs(packed):
    """Return each JPEG of an archive as a batch of one image."""
    content = packed["jpeg"].tobytes()
    return [
        np.asarray(Image.open(io.BytesIO(content[start:stop])).convert("RGB"))
        .transpose(2, 0, 1)[None]
        for start, stop in pairwise(packed["offsets"])
    ]  # fmt: skip


def read_data(options, seed):
    """Return a long-tailed sample of the training images, and the test images."""
    if options.data == "cifar10":
        names, test = ("train_a", "train_b"), "test"
    else:
        names, test = ("train",), "test"
    X, y = read_images(options.data, *names)
    drawn = np.random.default_rng(seed).permutation(len(y))[: options.n_images]
    factor = options.imbalance_factor
    X, y = make_long_tailed(X[drawn], y[drawn], imbalance_factor=factor, random_state=0)
    X_test, y_test = read_images(options.data, test)
    mean, std = X.mean((0, 2, 3), keepdims=True), X.std((0, 2, 3), keepdims=True)
    return (X - mean) / std, y, (X_test - mean) / std, y_test


def schedule(n_epochs):
    """Return the parameters of a stage that trains a network."""
    cosine = LRScheduler(CosineAnnealingLR, T_max=n_epochs)
    return {"max_epochs": n_epochs, "lr": 0.003, "callbacks": [("cosine", cosine)]}


def build(row, seed, options, memory):
    """Return the classifier of a row. Network and schedule are always the same."""
    stages, loss = ROWS[row]
    shared = {"random_state": seed, "device": options.device, **LOSSES[loss]}
    views = AUGMENT[options.data]
    crop_and_flip = replace(views, n_views=1, jitter=0.0)
    if not stages.startswith("RefCal"):
        n_epochs = options.refine_epochs + options.head_epochs
        return NeuralClassifier(
            SmallNet,
            batch_transform=crop_and_flip if "augmented" in stages else None,
            **schedule(n_epochs),
            **shared,
        )
    refine = schedule(options.refine_epochs)
    return RefCalClassifier(
        SmallNet,
        augment=views,
        augment_head=None if "head not augmented" in stages else crop_and_flip,
        **{f"refine__{name}": value for name, value in refine.items()},
        refine__batch_size=256,
        head__max_epochs=options.head_epochs,
        memory=memory,
        **shared,
    )


def measure(model, X_test, y_test):
    """Return the metrics of a model on the test set."""
    proba = model.predict_proba(X_test)
    return {
        "accuracy": (proba.argmax(1) == y_test).mean(),
        "AUC": roc_auc_score(y_test, proba, multi_class="ovr", average="macro"),
        "refinement AUC": failure_auroc_score(y_test, proba),
        "ECE": expected_calibration_error(y_test, proba),
        "SCE": classwise_calibration_error(y_test, proba),
        "log loss": log_loss(y_test, proba),
    }


def train_missing(options):
    """Train the models whose results are missing, and append each to the output."""
    settings = sizes(options)
    wanted = product(options.seeds, options.rows)
    keys = [(row, seed, *settings.values()) for seed, row in wanted]
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(folder, verbose=0)  # one encoder for all heads of a seed

        def train(row, seed, *_):
            X, y, *test = read_data(options, seed)
            start = time.perf_counter()
            model = build(row, seed, options, memory).fit(X, y)
            values = list(measure(model, *test).values())
            print(f"{row}, seed {seed}: accuracy {values[0]:.4f}", flush=True)
            seconds = time.perf_counter() - start
            return *(f"{value:.6g}" for value in values), len(y), f"{seconds:.6g}"

        fields = ["row", "seed", *settings, *COLUMNS, "n_train", "seconds"]
        add_missing(options.output, fields, keys, train)


def sizes(options):
    """Return the settings that comparable results have in common."""
    return {name: vars(options)[name] for name in (*SIZES, "data", "imbalance_factor")}


def read_results(options):
    """Return the results in the output file for these settings, as dicts."""
    if not options.output.exists():
        return []
    results = pd.read_csv(options.output).to_dict("records")
    return [row for row in results if sizes(options).items() <= row.items()]


def make_table(results):
    """Return mean and standard deviation over the seeds, in percent."""
    results = pd.DataFrame(results)
    groups = (100 * results[COLUMNS]).groupby(results["row"], sort=False)
    table = groups.mean().map("{:.2f}".format) + groups.std().map(" ± {:.2f}".format)
    table = table.reindex([row for row in ROWS if row in table.index])
    seconds = results.groupby("row")["seconds"].mean()
    return table.assign(seconds=seconds.map("{:.0f}".format), seeds=groups.size())


def read_options():
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for size, default in SIZES.items():
        parser.add_argument(f"--{size.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--imbalance-factor", type=float, default=0.1)
    parser.add_argument(
        "--data", default="fashion_mnist", choices=["cifar10", "fashion_mnist"]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--rows", nargs="+", default=[*ROWS], choices=ROWS)
    parser.add_argument("--device", default="auto", help="default: cuda if available")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS / "refcal.csv")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def main():
    """Compute the missing results, and print the table."""
    options = read_options()
    torch.set_num_threads(options.threads)
    if not options.table:
        train_missing(options)
    results = read_results(options)
    if not results:
        raise SystemExit(f"{options.output} has no results for these settings")
    print(make_table(results).to_string())


if __name__ == "__main__":
    main()
