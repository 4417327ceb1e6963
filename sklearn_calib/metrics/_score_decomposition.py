"""A proper loss in three parts: miscalibration, discrimination and uncertainty."""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from sklearn_calib._core.validation import validate_params
from sklearn_calib.metrics._refinement import DECOMPOSITION, losses_in_parts


class ScoreDecomposition(NamedTuple):
    """Parts of a score, which is miscalibration - discrimination + uncertainty."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@validate_params(DECOMPOSITION, prefer_skip_nested_validation=True)
def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "brier",
    recalibration: str = "isotonic",
    n_bins: int | str = 15,
    strategy: str = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> ScoreDecomposition:
    r"""Brier score or log loss as miscalibration, discrimination and uncertainty.

    What recalibration would repair, MCB, of which low is good; what the probabilities
    tell of the classes, DSC, of which high is good; and what there is to tell, UNC,
    which depends on the labels alone.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    loss : {"brier", "log"}, default="brier"
        What is decomposed: the Brier score, which is summed over the classes (of two it
        is twice that of the positive class), or the log loss.

    recalibration : {"isotonic", "temperature", "bins"}, default="isotonic"
        How the probabilities are recalibrated, as in :func:`proper_calibration_error`.
        "isotonic" is CORP [1]_, "bins" the classical decomposition [2]_. The log loss
        of more than two classes takes "temperature" only.

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
    parts : ScoreDecomposition
        Named tuple of four floats: `score`, `miscalibration`, `discrimination` and
        `uncertainty`.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the log loss of more than two classes is to be decomposed by
        "isotonic" or "bins".

    See Also
    --------
    proper_calibration_error : The miscalibration alone.
    refinement_error : What recalibration leaves, uncertainty less discrimination.

    Notes
    -----
    With the recalibrated probabilities :math:`\tilde p` and the frequencies of the
    classes :math:`\bar y`, the parts are :math:`\text{MCB} = \ell(p, y) -
    \ell(\tilde p, y)`, :math:`\text{DSC} = \ell(\bar y, y) - \ell(\tilde p, y)` and
    :math:`\text{UNC} = \ell(\bar y, y)` ([1]_, eq. 3), so that
    :math:`\ell(p, y) = \text{MCB} - \text{DSC} + \text{UNC}` exactly. With "isotonic",
    MCB and DSC of two classes are never negative. They are measured on the samples that
    the probabilities are recalibrated with, and both biased upward.

    References
    ----------
    .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable Reliability Diagrams
       for Probabilistic Classifiers", PNAS 118, 2021.

    .. [2] A. H. Murphy, "A New Vector Partition of the Probability Score", Journal of
       Applied Meteorology 12, 1973.

    Examples
    --------
    >>> from sklearn_calib.metrics import score_decomposition
    >>> y_true, y_proba = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]
    >>> parts = score_decomposition(y_true, y_proba)
    >>> round(parts.miscalibration, 3), round(parts.discrimination, 3)
    (0.12, 0.25)
    >>> parts.uncertainty
    0.5
    """
    score, recalibrated, uncertainty = losses_in_parts(
        y_true, y_proba, loss, recalibration, n_bins, strategy, labels, sample_weight
    )
    return ScoreDecomposition(
        score, score - recalibrated, uncertainty - recalibrated, uncertainty
    )
