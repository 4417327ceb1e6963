"""Clusters of samples that are not independent, such as the visits of a patient."""

from typing import Any

import numpy as np

from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import as_labels, distinct_labels
from sklearn_calib._validation.types import Ints, Weights

# With fewer clusters, intervals are too narrow.
FEWEST = 50


def encode_clusters(clusters: Any, n_samples: int, name: str = "clusters") -> Ints:
    """Return the cluster of each sample, numbered in the order of the samples.

    `name` is that of the argument in messages.
    """
    clusters = as_labels(clusters, name)
    if clusters.shape not in {(n_samples,), (n_samples, 1)}:
        raise ValueError(
            f"{name} must have shape (n_samples,) = ({n_samples},), got "
            f"{clusters.shape}. Pass the cluster of each sample, such as the patient."
        )
    codes = distinct_labels(clusters, name)[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def read_clusters(
    clusters: Any, n_samples: int, weight: Weights = None, name: str = "clusters"
) -> Ints | None:
    """Return the cluster of each sample, or None if the samples are independent.

    They are also independent if each cluster has one sample. Samples of weight zero do
    not count.
    """
    if clusters is None:
        return None
    codes = encode_clusters(clusters, n_samples, name)
    seen = codes if weight is None else codes[weight > 0]
    n_clusters = len(np.unique(seen))
    if n_clusters == len(seen):
        return None
    if n_clusters == 1:
        raise ValueError(
            f"{name} must contain at least two {name}, got 1 for {len(seen)} "
            f"samples. Pass samples of more {name}."
        )
    if n_clusters < FEWEST:
        warn(
            f"{name} should contain at least {FEWEST} {name}, got {n_clusters}. "
            "Intervals may be too narrow, and p-values too small."
        )
    return codes


def is_one_of_several(clusters: Ints | None, rows: Any, weight: Weights) -> bool:
    """Return whether the rows are samples of one cluster, which has no interval."""
    if clusters is None:
        return False
    part = clusters[rows]
    if weight is not None:
        part, clusters = part[weight[rows] > 0], clusters[weight > 0]
    return len(np.unique(part)) == 1 < min(len(part), len(np.unique(clusters)))
