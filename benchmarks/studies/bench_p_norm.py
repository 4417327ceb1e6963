"""Largest logit divided by the p-norm of the logits, for networks on public images.

    python benchmarks/studies/bench_p_norm.py

Reads the logits of `bench_public_logits.py` (`SKLEARN_CALIB_DATA`). Prints the area
under the risk-coverage curve of their test sets, times 1000, when the samples are
ranked by the largest probability ("msp"), by the largest logit, and by "p_norm" with
several p. The last rows are the mean ratio to that of "msp", and the number of networks
for which it is lower. Takes half a minute.
"""

import numpy as np
import pandas as pd
from bench_public_logits import read_data

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib.metrics import aurc_loss

# The norm of order 1 gives nearly the same score to most samples.
ORDERS = [2, 3, 4, 5, 6, 7, 8, 10]


def areas(logits, y):
    """Return the area of each ranking."""
    proba = softmax(logits)
    centred = logits - logits.mean(axis=1, keepdims=True)
    scores = {"msp": "msp", "max_logit": logits.max(axis=1)}
    for p in ORDERS:
        norm = np.linalg.norm(centred, p, axis=1)
        scores[f"p = {p}"] = centred.max(axis=1) / norm
    labels = np.arange(logits.shape[1])
    return {
        name: 1000 * aurc_loss(y, proba, labels=labels, confidence=score)
        for name, score in scores.items()
    }


if __name__ == "__main__":
    table = pd.DataFrame(
        {
            name: areas(logits.astype(np.float64), y)
            for name, has_logits, _, _, logits, y in read_data()
            if has_logits
        }
    ).T
    ratio = table.div(table["msp"], axis=0)
    print(table.round(2).to_string())
    summary = pd.DataFrame({"ratio": ratio.mean(), "lower": (ratio < 1).sum()}).T
    print(summary.round(3).to_string())
