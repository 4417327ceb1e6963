"""Over- and underconfidence with respect to known true class probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import StrOptions, validate_params
from sklearn_calib._validation.probabilities import check_proba, check_sample_weight
from sklearn_calib._validation.samples import as_columns
from sklearn_calib._validation.types import Floats

POSTERIORS = {
    "posterior": ["array-like"],
    "y_proba": ["array-like"],
    "measure": [StrOptions({"excess", "share"})],
    "sample_weight": ["array-like", None],
}


@validate_params(POSTERIORS)
def overconfidence(
    posterior: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: str = "excess",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Overconfidence: excess of the confidence over the largest true probability.

    A classifier is overconfident for a sample if its largest probability exceeds the
    largest probability of the true posterior, even if they belong to different classes
    [1]_. Lower is better: 0 is best, 1 is worst.

    Parameters
    ----------
    posterior : array-like of shape (n_samples, n_classes) or (n_samples,)
        True class probabilities given the sample, with the columns in the order of
        `y_proba`. A 1-d array contains the probabilities of the positive class.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities.

    measure : {"excess", "share"}, default="excess"
        "excess" is the mean of the positive part of the difference. "share" is the
        fraction of samples for which the difference is positive.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    value : float
        Overconfidence, in [0, 1].

    Raises
    ------
    ValueError
        If the arrays do not have the same shape, or contain values that are not
        probabilities.

    See Also
    --------
    underconfidence : The opposite.
    expected_calibration_error : Calibration error with respect to labels.

    Notes
    -----
    The true probabilities are the first argument. If the arguments are exchanged, the
    result is the underconfidence.

    With "excess", overconfidence minus underconfidence is the mean confidence minus the
    mean largest true probability. Their sum is at most the mean Euclidean distance of
    the probabilities from the posterior ([1]_, appendix A.2).

    A posterior that is estimated from a few annotations per sample is itself
    overconfident, because the largest frequency is biased upward.

    References
    ----------
    .. [1] W. Liang, C. Dong, L. N. Zheng, W. E. Zhang and W. Chen, "Towards Trustworthy
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025,
       definition 2.1.

    .. [2] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
       equation 10.

    Examples
    --------
    >>> from sklearn_calib.metrics import overconfidence
    >>> posterior = [[0.7, 0.3], [0.4, 0.6]]
    >>> y_proba = [[0.9, 0.1], [0.5, 0.5]]
    >>> round(overconfidence(posterior, y_proba), 3)
    0.1
    >>> overconfidence(posterior, y_proba, measure="share")
    0.5
    """
    return _mean_excess(_confidence_gap(posterior, y_proba), measure, sample_weight)


@validate_params(POSTERIORS)
def underconfidence(
    posterior: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: str = "excess",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Underconfidence: excess of the largest true probability over the confidence.

    Lower is better: 0 is best, 1 is worst. See :func:`overconfidence` for the details.

    Parameters
    ----------
    posterior : array-like of shape (n_samples, n_classes) or (n_samples,)
        True class probabilities given the sample.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities.

    measure : {"excess", "share"}, default="excess"
        "excess" is the mean of the positive part of the difference. "share" is the
        fraction of samples for which the difference is positive.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    value : float
        Underconfidence, in [0, 1].

    Raises
    ------
    ValueError
        If the arrays do not have the same shape, or contain values that are not
        probabilities.

    References
    ----------
    .. [1] W. Liang, C. Dong, L. N. Zheng, W. E. Zhang and W. Chen, "Towards Trustworthy
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025,
       definition 2.1.

    Examples
    --------
    >>> from sklearn_calib.metrics import underconfidence
    >>> posterior = [[0.7, 0.3], [0.4, 0.6]]
    >>> y_proba = [[0.9, 0.1], [0.5, 0.5]]
    >>> round(underconfidence(posterior, y_proba), 3)
    0.05
    """
    return _mean_excess(-_confidence_gap(posterior, y_proba), measure, sample_weight)


def _confidence_gap(posterior: ArrayLike, y_proba: ArrayLike) -> Floats:
    """Return the confidence of each sample minus its largest true probability."""
    # `read_samples` needs labels.
    true = as_columns(check_proba(posterior, name="posterior", allow_1d=True))
    predicted = as_columns(check_proba(y_proba, allow_1d=True))
    if true.shape != predicted.shape:
        raise ValueError(
            "posterior must have the shape of y_proba, one row for each sample and one "
            f"column for each class, got {true.shape} and {predicted.shape}. Pass "
            "class probabilities, not labels."
        )
    return predicted.max(axis=1).astype(np.float64) - true.max(axis=1)


def _mean_excess(gap: Floats, measure: str, sample_weight: ArrayLike | None) -> float:
    """Return the mean of the positive part, or the fraction of positive values."""
    weight = check_sample_weight(sample_weight, gap)
    values = gap > 0 if measure == "share" else np.maximum(gap, 0)
    return float(np.average(values, weights=weight))
