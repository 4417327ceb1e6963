"""Compare BSCE-GRA with other losses on data sets on which nothing was chosen.

    python benchmarks/papers/bench_gradient_weighted.py FILE --workers 2

Trains networks for 50 epochs on 3,200 samples of the six data sets of
`bench_adafocal_small.py --fresh`, with each loss and seed. Results in the CSV file are
not computed again. Then prints the mean ECE over the seeds as trained, and after a
temperature, for each loss and data set, and on how many data sets a setting of BSCE-GRA
has a lower one than all other losses. The rule, fixed before the first run, was to add
the loss to the package if the authors' setting is first on three data sets as trained.

The data are read from the folder in the environment variable SKLEARN_CALIB_DATA, or
from `shared/data` next to the checkout.
"""

import argparse
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from bench_adafocal_small import BASELINE, FRESH, VARIANTS, train_missing


class GradientWeightedLoss(torch.nn.Module):
    """BSCE-GRA: cross-entropy with the error of a sample as weight of its gradient.

    The weight is the Brier score of the sample, raised to gamma / 2. It is a constant
    in the gradient. Lin et al., "Uncertainty Weighted Gradients for Model Calibration",
    CVPR 2025; the authors' `BSCELossGra` with norm 2.
    """

    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        error = F.one_hot(target, logits.shape[1]) - logits.detach().softmax(1)
        weight = error.square().sum(1) ** (self.gamma / 2)
        return (weight * F.cross_entropy(logits, target, reduction="none")).mean()


TRIED = {
    # The runs recorded in the authors' repository have gamma 4 and norm 2.
    "BSCE-GRA, authors": {"loss": GradientWeightedLoss(4.0)},
    "BSCE-GRA, Brier score": {"loss": GradientWeightedLoss(2.0)},
}
OTHERS = [BASELINE, "focal 3", "dual focal 5", "AdaFocal", "AdaFocal, authors"]


def print_table(results, metric):
    """Print the mean of a metric over the seeds, and where BSCE-GRA is first."""
    table = results.pivot_table(metric, "variant", "data", sort=False)
    print(f"\n{metric}\n{table.assign(mean=table.mean(axis=1)).round(4).to_string()}")
    first = table.loc[[*TRIED]].lt(table.loc[OTHERS].min()).sum(axis=1)
    print(f"first on, of {table.shape[1]} data sets: {first.to_dict()}")


def main():
    """Compute the missing results, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(3))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    options.data, options.epochs, options.variants = [*FRESH], [50], [*OTHERS, *TRIED]
    VARIANTS.update(TRIED)
    train_missing(options)
    results = pd.read_csv(options.file)
    for metric in ("ECE", "scaled ECE"):
        print_table(results, metric)


if __name__ == "__main__":
    main()
