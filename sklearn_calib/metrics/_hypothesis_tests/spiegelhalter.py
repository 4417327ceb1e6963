"""Spiegelhalter's calibration test."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from sklearn_calib._validation.declarations import TARGETS, StrOptions, validate_params
from sklearn_calib._validation.probabilities import proba_blocks
from sklearn_calib._validation.samples import TESTED, in_double, read_samples
from sklearn_calib._validation.types import Floats, Ints

ALTERNATIVES = StrOptions({"greater", "less", "two-sided"})


class SignificanceResult(NamedTuple):
    """Result of a test with a statistic of known distribution."""

    statistic: float
    pvalue: float


@validate_params({**TARGETS, "mode": [TESTED], "alternative": [ALTERNATIVES]})
def spiegelhalter_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str = "canonical",
    alternative: str = "two-sided",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> SignificanceResult:
    r"""Spiegelhalter's test of calibration, based on the Brier score.

    A small p-value is evidence against calibration. A positive statistic means that the
    predictions are overconfident, a negative one that they are underconfident.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Alternative hypothesis: the Brier score is different from, greater than
        (overconfident) or less than (underconfident) that of calibrated predictions.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights in the Brier score. A weight of 2 is not equivalent to two
        samples, because a repeated label is not additional evidence.

    Returns
    -------
    result : SignificanceResult
        Named tuple of the `statistic` z, which is standard normal for calibrated
        predictions, and the `pvalue`.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    hosmer_lemeshow_test : Test that also detects deviations that do not change the
        Brier score.
    consistency_test : Calibration test with any metric.

    Notes
    -----
    With :math:`s_i = \sum_k p_{ik}^2` and the true class :math:`y_i`, the statistic is

    .. math:: z = \frac{\sum_i w_i (s_i - p_{i y_i})}
        {\sqrt{\sum_i w_i^2 \sum_k p_{ik} (p_{ik} - s_i)^2}}.

    For two classes and without weights, it is
    :math:`\sum_i (y_i - p_i)(1 - 2 p_i) / \sqrt{\sum_i (1 - 2 p_i)^2 p_i (1 - p_i)}`
    ([1]_, section 2). The test is valid for predictions of new data, but not for those
    of the training data.

    Correct predictions with probability 1, and uniform predictions, have no
    variance and do not contribute. If all predictions are of these kinds, z is 0 and
    the p-value is 1. If a true class has the probability 0, z is infinite and the
    p-value is 0 for every `alternative`, because this is impossible for a calibrated
    classifier. Avoid rounding probabilities to 0.

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
    >>> overconfident = proba**2 / (proba**2 + (1 - proba) ** 2)
    >>> result = spiegelhalter_test(y_true, overconfident)
    >>> result.statistic > 0, result.pvalue < 0.001
    (True, True)
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    samples = read_samples(*data, is_symmetric=True)
    proba, codes, weight = samples.unchecked()
    # The squares of these weights neither underflow nor overflow.
    weight = np.ones(len(proba)) if weight is None else weight / weight.max()
    deviation, variance, is_impossible = 0.0, 0.0, False
    for rows, block in proba_blocks(proba):
        sums = _block_sums(in_double(block), codes[rows], weight[rows])
        deviation, variance = deviation + sums[0], variance + sums[1]
        is_impossible |= has_impossible_label(block, codes[rows], weight[rows])
    return spiegelhalter_result(
        deviation, variance, alternative, is_impossible=is_impossible
    )


def _block_sums(proba: Floats, codes: Ints, weight: Floats) -> tuple[float, float]:
    """Return the sum of the excess of the Brier score, and its variance."""
    above = proba - np.einsum("ij,ij->i", proba, proba)[:, None]
    # For uniform predictions, only rounding errors remain.
    above[np.abs(above) < 8 * np.finfo(np.float64).eps] = 0
    deviation = -weight @ above[np.arange(len(codes)), codes]
    above *= above
    variance = weight**2 @ np.einsum("ij,ij->i", proba, above)
    return float(deviation), float(variance)


def spiegelhalter_result(
    deviation: float, variance: float, alternative: str, *, is_impossible: bool
) -> SignificanceResult:
    """Return the result, given the excess of the Brier score and its variance."""
    if is_impossible:
        return SignificanceResult(np.inf, 0.0)
    if variance == 0:
        return SignificanceResult(0.0, 1.0)
    z = deviation / np.sqrt(variance)
    tails = {"greater": norm.sf(z), "less": norm.cdf(z)}
    pvalue = tails.get(alternative, 2 * norm.sf(np.abs(z)))
    return SignificanceResult(float(z), float(pvalue))


def has_impossible_label(proba: Floats, codes: Ints, weight: Any = 1) -> bool:
    """Whether the probability of a true class is 0."""
    return bool(((proba[np.arange(len(codes)), codes] == 0) & (weight > 0)).any())
