"""`SelectiveClassifier`: a classifier that abstains at low confidence."""

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

from sklearn_calib._numerics.confidence import (
    check_confidence,
    get_confidence,
    needs_logits,
)
from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.fit_tasks import (
    CallbackSupportMixin,
    begin_folds,
    with_callbacks,
)
from sklearn_calib._sklearn.metadata_routing import RoutingMixin
from sklearn_calib._sklearn.response import predict_scores
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import (
    MatrixLike,
    check_training_data,
    copy_features,
)
from sklearn_calib._validation.declarations import BETWEEN_0_AND_1, PROGRESS, Interval
from sklearn_calib._validation.labels import as_labels, encode_labels
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array, Bools, Floats
from sklearn_calib.estimators._out_of_fold import (
    SplitterLike,
    fit_and_predict,
    held_out_splits,
)
from sklearn_calib.estimators._selective.risks import measure, resolve_risks
from sklearn_calib.estimators._selective.thresholds import (
    check_goals,
    check_has_proba,
    check_tested_once,
    refuse_logits,
    resolve_abstain_label,
    threshold_for_coverage,
    threshold_for_risk,
)


class SelectiveClassifier(
    RoutingMixin,
    ClassifierMixin,
    MetaEstimatorMixin,
    CallbackSupportMixin,
    DocumentedEstimator,
):
    """Selective classification: abstain when the confidence is below a threshold.

    The threshold is set with :term:`held-out data`. Choose either its :term:`coverage`,
    the fraction of samples with a prediction, or its largest risk, their error rate.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba`. Pass a fitted classifier as
        `FrozenEstimator(estimator)`; then all data given to `fit` are used to set the
        threshold, and must not contain its training data.

    coverage : float in (0, 1], default=None
        Fraction of the samples to predict. The threshold is the highest that accepts at
        least this fraction of the held-out samples, including ties. With 1 the
        classifier never abstains. Exactly one of `coverage` and `max_risk` is needed.

    max_risk : float in (0, 1) or dict, default=None
        Upper bound for the error rate among the samples with a prediction. The lowest
        threshold is chosen for which fixed-sequence testing guarantees the bound.

        A dict has one or more risks as keys and their upper bounds as values. All
        risks are means over samples with a prediction, and all bounds hold together
        with probability `1 - delta`:

        - "error_rate": fraction of wrong predictions.
        - "false_negative_rate": fraction of wrong predictions among the samples of a
          class, which is 1 - recall.
        - "false_discovery_rate": fraction of wrong predictions among the samples that
          are predicted as a class, which is 1 - precision.
        - "cost": mean cost, see `cost_matrix`.
        - a callable: the mean of `function(y_true, y_pred)`, which takes labels and
          returns one loss in [0, 1] for each sample, or NaN for samples that do not
          count.

        For "false_negative_rate" and "false_discovery_rate", the value is a dict of
        labels and bounds, or one number as the bound for each class:
        `{"error_rate": 0.1, "false_negative_rate": {"sick": 0.05}}`.

    cost_matrix : array-like of shape (n_classes, n_classes), default=None
        Non-negative costs of the true class (row) and the predicted class (column).
        Needed for the risk "cost" only.

    delta : float in (0, 1), default=0.05
        Probability, over the draw of the held-out samples, that the guarantee of
        `max_risk` fails.

    confidence : str or callable, default="msp"
        The confidence measure: "msp" (maximum softmax probability), "margin",
        "negative_entropy", "negative_gini", "l2_norm", "max_logit" or "p_norm". A
        callable takes probabilities of shape (n_samples, n_classes) and returns one
        number for each sample, larger for higher confidence. "max_logit" and "p_norm"
        need a classifier whose decision function is known to return logits, see
        :class:`CalibratedClassifier`; the logits of two classes are assumed to sum to
        zero. "p_norm" [3]_ is the largest logit minus the mean logit of the sample,
        divided by the 4-norm of the logits minus their mean, for three classes or more.

    abstain_label : str, number, datetime64 or timedelta64, default=None
        Label that `predict` returns for abstentions, of the type of the labels, and not
        one of the classes. None means "abstain" for strings, and NaT for dates and
        durations, which `np.isnat` finds; for numbers the label must be given.

    cv : int, cross-validation generator or iterable, default=5
        Splitting strategy for the held-out predictions; an int is the number of
        stratified folds. Afterwards the classifier is trained on all data.

    n_jobs : int, default=None
        Number of classifiers to train in parallel; -1 means all processors.

    verbose : int, default=0
        Level of the progress messages of :class:`joblib.Parallel`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted, without `abstain_label_`.

    estimator_ : estimator
        The classifier, fitted to all data.

    abstain_label_ : str, number, datetime64 or timedelta64
        The label that `predict` returns for abstentions.

    threshold_ : float
        The lowest confidence with a prediction; minus infinity for `coverage=1`.

    coverage_ : float
        Fraction of the held-out samples at or above the threshold.

    risk_ : float
        Error rate among these samples, an estimate without a guarantee.

    risks_ : dict
        Estimates of the risks in `max_risk` on these samples, without a guarantee. The
        values are numbers, or dicts of labels and numbers for rates of classes. With
        `coverage`, the only risk is the error rate.

    guaranteed_risk_ : float, dict or None
        The bound that holds with probability `1 - delta`, which is `max_risk`. None if
        `coverage` was set, since nothing is guaranteed then.

    n_features_in_ : int
        Number of features. Defined only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if the classifier has them.

    See Also
    --------
    CalibratedClassifier : Calibrate the probabilities.

    Notes
    -----
    `max_risk` is guaranteed by the fixed-sequence testing of Learn then Test [1]_: from
    the highest threshold to the lowest, an exact binomial test is applied to the
    hypothesis that the risk exceeds `max_risk`. A quarter of `delta` is the level
    for each of the thresholds that accept all held-out samples, the most confident
    half, the most confident quarter, and the fewest samples for which one error is
    allowed. If the latter are more than a quarter, they get the level of both. A test
    that rejects passes its level to the next [2]_. For several risks, the p-value is
    the largest of theirs, so the bounds hold together without a correction. Costs of
    several sizes, and losses of callables, are tested with the Hoeffding-Bentkus
    inequality [1]_ instead.

    The guarantee holds for new samples from the same distribution and a
    `FrozenEstimator`. With cross-validation it holds for the classifiers of the folds,
    and is only expected to hold for the classifier trained on all data. The candidate
    thresholds are confidences of the same samples. This is valid if the risks do not
    increase with the confidence; simulations found no violation otherwise.

    A classifier with a decision threshold (`FixedThresholdClassifier`) raises an error,
    because the confidence is that of the most probable class. A threshold classifier
    around `SelectiveClassifier` never abstains.

    `set_callbacks` is that of :class:`CalibratedClassifier`.

    For `coverage`, a sample with weight 2 counts as two samples. The guarantee ignores
    the weights, except that samples of weight zero are left out.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn
       then Test: Calibrating Predictive Algorithms to Achieve Risk Control",
       arXiv:2110.01052, 2021.
    .. [2] B. L. Wiens and A. Dmitrienko, "The Fallback Procedure for Evaluating a
       Single Family of Hypotheses", Journal of Biopharmaceutical Statistics 15, 2005.
    .. [3] L. F. P. Cattelan and D. Silva, "How to Fix a Broken Confidence Estimator:
       Evaluating Post-hoc Methods for Selective Classification with Deep Neural
       Networks", UAI 2024.

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
    >>> accuracy, coverage = model.score(X_test, y_test), model.coverage_score(X_test)
    >>> f"accuracy {accuracy:.2f} at coverage {coverage:.2f}"
    'accuracy 0.97 at coverage 0.73'
    """

    _abstains = True
    _weighted_part = "threshold"
    _parameter_constraints = {
        "coverage": [Interval(Real, 0, 1, closed="right"), None],
        "max_risk": [*BETWEEN_0_AND_1, dict, None],
        "cost_matrix": ["array-like", None],
        "delta": BETWEEN_0_AND_1,
        "cv": ["cv_object"],
        **PROGRESS,
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        coverage: float | None = None,
        max_risk: float | dict[Any, Any] | None = None,
        cost_matrix: ArrayLike | None = None,
        delta: float = 0.05,
        confidence: str | Callable[..., Any] = "msp",
        abstain_label: str | float | np.datetime64 | np.timedelta64 | None = None,
        cv: SplitterLike = 5,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.max_risk = max_risk
        self.cost_matrix = cost_matrix
        self.delta = delta
        self.confidence = confidence
        self.abstain_label = abstain_label
        self.cv = cv
        self.n_jobs = n_jobs
        self.verbose = verbose

    @restores()
    @with_callbacks
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
            Training data in the form that the classifier accepts. For a
            `FrozenEstimator`, held-out data.

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the coverage.

        **fit_params : dict
            Passed to `fit` of the classifier. Values of length n_samples are split
            like X. With metadata routing enabled, also passed to the splitter. With an
            int as `cv`, folds do not divide `groups`, of shape (n_samples,).

        Returns
        -------
        self : SelectiveClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If not exactly one of `coverage` and `max_risk` is given, no threshold can
            guarantee `max_risk`, `abstain_label` is missing or one of the classes, a
            confidence is NaN, or a fold is trained with one class only.
        """
        self._validate_params()
        check_goals(self.coverage, self.max_risk)
        check_has_proba(self.estimator)
        get_confidence(self.confidence)
        self._fitted_confidence = self.confidence
        X, y, self.classes_ = check_training_data(X, y, self.estimator)
        weight = check_sample_weight(sample_weight, y)
        self.abstain_label_ = resolve_abstain_label(self.abstain_label, self.classes_)
        fit_params, split_params = self._route(weight, fit_params)
        risks = resolve_risks(self.max_risk, self.cost_matrix, self.classes_)
        data = X, y, sample_weight
        scores, rows, end_fit = self._held_out(*data, fit_params, split_params)
        labels = self.classes_
        codes = encode_labels(y, labels=labels, n_classes=len(labels), name="y")
        weight = np.ones(len(codes)) if weight is None else weight
        predicted = scores.argmax(axis=1)
        losses = [risk.losses(codes[rows], predicted) for risk in risks]
        confidence, wrong = self._confidence_of(scores), predicted != codes[rows]
        self._set_threshold(confidence, wrong, weight[rows], risks, losses)
        copy_features(self.estimator_, self)
        end_fit()
        return self

    def _held_out(
        self, X: Any, y: Any, sample_weight: Any, fit_params: Any, split_params: Any
    ) -> Any:
        """Fit the classifier; return held-out scores, their rows, and what ends fit."""
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        wants_logits = needs_logits(self.confidence)
        response = "auto" if wants_logits else "predict_proba"
        source = self.estimator, self.cv, X, y, self.classes_
        splits = held_out_splits(*source, **split_params)
        rows = np.concatenate([test for _, test in splits])
        if self.max_risk is not None:
            check_tested_once(rows, "max_risk")
        n_fits = len(splits) + (not is_frozen)
        end_fit, tasks = begin_folds(self, n_fits, X, y, sample_weight)
        data = X, y, splits, not is_frozen, fit_params, response, self.classes_
        (self.estimator_,), scores, kind = fit_and_predict(
            self.estimator, *data, tasks=tasks, n_jobs=self.n_jobs, verbose=self.verbose
        )
        self._refuse_threshold(self.estimator_)  # that a search has chosen
        self._from_logits = kind == "logits"
        if wants_logits and not self._from_logits:
            refuse_logits(self.estimator, self.confidence)
        return np.concatenate(scores), rows, end_fit

    def _confidence_of(self, scores: Array) -> Array:
        """Return the checked confidence of each row."""
        if self._from_logits and scores.shape[1] == 2:
            # The decision function of two classes is only their difference.
            scores = scores - scores.mean(axis=1, keepdims=True)
        confidence = get_confidence(self._fitted_confidence)(scores)
        return check_confidence(confidence, len(scores))

    def _set_threshold(
        self, confidence: Any, wrong: Any, weight: Any, risks: Any, losses: Any
    ) -> None:
        """Set the threshold, and its coverage and risks on the held-out data."""
        self.guaranteed_risk_ = self.max_risk
        if self.coverage is not None:
            self.threshold_ = threshold_for_coverage(confidence, weight, self.coverage)
        else:
            weight = np.sign(weight)
            counted = weight > 0
            self.threshold_ = threshold_for_risk(
                confidence[counted],
                risks,
                [each[counted] for each in losses],
                self.delta,
            )
        accepted = confidence >= self.threshold_
        self.coverage_ = float(np.average(accepted, weights=weight))
        self.risk_ = float(np.average(wrong[accepted], weights=weight[accepted]))
        self.risks_ = measure(risks, losses, accepted * weight)

    def _decide(self, X: MatrixLike) -> tuple[Array, Bools]:
        """Return the index of the predicted class, and whether it is accepted."""
        check_is_fitted(self)
        scores = predict_scores(self.estimator_, X, self._from_logits, self.classes_)
        return scores.argmax(axis=1), self._confidence_of(scores) >= self.threshold_

    def _confidence(self, X: MatrixLike) -> Floats:
        """Return the confidence that is compared with the threshold."""
        check_is_fitted(self)
        scores = predict_scores(self.estimator_, X, self._from_logits, self.classes_)
        return self._confidence_of(scores)

    def predict(self, X: MatrixLike) -> Array:
        """Predict the most probable class, or return `abstain_label_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels; ties go to the first class.
        """
        codes, accepted = self._decide(X)
        labels = np.concatenate([self.classes_, [self.abstain_label_]])
        return labels[np.where(accepted, codes, len(self.classes_))]

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Predict probabilities of all samples, including those without a prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        return predict_scores(self.estimator_, X, False, self.classes_)

    def accepts(self, X: MatrixLike) -> Bools:
        """Return which samples get a prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        accepted : ndarray of shape (n_samples,), dtype bool
            Whether the confidence is at or above the threshold.
        """
        return self._decide(X)[1]

    def score(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy among the samples with a prediction.

        It ignores the coverage, see `coverage_score`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        accuracy : float
            In [0, 1]; NaN, with an `UndefinedMetricWarning`, if all abstain.
        """
        codes, accepted = self._decide(X)
        y = column_or_1d(as_labels(y, "y"))
        check_consistent_length(codes, y)
        weight = check_sample_weight(sample_weight, codes)
        weight = accepted * (1.0 if weight is None else weight)
        if not weight.any():
            warnings.warn(
                f"The accuracy is undefined: none of {len(codes)} samples reaches the "
                f"threshold {self.threshold_:.4g}. Set a larger coverage or max_risk.",
                UndefinedMetricWarning,
            )
            return float("nan")
        return float(np.average(self.classes_[codes] == y, weights=weight))

    def coverage_score(
        self, X: MatrixLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the fraction of the samples with a prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

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
