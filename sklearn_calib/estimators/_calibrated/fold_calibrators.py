"""Calibrators fitted to the held-out predictions of a classifier."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from sklearn_calib._expressions.rows import log_of_tiny
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.metadata_routing import abstains
from sklearn_calib._sklearn.response import codes_among, has_threshold, predict_scores
from sklearn_calib._sklearn.training_data import (
    MatrixLike,
    take,
    warn_of_absent_classes,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators import (
    BBQ,
    ENIR,
    AutoCalibrator,
    BoostingCalibrator,
    Calibrator,
    GroupCalibrator,
    HistogramBinning,
    IsotonicCalibration,
    JointIsotonicCalibration,
    MetaCal,
    MulticalibrationBoosting,
    PerLabelCalibrator,
    PlattScaling,
    QuadraticLogisticCalibration,
    ScalingBinning,
    VectorScaling,
    VennAbers,
    get_calibrator,
)
from sklearn_calib.estimators._calibrated.average import Pool, fit_pool, identity_pool

# Folds in which predictions of calibrators are held out.
N_FOLDS = 5

# The calibrators of "auto" for the margins of two classes, which have no unit, and
# those added to its default ones for more classes.
MARGIN_MAPS = [
    PlattScaling(),
    QuadraticLogisticCalibration(),
    IsotonicCalibration(),
    VennAbers(),
]
ADDED_MAPS = [IsotonicCalibration(), VennAbers()]

KINDS = Calibrator, GroupCalibrator, PerLabelCalibrator

# Calibrators of two classes that do not depend on the origin and the scale of the
# logits, up to the direction, so that margins can be used instead.
FOR_MARGINS = (
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    QuadraticLogisticCalibration,
    ScalingBinning,
    VennAbers,
)

# Maps with steps whose places are estimated, for which the bootstrap is inconsistent.
WITH_STEPS = (
    BBQ,
    ENIR,
    BoostingCalibrator,
    HistogramBinning,
    IsotonicCalibration,
    JointIsotonicCalibration,
    MetaCal,
    MulticalibrationBoosting,
    ScalingBinning,
    VennAbers,
)


class HeldOut(NamedTuple):
    """Held-out predictions, the arguments of `fit_calibrators`.

    `response` is what the scores are: "logits", "margins" or "probabilities". `groups`
    is None unless the calibrator uses groups.
    """

    calibrator: Any
    response: str
    scores: list[Floats]
    tests: list[Ints]
    y: Any
    sample_weight: Any
    labels: Any
    groups: Any


def make_calibrator(calibrator: Any, is_multilabel: bool) -> Any:
    """Return the calibrator itself, or a new one of the given name."""
    if not isinstance(calibrator, str):
        return calibrator
    named = get_calibrator(calibrator)()
    return PerLabelCalibrator(named) if is_multilabel else named


def for_margins(calibrator: Any, classes: Any) -> Any:
    """Return "auto" for margins, which have no unit; keep other calibrators."""
    if isinstance(calibrator, PerLabelCalibrator):
        return PerLabelCalibrator(for_margins(calibrator.calibrator, [0, 1]))
    if not isinstance(calibrator, AutoCalibrator):
        return calibrator
    given, n_classes = calibrator.calibrators, len(classes)
    if n_classes == 2:
        maps = MARGIN_MAPS if given is None else given
        return clone(calibrator).set_params(calibrators=maps, prior_odds=None)
    if given is None:
        maps = [each.calibrator for each in calibrator._candidates(n_classes)]
        calibrator = clone(calibrator).set_params(calibrators=[*maps, *ADDED_MAPS])
    return JointMarginCalibrator(calibrator)


def explain(calibrator: Any) -> str:
    """Return a fitted calibrator in words."""
    if isinstance(calibrator, AutoCalibrator):
        return calibrator.explanation_
    if isinstance(calibrator, MarginCalibrator):
        return explain(calibrator.per_label_)
    if isinstance(calibrator, JointMarginCalibrator):
        first = shown(calibrator.scaling_)
        return f"{first} of all margins, then: {explain(calibrator.calibrator_)}"
    if isinstance(calibrator, PerLabelCalibrator):
        return numbered("label", calibrator.calibrators_, first=0)
    return shown(calibrator)


def numbered(noun: str, calibrators: list[Any], first: int) -> str:
    """Return fitted calibrators in words, equal ones in succession as one."""
    texts = [(explain(each), k) for k, each in enumerate(calibrators, first)]
    lines = []
    for text, same in groupby(texts, key=lambda each: each[0]):
        start, *others = (number for _, number in same)
        numbers = f"s {start} to {others[-1]}" if others else f" {start}"
        lines.append(f"{noun}{numbers}: {text}")
    return "\n".join(lines)


def check_calibrator(calibrator: Any, is_multilabel: bool) -> None:
    """Raise an error for a calibrator that is not valid, or does not match y."""
    has_methods = hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    if calibrator is None:
        return
    if not has_methods or isinstance(calibrator, type):
        raise TypeError(
            "calibrator must be None, the name of a calibrator or an instance with fit "
            f"and predict_proba, got {shown(calibrator)}. Pass an object such as "
            "TemperatureScaling()."
        )
    if has_threshold(calibrator) or abstains(calibrator):
        raise ValueError(
            "calibrator must not have a decision threshold or abstain, as both would "
            f"be ignored, got {shown(calibrator)}. Pass the classifier that it wraps."
        )
    is_per_label = isinstance(calibrator, PerLabelCalibrator)
    if is_per_label and not is_multilabel:
        raise ValueError(
            "calibrator must not be a PerLabelCalibrator if y contains one label for "
            f"each sample, got {shown(calibrator)}. Pass the calibrator that it wraps."
        )
    if is_multilabel and not is_per_label:
        raise ValueError(
            "calibrator must be None or a PerLabelCalibrator if y is multilabel, got "
            f"{shown(calibrator)}. Pass PerLabelCalibrator(TemperatureScaling()), for "
            "example. If y is one-hot, pass y.argmax(axis=1)."
        )
    if isinstance(calibrator, KINDS):
        calibrator._validate_params()  # before the classifiers are trained


def accepts_margins(calibrator: Any) -> bool:
    """Return whether a calibrator can be fitted to margins instead of logits."""
    if isinstance(calibrator, PerLabelCalibrator):
        return accepts_margins(calibrator.calibrator)
    if isinstance(calibrator, AutoCalibrator):
        return all(
            isinstance(each, FOR_MARGINS) for each in calibrator.calibrators or []
        )
    if isinstance(calibrator, Calibrator | GroupCalibrator):
        return isinstance(calibrator, FOR_MARGINS)
    return calibrator is not None  # any classifier uses the margins as features


def contains(calibrator: Any, kinds: Any) -> bool:
    """Return whether a calibrator, or one that it contains, is of some types."""
    parts = calibrator if isinstance(calibrator, list | tuple) else ()
    if isinstance(calibrator, BaseEstimator):
        parts = calibrator.get_params(deep=False).values()
    return isinstance(calibrator, kinds) or any(contains(part, kinds) for part in parts)


def has_steps(calibrator: Any) -> bool:
    """Return whether a calibrator, or one that it contains, is a map with steps."""
    return contains(calibrator, WITH_STEPS)


def parts_lack_a_class(y: Array, splits: list[Any]) -> bool:
    """Return whether the test part of a fold lacks a class, also of a single label."""
    return any(
        len(np.unique(column[test])) < n_classes
        for column in (y.T if y.ndim == 2 else [y])
        for n_classes in [len(np.unique(column))]
        for _, test in splits
    )


def share_folds(
    scores: list[Floats], tests: list[Ints], n_sharing: int
) -> tuple[list[Floats], list[Ints]]:
    """Join the scores and rows of the folds that share a calibrator, in succession."""
    starts = range(0, len(tests), n_sharing)
    joined = [slice(start, start + n_sharing) for start in starts]
    return (
        [np.concatenate(scores[part]) for part in joined],
        [np.concatenate(tests[part]) for part in joined],
    )


def fit_calibrators(
    calibrator: Any,
    response: str,
    scores: list[Floats],
    tests: list[Ints],
    y: Any,
    sample_weight: Any,
    labels: Any,
    groups: Any,
) -> list[Any]:
    """Fit a clone of the calibrator to the scores of each test part."""
    fitted = [_for_response(calibrator, response) for _ in scores]
    n_errors = [
        each._fit_without_warnings(
            part,
            y[test],
            None if sample_weight is None else sample_weight[test],
            labels,
            **_groups(groups, test),
        )
        for each, part, test in zip(fitted, scores, tests, strict=True)
    ]
    if response == "logits":
        fitted[0]._warn_of_proba(scores[0])
    # Their average is about as good as one calibrator fitted to all errors. Repeated
    # predictions do not add information.
    rows = np.concatenate(tests)
    n_repeats = len(rows) / len(np.unique(rows))
    of = ", counting each sample once" if n_repeats > 1 else ""
    first = fitted[0]
    if isinstance(first, JointMarginCalibrator | GroupCalibrator):
        first = first.calibrator_
    first._warn_of_few_errors(sum(n_errors) / n_repeats, of)
    return fitted


def predict_held_out(
    fitted: list[Any], scores: list[Floats], tests: list[Ints], groups: Any
) -> tuple[Floats, Ints]:
    """Return the calibrated probabilities of all test parts, and their rows."""
    proba = [
        each.predict_proba(part, **_groups(groups, test))
        for each, part, test in zip(fitted, scores, tests, strict=True)
    ]
    return np.concatenate(proba), np.concatenate(tests)


def fit_with_pool(held_out: HeldOut, n_members: int) -> tuple[list[Any], Pool]:
    """Fit the calibrators, and calibrate the average of the members."""
    fitted = fit_calibrators(*held_out)
    if n_members == 1:
        return fitted, identity_pool(held_out.labels)
    *_, scores, tests, y, sample_weight, labels, groups = held_out
    proba, rows = predict_held_out(fitted, scores, tests, groups)
    return fitted, fit_pool(proba, rows, y, sample_weight, labels, n_members)


def draw_fits(
    held_out: HeldOut,
    n_members: int,
    clusters: Ints | None,
    n_resamples: int,
    rng: np.random.RandomState,
) -> Iterator[tuple[list[Any], Pool]]:
    """Fit calibrators and pool with random weights of the samples, or of clusters."""
    weight = 1.0 if held_out.sample_weight is None else held_out.sample_weight
    units = np.arange(len(held_out.y)) if clusters is None else clusters
    for _ in range(n_resamples):
        drawn = weight * rng.exponential(size=units.max() + 1)[units]
        yield fit_with_pool(held_out._replace(sample_weight=drawn), n_members)


def cross_calibrate(
    calibrator: Any,
    response: str,
    scores: list[Floats],
    tests: list[Ints],
    y: Any,
    sample_weight: Any,
    labels: Any,
    groups: Any,
) -> tuple[Floats, Ints]:
    """Return calibrated probabilities by calibrators not fitted to the sample.

    The samples are divided into stratified folds, and calibrators are fitted without
    each of them. The arguments and the result are those of the functions above.
    """
    order = np.random.RandomState(0).permutation(len(y))
    codes = encode_labels(y, labels=labels, n_classes=len(labels))
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(y), dtype=int)
    fold[order] = np.arange(len(y)) % N_FOLDS
    predicted = []
    for k in range(N_FOLDS):
        split = [
            (part, test, fold[test] == k)
            for part, test in zip(scores, tests, strict=True)
            if 0 < (fold[test] == k).sum() < len(test)
        ]
        if not split:
            continue
        own = [part[in_k] for part, _, in_k in split]
        own_rows = [test[in_k] for _, test, in_k in split]
        others = [part[~in_k] for part, _, in_k in split]
        other_rows = [test[~in_k] for _, test, in_k in split]
        about = y, sample_weight, labels, groups
        with without_warnings():
            fitted = fit_calibrators(calibrator, response, others, other_rows, *about)
        predicted.append(predict_held_out(fitted, own, own_rows, groups))
    proba, rows = zip(*predicted, strict=True)
    return np.concatenate(proba), np.concatenate(rows)


def _groups(groups: Any, rows: Ints) -> dict[str, Any]:
    """Return the groups of rows as arguments, which are none without groups."""
    return {} if groups is None else {"groups": take(groups, rows)}


def _for_response(calibrator: Any, response: str) -> Any:
    """Return a clone of the calibrator for logits, margins or probabilities."""
    fresh, from_logits = clone(calibrator), response != "probabilities"
    if isinstance(calibrator, Calibrator | GroupCalibrator):
        fresh.set_params(from_logits=from_logits)
    elif isinstance(calibrator, PerLabelCalibrator):
        fresh.set_params(calibrator__from_logits=from_logits)
    else:
        return ClassifierCalibrator(fresh, from_logits=from_logits)
    is_joint = isinstance(fresh, JointMarginCalibrator)
    return fresh if response != "margins" or is_joint else MarginCalibrator(fresh)


class MarginCalibrator:
    """One-vs-rest calibration of margins, one for each class or label.

    Margins have no fixed unit. They are divided by the largest absolute value in the
    data of `fit`, as the sigmoid of large margins would be rounded to one.
    """

    def __init__(self, calibrator: Calibrator | PerLabelCalibrator) -> None:
        self.calibrator = calibrator

    def _fit_without_warnings(
        self, margins: Floats, y: Any, sample_weight: Any, labels: Any
    ) -> Floats:
        self.classes_ = labels
        self.scale_ = float(np.abs(margins).max()) or 1.0
        per_label = self.calibrator
        if isinstance(per_label, Calibrator):
            per_label = PerLabelCalibrator(per_label)
            codes = encode_labels(y, labels=labels, n_classes=len(labels), name="y")
            y = codes[:, None] == np.arange(len(labels))
            y = y[:, 1:] if self._is_binary else y
            pairs = [np.array([f"not {label}", f"{label}"]) for label in labels]
            labels = [labels] if self._is_binary else pairs
        columns = self._one_per_target(margins)
        n_errors = per_label._fit_without_warnings(columns, y, sample_weight, labels)
        self.per_label_ = per_label
        self.n_errors_ = self.per_label_.n_errors_
        return n_errors

    def predict_proba(self, margins: Floats) -> Floats:
        columns = self._one_per_target(margins)
        if self._is_binary:
            return self.per_label_.calibrators_[0].predict_proba(columns)
        proba = self.per_label_.predict_proba(columns)
        if isinstance(self.classes_, list):
            return proba
        return proba / proba.sum(axis=1, keepdims=True)

    def predict_interval(self, margins: Floats) -> Floats:
        """Return p0 and p1 of each class, if the calibrator is VennAbers."""
        columns = self._one_per_target(margins)
        calibrators = self.per_label_.calibrators_
        if self._is_binary:
            return calibrators[0].predict_interval(columns)
        pairs = zip(calibrators, columns.T, strict=True)
        return np.stack([each.predict_interval(x)[:, 1] for each, x in pairs], axis=1)

    def _one_per_target(self, margins: Floats) -> Floats:
        """Return scaled margins, for two classes only those of the second."""
        if self._is_binary:
            margins = margins.reshape(len(margins), -1)[:, -1:]
        return margins / self.scale_

    @property
    def _is_binary(self) -> bool:
        return not isinstance(self.classes_, list) and len(self.classes_) == 2

    def _warn_of_few_errors(self, n_errors: Any, of: str = "") -> None:
        if isinstance(self.classes_, list):
            self.per_label_._warn_of_few_errors(n_errors, of)
            return
        k = n_errors.argmin()
        if not self._is_binary:
            of += f" for class {self.classes_[k]} against the others"
        self.per_label_.calibrators_[k]._warn_of_few_errors(n_errors[k], of)


class JointMarginCalibrator(Calibrator):
    """Calibration of the margins of more than two classes together.

    Vector scaling turns the margins into probabilities, whatever their common origin
    and unit. These probabilities are then calibrated.
    """

    def __init__(self, calibrator: Calibrator, *, from_logits: bool = True) -> None:
        self.calibrator = calibrator
        self.from_logits = from_logits

    def _fit(self, data: Blocks) -> None:
        self.scaling_ = VectorScaling(penalty="empirical_bayes", from_logits=True)
        self.calibrator_ = clone(self.calibrator).set_params(from_logits=True)
        for each in (self.scaling_, self.calibrator_):
            each._copy_input(self)
        with without_warnings():
            self.scaling_._fit(data)
        self.calibrator_._fit(data.transform(self._scale).kept())

    def _scale(self, margins: Values) -> Values:
        return log_of_tiny(self.scaling_._calibrate(margins))

    def _calibrate(self, logits: Values) -> Values:
        return self.calibrator_._calibrate(self._scale(logits))


class ClassifierCalibrator(Calibrator):
    """Calibrator that fits a classifier with the logits as features."""

    def __init__(self, classifier: Any, *, from_logits: bool = False) -> None:
        self.classifier = classifier
        self.from_logits = from_logits

    def _fit(self, data: Any) -> None:
        logits, codes, weight = data.arrays()
        weights = {"sample_weight": weight} if (weight != 1).any() else {}
        self.classifier_ = clone(self.classifier).fit(logits, codes, **weights)
        present = codes_among(self.classifier_.classes_, np.arange(len(self.classes_)))
        warn_of_absent_classes(
            np.delete(self.classes_, present),
            f"{type(self.classifier).__name__} gives these classes the smallest "
            "positive probability of each row",
        )

    def _calibrate(self, logits: Any) -> Any:
        codes = np.arange(len(self.classes_))
        return predict_scores(self.classifier_, np.asarray(logits), False, codes).copy()


class CalibratedPair:
    """A fitted classifier and its calibrator."""

    def __init__(
        self,
        estimator: Any,
        calibrator: Any,
        from_logits: bool,
        classes: Any,
        response_method: str,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        # Without a calibrator, probabilities are kept instead of a softmax of logits.
        is_plain = calibrator is None and hasattr(estimator, "predict_proba")
        self.from_logits = from_logits and not is_plain
        self.classes = classes
        self.response_method = response_method

    def predict_proba(self, X: MatrixLike, groups: Any = None) -> Floats:
        """Return calibrated probabilities; `groups` is None if they are not used."""
        scores = self._predict_scores(X)
        if groups is not None:
            return self.calibrator.predict_proba(scores, groups=groups)
        if self.calibrator is not None:
            return self.calibrator.predict_proba(scores)
        return softmax(scores) if self.from_logits else scores

    def predict_interval(self, X: MatrixLike) -> Floats:
        return self.calibrator.predict_interval(self._predict_scores(X))

    def _predict_scores(self, X: MatrixLike) -> Floats:
        options = self.from_logits, self.classes, self.response_method
        return predict_scores(self.estimator, X, *options)

    def uncalibrated(self) -> Self:
        options = self.from_logits, self.classes, self.response_method
        return type(self)(self.estimator, None, *options)
