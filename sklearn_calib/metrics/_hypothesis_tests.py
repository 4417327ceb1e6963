"""Tests of whether predictions are calibrated, with a statistic of known law."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from sklearn_calib._core.inputs import (
    TARGETS,
    as_columns,
    check_targets,
    confidence_and_hit,
)
from sklearn_calib._core.typing import Floats, Ints
from sklearn_calib._core.validation import (
    StrOptions,
    check_proba,
    validate_params,
)

ALTERNATIVES = StrOptions({"greater", "less", "two-sided"})
JUDGED = StrOptions({"canonical", "top_label"})


class SignificanceResult(NamedTuple):
    """What a test returns."""

    statistic: float
    pvalue: float


def whole_or_top_label(proba: Floats, codes: Ints, mode: str) -> tuple[Floats, Ints]:
    """Return the probabilities that are tested, checked, and the true columns."""
    if mode == "top_label":
        proba, hit = confidence_and_hit(proba, codes, "top_label")
        codes = hit.astype(np.int64)
    return check_proba(as_columns(proba)), codes


def in_double(proba: Floats) -> Floats:
    """Return rows that sum to one, since what rounding leaves is no deviation."""
    proba = proba.astype(np.float64)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


@validate_params(
    {**TARGETS, "mode": [JUDGED], "alternative": [ALTERNATIVES]},
    prefer_skip_nested_validation=True,
)
def spiegelhalter_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str = "canonical",
    alternative: str = "two-sided",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> SignificanceResult:
    r"""Test whether the Brier score is what calibrated predictions would have.

    A small p-value says that the predictions are not calibrated. A positive statistic
    says that they are too sure, a negative one that they are not sure enough.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        What is held against calibration: any other Brier score, a larger one (too
        sure), or a smaller one (not sure enough).

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples in the Brier score. A weight of 2 is not a second
        sample: the same label twice tells no more than once.

    Returns
    -------
    result : SignificanceResult
        A named tuple of the `statistic` z, standard normal for calibrated predictions,
        and the `pvalue`.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    See Also
    --------
    hosmer_lemeshow_test : Sees deviations that leave the Brier score as it is.
    consistency_test : The same question to any metric.

    Notes
    -----
    With :math:`s_i = \sum_k p_{ik}^2` and the true class :math:`y_i`

    .. math:: z = \frac{\sum_i w_i (s_i - p_{i y_i})}
        {\sqrt{\sum_i w_i^2 \sum_k p_{ik} (p_{ik} - s_i)^2}}

    which for two classes is
    :math:`\sum_i (y_i - p_i)(1 - 2 p_i) / \sqrt{\sum_i (1 - 2 p_i)^2 p_i (1 - p_i)}`
    ([1]_, section 2). It holds for predictions of new data, not of those that the
    classifier was fitted on.

    Certain predictions that come true, and uniform ones, have no variance and add
    nothing; with no others z is 0 and the p-value 1. Where a class of probability 0 is
    the true one, z is infinite and the p-value 0, whatever the `alternative`: no
    calibrated classifier says so. If only rounding made the zeros, leave more digits.

    References
    ----------
    .. [1] D. J. Spiegelhalter, "Probabilistic Prediction in Patient Management and
       Clinical Trials", Statistics in Medicine 5, 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import spiegelhalter_test
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < proba  # perfectly calibrated
    >>> spiegelhalter_test(y_true, proba).pvalue > 0.05
    True
    >>> too_sure = proba**2 / (proba**2 + (1 - proba) ** 2)
    >>> result = spiegelhalter_test(y_true, too_sure)
    >>> result.statistic > 0, result.pvalue < 0.001
    (True, True)
    """
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    proba, codes = whole_or_top_label(proba, codes, mode)
    proba = in_double(proba)
    # Whose squares neither vanish nor overflow.
    weight = np.ones(len(proba)) if weight is None else weight / weight.max()
    if holds_impossible(proba, codes, weight):
        return SignificanceResult(np.inf, 0.0)
    above = proba - np.einsum("ij,ij->i", proba, proba)[:, None]
    # Of uniform predictions only rounding is left, which would look like a variance.
    above[np.abs(above) < 8 * np.finfo(np.float64).eps] = 0
    deviation = -weight @ above[np.arange(len(codes)), codes]
    variance = weight**2 @ np.einsum("ij,ij->i", proba, above**2)
    if variance == 0:
        return SignificanceResult(0.0, 1.0)
    z = deviation / np.sqrt(variance)
    tails = {"greater": norm.sf(z), "less": norm.cdf(z)}
    pvalue = tails.get(alternative, 2 * norm.sf(np.abs(z)))
    return SignificanceResult(float(z), float(pvalue))


def holds_impossible(proba: Floats, codes: Ints, weight: Any = 1) -> bool:
    """Whether a class of probability 0 is the true one."""
    return bool(((proba[np.arange(len(codes)), codes] == 0) & (weight > 0)).any())
