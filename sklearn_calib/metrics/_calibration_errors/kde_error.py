"""Calibration error estimated with Dirichlet kernels (KDE-ECE)."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.dirichlet_kernel import (
    BANDWIDTHS,
    SMALLEST_BANDWIDTH,
    log_likelihood,
    neighbour_frequencies,
)
from sklearn_calib._validation.arrays import on_cpu
from sklearn_calib._validation.declarations import (
    MODES,
    TARGETS,
    Interval,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import (
    Samples,
    merge_repetitions,
    read_samples,
    samples_by_class,
)
from sklearn_calib._validation.types import Array, Floats, Weights


@overload
def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = ...,
    norm: str = ...,
    mode: str | None = ...,
    pos_label: Any = ...,
    return_bandwidth: Literal[False] = ...,
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> float: ...


@overload
def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = ...,
    norm: str = ...,
    mode: str | None = ...,
    pos_label: Any = ...,
    return_bandwidth: Literal[True],
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> tuple[float, float]: ...


@declare_interval(is_error=True, squared={"norm": "l2"})
@validate_params(
    {
        **TARGETS,
        "bandwidth": [
            Interval(Real, SMALLEST_BANDWIDTH, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "norm": [StrOptions({"l1", "l2"})],
        "mode": [StrOptions(MODES | {"canonical"}), None],
        "return_bandwidth": ["boolean"],
    }
)
def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = "auto",
    norm: str = "l1",
    mode: str | None = None,
    pos_label: Any = None,
    return_bandwidth: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | tuple[float, float]:
    r"""Calibration error by kernel density estimation (KDE-ECE).

    The class frequencies at each sample are estimated from the other samples, weighted
    by a kernel of the predicted probabilities. In contrast to binning, this is possible
    for all classes jointly. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    bandwidth : float or "auto", default="auto"
        Bandwidth of the kernels, at least 1e-10. The standard deviation of the kernel
        at a probability p is about ``sqrt(p * (1 - p) * bandwidth)``. "auto" uses the
        bandwidth with the largest leave-one-out likelihood among seven values from
        0.001 to 1.

    norm : {"l1", "l2"}, default="l1"
        Mean absolute gap, or mean squared gap (without the root).

    mode : {"top_label", "positive", "classwise", "canonical"}, default=None
        Probability that is evaluated: that of the predicted class, of the positive
        class (of two), of every class separately, or of all classes jointly. The gaps
        of the classes are summed. By default, "top_label" for a 2-d array and
        "positive" for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    return_bandwidth : bool, default=False
        Whether to also return the bandwidth, such as the one chosen by "auto".

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice. The
        two copies are neighbours of each other, so the scale of the weights matters.

    Returns
    -------
    error : float
        Calibration error: in [0, 1] for one class, in [0, 2] for "canonical", up to
        `n_classes` for "classwise".

    bandwidth : float
        Bandwidth of the kernels. Only returned if `return_bandwidth` is True.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    sklearn_calib.losses.kde_ece_loss : This error as a loss for training.
    variational_calibration_error : Lower bound of the same error.

    Notes
    -----
    The error is the mean of
    :math:`\| \sum_{j \ne i} k_{ij} y_j / \sum_{j \ne i} k_{ij} - p_i \|` over the
    samples :math:`i` ([1]_, equation 9). Here,
    :math:`k_{ij} = Dir(p_i \mid p_j / h + 1)` is the Dirichlet density with bandwidth
    :math:`h` (a beta density for two classes), and :math:`y_j` are one-hot labels.
    Probabilities are clipped to at least 1e-7. The gap of a single sample is zero.

    The computation time is quadratic in the number of distinct samples, but the memory
    is not. For few samples, the estimate is far from 0 even for calibrated predictions.
    In mode "canonical", this bias increases with the number of classes.

    References
    ----------
    .. [1] T. Popordanoska, R. Sayer and M. B. Blaschko, "A Consistent and
       Differentiable Lp Canonical Calibration Error Estimator", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import kde_calibration_error
    >>> y_true = np.arange(100) % 10 < 7
    >>> round(kde_calibration_error(y_true, np.full(100, 0.9), bandwidth=0.1), 3)
    0.2
    """
    data = y_true, on_cpu(y_proba), labels, sample_weight, mode, pos_label
    samples: Any = read_samples(*data)
    samples.unchecked()  # refuses Dask arrays
    proba, codes, weight = samples.matrix, samples.codes, samples.weight
    if weight is not None:
        seen = weight > 0
        proba, codes, weight = proba[seen], codes[seen], weight[seen]
    merged = merge_repetitions(proba, codes, weight)
    problems = list(_problems(Samples(*merged, samples.mode)))
    if isinstance(bandwidth, str):
        bandwidth = max(
            BANDWIDTHS,
            key=lambda width: sum(
                log_likelihood(proba, width, weight) for proba, _, weight in problems
            ),
        )
    error = sum(_mean_gap(*problem, bandwidth, norm) for problem in problems)
    return (error, float(bandwidth)) if return_bandwidth else error


def _problems(samples: Samples) -> Iterator[tuple[Floats, Array, Weights]]:
    """Yield probabilities that sum to one, labels of their first columns, weights."""
    if samples.mode == "canonical":
        proba, codes, weight = samples.proba()
        label = codes[:, None] == np.arange(proba.shape[1])
        yield proba.astype(np.float64), label.astype(np.float64), weight
        return
    for column, correct, weight in samples_by_class(samples):
        column = column.astype(np.float64)
        yield np.column_stack([column, 1 - column]), correct[:, None], weight


def _mean_gap(
    proba: Floats, label: Array, weight: Weights, bandwidth: float, norm: str
) -> float:
    """Return the mean norm of the gaps."""
    frequency = neighbour_frequencies(proba, label, bandwidth, weight)
    gap = np.abs(frequency - proba[:, : label.shape[1]])
    size = (gap if norm == "l1" else gap**2).sum(axis=1)
    return float(np.average(size, weights=weight))
