"""Data of the experiments: training, validation, calibration and test sets."""

import io
import os
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from sklearn_calib.datasets import corrupt_images

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("SKLEARN_CALIB_DATA", DEFAULT))
SPLITS = ("train", "valid", "calibration", "test", "out")
N_OUT = 2000


@lru_cache(1)
def read_splits(name, *, n_train, n_valid, n_calibration, n_test=None):
    """Return X and y of each set. The random splits are the same for all runs.

    Losses that learn gamma use "valid". "calibration" is only used to fit calibrators
    after training. "out" contains out-of-distribution samples, if there are any for the
    data set, and has no y.
    """
    X, y, X_test, y_test = READERS[name]()
    order = np.random.default_rng(0).permutation(len(y))
    stops = np.cumsum([n_train, n_valid, n_calibration])
    if stops[-1] > len(y):
        raise SystemExit(f"{stops[-1]} samples of {name} are asked for, {len(y)} exist")
    parts = [(X[part], y[part]) for part in np.split(order, stops)[:3]]
    parts += [(X_test[:n_test], y_test[:n_test])]
    parts += [(read_out(X_test), None)] if X.ndim == 4 else []
    if X.ndim == 4:
        parts = standardise(parts)
    return dict(zip(SPLITS, parts, strict=False))  # texts have no "out"


def standardise(parts):
    """Standardise images by the channels' mean and deviation in the training set."""
    pixels = parts[0][0] / np.float32(255)
    # Sums of so many pixels are not accurate in single precision.
    over = {"axis": (0, 2, 3), "dtype": np.float64, "keepdims": True}
    mean, std = (
        statistic(pixels, **over).astype(np.float32) for statistic in (np.mean, np.std)
    )
    return [((X / np.float32(255) - mean) / std, y) for X, y in parts]


def read_out(X_test):
    """Return MNIST for grey images, otherwise the test images with strong noise."""
    if X_test.shape[1] == 1:
        return np.load(DATA / "images" / "mnist_test.npz")["images"][:N_OUT, None]
    noisy = corrupt_images(
        X_test[:N_OUT] / np.float32(255),
        name="gaussian_noise",
        severity=5,
        random_state=0,
    )
    return noisy * np.float32(255)


def read_cifar10():
    """Return CIFAR-10 as uint8 images, channels first, in the order of the files."""
    train = [_read_jpegs(f"train_{half}") for half in "ab"]
    X, y = (np.concatenate(part) for part in zip(*train, strict=True))
    return X, y, *_read_jpegs("test")


def _read_jpegs(name):
    """Return the images of a file and their labels."""
    packed = np.load(DATA / "images" / f"cifar10_jpeg_{name}.npz")
    content = packed["jpeg"].tobytes()
    images = [
        np.asarray(Image.open(io.BytesIO(content[start:stop])).convert("RGB"))
        for start, stop in pairwise(packed["offsets"])
    ]
    return np.stack(images).transpose(0, 3, 1, 2), packed["labels"].astype(np.int64)


def read_fashion_mnist():
    """Return Fashion-MNIST as uint8 images with one channel."""
    parts = [np.load(DATA / f"images/fashion_mnist_{p}.npz") for p in ("train", "test")]
    return tuple(
        array
        for part in parts
        for array in (part["images"][:, None], part["labels"].astype(np.int64))
    )


def read_newsgroups(*, n_words=20_000, length=150, n_test=3999):
    """Return 20 Newsgroups: integer codes of the first `length` words by message.

    The training and test sets by date are mixed, as in the papers, although later
    messages of a thread quote earlier ones. Headers are removed. The codes of the most
    frequent words start at 2; 1 is any other word, and 0 is padding.
    """
    parts = [_read_messages(name) for name in ("train", "test")]
    messages, y = pd.concat(parts).sample(frac=1, random_state=0).to_numpy().T
    documents = [re.findall("[a-z']+", message.lower()) for message in messages]
    counts = Counter(word for words in documents[n_test:] for word in words)
    number = {word: i for i, (word, _) in enumerate(counts.most_common(n_words - 2), 2)}
    X, y = _number_words(documents, number, length), y.astype(np.int64)
    return X[n_test:], y[n_test:], X[:n_test], y[:n_test]


def _read_messages(name):
    """Return messages without their headers, which end at a blank line, and labels."""
    table = pd.read_csv(DATA / "text" / f"20news_bydate_{name}.csv.gz")
    bodies = table["text"].str.split(r"[\t\n]{2}", n=1, regex=True).str[-1].fillna("")
    return table[["label"]].assign(body=bodies)[["body", "label"]]


def _number_words(documents, number, length):
    """Return an array of shape (n_documents, length)."""
    X = np.zeros((len(documents), length), dtype=np.float32)
    for row, words in zip(X, documents, strict=True):
        numbers = [number.get(word, 1) for word in words[:length]]
        row[: len(numbers)] = numbers
    return X


READERS = {
    "cifar10": read_cifar10,
    "fashion_mnist": read_fashion_mnist,
    "newsgroups": read_newsgroups,
}
