"""Score logits that the authors of a paper have published.

    python benchmarks/papers/authors_logits.py FILE.npz ...

Each file holds `logits` and `targets`, as those in `result/train/cifar10` of
https://github.com/han678/CalibWeightedRisk up to commit d5fdafc: ResNet-50 on
CIFAR-10, one seed. Prints the error, the ECE and its 95 % interval, in percent.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.special import softmax

from sklearn_calib.metrics import bootstrap_interval, expected_calibration_error


def main():
    """Print a line for each file."""
    for path in sys.argv[1:]:
        packed = np.load(path)
        y_true, y_proba = packed["targets"], softmax(packed["logits"], axis=1)
        error = np.mean(y_proba.argmax(axis=1) != y_true)
        ece = expected_calibration_error(y_true, y_proba)
        interval = bootstrap_interval(
            expected_calibration_error, y_true, y_proba, random_state=0
        )
        numbers = " ".join(f"{100 * number:.2f}" for number in (error, ece, *interval))
        print(Path(path).stem, numbers)


if __name__ == "__main__":
    main()
