"""Predictions of a fitted classifier: logits where available, or probabilities."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC

from sklearn_calib._validation.arrays import (
    as_numbers,
    check_in_memory,
    check_unmasked,
    is_instance,
    on_cpu,
    shown,
    without_gradient,
)
from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib._validation.samples import check_columns
from sklearn_calib._validation.types import Array, Floats

# The class of all searches, also of those by successive halving, has no public name.
Search = GridSearchCV.__base__

# scikit-learn's classifiers whose predict_proba is the softmax of decision_function.
# Their subclasses are included, such as LogisticRegressionCV.
_SOFTMAX_CLASSIFIERS = (
    HistGradientBoostingClassifier,
    LinearDiscriminantAnalysis,
    LogisticRegression,
    QuadraticDiscriminantAnalysis,
)


# What calibrators take: logits, logits with a column for each class, or probabilities.
RESPONSES = ("decision_function", "predict_logits", "predict_proba")


def holds_logits(classifier: Any) -> bool:
    """Return whether a fitted classifier's decision function is known to return logits.

    This is the case if its attribute `decision_function_is_logits` is True, and for
    `_SOFTMAX_CLASSIFIERS` except one-vs-rest LogisticRegression. The final estimator of
    a Pipeline, FrozenEstimator or search is checked.
    """
    n_classes = len(classes_of(classifier))
    classifier = final_step(classifier)
    declared = getattr(classifier, "decision_function_is_logits", None)
    if declared is not None:
        return declared
    is_one_vs_rest = n_classes > 2 and (
        getattr(classifier, "solver", None) == "liblinear"
        or getattr(classifier, "multi_class", None) == "ovr"
    )
    return isinstance(classifier, _SOFTMAX_CLASSIFIERS) and not is_one_vs_rest


def final_step(classifier: Any) -> Any:
    """Return the classifier inside pipelines, frozen estimators and searches."""
    return list(unwrap(classifier))[-1]


def unwrap(classifier: Any) -> Iterator[Any]:
    """Yield a classifier, and what is inside if it is a pipeline or a search."""
    yield classifier
    if isinstance(classifier, Pipeline) and classifier.steps:
        yield from unwrap(classifier.steps[-1][1])
    elif isinstance(classifier, FrozenEstimator):
        yield from unwrap(classifier.estimator)
    elif isinstance(classifier, Search):
        # A search that is not fitted yet only has the estimator to start from.
        yield from unwrap(getattr(classifier, "best_estimator_", classifier.estimator))


def check_classifier(estimator: Any) -> None:
    """Raise TypeError for a torch module or a regressor, also in a wrapper."""
    final = final_step(estimator)
    name = type(final).__name__
    if is_instance(final, "torch.nn", "Module"):
        raise TypeError(
            f"estimator must be a classifier, got the torch module {name}. If it is "
            "trained, pass FrozenEstimator(NeuralClassifier(module).initialize("
            "classes=labels)), or fit a calibrator to its logits: "
            "TemperatureScaling(from_logits=True).fit(logits, y). Otherwise, pass "
            "NeuralClassifier(module)."
        )
    if isinstance(final, RegressorMixin):
        raise TypeError(
            f"estimator must be a classifier, got the regressor {name}. Pass a "
            "classifier, such as LogisticRegression(). If it predicts logits or "
            "probabilities, fit a calibrator to them: "
            "TemperatureScaling(from_logits=True).fit(logits, y), for example."
        )


def clone_classifier(estimator: Any) -> Any:
    """Return a clone; raise ValueError if the classifier changes its parameters."""
    try:
        return clone(estimator)
    except RuntimeError as error:
        raise ValueError(
            "estimator must store its parameters unchanged, so that it can be cloned, "
            f"got {type(final_step(estimator)).__name__}: {error}. For CatBoost, pass "
            "lists to fit, as in fit(X, y, cat_features=[0]), or pass tuples instead."
        ) from error


def classes_of(classifier: Any) -> Any:
    """Return the classes of a fitted classifier; raise ValueError if it has none.

    Those of a classifier on another device are copied to the CPU.
    """
    try:
        return on_cpu(classifier.classes_)
    except AttributeError as error:
        raise ValueError(
            "estimator must be a classifier that has classes_ after fit, got "
            f"{type(final_step(classifier)).__name__}: {str(error).rstrip('.')}. Pass "
            "a classifier; before FrozenEstimator, fit it."
        ) from error


def has_threshold(classifier: Any) -> bool:
    """Return whether a classifier predicts with a decision threshold."""
    kinds = FixedThresholdClassifier | TunedThresholdClassifierCV
    return isinstance(final_step(classifier), kinds)


def find_response(
    classifier: Any, response_method: str, *, takes_margins: bool = False
) -> str:
    """Return whether to use "logits", "margins" or "probabilities" of a classifier.

    Margins are used if there are no probabilities, and only if `takes_margins`.
    """
    wanted = response_method
    if wanted == "auto":
        if holds_logits(classifier):
            return "logits"
        wanted = "predict_proba"
    if hasattr(classifier, wanted):
        return "probabilities" if wanted == "predict_proba" else "logits"
    has_margins = response_method == "auto" and hasattr(classifier, "decision_function")
    if has_margins and takes_margins:
        _check_one_margin_per_class(classifier)
        return "margins"
    final = final_step(classifier)
    name = type(final).__name__
    if hasattr(final, wanted):
        raise ValueError(
            f"estimator must have {wanted}, got {type(classifier).__name__}, which "
            f"does not pass on {wanted} of {name}. Put CalibratedClassifier around "
            f"{name} only, inside the pipeline or the search."
        )
    raise ValueError(
        "estimator must have predict_proba, or a decision function that is known to "
        f"return logits, got {name}, which has no {wanted}. "
        + (_MARGINS_HINT if has_margins else "Use another classifier.")
    )


_MARGINS_HINT = (
    "Margins, such as those of a support vector machine, are not logits. Wrap the "
    'classifier in CalibratedClassifier with calibrator="auto". For few classes, '
    "PlattScaling, QuadraticLogisticCalibration, IsotonicCalibration, VennAbers, "
    "HistogramBinning and ScalingBinning accept margins too, and so does any "
    'classifier. If the values are logits, set response_method="decision_function".'
)


def _check_one_margin_per_class(classifier: Any) -> None:
    """Raise ValueError for a support vector machine with a margin for each pair."""
    final = final_step(classifier)
    is_svc = isinstance(final, SVC | NuSVC)
    if is_svc and final.decision_function_shape == "ovo" and len(final.classes_) > 2:
        raise ValueError(
            "estimator must have one margin for each class, got "
            f'{type(final).__name__} with decision_function_shape="ovo", which returns '
            'one for each pair of classes. Set decision_function_shape="ovr".'
        )


def predict_scores(
    classifier: Any,
    X: ArrayLike,
    from_logits: bool,
    classes: Any = None,
    response_method: str = "auto",
) -> Floats:
    """Return values of the decision function or probabilities, of all classes.

    The classifier may be of any library: this is the only function that calls these
    methods of classifiers, and it converts and checks what they return. With
    `response_method="predict_logits"`, the values are those of that method.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,) or list of ndarray, default=None
        Classes of the columns, see `align_columns`. By default, the classifier's own.
        A list contains the classes of each label of a multilabel problem.

    Returns
    -------
    scores : ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
    """
    check_unmasked(X, "X")
    check_in_memory(X, "X")
    X = without_gradient(X)  # scikit-learn cannot read tensors that require grad
    method = "decision_function" if from_logits else "predict_proba"
    if from_logits and response_method == "predict_logits":
        method = response_method
    returned = getattr(classifier, method)(X)
    kind, present = type(final_step(classifier)).__name__, classes_of(classifier)
    name = f"{method} of {kind}"
    if isinstance(classes, list):
        return _join_labels(returned, present, name)
    if isinstance(present, list) and np.ndim(present[0]):
        raise ValueError(
            "estimator must predict one label for each sample, got "
            f"{type(classifier).__name__}, which was fitted to several. Pass one "
            "label at a time, or its probabilities to metrics.per_label."
        )
    scores = as_numbers(returned, name)
    if not from_logits:
        scores = _check_returned_proba(scores, kind)
    elif scores.dtype not in (np.float64, np.float32):
        scores = scores.astype(np.float64)
    if scores.shape[1:] == (1,):
        scores = scores[:, 0]
    if len(present) == 1 and scores.ndim == 1:
        scores = scores[:, None]
    n_columns = 2 if scores.ndim == 1 else scores.shape[1]
    if scores.ndim > 2 or n_columns != len(present):
        raise ValueError(
            f"{name} must have a column for each class in classes_, "
            f"{shown(np.asarray(present).tolist())}, got shape {scores.shape}. Return "
            "an array of shape (n_samples, n_classes); for two classes, the values of "
            "the second are enough."
        )
    check_columns(returned, None, present, f"{kind}.{method}(X)")
    return align_columns(
        scores, present, present if classes is None else classes, from_logits
    )


def _check_returned_proba(values: Array, kind: str) -> Floats:
    """Return probabilities of a classifier; raise ValueError if they are not valid."""
    try:
        return check_proba(values, name=f"predict_proba of {kind}", allow_1d=True)
    except ValueError as error:
        if values.dtype == np.float16:
            hint = (
                f" {kind} returned half precision, which is not accurate enough. Pass "
                "X as float32, or let it return float32."
            )
        # A comparison with NaN is False.
        elif values.min(initial=0) < 0 or values.max(initial=1) > 1:
            hint = (
                f" If {kind} returns logits, as boosting with a custom objective "
                "does, return them from decision_function of a subclass with "
                "decision_function_is_logits = True, or fit a calibrator to them: "
                "TemperatureScaling(from_logits=True).fit(logits, y)."
            )
        elif len(values) and values.ndim == 2 and (values.sum(axis=1) > 0).all():
            hint = (
                f" For a one-vs-all classifier, use a subclass of {kind} whose method "
                "predict_proba(self, X) returns sklearn.preprocessing.normalize("
                'super().predict_proba(X), norm="l1").'
            )
        else:
            hint = ""
        raise ValueError(f"{error}{hint}") from error


def codes_among(present: ArrayLike, classes: Array) -> list[int]:
    """Return the index in `classes` of each class of a classifier.

    Raise ValueError if it has others.
    """
    if np.array_equal(present, classes):
        return [*range(len(classes))]
    given, known = np.asarray(present).tolist(), np.asarray(classes).tolist()
    code_of = {label: code for code, label in enumerate(known)}
    if not code_of.keys() >= {*given}:
        raise ValueError(
            f"estimator must have classes_ that are labels of y, {shown(known)}, got "
            f"{shown(given)}. Train it with the same labels."
        )
    return [code_of[label] for label in given]


def align_columns(
    scores: Floats, present: ArrayLike, classes: Array, from_logits: bool
) -> Floats:
    """Return scores with a column for each of `classes`, in their order.

    Scores with one dimension are those of the second of two classes. The others have a
    column for each class of `present`. Classes that the classifier was not trained with
    get the smallest positive probability of the row, and rows of probabilities are
    normalised again. If only the predicted class has a positive probability, they get
    zero, as the other classes; calibrators replace zeros. The logits are the smallest
    of the row.
    """
    codes = codes_among(present, classes)
    if scores.ndim == 1:
        if not from_logits:
            scores = np.column_stack([1 - scores, scores])
        else:  # those of the first of `classes` are zero
            value = scores if codes[0] < codes[1] else -scores
            scores = np.column_stack([np.zeros_like(value), value])
            codes.sort()
    if codes == [*range(len(classes))]:
        return scores
    aligned = np.empty((len(scores), len(classes)), scores.dtype)
    is_filled = len(codes) < len(classes)
    if is_filled:
        smallest = scores.min(axis=1, keepdims=True)
        if not from_logits:
            between = (scores > 0) & (scores < scores.max(axis=1, keepdims=True))
            positive = np.where(between, scores, np.inf).min(axis=1, keepdims=True)
            smallest = np.where(positive < np.inf, positive, smallest)
        aligned[:] = smallest
    aligned[:, codes] = scores
    if is_filled and not from_logits:
        aligned /= aligned.sum(axis=1, keepdims=True)
    return aligned


def _join_labels(returned: Any, classes: Any, name: str) -> Floats:
    """Return multilabel probabilities or logits as one array."""
    if isinstance(returned, list):  # one array of both classes for each label
        pairs = zip(returned, classes, strict=True)
        columns = [as_numbers(p, name) @ (np.asarray(c) == 1) for p, c in pairs]
        return np.column_stack(columns)
    scores = as_numbers(returned, name)
    return scores.reshape(len(scores), -1)
