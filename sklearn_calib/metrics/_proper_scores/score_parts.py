"""Decompositions of proper scores into calibration and refinement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sklearn_calib._numerics.binning import (
    Strategy,
    bin_index,
    parting_edges,
    read_bins,
    resolve_n_bins,
)
from sklearn_calib._numerics.class_scores import GROUP_SIZE
from sklearn_calib._numerics.risk_coverage import LOSSES
from sklearn_calib._solvers.temperature_fit import fit_refinement
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.declarations import (
    BINS,
    TARGETS,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import as_columns, read_samples
from sklearn_calib._validation.types import Array, Floats, Ints

# From the probabilities of a class, its indicator and weights to probabilities.
Recalibrate: TypeAlias = Callable[[Floats, Floats, Floats], Floats]
SampleLoss: TypeAlias = Callable[[Ints, Floats], Floats]


def _brier(codes: Ints, proba: Floats) -> Floats:
    """Return the Brier score of each sample."""
    residual = proba.astype(np.float64)
    residual[np.arange(len(codes)), codes] -= 1
    return np.einsum("ij,ij->i", residual, residual)


def _losses(
    loss: SampleLoss,
    codes: Ints,
    proba: Floats,
    transform: Callable[[Floats], Floats] = lambda proba: proba,
) -> Floats:
    """Return the loss of each sample, after a transformation of the probabilities."""
    losses = np.empty(len(codes))
    for rows in row_blocks(*proba.shape):
        losses[rows] = loss(codes[rows], transform(proba[rows]))
    return losses


def _as_logits(proba: Floats) -> Floats:
    """Return the logarithms of probabilities in float64."""
    logits = np.maximum(proba, np.finfo(np.float64).eps, dtype=np.float64)
    return np.log(logits, out=logits)


def _losses_by_class(
    recalibrate: Recalibrate,
    loss: SampleLoss,
    codes: Ints,
    proba: Floats,
    weight: Floats,
) -> Floats:
    """Return the loss of each sample after a recalibration of each class.

    Of two classes, the second is recalibrated. Of more, the loss is the Brier score.
    """
    n_samples, n_classes = proba.shape
    if n_classes == 2:
        indicator = codes.astype(np.float64)
        positive = recalibrate(proba[:, 1].copy(), indicator, weight)
        return _losses(loss, codes, as_columns(positive))
    losses = np.zeros(n_samples)
    for group in row_blocks(n_classes, n_samples, at_least=GROUP_SIZE):
        for k, values in enumerate(proba[:, group].T.copy(), group.start):
            indicator = (codes == k).astype(np.float64)
            losses += (recalibrate(values, indicator, weight) - indicator) ** 2
    return losses


def _frequencies(group: Ints, target: Array, weight: Floats) -> tuple[Array, Array]:
    """Return the weight and the frequency of the class in each group."""
    mass = np.bincount(group, weight)
    positives = np.bincount(group, weight * target)
    frequency = np.divide(positives, mass, out=np.zeros_like(mass), where=mass > 0)
    return mass, frequency


def _isotonic(values: Floats, target: Array, weight: Floats) -> Floats:
    """Return the isotonic regression of the labels on the values, with pooled ties."""
    group = np.unique(values, return_inverse=True)[1]
    mass, frequency = _frequencies(group, target, weight)
    has_weight = mass > 0
    frequency[has_weight] = isotonic_regression(
        frequency[has_weight], weights=mass[has_weight]
    ).x
    return frequency[group]


def _bin_frequencies(n_bins: int, strategy: Strategy) -> Recalibrate:
    """Return a function that replaces values by the class frequency in their bin."""

    def recalibrate(values: Floats, target: Array, weight: Floats) -> Floats:
        edges = parting_edges(
            values, n_bins=n_bins, strategy=strategy, sample_weight=weight
        )
        index = bin_index(values, edges)
        return _frequencies(index, target, weight)[1][index]

    return recalibrate


PROPER_LOSSES = {"brier": _brier, "log": LOSSES["log"]}
DECOMPOSITION = {
    **TARGETS,
    **BINS,
    "loss": [StrOptions(set(PROPER_LOSSES))],
    "recalibration": [StrOptions({"bins", "isotonic", "temperature"})],
}


@declare_interval(is_error=True)
@validate_params(DECOMPOSITION)
def proper_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "log",
    recalibration: str = "temperature",
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Proper calibration error: reduction of a proper loss by recalibration.

    The probabilities are recalibrated on the evaluated samples. The error is the loss
    before minus the loss after recalibration, which is the :func:`refinement_error`.
    Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    loss : {"log", "brier"}, default="log"
        Loss to decompose: the log loss, or the Brier score, summed over all classes
        (for two classes, twice the Brier score of the positive class).

    recalibration : {"temperature", "isotonic", "bins"}, default="temperature"
        How the probabilities are recalibrated:

        - "temperature": temperature scaling with the lowest log loss. The result is
          mixed with the uniform distribution, with weight 1 / (n + 1) [1]_, where n
          is the effective number of samples: the squared sum of the weights divided
          by the sum of their squares;
        - "isotonic": isotonic regression for each class, as in CORP [2]_;
        - "bins": histogram binning for each class.

        With the last two, the probabilities of more than two classes do not sum to
        one, so only "temperature" is available for the log loss of more than two
        classes.

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`. Only
        used by "bins".

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. Their scale matters only for "cube_root".

    Returns
    -------
    error : float
        Loss before minus loss after recalibration.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or "isotonic" or "bins" is used for the log
        loss of more than two classes.

    See Also
    --------
    refinement_error : Loss after recalibration.
    score_decomposition : Decomposition into three parts.
    variational_calibration_error : Lower bound by recalibration of held-out samples.
    expected_calibration_error : Mean gap between accuracy and confidence.

    Notes
    -----
    With the recalibrated probabilities :math:`\tilde p`, the error is
    :math:`\ell(p, y) - \ell(\tilde p, y)`, so that the error and the refinement error
    sum to the loss exactly.

    With "isotonic", the error is never negative. It is then also known as the
    miscalibration (MCB), and the refinement error as :math:`\text{UNC} - \text{DSC}`,
    where UNC is the loss of the class frequencies; see :func:`score_decomposition`.
    With "bins" and "temperature", the error may be negative. The scorer
    "neg_proper_calibration" uses the Brier score and "isotonic".

    The error is biased upward, because the recalibration is fitted to the evaluated
    samples. The bias is largest for "isotonic", and for "bins" with many bins.

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
    data = y_true, y_proba, labels, sample_weight, "canonical", pos_label
    before, after, _ = losses_in_parts(data, loss, recalibration, n_bins, strategy)
    return before - after


@validate_params(DECOMPOSITION)
def refinement_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "log",
    recalibration: str = "temperature",
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Refinement error: log loss or Brier score after recalibration.

    Use it for early stopping and for selecting models that will be calibrated
    afterwards. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    loss : {"log", "brier"}, default="log"
        Loss to decompose, as in :func:`proper_calibration_error`.

    recalibration : {"temperature", "isotonic", "bins"}, default="temperature"
        How the probabilities are recalibrated, as in :func:`proper_calibration_error`.

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`. Only
        used by "bins".

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. Their scale matters only for "cube_root".

    Returns
    -------
    error : float
        Loss after recalibration.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or "isotonic" or "bins" is used for the log
        loss of more than two classes.

    See Also
    --------
    proper_calibration_error : Loss removed by recalibration, with the formulas.
    failure_auroc_score : Separation of correct from wrong predictions.

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
    data = y_true, y_proba, labels, sample_weight, "canonical", pos_label
    return losses_in_parts(data, loss, recalibration, n_bins, strategy)[1]


def losses_in_parts(
    data: tuple[Any, ...],
    loss: str,
    recalibration: str,
    n_bins: Any,
    strategy: str,
) -> list[float]:
    """Return the mean loss before and after recalibration, and of class frequencies."""
    proba, codes, weight = read_samples(*data, is_symmetric=True).proba()
    weight = np.ones(len(proba)) if weight is None else weight
    if loss == "log" and recalibration != "temperature" and proba.shape[1] > 2:
        raise ValueError(
            f'recalibration must be "temperature" for the log loss of more than two '
            f"classes, got {recalibration!r} and {proba.shape[1]} classes. Or use "
            'loss="brier".'
        )
    n_bins, strategy = read_bins(n_bins, strategy)
    n_bins = resolve_n_bins(n_bins, len(proba), weight)
    values, data = PROPER_LOSSES[loss], (codes, proba, weight)
    if recalibration == "temperature":
        scale = fit_refinement(proba, codes, weight, _as_logits)
        after = _losses(values, codes, proba, scale)
    else:
        by_bins = _bin_frequencies(n_bins, strategy)
        recalibrate = by_bins if recalibration == "bins" else _isotonic
        after = _losses_by_class(recalibrate, values, *data)
    counts = np.bincount(codes, weight, proba.shape[1])
    # The loss of the frequencies is the same for all samples of a class.
    frequencies = np.broadcast_to(counts / counts.sum(), (len(counts), len(counts)))
    of_classes = _losses(values, np.arange(len(counts)), frequencies)
    return [
        float(np.average(_losses(values, codes, proba), weights=weight)),
        float(np.average(after, weights=weight)),
        float(np.average(of_classes, weights=counts)),
    ]


class ScoreDecomposition(NamedTuple):
    """Parts of a score: score = miscalibration - discrimination + uncertainty."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@validate_params(DECOMPOSITION)
def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str = "brier",
    recalibration: str = "isotonic",
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    pos_label: Any = None,
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

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`. Only
        used by "bins".

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

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
    data = y_true, y_proba, labels, sample_weight, "canonical", pos_label
    parts = losses_in_parts(data, loss, recalibration, n_bins, strategy)
    score, recalibrated, uncertainty = parts
    return ScoreDecomposition(
        score, score - recalibrated, uncertainty - recalibrated, uncertainty
    )
