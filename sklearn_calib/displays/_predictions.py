"""What a display asks a fitted classifier for, and which probability it shows."""

import numpy as np

from sklearn_calib._core.arrays import check_unmasked
from sklearn_calib._core.inputs import (
    TARGETS,
    check_targets,
    classes_of,
    confidence_and_hit,
    resolve_mode,
)
from sklearn_calib._core.validation import StrOptions, check_proba

# What `validate_params` checks, for the diagrams of one probability.
JUDGED = {
    **TARGETS,
    "mode": [StrOptions({"top_label", "positive"}), None],
}


class FromEstimator:
    """A display with `from_predictions`, drawn for a fitted classifier."""

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name=None, **options):
        """Draw the display of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            A fitted classifier with `predict_proba`.

        X : array-like of shape (n_samples, n_features)
            Data that the classifier was not trained on.

        y : array-like of shape (n_samples,)
            True labels.

        name : str, default=None
            Name in the legend. By default the classifier's class.

        **options
            Further arguments of :meth:`from_predictions`, such as `sample_weight` and
            `ax`, but `labels`, which are the classifier's.

        Returns
        -------
        display : object
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator has no `predict_proba`.
        """
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                "estimator must be a classifier with predict_proba, got "
                f"{estimator!r}. Fit a CalibratedClassifier with "
                'response_method="decision_function".'
            )
        check_unmasked(X, "X")
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            labels=estimator.classes_,
            name=type(estimator).__name__ if name is None else name,
            **options,
        )


def judge(y_true, y_proba, mode, pos_label, labels, sample_weight):
    """Return the mode, and the confidences, hits and weights that a diagram shows."""
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    if pos_label is None:
        mode = resolve_mode(mode, proba)
        return mode, (*confidence_and_hit(proba, codes, mode), weight)
    classes = classes_of(y_true, labels)
    code = _code_of(pos_label, mode, classes)
    positive = check_proba(proba, allow_1d=True)
    positive = positive if proba.ndim == 1 else positive[:, code].copy()
    return "positive", (positive, codes == code, weight)


def _code_of(pos_label, mode, classes):
    """Return which of two classes is the positive one."""
    if len(classes) != 2 or mode == "top_label":
        raise ValueError(
            "pos_label must be None for the predicted class and for more than two "
            f"classes, got {pos_label!r} with mode={mode!r} and {len(classes)} classes."
            " Use ClasswiseReliabilityDisplay for the probability of each class."
        )
    found = np.flatnonzero(classes == pos_label) if np.ndim(pos_label) == 0 else []
    if len(found):
        return found[0]
    raise ValueError(
        f"pos_label must be one of {classes.tolist()}, got {pos_label!r}. Pass the "
        "label of the class whose probability is to be shown."
    )
