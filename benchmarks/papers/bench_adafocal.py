"""Compare AdaFocal with other losses on CIFAR-10, as in table 1 of its paper.

    python benchmarks/papers/bench_adafocal.py --output adafocal.jsonl
    python benchmarks/papers/bench_adafocal.py --output adafocal.jsonl --table
    python benchmarks/papers/bench_adafocal.py --overhead --epochs 3

The first command trains a small ConvNet for each loss and seed, without augmentation,
with SGD and one cycle of the learning rate up to 0.1. Each result is appended to the
output as a line of JSON. Results in the output are not computed again, so an
interrupted run continues with the next loss and seed. The second command prints a table
of the results, with means and standard deviations over the seeds. The third one
measures the time that AdaFocal adds to an epoch.

The images `images/cifar10_jpeg_*.npz` are read from the folder in the environment
variable SKLEARN_CALIB_DATA, or from `shared/data` next to the checkout. All losses use
the same training, validation and calibration sets. A loss learns gamma from the
validation set, and the temperature is fitted to the calibration set.
"""

import argparse
import io
import json
import math
import time
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from data import DATA
from PIL import Image
from sklearn.metrics import log_loss
from skorch.callbacks import LRScheduler
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from sklearn_calib import NeuralClassifier, TemperatureScaling
from sklearn_calib.callbacks import UpdateLoss
from sklearn_calib.losses import FocalLoss
from sklearn_calib.metrics import expected_calibration_error

BATCH_SIZE = 128
SIZES = {"n_train": 20_000, "n_valid": 5_000, "n_temperature": 5_000, "epochs": 25}
BASELINE = "cross-entropy"
ERRORS = {"ECE": "uniform", "ECE, equal mass": "quantile"}

AUTHORS = {"loss__n_bins": 15, "loss__lambd": 1.0}

# For each row the loss with its parameters, and the updates of gamma per epoch.
ROWS = {
    BASELINE: ({"loss": "cross_entropy"}, 1),
    "FLSD-53": ({"loss": "sample_dependent_focal"}, 1),
    "dual focal": ({"loss": "dual_focal", "loss__gamma": 5.0}, 1),
    "AdaFocal": ({"loss": "adafocal", **AUTHORS}, 1),
    "AdaFocal, 4 updates": ({"loss": "adafocal", **AUTHORS}, 4),
    "AdaFocal, defaults": ({"loss": "adafocal"}, 4),
    "AdaDualFocal": ({"loss": "ada_dual_focal", **AUTHORS}, 1),
}


class SmallNet(nn.Sequential):
    """Network of three convolutional stages and a fully connected layer.

    For speed on a CPU, it pools before the normalisation and has channels last.
    """

    def __init__(self, n_classes, widths=(16, 32, 64), n_hidden=256):
        layers = [layer for pair in pairwise((3, *widths)) for layer in _stage(*pair)]
        layers += [nn.Flatten(), nn.Linear(16 * widths[-1], n_hidden, bias=False)]
        layers += [nn.BatchNorm1d(n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_classes)]
        super().__init__(*layers)
        self.to(memory_format=torch.channels_last)

    def forward(self, images):
        """Return the logits, of shape (n_samples, n_classes)."""
        return super().forward(images.contiguous(memory_format=torch.channels_last))


def _stage(n_inputs, n_filters):
    """Return convolution, pooling, batch normalisation and ReLU."""
    convolution = nn.Conv2d(n_inputs, n_filters, 3, padding=1, bias=False)
    return convolution, nn.MaxPool2d(2), nn.BatchNorm2d(n_filters), nn.ReLU()


def read_images(*names):
    """Return images of shape (n_images, 3, 32, 32) in [0, 1], and their labels."""
    images, labels = [], []
    for name in names:
        packed = np.load(DATA / "images" / f"cifar10_jpeg_{name}.npz")
        content = packed["jpeg"].tobytes()
        for start, stop in pairwise(packed["offsets"]):
            image = Image.open(io.BytesIO(content[start:stop])).convert("RGB")
            images.append(np.asarray(image, dtype=np.float32) / 255)
        labels.append(packed["labels"].astype(np.int64))
    return np.stack(images).transpose(0, 3, 1, 2), np.concatenate(labels)


def read_splits(options):
    """Return the training, validation, calibration and test sets, standardised."""
    images, labels = read_images("train_a", "train_b")
    stops = np.cumsum([options.n_train, options.n_valid, options.n_temperature])
    if stops[-1] > len(labels):
        raise SystemExit(f"{stops[-1]} images are needed, got {len(labels)}")
    # Single precision is too coarse for sums of this many pixels.
    mean, std = (
        statistic(
            images[: options.n_train], axis=(0, 2, 3), dtype=np.float64, keepdims=True
        ).astype(np.float32)
        for statistic in (np.mean, np.std)
    )
    parts = zip(np.split(images, stops)[:3], np.split(labels, stops)[:3], strict=True)
    parts = [*parts, read_images("test")]
    names = ("train", "valid", "temperature", "test")
    parts = [(np.ascontiguousarray((X - mean) / std), y) for X, y in parts]
    return dict(zip(names, parts, strict=True))


def build(row, seed, options, splits):
    """Return the classifier of a row; all rows have the same network and schedule."""
    params, n_updates = ROWS[row]
    n_batches = math.ceil(len(splits["train"][1]) / BATCH_SIZE)
    every = "epoch" if n_updates == 1 else max(1, n_batches // n_updates)
    one_cycle = LRScheduler(
        OneCycleLR,
        step_every="batch",
        max_lr=0.1,
        total_steps=options.epochs * n_batches,
    )
    return NeuralClassifier(
        SmallNet,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        optimizer__nesterov=True,
        optimizer__weight_decay=5e-4,
        batch_size=BATCH_SIZE,
        max_epochs=options.epochs,
        train_split=predefined_split(Dataset(*splits["valid"])),
        callbacks=[("one_cycle", one_cycle)],
        callbacks__update_loss__update_every=every,
        random_state=seed,
        device=options.device,
        **params,
    )


def measure(model, splits):
    """Return the numbers of one result."""
    X_test, y_test = splits["test"]
    X, y = splits["temperature"]
    scaling = TemperatureScaling(from_logits=True).fit(model.decision_function(X), y)
    scaled = scaling.predict_proba(model.decision_function(X_test))
    result = {"accuracy": model.score(X_test, y_test), "T": scaling.temperature_}
    for suffix, proba in (("", model.predict_proba(X_test)), (", scaled", scaled)):
        result[f"log loss{suffix}"] = log_loss(y_test, proba)
        for error, strategy in ERRORS.items():
            result[error + suffix] = expected_calibration_error(
                y_test, proba, strategy=strategy
            )
    return result


def train_missing(options):
    """Train the networks that are missing in the output, and append their results."""
    done = {(result["loss"], result["seed"]) for result in read_results(options)}
    wanted = product(options.seeds, options.losses)
    missing = [(loss, seed) for seed, loss in wanted if (loss, seed) not in done]
    splits = read_splits(options) if missing else None
    for loss, seed in missing:
        model = build(loss, seed, options, splits).fit(*splits["train"])
        result = {"loss": loss, "seed": seed, **sizes(options)}
        result |= measure(model, splits) | summarize_history(model)
        with options.output.open("a") as file:
            file.write(json.dumps(result) + "\n")
        numbers = "accuracy {accuracy:.4f}, ECE {ECE:.4f}, {seconds:.1f} s an epoch"
        print(f"{loss}, seed {seed}:", numbers.format_map(result), flush=True)


def summarize_history(model):
    """Return the values in the history of a training, epoch by epoch."""
    names = ["valid_ece"]
    if model.criterion_.learns_from_validation:
        names += ["gamma", "calibration_gap", "bin_edges"]
    history = {name: model.history_[:, name] for name in names}
    return {"seconds": np.median(model.history_[:, "dur"]), **history}


def sizes(options):
    """Return the options that must agree for results to be comparable."""
    return {size: vars(options)[size] for size in SIZES}


def read_results(options):
    """Return the results in the output with these sizes, as dicts."""
    if not options.output.exists():
        return []
    results = map(json.loads, options.output.read_text("utf-8").splitlines())
    return [row for row in results if sizes(options).items() <= row.items()]


def make_table(results):
    """Return means and standard deviations over the seeds; all but T in percent."""
    columns = ["accuracy", *ERRORS, *(f"{error}, scaled" for error in ERRORS), "T"]
    results = pd.DataFrame(results)
    scale = np.where(np.array(columns) == "T", 1, 100)
    groups = (results[columns] * scale).groupby(results["loss"], sort=False)
    mean, std = groups.mean(), groups.std()
    table = mean.map("{:.2f}".format) + std.map(" ± {:.2f}".format)
    for error in ERRORS if BASELINE in mean.index else ():
        ratio = mean[error] / mean.loc[BASELINE, error]
        table[f"{error}, ratio"] = ratio.map("{:.2f}".format)
    return table.assign(seeds=groups.size())


class TimedUpdate(UpdateLoss):
    """Measure and record the seconds of the updates in each epoch."""

    def on_epoch_begin(self, *args, **kwargs):
        """Reset the time."""
        self.seconds_ = 0.0
        super().on_epoch_begin(*args, **kwargs)

    def on_batch_end(self, *args, **kwargs):
        """Add the time to store the outputs of the validation pass."""
        start = time.perf_counter()
        super().on_batch_end(*args, **kwargs)
        self.seconds_ += time.perf_counter() - start

    def on_epoch_end(self, net, *args, **kwargs):
        """Add the time to update the loss."""
        start = time.perf_counter()
        super().on_epoch_end(net, *args, **kwargs)
        self.seconds_ += time.perf_counter() - start
        net.history.record("update_seconds", self.seconds_)


def print_overhead(options):
    """Print the time that AdaFocal adds to an epoch with a validation pass."""
    splits = read_splits(options)
    model = build("AdaFocal", 0, options, splits)
    model.set_params(callbacks__update_loss=TimedUpdate("epoch")).fit(*splits["train"])
    seconds, updates = np.transpose(model.history_[:, ("dur", "update_seconds")])
    n_batches = math.ceil(options.n_train / BATCH_SIZE)
    focal, adafocal = time_losses(FocalLoss(gamma=1.0), model.criterion_)
    added = n_batches * (adafocal - focal) / seconds
    print(f"an epoch with validation: {np.median(seconds):.2f} s")
    print(f"update at its end: {np.median(updates / seconds):.2%}")
    print(f"beyond the focal loss in the batches: {np.median(added):.2%}")


def time_losses(*losses, repeats=200):
    """Return the median seconds of losses for a batch, forward and backward."""
    logits = torch.randn(BATCH_SIZE, 10, requires_grad=True)
    target = torch.randint(10, (BATCH_SIZE,))
    seconds = np.empty((repeats, len(losses)))
    for repeat, column in np.ndindex(seconds.shape):
        start = time.perf_counter()
        losses[column](logits, target).backward()
        seconds[repeat, column] = time.perf_counter() - start
    return np.median(seconds, axis=0)


def read_options():
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for size, default in SIZES.items():
        parser.add_argument(f"--{size.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--losses", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--device", default="auto", help="default: cuda if available")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("adafocal.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the results")
    parser.add_argument("--overhead", action="store_true", help="time the updates")
    options = parser.parse_args()
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def main():
    """Train, print the table of results, or time the updates."""
    options = read_options()
    torch.set_num_threads(options.threads)
    if options.overhead:
        print_overhead(options)
        return
    if not options.table:
        train_missing(options)
    results = read_results(options)
    if not results:
        raise SystemExit(f"{options.output} holds no results of these sizes yet")
    print(make_table(results).to_string())


if __name__ == "__main__":
    main()
