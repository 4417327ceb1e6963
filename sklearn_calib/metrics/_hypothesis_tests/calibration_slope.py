"""Calibration slope, intercept and calibration-in-the-large."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri, stdtrit
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._numerics.class_scores import log_odds_of_one
from sklearn_calib._solvers.logistic import newton_logistic
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    CLUSTERS,
    MODES,
    TARGETS,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import column_classes
from sklearn_calib._validation.samples import read_samples, samples_by_class
from sklearn_calib._validation.types import Bools, Floats, Ints, Weights
from sklearn_calib.metrics._hypothesis_tests.cluster_scores import (
    effective_clusters,
    sandwich,
    sum_clusters,
)
from sklearn_calib.metrics._hypothesis_tests.recalibration import (
    Ratios,
    fit_recalibration,
    log_ratios,
    reference_code,
)


class CalibrationSlopeResult(NamedTuple):
    """Parameters of the logistic recalibration, with confidence intervals.

    The fields are numbers and intervals of shape (2,), or with `mode="classwise"`
    arrays of shape (n_classes,) and (n_classes, 2), and with `mode="multinomial"`
    arrays of shape (n_classes - 1,) and (n_classes - 1, 2).
    """

    slope: Any
    intercept: Any
    in_the_large: Any
    slope_interval: Any
    intercept_interval: Any
    in_the_large_interval: Any


@validate_params(
    {
        **TARGETS,
        "mode": [StrOptions(MODES | {"multinomial"}), None],
        "reference": [object],
        "confidence_level": BETWEEN_0_AND_1,
        **CLUSTERS,
    }
)
def calibration_slope(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    reference: Any = None,
    confidence_level: float = 0.95,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> CalibrationSlopeResult:
    r"""Calibration slope, calibration intercept and calibration-in-the-large.

    Cox's logistic recalibration of the predicted log-odds. A slope below 1 means that
    the predictions are overconfident (too extreme), and above 1 that they are
    underconfident. Calibration-in-the-large below 0 means that the probabilities are
    too high on average, and above 0 that they are too low. Calibrated predictions have
    the slope 1, and 0 for both others.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"positive", "top_label", "classwise", "multinomial"}, default=None
        Probability that is evaluated: that of the positive class (of two), that of the
        predicted class, that of each class (one-vs-rest), or those of all classes,
        relative to a reference class. By default, "positive" for two classes and
        "top_label" for more.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    reference : label, default=None
        Label of the reference class with `mode="multinomial"`. By default, the class of
        the first column.

    confidence_level : float, default=0.95
        Confidence level of the intervals, in (0, 1).

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. Their scale does not matter. As equal weights have the smallest
        variance, the intervals for other weights are wider.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. There should be at least 50 clusters; otherwise, there is a
        warning. By default, all samples are independent.

    Returns
    -------
    result : CalibrationSlopeResult
        Named tuple of `slope`, `intercept`, `in_the_large`, `slope_interval`,
        `intercept_interval` and `in_the_large_interval`. They are floats and tuples of
        two floats, or with `mode="classwise"` arrays of shape (n_classes,) and
        (n_classes, 2). With `mode="multinomial"`, they are such arrays for the classes
        other than the reference, in the order of the columns.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, `y_proba` contains values
        that are not probabilities, or `reference` is not a label or is given with
        another mode.

    Warns
    -----
    UndefinedMetricWarning
        If an estimate does not exist: because only one outcome occurs or a class is
        absent, or for slope and intercept, because all probabilities are equal or
        separate the outcomes, up to samples of negligible weight. It is then nan.

    See Also
    --------
    recalibration_test : Test of slope 1 and intercept 0.
    integrated_calibration_index : Mean distance of a smooth curve from the diagonal.
    sklearn_calib.calibrators.PlattScaling : Calibrator of this form.

    Notes
    -----
    The slope b and the intercept a maximise the likelihood of

    .. math:: \log \frac{P(y_i = 1)}{P(y_i = 0)} = a + b \log \frac{p_i}{1 - p_i}

    [1]_. Calibration-in-the-large is the intercept a of the fit with b fixed at 1,
    which [2]_ call the calibration intercept. Wald intervals are computed from the
    Fisher information. With weights :math:`w_i`, the variance of the score of a sample
    is multiplied by :math:`w_i^2`. With clusters, the variance is the sandwich CR2
    [4]_ of the scores of the clusters, and the quantiles are those of a t distribution
    with one degree of freedom less than the effective number of clusters, which is
    smaller for clusters of unequal weight.

    With `mode="multinomial"`, the model for the probabilities :math:`p_{ik}` of the
    classes and the reference class r is [3]_

    .. math:: \log \frac{P(y_i = k)}{P(y_i = r)} = a_k + b_k \log \frac{p_{ik}}{p_{ir}},
        \quad k \ne r.

    All classes are fitted together. The values depend on the reference class.

    If there are probabilities of 0 or 1, zeros of p and of 1 - p are replaced by half
    of the smallest of the others.

    References
    ----------
    .. [1] D. R. Cox, "Two Further Applications of a Model for Binary Regression",
       Biometrika 45, 1958.

    .. [2] B. Van Calster, D. Nieboer, Y. Vergouwe, B. De Cock, M. J. Pencina and E. W.
       Steyerberg, "A Calibration Hierarchy for Risk Models Was Defined: From Utopia to
       Empirical Data", Journal of Clinical Epidemiology 74, 2016.

    .. [3] K. Van Hoorde, Y. Vergouwe, D. Timmerman, S. Van Huffel, E. W. Steyerberg and
       B. Van Calster, "Assessing Calibration of Multinomial Risk Prediction Models",
       Statistics in Medicine 33, 2014.

    .. [4] R. M. Bell and D. F. McCaffrey, "Bias Reduction in Standard Errors for Linear
       Regression with Multi-Stage Samples", Survey Methodology 28, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import expit
    >>> from sklearn_calib.metrics import calibration_slope
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=2000)
    >>> y_true = rng.random(2000) < expit(logits)
    >>> result = calibration_slope(y_true, expit(2 * logits))  # overconfident
    >>> round(result.slope, 2)
    0.51
    >>> low, high = result.slope_interval
    >>> bool(low < 0.5 < high)
    True
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    samples = read_samples(*data, of_two="positive")
    if mode == "multinomial":
        proba, codes, weight = samples.proba()
        clusters = read_clusters(clusters, len(codes), weight)
        code = reference_code(reference, column_classes(y_true, labels))
        weight = _unit_mean(weight, len(codes))
        ratios = log_ratios(proba, codes, weight, code, clusters)
        estimate, error = _recalibrate_all(ratios)
    elif reference is not None:
        raise ValueError(
            'reference must be None unless mode="multinomial", got '
            f"{shown(reference)} with mode={samples.mode!r}. Without a reference "
            "class, each probability is compared with its complement."
        )
    else:
        columns = list(samples_by_class(samples))
        value, _, weight = columns[0]
        clusters = read_clusters(clusters, len(value), weight)
        results = [_recalibrate(*column, clusters) for column in columns]
        estimate, error = np.array(results).transpose(1, 2, 0)
    level = (1 + confidence_level) / 2
    size = ndtri(level)
    if clusters is not None:
        size = stdtrit(effective_clusters(clusters, weight) - 1, level)
    ends = np.stack([estimate - size * error, estimate + size * error], axis=-1)
    if mode in {"classwise", "multinomial"}:
        return CalibrationSlopeResult(*estimate, *ends)
    return CalibrationSlopeResult(
        *(float(values[0]) for values in estimate),
        *((float(low), float(high)) for low, high in ends[:, 0]),
    )


def _unit_mean(weight: Weights, n_samples: int) -> Floats:
    """Return weights of mean 1; the start of the fit depends on their scale."""
    weight = np.ones(n_samples) if weight is None else weight
    return weight / weight.mean()


def _recalibrate(
    value: Floats, outcome: Bools, weight: Weights, clusters: Ints | None
) -> tuple[list[float], list[float]]:
    """Return slope, intercept and calibration-in-the-large, and standard errors."""
    weight = _unit_mean(weight, len(value))
    seen = weight > 0
    value, outcome, weight = value[seen], outcome[seen], weight[seen]
    clusters = None if clusters is None else clusters[seen]
    nothing = [np.nan] * 3
    if outcome.all() or not outcome.any():
        _warn("slope, intercept and in-the-large", "only one outcome occurs")
        return nothing, nothing
    x = log_odds_of_one(value)
    large = _shift(x, outcome, weight)
    constant = np.ones_like(x)
    if clusters is None:
        variance, mass = _weigh(large + x, weight)
        error = float(np.sqrt(variance @ weight**2) / mass.sum())
    else:
        scored = large + x, outcome, weight, clusters
        (error,) = _errors_of_clusters(constant[:, None], *scored)
    one, other = x[outcome], x[~outcome]
    if not (one.min() < other.max() and other.min() < one.max()):
        are_equal = x.min() == x.max()
        reason = "are equal" if are_equal else "separate the outcomes"
        _warn("slope and intercept", f"the predicted probabilities {reason}")
        return [np.nan, np.nan, large], [np.nan, np.nan, error]
    features = np.column_stack([x, constant])
    (slope, intercept), has_converged = newton_logistic(features, outcome, weight)
    if not has_converged:
        _warn("slope and intercept", "they depend on samples of negligible weight")
        return [np.nan, np.nan, large], [np.nan, np.nan, error]
    predictor = slope * x + intercept
    if clusters is None:
        errors = _errors_of_line(x, predictor, weight)
    else:
        errors = _errors_of_clusters(features, predictor, outcome, weight, clusters)
    return [slope, intercept, large], [*errors, error]


def _recalibrate_all(data: Ratios) -> tuple[Floats, Floats]:
    """Return slopes, intercepts and calibration-in-the-large of all classes.

    Their standard errors are the second array.
    """
    n_classes = data.x.shape[1]
    results = np.full((2, 3, n_classes), np.nan)
    counts = data.outcome.sum(axis=0)
    if not counts.all() or counts.sum() == len(data.outcome):
        _warn("slope, intercept and in-the-large", "a class is absent")
        return results[0], results[1]
    large = fit_recalibration(data, slopes=False)
    if large is not None:
        results[:, 2] = large.coef[0], large.errors[0]
    else:
        _warn("in-the-large values", "the predicted probabilities separate the classes")
    line = fit_recalibration(data, slopes=True)
    if line is not None:
        results[:, :2] = line.coef[::-1], line.errors[::-1]
    else:
        _warn(
            "slope and intercept",
            "the predicted probabilities are equal or separate the outcomes",
        )
    return results[0], results[1]


def _warn(what: str, reason: str) -> None:
    warn(
        f"Calibration {what} are not defined because {reason}. They are set to NaN.",
        UndefinedMetricWarning,
    )


def _shift(x: Floats, outcome: Bools, weight: Floats) -> float:
    """Return the number that, added to log-odds, makes their mean probability right."""
    frequency = np.average(outcome, weights=weight)
    if frequency > 1 - 1e-6:  # whose complement has few digits
        return -_shift(-x, ~outcome, weight)

    middle = logit(frequency)
    low, high = middle - x.max() - 1, middle - x.min() + 1
    return float(brentq(_excess, low, high, args=(x, frequency, weight), xtol=1e-15))


def _excess(shift: float, x: Floats, frequency: float, weight: Floats) -> Any:
    """Return the mean probability after a shift, minus a frequency."""
    return np.average(expit(x + shift), weights=weight) - frequency


def _weigh(predictor: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the variances of the outcomes, and their products with the weights."""
    # Not p (1 - p), which is 0 for a large predictor.
    variance = expit(predictor) * expit(-predictor)
    return variance, weight * variance


def _errors_of_line(x: Floats, predictor: Floats, weight: Floats) -> list[float]:
    """Return the standard errors of slope and intercept."""
    variance, mass = _weigh(predictor, weight)
    center = np.average(x, weights=mass)
    slope = weight * (x - center) / (mass @ (x - center) ** 2)
    intercept = weight / mass.sum() - center * slope
    return [float(np.sqrt(variance @ row**2)) for row in (slope, intercept)]


def _errors_of_clusters(
    features: Floats, predictor: Floats, outcome: Bools, weight: Floats, clusters: Ints
) -> list[float]:
    """Return the standard errors of the coefficients, from the scores of clusters."""
    _, mass = _weigh(predictor, weight)
    residual = weight * (outcome - expit(predictor))
    squares = features[:, :, None] * features[:, None] * mass[:, None, None]
    scores = sum_clusters(features * residual[:, None], clusters)
    covariance = sandwich(scores, sum_clusters(squares, clusters))
    return np.sqrt(covariance.diagonal()).tolist()
