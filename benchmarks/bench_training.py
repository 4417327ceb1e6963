"""Time one epoch of `NeuralClassifier` beside the same network in plain skorch.

    python benchmarks/bench_training.py --repeats 15

Prints, for a small network on the handwritten digits and for a small ConvNet on random
images, the median seconds of an epoch and the median ratio to plain skorch. Both train
the same network by the same optimiser on the same shuffled batches of 128, without
validation data. Epochs alternate, so that a busy machine slows both alike. Uses one
thread, so that ratios compare across machines.
"""

import argparse
import time

import numpy as np
import skorch
import torch
from sklearn.datasets import load_digits

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP, ConvNet


def make_digits():
    """Return the digits, a table of 1797 rows and 64 columns."""
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32) / 16, y.astype(np.int64)


def make_images(n_samples=4096):
    """Return random colour images of 32 x 32 pixels in ten classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 3, 32, 32), dtype=np.float32)
    return X, rng.integers(10, size=n_samples)


def build_pair(module, max_epochs, **sizes):
    """Return plain skorch and ours, with the same network and optimiser."""
    shared = {f"module__{name}": size for name, size in sizes.items()}
    shared |= {"optimizer": torch.optim.Adam, "lr": 1e-3, "batch_size": 128}
    shared |= {"max_epochs": max_epochs}
    plain = skorch.NeuralNetClassifier(
        module,
        criterion=torch.nn.CrossEntropyLoss,
        train_split=None,
        iterator_train__shuffle=True,
        verbose=0,
        **shared,
    )
    return plain, NeuralClassifier(module, **shared)


def time_epoch(net, X, y):
    """Return the seconds of one epoch of a fit."""
    start = time.perf_counter()
    net.fit(X, y)
    return (time.perf_counter() - start) / net.max_epochs


def compare(name, X, y, pair, repeats):
    """Print one row: seconds of both, and the ratio of ours to plain skorch."""
    for net in pair:
        time_epoch(net, X, y)
    seconds = np.array(
        [[time_epoch(net, X, y) for net in pair] for _ in range(repeats)]
    )
    plain, ours = np.median(seconds, axis=0)
    ratio = np.median(seconds[:, 1] / seconds[:, 0])
    print(f"{name:<24}{plain * 1e3:9.2f} ms {ours * 1e3:9.2f} ms  x{ratio:.2f}")


def main():
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print(f"# torch {torch.__version__}, skorch {skorch.__version__}, one epoch")
    print(f"{'':<24}{'skorch':>12} {'ours':>12}")
    mlp = build_pair(MLP, 20, n_features=64, n_classes=10, hidden_sizes=(128,))
    compare("MLP, digits", *make_digits(), mlp, repeats)
    convnet = build_pair(ConvNet, 1, n_channels=3, n_classes=10)
    compare("ConvNet, 4096 images", *make_images(), convnet, max(3, repeats // 3))


if __name__ == "__main__":
    main()
