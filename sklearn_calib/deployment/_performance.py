"""Performance of a classifier on data without labels, from its probabilities."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from sklearn_calib._sklearn.metric_options import as_number, is_metric
from sklearn_calib._sklearn.sample_values import is_equal, values_of_samples
from sklearn_calib._sklearn.scorer_objects import (
    LabelledScorer,
    Scorer,
    column_order,
    metric_of,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import (
    INTERVAL,
    did_you_mean,
    validate_params,
)
from sklearn_calib._validation.labels import as_labels, encode_labels
from sklearn_calib._validation.probabilities import check_proba, check_sample_weight
from sklearn_calib._validation.samples import (
    as_columns,
    check_columns,
    effective_n_samples,
    in_double,
)
from sklearn_calib._validation.types import Array, Floats, Ints, Seed, Weights
from sklearn_calib.deployment._monitor import CalibrationMonitor
from sklearn_calib.deployment._priors import check_priors, estimate_priors
from sklearn_calib.deployment._reference import (
    Reference,
    ReferenceLike,
    posterior_ratio,
    read_reference,
)
from sklearn_calib.metrics import get_scorer, get_scorer_names

# What to do for each advice of a monitor.
WAYS_OUT = {
    "priors": "Adapt the classifier with PriorShiftClassifier",
    "temperature": "Refit TemperatureScaling",
    "refit": "Refit the calibrator or the classifier",
}


class PerformanceEstimate(NamedTuple):
    """Estimated performance: value, interval and expected confusion matrix."""

    value: float
    interval: tuple[float, float]
    confusion_matrix: Floats

    @property
    def interval_covers(self) -> str:
        """Which errors the interval contains."""
        return "sampling error only"

    def __repr__(self) -> str:
        """Show the entries, and what the interval covers."""
        shown = ", ".join(f"{name}={each!r}" for name, each in self._asdict().items())
        return f"PerformanceEstimate({shown}, interval_covers={self.interval_covers!r})"


class CorrectedEstimate(PerformanceEstimate):
    """Performance that was estimated with a reference."""

    @property
    def interval_covers(self) -> str:
        """Which errors the interval contains."""
        return "sampling and calibration error"


class PredictedProbabilities(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are the probabilities that it predicts."""

    def __init__(self, classes: Array) -> None:
        self.classes_ = classes

    def predict_proba(self, X: Floats) -> Floats:
        return X

    def predict(self, X: Floats) -> Array:
        labels: Array = self.classes_[X.argmax(axis=1)]
        return labels


@validate_params(
    {
        "y_proba": ["array-like"],
        "metric": [str, callable],
        "labels": ["array-like", None],
        "sample_weight": ["array-like", None],
        "monitor": [CalibrationMonitor, None],
        "reference": [tuple, list, None],
        "priors": [dict, "array-like", None],
        **INTERVAL,
    },
    prefer_skip_nested_validation=False,
)
def estimate_performance(
    y_proba: ArrayLike,
    *,
    metric: str | Callable[..., float] = "accuracy",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    monitor: CalibrationMonitor | None = None,
    reference: ReferenceLike | None = None,
    priors: dict[Any, float] | ArrayLike | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> PerformanceEstimate:
    r"""Estimate the performance of a classifier on data without labels.

    If the predicted probabilities are calibrated, they determine the expected confusion
    matrix of their own predictions, and with it the accuracy and other metrics. This is
    called confidence-based performance estimation (CBPE) [1]_; for the accuracy, it is
    the average confidence [2]_.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities of samples without labels, calibrated unless there is a reference;
        a 1-d array contains those of the positive class. If the class frequencies have
        changed, pass the adapted probabilities of :class:`PriorShiftClassifier`.

    metric : str or callable, default="accuracy"
        Name of a scorer of scikit-learn or of this package, such as "f1_macro",
        "roc_auc", "neg_log_loss" or "neg_brier_score", or a scorer `scorer(estimator,
        X, y)`, such as the result of :func:`sklearn.metrics.make_scorer`. The predicted
        class is the most probable. If `metric` is a name, the second of two classes is
        the positive one. A scorer receives the sorted `labels` as classes; one of this
        package as they are.

    labels : array-like of shape (n_classes,), default=None
        Class label of each column, such as `estimator.classes_`. By default, 0, 1, ...

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    monitor : CalibrationMonitor, default=None
        Monitor of this classifier, with the same labels. If it has raised an alarm, the
        estimate is refused.

    reference : tuple (y_true, y_proba), default=None
        Labels of :term:`held-out data`, and their probabilities from the same
        classifier, of which a :class:`~sklearn_calib.CalibratedClassifier` keeps its
        own, `reference_`. The errors that they show correct the estimate, and the
        interval contains them. A third entry contains sample weights.

    priors : dict, Series or array-like of shape (n_classes,), default=None
        If the class frequencies differ from those of the reference: the positive class
        priors to which the probabilities of the samples and of the reference were
        adapted, such as `priors_` of :class:`PriorShiftClassifier`. The reference is
        then weighted by the ratio of the frequencies.

    confidence_level : float, default=0.95
        Confidence level of the interval, in (0, 1).

    n_resamples : int, default=1000
        Number of draws of the labels, or of the reference.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for reproducible results.

    Returns
    -------
    value : float
        Expected value of the metric, see Notes.

    interval : tuple of two floats
        Range in which the metric of these samples lies with probability
        `confidence_level`, once their labels are known, see Notes. The attribute
        `interval_covers` of the result is "sampling error only" or, with a reference,
        "sampling and calibration error".

    confusion_matrix : ndarray of shape (n_classes, n_classes)
        Expected number of samples, or sum of their weights, of each true class (row)
        and predicted class (column), from the probabilities alone.

    Raises
    ------
    ValueError
        If `y_proba` does not contain probabilities, `labels` do not match the columns,
        or the monitor has raised an alarm or has other labels. If the reference has
        other classes, or `priors` are given and it lacks a class.

    sklearn.exceptions.NotFittedError
        If the monitor has no batches.

    See Also
    --------
    label_shift_calibration_error : Calibration error after a change of the class
        frequencies.
    CalibrationMonitor : Test whether the probabilities are still calibrated.

    Notes
    -----
    The value is the metric of all samples with all labels, where label k of sample i
    has the weight :math:`p_{ik}`. For means over samples, such as the accuracy, the
    Brier score, the log loss and costs, this is the expectation. Ratios, such as
    precision, recall and F1, are those of the expected confusion matrix, and the AUROC
    is that of the expected curve. The difference to the expectation is of the order of
    one divided by the number of samples. For a scorer without sample weights, the value
    is the mean over the draws.

    Without a reference, labels are drawn from the probabilities for the interval. It
    accounts for the random labels, but not for errors of the calibration or of
    estimated class frequencies, which only labels can show. A metric of calibration,
    such as the ECE, is estimated as if the classifier were calibrated.

    With a reference, the value is the expected metric of the samples, plus the metric
    of the reference, minus its expected metric: prediction-powered inference [3]_. The
    interval is that of the value and its error. In each draw, as many samples as there
    are drawn from the reference take their place, with their labels, and the reference
    is drawn again. This does not need calibrated probabilities, but a reference of the
    same distribution, or with `priors`, the same distribution within each class. Then
    the priors are estimated again in each draw, as in :func:`estimate_priors`, but the
    probabilities are not adapted again. The interval may be too short after such a
    change, for example of the log loss, or if a prior is close to zero or the samples
    contain little information about it. It may extend beyond the range of the metric. A
    draw takes a time proportional to the size of the reference.

    References
    ----------
    .. [1] J. Kivimäki, J. Białek, W. Kuberski et al., "Performance Estimation in Binary
       Classification Using Calibrated Confidence", arXiv:2505.05295, 2025.
    .. [2] J. Kivimäki, J. Białek, J. K. Nurminen and W. Kuberski, "Confidence-based
       Estimators for Predictive Performance in Model Monitoring", arXiv:2407.08649,
       2024.
    .. [3] A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan and T. Zrnic,
       "Prediction-powered inference", Science 382, 2023; with the bootstrap, T. Zrnic,
       arXiv:2405.18379, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.deployment import estimate_performance
    >>> y_proba = np.random.default_rng(0).uniform(size=1000)
    >>> estimate = estimate_performance(
    ...     y_proba, metric="f1", n_resamples=50, random_state=0
    ... )
    >>> low, high = estimate.interval
    >>> print(f"F1 {estimate.value:.3f}, between {low:.3f} and {high:.3f}")
    F1 0.757, between 0.735 and 0.785
    >>> estimate.confusion_matrix.round()
    array([[351., 132.],
           [122., 395.]])
    >>> estimate.interval_covers
    'sampling error only'
    """
    proba = in_double(as_columns(check_proba(y_proba, allow_1d=True)))
    n_classes = proba.shape[1]
    classes = as_labels(np.arange(n_classes) if labels is None else labels, "labels")
    encode_labels(classes, labels=classes, n_classes=n_classes, name="labels")
    check_columns(y_proba, None, classes)
    if monitor is not None:
        _refuse_alarm(monitor, classes)
    weight = check_sample_weight(sample_weight, proba)
    held_out, priors = _read_given(reference, priors, classes)
    confusion_matrix = _confusion_matrix(proba, weight)
    if isinstance(metric, str):
        # Some scorers do not know which of two other labels is the positive class.
        classes = np.arange(n_classes)
    order = column_order(metric, classes)
    proba, classes = proba[:, order], classes[order]
    score = _Score(metric, PredictedProbabilities(classes))
    rng = check_random_state(random_state)
    tail = (1 - confidence_level) / 2
    if held_out is None:
        kind: type[PerformanceEstimate] = PerformanceEstimate
        value, draws = _draw_labels(score, proba, weight, n_resamples, rng)
    else:
        score.check_takes_weights(proba, weight)
        held_out = held_out.in_order(order)
        priors = None if priors is None else priors[order]
        kind = CorrectedEstimate
        value, draws = _draw_errors(
            score, proba, weight, held_out, priors, n_resamples, rng
        )
    known = draws[~np.isnan(draws)]
    if not len(known):
        what = "labels drawn from y_proba" if held_out is None else "the reference"
        raise ValueError(
            f"metric must be defined for {what}, got {metric!r}, which is NaN for all "
            "draws. Use more samples of each class, or another metric."
        )
    if np.isnan(value):  # the score takes no weights
        value = float(known.mean())
    # The quantiles of "weibull" cover as often as stated for any number of draws.
    low, high = np.quantile(known, [tail, 1 - tail], method="weibull").tolist()
    interval = min(low, value), max(high, value)
    return kind(value, interval, confusion_matrix)


def _read_given(
    reference: ReferenceLike | None, priors: Any, classes: Array
) -> tuple[Reference | None, Floats | None]:
    """Return the checked reference and priors."""
    if reference is None:
        if priors is not None:
            raise ValueError(
                f"priors must be None without a reference, got {shown(priors)}. Pass "
                "reference=(y_true, y_proba), or omit the priors."
            )
        return None, None
    needs_all = priors is not None
    held_out = read_reference(reference, classes, len(classes), needs_all=needs_all)
    if priors is None:
        return held_out, None
    priors = check_priors(priors, classes, "priors", may_be_zero=True)
    if not priors.all():
        raise ValueError(
            f"priors must be positive, got {shown(priors.tolist())}. Pass "
            "probabilities and a reference of the classes that occur."
        )
    return held_out, priors


def _draw_labels(
    score: _Score,
    proba: Floats,
    weight: Weights,
    n_resamples: int,
    rng: np.random.RandomState,
) -> tuple[float, Floats]:
    """Return the expected score, and those for labels drawn from probabilities."""
    measure = score.mean if score.is_mean(proba, weight) else score
    below = proba.cumsum(axis=1)[:, :-1]
    draws = np.empty(n_resamples)
    for draw in range(n_resamples):
        codes = (rng.uniform(size=(len(proba), 1)) >= below).sum(axis=1)
        draws[draw] = measure(proba, codes, weight)
    value = np.nan
    if score.takes_weights:
        try:
            value = score.expected(proba, weight)
        except ValueError:
            # The one-vs-one AUROC refuses weights for several classes.
            if weight is not None:
                raise
    return value, draws


def _draw_errors(
    score: _Score,
    proba: Floats,
    weight: Weights,
    reference: Reference,
    priors: Floats | None,
    n_resamples: int,
    rng: np.random.RandomState,
) -> tuple[float, Floats]:
    """Return the corrected score, and the sum of it and draws of its error.

    In each draw, samples of the reference take the place of the samples, and the
    reference is drawn again.
    """
    weight = np.ones(len(proba)) if weight is None else weight
    n_samples = round(effective_n_samples(weight))
    strata, chance = np.zeros_like(reference.codes), reference.weight
    mean = None
    if priors is not None:
        estimate, _ = estimate_priors(
            proba, priors, sample_weight=weight, n_resamples=1, random_state=0
        )
        strata, chance = reference.codes, reference.for_priors(estimate)
        ratio = posterior_ratio(reference.proba, priors, estimate)
        inverse = np.linalg.pinv(reference.means_of_classes(ratio))
        own_ratio = posterior_ratio(proba, priors, estimate)
        mean = np.average(own_ratio, axis=0, weights=weight)

    def weights(mean: Floats | None, times: Any = 1) -> Floats:
        """Return the weights of the reference for samples with a mean ratio."""
        if mean is None:
            return reference.weight * times
        found = mean - reference.for_priors(estimate, times) @ ratio
        found = np.clip(estimate + inverse @ found, 0, None)
        # One sample more, as the metric may be undefined for a prior of zero.
        found = (n_samples * found / found.sum() + estimate) / (n_samples + 1)
        return reference.for_priors(found, times)

    excess = score.excess_of(reference.proba, reference.codes)
    value = score.expected(proba, weight) + excess(weights(mean))
    draws = np.empty(n_resamples)
    for draw, again in enumerate(_draw_within(strata, n_resamples, rng)):
        times = rng.multinomial(n_samples, chance / chance.sum())
        if mean is not None:
            mean = times @ ratio / n_samples
        error = excess(times) - excess(weights(mean, again))
        draws[draw] = value + error
    return value, draws


def _draw_within(
    codes: Ints, n_draws: int, rng: np.random.RandomState
) -> Iterator[Ints]:
    """Yield how often each sample is drawn, as many of each code as there are."""
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    first, size = (sizes.cumsum() - sizes)[codes[order]], sizes[codes[order]]
    for _ in range(n_draws):
        drawn = first + (rng.uniform(size=len(codes)) * size).astype(int)
        yield np.bincount(order[drawn], minlength=len(codes))


class _Score:
    """A scorer of predicted probabilities and the codes of true labels."""

    def __init__(self, metric: Any, predictions: PredictedProbabilities) -> None:
        names = {*get_scorer_names(), *metrics.get_scorer_names()}
        if isinstance(metric, str) and metric not in names:
            raise ValueError(
                "metric must be a scorer or the name of one, got "
                f"{shown(metric)}.{did_you_mean(metric, names)} The names are those of "
                "sklearn_calib.metrics.get_scorer_names() and of "
                "sklearn.metrics.get_scorer_names()."
            )
        self.scorer: Callable[..., float] = get_scorer(metric)
        if isinstance(self.scorer, LabelledScorer) and self.scorer.needs_sets:
            raise ValueError(
                "metric must be computed from probabilities, got "
                f"{shown(metric)}, which evaluates prediction sets. Use another metric."
            )
        self.predictions = predictions
        function = self.scorer
        if isinstance(function, Scorer):
            function = function._score_func
        parameters = inspect.signature(function).parameters
        if is_metric(self.scorer):
            raise ValueError(
                "metric must be the name of a scorer or a scorer with the arguments "
                f"estimator, X and y, got the function {shown(metric)}. Pass the name "
                "of its scorer, or the result of sklearn.metrics.make_scorer."
            )
        self.takes_weights = "sample_weight" in parameters

    def __call__(self, proba: Floats, codes: Array, weight: Weights) -> float:
        try:
            return self._score(proba, codes, weight)
        except ValueError:
            absent = np.setdiff1d(np.arange(proba.shape[1]), codes)
            if not self.takes_weights or not len(absent):
                raise
        # The log loss, for example, is defined only if all classes are in y_true.
        weight = np.ones(len(codes)) if weight is None else weight
        return self._score(
            np.vstack([proba, proba[np.zeros_like(absent)]]),
            np.append(codes, absent),
            np.append(weight, np.zeros(len(absent))),
        )

    def check_takes_weights(self, proba: Floats, weight: Weights) -> None:
        """Raise ValueError for a scorer that cannot be corrected by a reference."""
        cause = "it has no argument sample_weight."
        if self.takes_weights:
            try:
                self.expected(proba, weight)
            except ValueError as error:  # of the one-vs-one AUROC
                cause = str(error)
            else:
                return
        raise ValueError(
            "metric must take sample weights if there is a reference, got "
            f"{self.scorer!r}: {cause} Use another metric."
        )

    def expected(self, proba: Floats, weight: Weights) -> float:
        """Return the score of all samples with all labels, by their probability."""
        mass = proba if weight is None else proba * weight[:, None]
        some = mass.ravel() > 0
        rows, codes = (index.ravel()[some] for index in np.indices(proba.shape))
        return self(proba[rows], codes, mass.ravel()[some])

    def excess_of(self, proba: Floats, codes: Array) -> Callable[[Any], float]:
        """Return a function of weights: the score less the expected score."""
        if self.is_mean(proba, None):
            every = np.arange(proba.shape[1])
            values = np.stack(
                [self.values(proba, k + 0 * codes) for k in every], axis=1
            )
            excess = values[np.arange(len(codes)), codes] - (proba * values).sum(axis=1)
            return lambda weight: float(weight @ excess / weight.sum())

        rows, every = (index.ravel() for index in np.indices(proba.shape))
        repeated = proba[rows]

        def excess_for(weight: Any) -> float:
            mass = (proba * weight[:, None]).ravel()
            return self(proba, codes, weight) - self(repeated, every, mass)

        return excess_for

    def is_mean(self, proba: Floats, weight: Weights) -> bool:
        """Return whether the score is a known mean, which is faster to compute."""
        codes = np.arange(len(proba)) % proba.shape[1]
        mean = self.mean(proba, codes, weight)
        return not np.isnan(mean) and is_equal(mean, self(proba, codes, weight))

    def mean(self, proba: Floats, codes: Array, weight: Weights) -> float:
        """Return the mean of the values of the samples; NaN if they are unknown."""
        values = self.values(proba, codes)
        return np.nan if values is None else np.average(values, weights=weight)

    def values(self, proba: Floats, codes: Array) -> Any:
        """Return the values of the samples, or None if they are unknown."""
        metric, sign = metric_of(self.scorer)
        labels = np.arange(proba.shape[1])
        values = values_of_samples(metric, codes, proba, labels)
        return None if values is None else sign * values

    def _score(self, proba: Floats, codes: Array, weight: Weights) -> float:
        y_true = self.predictions.classes_[codes]
        if weight is None:
            return as_number(self.scorer(self.predictions, proba, y_true))
        if not self.takes_weights:
            raise ValueError(
                "sample_weight must be None for a scorer without sample_weight, got "
                f"weights and {shown(self.scorer)}. Add the argument to the scorer."
            )
        weights = {"sample_weight": weight}
        return as_number(self.scorer(self.predictions, proba, y_true, **weights))


def _confusion_matrix(proba: Floats, weight: Weights) -> Floats:
    """Return the expected weight of each true and predicted class."""
    predicted = np.eye(proba.shape[1])[proba.argmax(axis=1)]
    if weight is not None:
        predicted *= weight[:, None]
    return proba.T @ predicted


def _refuse_alarm(monitor: CalibrationMonitor, classes: Array) -> None:
    """Raise ValueError if the probabilities are known not to be calibrated."""
    monitored = as_labels(monitor.labels, "labels").tolist()
    if {*monitored} != {*classes.tolist()}:
        raise ValueError(
            f"labels must be those of monitor, {shown(monitored)}, got "
            f"{shown(classes.tolist())}. Pass labels=estimator.classes_, and the "
            "monitor of this classifier."
        )
    advice = monitor.diagnose().advice
    if monitor.is_alarm_:
        raise ValueError(
            "monitor must not have raised an alarm, as the estimate needs calibrated "
            f"probabilities, got an alarm at batch {monitor.alarm_at_} with the advice "
            f"{advice!r}. {WAYS_OUT[advice]}, and monitor it with a new "
            "CalibrationMonitor."
        )
