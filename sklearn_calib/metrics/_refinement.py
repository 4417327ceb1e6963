"""A proper loss in two parts: what recalibration repairs, and what is left."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core.binning import bin_index, parting_edges
from sklearn_calib._core.inputs import (
    BINS,
    TARGETS,
    as_columns,
    check_targets,
    effective_n_samples,
    resolve_n_bins,
)
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.links import softmax
from sklearn_calib._core.optimize import fit_temperature
from sklearn_calib._core.risk_coverage import LOSSES
from sklearn_calib._core.typing import Array, Floats, Ints
from sklearn_calib._core.validation import StrOptions, check_proba, validate_params

# From probabilities, columns and weights to probabilities.
Recalibrate: TypeAlias = Callable[[Floats, Array, Floats], Floats]


def _brier(codes: Ints, proba: Floats) -> Floats:
    """Return the squared distance of each row to its label."""
    return ((proba - _indicators(codes, proba.shape[1])) ** 2).sum(axis=1)


def _indicators(codes: Ints, n_classes: int) -> Floats:
    return (codes[:, None] == np.arange(n_classes)).astype(np.float64)


def _scale(proba: Floats, codes: Ints, weight: Floats) -> Floats:
    """Return the probabilities at the best temperature, mixed with equal ones."""
    logits = np.log(np.maximum(proba, np.finfo(np.float64).eps, dtype=np.float64))
    weight = weight * (effective_n_samples(weight) / weight.sum())
    with warnings.catch_warnings():
        # Where the best temperature is 0 or infinite, its bound is as good.
        warnings.simplefilter("ignore", ConvergenceWarning)
        temperature = fit_temperature(logits, codes, weight)
    share = 1 / (weight.sum() + 1)
    return (1 - share) * softmax(logits / temperature) + share / proba.shape[1]


def _by_class(recalibrate: Recalibrate) -> Recalibrate:
    """Return what recalibrates each class by itself, one of two for both."""

    def recalibrate_classes(proba: Floats, codes: Ints, weight: Floats) -> Floats:
        hits = _indicators(codes, proba.shape[1])
        if proba.shape[1] == 2:
            return as_columns(recalibrate(proba[:, 1].copy(), hits[:, 1], weight))
        columns = zip(proba.T.copy(), hits.T, strict=True)
        return np.column_stack([recalibrate(p, hit, weight) for p, hit in columns])

    return recalibrate_classes


def _frequencies(group: Ints, hit: Array, weight: Floats) -> tuple[Array, Array]:
    """Return the share of hits in each group, 0 where it has no weight."""
    mass = np.bincount(group, weight)
    hits = np.bincount(group, weight * hit)
    return mass, np.divide(hits, mass, out=np.zeros_like(hits), where=mass > 0)


def _increasing(values: Floats, hit: Array, weight: Floats) -> Floats:
    """Return the best increasing function of the values, which pools ties."""
    group = np.unique(values, return_inverse=True)[1]
    mass, frequency = _frequencies(group, hit, weight)
    has_weight = mass > 0
    frequency[has_weight] = isotonic_regression(
        frequency[has_weight], weights=mass[has_weight]
    ).x
    return frequency[group]


def _stepwise(n_bins: int, strategy: str) -> Recalibrate:
    """Return what replaces values by the frequency of hits in their bin."""

    def recalibrate(values: Floats, hit: Array, weight: Floats) -> Floats:
        edges = parting_edges(
            values, n_bins=n_bins, strategy=strategy, sample_weight=weight
        )
        index = bin_index(values, edges)
        return _frequencies(index, hit, weight)[1][index]

    return recalibrate


PROPER_LOSSES = {"brier": _brier, "log": LOSSES["log"]}
DECOMPOSITION = {
    **TARGETS,
    **BINS,
    "loss": [StrOptions(set(PROPER_LOSSES))],
    "recalibration": [StrOptions({"bins", "isotonic", "temperature"})],
}


@declare_interval(is_error=True)
@validate_params(DECOMPOSITION, prefer_skip_nested_validation=True)
def proper_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "log",
    recalibration: str = "temperature",
    n_bins: int | str = 15,
    strategy: str = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""How much of the log loss or the Brier score recalibration takes away.

    The probabilities are recalibrated on the very samples that they are measured on,
    and the loss after it, the :func:`refinement_error`, is subtracted from the loss
    before. 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    loss : {"log", "brier"}, default="log"
        What is decomposed: the log loss, or the Brier score, which is summed over the
        classes: of two it is twice that of the positive class.

    recalibration : {"temperature", "isotonic", "bins"}, default="temperature"
        How the probabilities are recalibrated:

        - "temperature": the logits are divided by the temperature of the lowest log
          loss, and the probabilities mixed with 1 / (n + 1) of equal ones [1]_,
          where n is the effective number of samples, the squared sum of the weights
          divided by the sum of their squares;
        - "isotonic": by the best increasing function of the probability of each
          class, as in CORP [2]_;
        - "bins": by the frequency of each class in bins of its probability.

        The last two do not keep rows that sum to one, and the log loss of more than
        two classes takes "temperature" only.

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up. For
        "bins" only.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. Their scale matters only for "cube_root".

    Returns
    -------
    error : float
        Loss that recalibration takes away.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the log loss of more than two classes is to be decomposed by
        "isotonic" or "bins".

    See Also
    --------
    refinement_error : The other part.
    score_decomposition : Both, and what the refinement error consists of.
    expected_calibration_error : The gaps themselves, not what they cost.

    Notes
    -----
    With the recalibrated probabilities :math:`\tilde p` it is
    :math:`\ell(p, y) - \ell(\tilde p, y)`, so that the two parts sum to the loss
    :math:`\ell(p, y)` exactly. With "isotonic" it is never negative, for the identity
    is an increasing function; it is known as MCB, and the refinement error as
    :math:`\text{UNC} - \text{DSC}`, where UNC is the loss of the class frequencies.
    With "bins" it is the reliability term of the Brier score, less what the differences
    of the probabilities within a bin are worth, and may be negative, as with
    "temperature" by the mixture and for the Brier score. The scorer
    "neg_proper_calibration" takes the Brier score and "isotonic".

    More flexible maps find more to repair, and more that is chance: the error is
    biased upward, most with "isotonic" and many bins.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Rethinking Early
       Stopping: Refine, Then Calibrate", arXiv:2501.19195, 2025.

    .. [2] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable Reliability Diagrams
       for Probabilistic Classifiers", PNAS 118, 2021.

    .. [3] J. Bröcker, "Reliability, Sufficiency, and the Decomposition of Proper
       Scores", Quarterly Journal of the Royal Meteorological Society 135, 2009.

    Examples
    --------
    >>> from sklearn_calib.metrics import proper_calibration_error
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]
    >>> round(proper_calibration_error(y_true, y_proba, recalibration="isotonic"), 3)
    0.164
    """
    before, after, _ = losses_in_parts(
        y_true, y_proba, loss, recalibration, n_bins, strategy, labels, sample_weight
    )
    return before - after


@validate_params(DECOMPOSITION, prefer_skip_nested_validation=True)
def refinement_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "log",
    recalibration: str = "temperature",
    n_bins: int | str = 15,
    strategy: str = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Log loss or Brier score that is left after recalibration. Low is good.

    What probabilities do not tell, whatever is made of them: 0 is best. It lets
    networks be stopped, and models be chosen, that are to be calibrated afterwards.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    loss : {"log", "brier"}, default="log"
        What is decomposed, as in :func:`proper_calibration_error`.

    recalibration : {"temperature", "isotonic", "bins"}, default="temperature"
        How the probabilities are recalibrated, as in :func:`proper_calibration_error`.

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up. For
        "bins" only.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. Their scale matters only for "cube_root".

    Returns
    -------
    error : float
        Loss after recalibration.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the log loss of more than two classes is to be decomposed by
        "isotonic" or "bins".

    See Also
    --------
    proper_calibration_error : The other part, with the formulas.
    failure_auroc_score : Refinement as the separation of right from wrong predictions.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Rethinking Early
       Stopping: Refine, Then Calibrate", arXiv:2501.19195, 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import refinement_error
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]
    >>> round(refinement_error(y_true, y_proba, recalibration="isotonic"), 3)
    0.347
    """
    return losses_in_parts(
        y_true, y_proba, loss, recalibration, n_bins, strategy, labels, sample_weight
    )[1]


def losses_in_parts(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    loss: str,
    recalibration: str,
    n_bins: int | str,
    strategy: str,
    labels: ArrayLike | None,
    weight: ArrayLike | None,
) -> list[float]:
    """Return the mean loss before and after recalibration, and of the frequencies."""
    proba, codes, weight = check_targets(y_true, y_proba, labels, weight)
    proba = as_columns(check_proba(proba, allow_1d=True))
    weight = np.ones(len(proba)) if weight is None else weight
    if loss == "log" and recalibration != "temperature" and proba.shape[1] > 2:
        raise ValueError(
            f'recalibration must be "temperature" for the log loss of more than two '
            f"classes, got {recalibration!r} and {proba.shape[1]} classes, whose "
            'probabilities it does not keep at a sum of one. Or pass loss="brier".'
        )
    n_bins = resolve_n_bins(n_bins, len(proba), weight)
    recalibrate = {
        "bins": _by_class(_stepwise(n_bins, strategy)),
        "isotonic": _by_class(_increasing),
        "temperature": _scale,
    }[recalibration]
    counts = np.bincount(codes, weight, proba.shape[1])
    frequencies = np.broadcast_to(counts / counts.sum(), proba.shape)
    return [
        float(np.average(PROPER_LOSSES[loss](codes, each), weights=weight))
        for each in (proba, recalibrate(proba, codes, weight), frequencies)
    ]
