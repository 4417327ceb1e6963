"""Decomposition of proper scores into MCB, DSC and UNC."""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import validate_params
from sklearn_calib.metrics._proper_scores.score_parts import (
    DECOMPOSITION,
    losses_in_parts,
)


class ScoreDecomposition(NamedTuple):
    """Parts of a score: score = miscalibration - discrimination + uncertainty."""

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
    r"""Score decomposition into miscalibration, discrimination and uncertainty.

    A Brier score or log loss is decomposed into three parts. Miscalibration (MCB) is
    the part that recalibration removes; lower is better. Discrimination (DSC) is the
    improvement of the recalibrated probabilities over the class frequencies; higher is
    better. Uncertainty (UNC) is the score of the class frequencies, which depends on
    the labels only.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    loss : {"brier", "log"}, default="brier"
        Score to decompose: the Brier score, summed over all classes (for two classes,
        twice the Brier score of the positive class), or the log loss.

    recalibration : {"isotonic", "temperature", "bins"}, default="isotonic"
        How the probabilities are recalibrated, as in :func:`proper_calibration_error`.
        "isotonic" is the CORP decomposition [1]_, and "bins" the classical
        decomposition [2]_. For the log loss of more than two classes, only
        "temperature" is available.

    n_bins : int or "cube_root", default=15
        Number of bins. "cube_root" uses the cube root of the number of samples, rounded
        up. Only used by "bins".

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. Their scale matters only for "cube_root".

    Returns
    -------
    parts : ScoreDecomposition
        Named tuple of four floats: `score`, `miscalibration`, `discrimination` and
        `uncertainty`.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or "isotonic" or "bins" is used for the log
        loss of more than two classes.

    See Also
    --------
    proper_calibration_error : Miscalibration only.
    refinement_error : Score after recalibration: uncertainty minus discrimination.

    Notes
    -----
    With the recalibrated probabilities :math:`\tilde p` and the frequencies of the
    classes :math:`\bar y`, the parts are
    :math:`\text{MCB} = \ell(p, y) - \ell(\tilde p, y)`,
    :math:`\text{DSC} = \ell(\bar y, y) - \ell(\tilde p, y)` and
    :math:`\text{UNC} = \ell(\bar y, y)` ([1]_, eq. 3), so that
    :math:`\ell(p, y) = \text{MCB} - \text{DSC} + \text{UNC}` exactly. For two classes
    and "isotonic", MCB and DSC are never negative. Both are biased upward, because the
    recalibration is fitted to the same samples.

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
