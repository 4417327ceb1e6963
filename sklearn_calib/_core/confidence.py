"""How sure a classifier is: the probability of the class that it predicts."""

import numpy as np

from sklearn_calib._core.validation import FEW_COLUMNS, proba_blocks, row_blocks


def top_label(proba):
    """Return each row's largest probability and its column, the first on ties."""
    confidence = np.empty(len(proba), dtype=proba.dtype)
    predicted = np.empty(len(proba), dtype=np.int64)
    for rows in row_blocks(*proba.shape):
        block = proba[rows]
        predicted[rows] = block.argmax(axis=1)
        confidence[rows] = block[np.arange(len(block)), predicted[rows]]
    return confidence, predicted


def top_label_hits(proba, codes, *, name="y_proba"):
    """Return each row's largest probability and whether its column is the true one.

    The values of `proba` are checked in the same pass. `codes` are columns, as from
    `encode_labels`. A tie is a hit for its first column only, as in `predict`.
    """
    confidence = np.empty(len(proba), dtype=proba.dtype)
    hit = np.empty(len(proba), dtype=bool)
    for rows, block in proba_blocks(proba, name=name):
        confidence[rows], hit[rows] = _block_hits(block, codes[rows])
    return confidence, hit


def _block_hits(block, codes):
    """Compare with the maximum in few columns, use argmax in many."""
    every = np.arange(len(block))
    if block.shape[1] <= FEW_COLUMNS:
        confidence = block.max(axis=1)
        if np.count_nonzero(block == confidence[:, None]) == len(block):
            return confidence, block[every, codes] == confidence
    predicted = block.argmax(axis=1)
    return block[every, predicted], predicted == codes
