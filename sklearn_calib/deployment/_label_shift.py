"""Calibration error after a change of the class frequencies, without new labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._sklearn.metric_options import (
    as_number,
    fixed_by_partial,
    metric_input,
    with_options,
)
from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.declarations import TARGETS, validate_params
from sklearn_calib._validation.labels import column_classes
from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib._validation.samples import (
    as_columns,
    check_columns,
    choose_positive,
    positive_code,
    read_samples,
)
from sklearn_calib._validation.types import Metric
from sklearn_calib.deployment._priors import check_priors, estimate_priors
from sklearn_calib.metrics import expected_calibration_error


@validate_params(
    {
        **TARGETS,
        "y_proba_new": ["array-like"],
        "train_priors": [dict, "array-like", None],
    },
    prefer_skip_nested_validation=False,
)
def label_shift_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    y_proba_new: ArrayLike,
    *,
    metric: Metric = expected_calibration_error,
    train_priors: dict[Any, float] | ArrayLike | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> float:
    r"""Calibration error after a label shift, estimated without new labels.

    The class frequencies of the new data are estimated from predictions, and the
    labelled samples are weighted by the ratio of new and old frequencies, as in LaSCal
    [1]_. It assumes that the distribution of the features within each class has not
    changed.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels of :term:`held-out data` with the old class frequencies.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities of these data; a 1-d array contains those of the
        positive class.

    y_proba_new : array-like of shape (n_new, n_classes) or (n_new,)
        Predicted probabilities of new samples without labels. They are not adjusted.

    metric : callable, default=expected_calibration_error
        The calibration error: `metric(y_true, y_proba, labels=..., sample_weight=...)`.

    train_priors : dict, Series or array-like of shape (n_classes,), default=None
        Class priors for which the classifier predicts, positive, by label or in the
        order of the columns. By default, the class frequencies in `y_true`.

    labels : array-like of shape (n_classes,), default=None
        Class label of each column, such as `estimator.classes_`. By default, the sorted
        distinct values of `y_true`. Metrics of other packages receive them sorted, with
        the columns in the same order.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the labelled samples.

    **options : dict
        Options passed to the metric, such as `n_bins`.

    Returns
    -------
    error : float
        The calibration error for the new class frequencies.

    Raises
    ------
    ValueError
        If the labels do not match the columns, an array does not contain probabilities,
        or a class is absent from `y_true`.

    TypeError
        If `metric` is not a function, does not return a number, or does not have an
        option or the parameter `sample_weight`.

    Warns
    -----
    UserWarning
        If the estimated class frequencies are unreliable, see :func:`estimate_priors`.

    See Also
    --------
    estimate_priors : The estimate of the new class frequencies.
    estimate_performance : Other metrics on new data without labels.

    Notes
    -----
    With old class frequencies :math:`\pi_k` and new ones :math:`\pi'_k`, a labelled
    sample of class k has the weight :math:`\pi'_k / \pi_k`. The weighted samples have
    the joint distribution of labels and predictions of the new data. LaSCal also
    averages over the predictions of the new data, with a kernel instead of bins. A
    small new frequency of a class with few samples makes the error noisy.

    References
    ----------
    .. [1] T. Popordanoska, G. Radevski, T. Tuytelaars and M. B. Blaschko, "LaSCal:
       Label-Shift Calibration without Target Labels", NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.deployment import label_shift_calibration_error
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> def draw(n_samples, prevalence, random_state):
    ...     rng = np.random.default_rng(random_state)
    ...     is_ill = rng.uniform(size=n_samples) < prevalence
    ...     x = rng.normal(size=n_samples) + 2 * is_ill
    ...     return is_ill, 1 / (1 + np.exp(2 - 2 * x))
    >>> y_true, y_proba = draw(5000, 0.5, random_state=0)
    >>> y_new, y_proba_new = draw(5000, 0.1, random_state=1)
    >>> for error in (
    ...     expected_calibration_error(y_true, y_proba),
    ...     label_shift_calibration_error(y_true, y_proba, y_proba_new),
    ...     expected_calibration_error(y_new, y_proba_new),  # needs new labels
    ... ):
    ...     print(f"{error:.3f}")
    0.013
    0.182
    0.177
    """
    metric = with_options(metric, options, label_shift_calibration_error)
    labels = fixed_by_partial(metric, "labels", labels)
    pos_label = fixed_by_partial(metric, "pos_label", None)
    numbers = as_numbers(y_proba, "y_proba")
    labels = choose_positive(y_true, numbers, labels, pos_label)
    known = labels if pos_label is None else column_classes(y_true, labels)
    data = y_true, y_proba, known, sample_weight
    proba, codes, weight = read_samples(*data, "canonical").proba()
    counts = np.bincount(codes, weight, minlength=proba.shape[1])
    classes = column_classes(y_true, labels)
    if not counts.all():
        raise ValueError(
            "y_true must contain samples of all classes, with weights above 0, got "
            f"none of {shown(classes[counts == 0].tolist())}. Pass more held-out data, "
            "or remove these classes from the probabilities."
        )
    new_proba = check_proba(y_proba_new, name="y_proba_new", allow_1d=True)
    is_of_pos_label = new_proba.ndim == 1 and pos_label is not None
    if is_of_pos_label and positive_code(pos_label, None, classes) == 0:
        new_proba = 1 - new_proba
    new_proba = as_columns(new_proba)
    if new_proba.shape[1] != len(classes):
        raise ValueError(
            f"y_proba_new must have a column for each of the {len(classes)} classes, "
            f"like y_proba, got {new_proba.shape[1]} columns. Pass predictions of the "
            "same classifier."
        )
    check_columns(y_proba_new, None, classes, "y_proba_new")
    old = counts / counts.sum()
    train = check_priors(
        old if train_priors is None else train_priors, classes, "train_priors"
    )
    # The interval of the frequencies is not needed.
    new, _ = estimate_priors(new_proba, train, n_resamples=1, random_state=0)
    ratio = (new / old)[codes]
    weight = ratio if weight is None else ratio * weight
    y_proba, given = metric_input(metric, y_true, y_proba, labels, weight)
    return as_number(metric(y_true, y_proba, **given))
