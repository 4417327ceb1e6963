"""Time of one epoch of `NeuralClassifier` by loss, compared with plain skorch.

    python benchmarks/speed/bench_training.py --repeats 15 --losses regularized_aurc

Trains a small network on the handwritten digits and a small ConvNet on random images.
Prints the median CPU time of an epoch in plain skorch with cross-entropy, and in
`NeuralClassifier` with cross-entropy and with each of the losses, and the median ratios
to the first two. All use the same network, the same optimizer and the same shuffled
mini-batches of 128, without validation data. The epochs are interleaved, so that a busy
machine slows all of them equally. One thread makes the ratios comparable across
machines.
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
    """Return the handwritten digits, 1797 rows and 64 columns."""
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32) / 16, y.astype(np.int64)


def make_images(n_samples=1024):
    """Return random colour images of 32 x 32 pixels in ten classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 3, 32, 32), dtype=np.float32)
    return X, rng.integers(10, size=n_samples)


def build_nets(losses, module, max_epochs, **sizes):
    """Return nets with the same network and optimizer: plain skorch, then each loss."""
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
    ours = {loss: NeuralClassifier(module, loss=loss, **shared) for loss in losses}
    return {"skorch, cross_entropy": plain} | ours


def time_epoch(net, X, y):
    """Return the CPU seconds of one epoch of a fit."""
    start = time.process_time()
    net.fit(X, y)
    return (time.process_time() - start) / net.max_epochs


def compare(name, X, y, nets, repeats):
    """Print one row for each net: milliseconds, and ratios to the first two rows."""
    for net in nets.values():
        time_epoch(net, X, y)
    seconds = np.array(
        [[time_epoch(net, X, y) for net in nets.values()] for _ in range(repeats)]
    )
    print(f"# {name}")
    for row, epochs in zip(nets, seconds.T, strict=True):
        to_skorch, to_ours = np.median(epochs[:, None] / seconds[:, :2], axis=0)
        time_shown = f"{1e3 * np.median(epochs):9.2f} ms"
        print(f"{row:<24}{time_shown}{to_skorch:12.3f}{to_ours:18.3f}")


def main():
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--losses", nargs="*", default=["regularized_aurc"])
    args = parser.parse_args()
    losses = ["cross_entropy", *args.losses]
    torch.set_num_threads(1)
    print(f"# torch {torch.__version__}, skorch {skorch.__version__}, one epoch")
    print(f"{'':<36}{'to skorch':>12}{'to cross_entropy':>18}")
    mlp = build_nets(losses, MLP, 20, n_features=64, n_classes=10, hidden_sizes=(128,))
    compare("MLP, digits", *make_digits(), mlp, args.repeats)
    convnet = build_nets(losses, ConvNet, 1, n_channels=3, n_classes=10)
    compare("ConvNet, 1024 images", *make_images(), convnet, args.repeats)


if __name__ == "__main__":
    main()
