"""Over- and underconfidence, where the true probabilities of the classes are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.inputs import as_columns
from sklearn_calib._core.typing import Floats
from sklearn_calib._core.validation import (
    StrOptions,
    check_proba,
    check_sample_weight,
    validate_params,
)

POSTERIORS = {
    "posterior": ["array-like"],
    "y_proba": ["array-like"],
    "measure": [StrOptions({"excess", "share"})],
    "sample_weight": ["array-like", None],
}


@validate_params(POSTERIORS, prefer_skip_nested_validation=True)
def overconfidence(
    posterior: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: str = "excess",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""How far the largest probability is above the largest true one. Low is good.

    A classifier is overconfident for a sample if its largest probability exceeds that
    of the true posterior, be it of the same class or not [1]_. 0 is best, 1 is worst.

    Parameters
    ----------
    posterior : array-like of shape (n_samples, n_classes) or (n_samples,)
        True probabilities of the classes given the sample, in the order of the columns
        of `y_proba`. A 1-d array holds those of the positive class.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities.

    measure : {"excess", "share"}, default="excess"
        The mean of the difference, taken as 0 where it is negative, or the share of the
        samples for which it is positive.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples; a weight of 2 counts like the same sample twice.

    Returns
    -------
    value : float
        In [0, 1].

    Raises
    ------
    ValueError
        If the arrays do not have the same shape, or hold anything but probabilities.

    See Also
    --------
    underconfidence : The opposite.
    expected_calibration_error : Needs labels only.

    Notes
    -----
    Truth comes first, as in every metric: exchanged, the arguments measure the
    opposite. With "excess", overconfidence minus underconfidence is the difference of
    the mean confidences, and their sum is at most the mean Euclidean distance of the
    probabilities from the posterior ([1]_, appendix A.2).

    A posterior that is counted from a few votes for each sample is itself too sure on
    average, as its largest entry is that of the votes.

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


@validate_params(POSTERIORS, prefer_skip_nested_validation=True)
def underconfidence(
    posterior: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: str = "excess",
    sample_weight: ArrayLike | None = None,
) -> float:
    """How far the largest probability is below the largest true one. Low is good.

    0 is best, 1 is worst. The counterpart of :func:`overconfidence`, which has the
    details.

    Parameters
    ----------
    posterior : array-like of shape (n_samples, n_classes) or (n_samples,)
        True probabilities of the classes given the sample.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities.

    measure : {"excess", "share"}, default="excess"
        The mean of the difference, taken as 0 where it is negative, or the share of the
        samples for which it is positive.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    value : float
        In [0, 1].

    Raises
    ------
    ValueError
        If the arrays do not have the same shape, or hold anything but probabilities.

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
    """Return the largest probability of each sample minus the largest true one."""
    true = as_columns(check_proba(posterior, name="posterior", allow_1d=True))
    said = as_columns(check_proba(y_proba, allow_1d=True))
    if true.shape != said.shape:
        raise ValueError(
            "posterior must have the shape of y_proba, one row for each sample and one "
            f"column for each class, got {true.shape} and {said.shape}. Pass "
            "probabilities of the classes, not labels."
        )
    return said.max(axis=1).astype(np.float64) - true.max(axis=1)


def _mean_excess(gap: Floats, measure: str, sample_weight: ArrayLike | None) -> float:
    """Return the mean of the positive part, or the share of positive values."""
    weight = check_sample_weight(sample_weight, gap)
    values = gap > 0 if measure == "share" else np.maximum(gap, 0)
    return float(np.average(values, weights=weight))
