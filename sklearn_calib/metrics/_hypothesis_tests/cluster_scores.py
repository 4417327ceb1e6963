"""Covariance of estimates from the scores of clusters, and the test of its null."""

from __future__ import annotations

import numpy as np
from scipy.stats import f as f_distribution

from sklearn_calib._validation.samples import effective_n_samples
from sklearn_calib._validation.types import Floats, Ints, Weights

# Smallest fraction of a cluster's information that its leverage leaves.
SINGULAR = 1e-9


def sum_clusters(values: Floats, clusters: Ints) -> Floats:
    """Return the sums (n_clusters, ...) over the rows of each cluster."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    return np.add.reduceat(values[order], starts, axis=0)


def sandwich(scores: Floats, information: Floats) -> Floats:
    """Return the covariance of estimates by the sandwich CR2 of Bell and McCaffrey.

    Parameters
    ----------
    scores : ndarray of shape (n_clusters, n_coefs)
        Derivatives of the log-likelihood of each cluster.

    information : ndarray of shape (n_clusters, n_coefs, n_coefs)
        Information of each cluster, whose sum is not singular.
    """
    root = np.linalg.inv(np.linalg.cholesky(information.sum(axis=0))).T
    leverage, axes = np.linalg.eigh(root.T @ information @ root)
    left = 1 - leverage
    # A cluster that alone determines a coefficient has no residual.
    factor = np.where(left > SINGULAR, 1 / np.sqrt(np.maximum(left, SINGULAR)), 0)
    along = np.einsum("cji,cj->ci", axes, scores @ root) * factor
    adjusted = np.einsum("cij,cj->ci", axes, along) @ root.T
    return adjusted.T @ adjusted


def effective_clusters(clusters: Ints, weight: Weights) -> float:
    """Return the effective number of clusters, by Kish's formula."""
    return effective_n_samples(np.bincount(clusters, weight).astype(float))


def wald_test(
    excess: Floats, covariance: Floats, n_clusters: float
) -> tuple[float, float]:
    """Return the Wald statistic of estimates minus their null, and Hotelling's p-value.

    There are more clusters than estimates.
    """
    statistic = float(excess @ np.linalg.solve(covariance, excess))
    df, df_left = len(excess), n_clusters - len(excess)
    ratio = statistic * df_left / (df * (n_clusters - 1))
    return statistic, float(f_distribution.sf(ratio, df, df_left))
