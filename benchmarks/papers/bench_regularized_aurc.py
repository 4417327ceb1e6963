"""Effect of epsilon on the rank weights of r-AURC and on the trained network.

    python benchmarks/papers/bench_regularized_aurc.py

For each epsilon, an MLP with the defaults of NeuralClassifier (50 epochs, mini-batches
of 128) is trained on 2,000 images of Fashion-MNIST with r-AURC and the default lambd of
0.5. Another one is trained with cross-entropy. The table shows, for the 10,000 test
images, the error rate, the top-label and the class-wise ECE in 15 bins of equal width
(all in percent), the log loss, and the ratio of each calibration error to that of
cross-entropy, as means over the seeds. The columns "weights" are the smallest and the
largest rank weight: for 128 confidences evenly spaced over [0.1, 1], and for the first
128 test images. 18 trainings take two minutes on one core.

The images `images/fashion_mnist_*.npz` are read from the folder in the environment
variable SKLEARN_CALIB_DATA, or from `shared/data` next to the checkout.
"""

import argparse

import numpy as np
import pandas as pd
import torch
from data import DATA
from sklearn.metrics import log_loss

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import regularized_aurc_loss
from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
)

BASELINE = "cross-entropy"
EPSILONS = [0.05, 0.01, 0.005, 0.002, "auto"]
BATCH_SIZE = 128


def read_images(name):
    """Return flat images with the same standardisation, and labels."""
    packed = np.load(DATA / "images" / f"fashion_mnist_{name}.npz")
    images = packed["images"].reshape(len(packed["labels"]), -1)
    return (images / np.float32(255) - 0.286) / 0.353, packed["labels"]


def weight_range(confidence, epsilon):
    """Return the smallest and the largest rank weight of confidences, as text."""
    # Two-class logits whose larger probability, or score, is the confidence.
    logits = torch.stack([confidence, torch.zeros_like(confidence)], 1)
    target = torch.zeros(len(confidence), dtype=torch.long)
    base, weighted = (
        regularized_aurc_loss(
            logits,
            target,
            lambd=lambd,
            epsilon=epsilon,
            confidence=lambda logits: logits[:, 0],
            reduction="none",
        )
        for lambd in (0.0, 1.0)
    )
    weights = weighted / base
    return f"{weights.min():.2f} to {weights.max():.2f}"


def train(epsilon, seed, n_train):
    """Return test probabilities of a network, and the labels."""
    X, y = read_images("train")
    rows = np.random.default_rng(seed).permutation(len(y))[:n_train]
    params = {"loss": "cross_entropy"}
    if epsilon != BASELINE:
        params = {"loss": "regularized_aurc", "loss__epsilon": epsilon}
    net = NeuralClassifier(batch_size=BATCH_SIZE, random_state=seed, **params)
    X_test, y_test = read_images("test")
    return net.fit(X[rows], y[rows]).predict_proba(X_test), y_test


def measure(epsilon, seed, n_train):
    """Return the numbers of one training."""
    proba, y = train(epsilon, seed, n_train)
    result = {
        "epsilon": epsilon,
        "error": 100 * (proba.argmax(1) != y).mean(),
        "ECE": 100 * expected_calibration_error(y, proba),
        "cwECE": 100 * classwise_calibration_error(y, proba),
        "log loss": log_loss(y, proba),
    }
    if epsilon != BASELINE:
        even = torch.linspace(0.1, 1, BATCH_SIZE)
        top = torch.from_numpy(proba[:BATCH_SIZE].max(1))
        result["weights, even"] = weight_range(even, epsilon)
        result["weights, trained"] = weight_range(top, epsilon)
    return result


def make_table(results):
    """Return the means over the seeds, and the weights of the first seed."""
    groups = pd.DataFrame(results).groupby("epsilon", sort=False)
    table = groups.mean(numeric_only=True)
    for error in ("ECE", "cwECE"):
        table[f"{error}, ratio"] = table[error] / table.loc[BASELINE, error]
    return table.join(groups[["weights, even", "weights, trained"]].first())


def main():
    """Train all networks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--n-train", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = [
        measure(epsilon, seed, options.n_train)
        for seed in options.seeds
        for epsilon in (BASELINE, *EPSILONS)
    ]
    print(make_table(results).to_string(float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
