"""`SelectiveClassifier`: a classifier that abstains where it is not sure."""

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._core.arrays import as_labels
from sklearn_calib._core.confidence import check_confidence, get_confidence
from sklearn_calib._core.predicted_scores import predict_scores
from sklearn_calib._core.restore import restores
from sklearn_calib._core.typing import Array, Bools, Floats
from sklearn_calib._core.validation import Interval, check_sample_weight, encode_labels
from sklearn_calib.estimators._abstention import (
    check_goals,
    refuse_max_logit,
    resolve_abstain_label,
    threshold_for_coverage,
    threshold_for_risk,
)
from sklearn_calib.estimators._out_of_fold import (
    MatrixLike,
    SplitterLike,
    check_training_data,
    copy_features,
    fit_and_predict,
    make_splits,
)
from sklearn_calib.estimators._routing import RoutingMixin


class SelectiveClassifier(
    RoutingMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """Answer only where the confidence is high enough, and abstain elsewhere.

    The threshold on the confidence comes from predictions for samples that the
    classifier was not trained on. Choose either which share of the samples is to be
    answered, or which risk, the error rate among the answers, must not be exceeded.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba`. One that is fitted already comes as
        `FrozenEstimator(estimator)`: all data given to `fit` then set the threshold,
        and must be others than it was trained on.

    coverage : float in (0, 1], default=None
        Share of the samples to answer. The threshold is the highest that accepts at
        least this share of the held-out samples, all that are tied at it included. 1
        answers everything. Either this or `max_risk` must be given.

    max_risk : float in (0, 1), default=None
        Error rate among the answers that must not be exceeded. The threshold is the
        lowest that fixed-sequence testing of the held-out confidences can guarantee.

    delta : float in (0, 1), default=0.05
        Probability, over the draw of the held-out samples, that the guarantee of
        `max_risk` fails.

    confidence : str or callable, default="msp"
        How sure the classifier is: "msp", the largest probability, "margin",
        "negative_entropy", "negative_gini", "l2_norm" or "max_logit". A callable takes
        the probabilities of shape (n_samples, n_classes) and returns one number for
        each sample, larger if surer. "max_logit" needs a classifier whose decision
        function is known to hold logits, see :class:`CalibratedClassifier`; those of
        two classes are taken to have mean zero.

    abstain_label : str or number, default=None
        What `predict` says where it abstains: a string if the labels are strings, a
        number if they are numbers, and no label of a class. None is "abstain" for
        strings; for numbers it must be given.

    cv : int, cross-validation generator or iterable, default=5
        How to split for the held-out predictions; an int means stratified folds.
        Afterwards the classifier is trained on all data.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted, without `abstain_label_`.

    estimator_ : estimator
        The classifier, fitted to all data.

    abstain_label_ : str or number
        What `predict` says where it abstains.

    threshold_ : float
        The lowest confidence that is answered; minus infinity for `coverage=1`.

    coverage_ : float
        Share of the held-out samples at or above the threshold.

    risk_ : float
        Error rate among those, an estimate without a guarantee.

    guaranteed_risk_ : float or None
        The error rate that is not exceeded with probability `1 - delta`, which is
        `max_risk`. None if only `coverage` was asked for: nothing is guaranteed.

    n_features_in_ : int
        Number of features, if the classifier knows it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the classifier knows them.

    See Also
    --------
    CalibratedClassifier : Repair the probabilities first.

    Notes
    -----
    `max_risk` is guaranteed by the fixed-sequence testing of Learn then Test [1]_: from
    the highest threshold to the lowest, an exact binomial test asks whether the risk
    exceeds `max_risk`. The level is `delta` / 2 at the threshold that accepts all
    held-out samples, `delta` / 4 at that of the most confident half, and so on; a test
    that rejects adds its level to that of the next [2]_.

    It holds for new samples of the same distribution, and for a `FrozenEstimator`,
    which the held-out samples did not train. With cross-validation it holds for the
    classifiers of the folds, and is expected of the one trained on all data. Thresholds
    are confidences of the same samples: that is harmless if the error rate does not
    rise with the confidence, and was in simulations where it does.

    `sample_weight` counts as repetition for `coverage`. The guarantee ignores weights,
    except that it leaves out samples of weight zero.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn
       then Test: Calibrating Predictive Algorithms to Achieve Risk Control",
       arXiv:2110.01052, 2021.
    .. [2] B. L. Wiens and A. Dmitrienko, "The Fallback Procedure for Evaluating a
       Single Family of Hypotheses", Journal of Biopharmaceutical Statistics 15, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> from sklearn_calib.estimators import SelectiveClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X > 8, y, random_state=0)
    >>> model = SelectiveClassifier(BernoulliNB(), max_risk=0.05, abstain_label=-1)
    >>> model = model.fit(X, y)
    >>> model.predict(X_test[:9])
    array([ 2,  8,  2,  6,  6,  7,  1,  9, -1])
    >>> f"{model.score(X_test, y_test):.2f} right of {model.coverage_score(X_test):.2f}"
    '0.97 right of 0.73'
    """

    _weighted_part = "threshold"
    _parameter_constraints = {
        "coverage": [Interval(Real, 0, 1, closed="right"), None],
        "max_risk": [Interval(Real, 0, 1, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        coverage: float | None = None,
        max_risk: float | None = None,
        delta: float = 0.05,
        confidence: str | Callable[..., Any] = "msp",
        abstain_label: str | float | None = None,
        cv: SplitterLike = 5,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.max_risk = max_risk
        self.delta = delta
        self.confidence = confidence
        self.abstain_label = abstain_label
        self.cv = cv

    @restores()
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier and set the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data, as the classifier takes them; for a `FrozenEstimator` data
            that it was not trained on.

        y : array-like of shape (n_samples,)
            Labels of any kind, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the coverage.

        **fit_params : dict
            Passed to `fit` of the classifier, those of length n_samples cut like X;
            with metadata routing enabled, also to the splitter.

        Returns
        -------
        self : SelectiveClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If not exactly one of `coverage` and `max_risk` is given, no threshold can
            guarantee `max_risk`, `abstain_label` is missing or that of a class, a
            confidence is NaN, or the training part of a fold lacks a class.
        """
        self._validate_params()
        check_goals(self.estimator, self.coverage, self.max_risk)
        get_confidence(self.confidence)
        X, y, self.classes_ = check_training_data(X, y, self.estimator)
        weight = check_sample_weight(sample_weight, X)
        self.abstain_label_ = resolve_abstain_label(self.abstain_label, self.classes_)
        fit_params, split_params = self._route(weight, fit_params)
        scores, rows = self._held_out(X, y, fit_params, split_params)
        classes = self.classes_
        codes = encode_labels(y, labels=classes, n_classes=len(classes), name="y")
        weight = np.ones(len(codes)) if weight is None else weight
        self._set_threshold(
            self._confidence_of(scores),
            scores.argmax(axis=1) != codes[rows],
            weight[rows],
        )
        copy_features(self.estimator_, self)
        return self

    def _held_out(self, X: Any, y: Any, fit_params: Any, split_params: Any) -> Any:
        """Fit the classifier; return held-out scores and the rows they belong to."""
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        response = "auto" if self.confidence == "max_logit" else "predict_proba"
        splits = [(slice(None), np.arange(len(y)))]
        if not is_frozen:
            splits = make_splits(self.cv, X, y, self.classes_, **split_params)
        rows = np.concatenate([test for _, test in splits])
        if self.max_risk is not None and len(np.unique(rows)) < len(rows):
            raise ValueError(
                "cv must test each sample at most once for max_risk, got "
                f"{len(rows)} tests of {len(np.unique(rows))} samples. Use folds that "
                "are not repeated."
            )
        (self.estimator_,), scores, self._from_logits = fit_and_predict(
            self.estimator, X, y, splits, not is_frozen, fit_params, response
        )
        if self.confidence == "max_logit" and not self._from_logits:
            refuse_max_logit(self.estimator)
        return np.concatenate(scores), rows

    def _confidence_of(self, scores: Array) -> Array:
        """Return the confidence of each row, refusing what cannot be compared."""
        if self._from_logits and scores.shape[1] == 2:
            # A decision function of two classes tells only their difference.
            scores = scores - scores.mean(axis=1, keepdims=True)
        confidence = get_confidence(self.confidence)(scores)
        return check_confidence(confidence, len(scores))

    def _set_threshold(self, confidence: Any, wrong: Any, weight: Any) -> None:
        """Set the threshold and what is known about it."""
        self.guaranteed_risk_ = self.max_risk
        if self.coverage is not None:
            self.threshold_ = threshold_for_coverage(confidence, weight, self.coverage)
        else:
            weight = np.sign(weight)
            seen = weight > 0
            self.threshold_ = threshold_for_risk(
                confidence[seen], wrong[seen], self.max_risk, self.delta
            )
        accepted = confidence >= self.threshold_
        self.coverage_ = float(np.average(accepted, weights=weight))
        self.risk_ = float(np.average(wrong[accepted], weights=weight[accepted]))

    def _decide(self, X: MatrixLike) -> tuple[Array, Bools]:
        """Return the column of the predicted class, and whether it is said."""
        check_is_fitted(self)
        scores = predict_scores(self.estimator_, X, self._from_logits)
        return scores.argmax(axis=1), self._confidence_of(scores) >= self.threshold_

    def accepts(self, X: MatrixLike) -> Bools:
        """Return which samples are answered.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        Returns
        -------
        accepted : ndarray of shape (n_samples,), dtype bool
            Whether the confidence is at or above the threshold.
        """
        return self._decide(X)[1]

    def predict(self, X: MatrixLike) -> Array:
        """Return the most probable class, or `abstain_label_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Labels, the first one of a tie.
        """
        codes, accepted = self._decide(X)
        labels = np.concatenate([self.classes_, [self.abstain_label_]])
        return labels[np.where(accepted, codes, len(self.classes_))]

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Return the classifier's probabilities, also where it abstains.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        return predict_scores(self.estimator_, X, from_logits=False)

    def score(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy among the samples that are answered.

        It favours abstaining, since it ignores how many these are: `coverage_score`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        accuracy : float
            In [0, 1]; NaN, with an `UndefinedMetricWarning`, if no sample is answered.
        """
        codes, accepted = self._decide(X)
        y = column_or_1d(as_labels(y, "y"))
        check_consistent_length(codes, y)
        weight = check_sample_weight(sample_weight, codes)
        weight = accepted * (1.0 if weight is None else weight)
        if not weight.any():
            warnings.warn(
                f"The accuracy is undefined: none of {len(codes)} samples reaches the "
                f"threshold {self.threshold_:.4g}. Ask for more coverage or risk.",
                UndefinedMetricWarning,
            )
            return float("nan")
        return float(np.average(self.classes_[codes] == y, weights=weight))

    def coverage_score(
        self, X: MatrixLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of the samples that are answered.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        coverage : float
            In [0, 1].
        """
        accepted = self.accepts(X)
        weight = check_sample_weight(sample_weight, accepted)
        return float(np.average(accepted, weights=weight))
