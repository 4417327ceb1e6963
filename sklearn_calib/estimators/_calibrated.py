"""`CalibratedClassifier`: a classifier and its calibrator, as one estimator."""

import pickle
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._core.links import softmax
from sklearn_calib._core.predicted_scores import predict_scores
from sklearn_calib._core.restore import restores
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib._core.validation import HasMethods, StrOptions, check_sample_weight
from sklearn_calib.calibrators import Calibrator
from sklearn_calib.estimators._classifier_calibrator import ClassifierCalibrator
from sklearn_calib.estimators._out_of_fold import (
    MatrixLike,
    MemoryLike,
    SplitterLike,
    check_training_data,
    copy_features,
    fit_and_predict,
    make_splits,
    remembered,
)
from sklearn_calib.estimators._routing import RoutingMixin


class CalibratedClassifier(
    RoutingMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """Calibrate any classifier on data that it was not trained on.

    Each fold of a cross-validation trains the classifier on one part and fits a
    calibrator to what it says about the other. It is scikit-learn's
    `CalibratedClassifierCV` with a calibrator *object*, whose parameters can be
    searched as `calibrator__...`, and which can itself be searched.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba` or with a decision function that holds
        logits. One that is fitted already comes as `FrozenEstimator(estimator)`: all
        data given to `fit` then calibrate it, and must be others than it was trained
        on.

    calibrator : Calibrator or classifier, default=None
        Cloned for each fold; whether it gets logits is set here, as its `from_logits`.
        Any other classifier is fitted to the logits as features. None leaves the
        probabilities as they are.

    cv : int, cross-validation generator or iterable, default=5
        How to split; an int means stratified folds.

    ensemble : bool or "auto", default="auto"
        True keeps the classifier and the calibrator of each fold and averages their
        probabilities. False trains the classifier again on all data, and fits one
        calibrator to the predictions of all test parts together. "auto" is True, but
        False for a `FrozenEstimator`, and for `calibrator=None`, which then trains the
        classifier once.

    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        What the calibrator gets to see: logits from `decision_function`, or
        `predict_proba`. "auto" takes logits where the decision function is known to
        hold them: the classifier has an attribute `decision_function_is_logits`, as
        :class:`NeuralClassifier` has, or is scikit-learn's LogisticRegression (not one
        against the rest), LogisticRegressionCV, LinearDiscriminantAnalysis,
        QuadraticDiscriminantAnalysis or HistGradientBoostingClassifier. Margins, such
        as those of a support vector machine, are no logits.

    memory : str, path or joblib.Memory, default=None
        Where to keep the classifiers and their predictions, so that a search over
        calibrators and their parameters trains each classifier once. Among them
        `calibrator=None` costs one more, on all data, unless `ensemble=True`. Splits
        that differ from call to call, as those of a shuffled `cv` without a
        `random_state`, are trained anew.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    calibrated_classifiers_ : list
        Pairs with attributes `estimator`, fitted, and `calibrator`, fitted or None: one
        for each fold with `ensemble=True`, otherwise one.

    n_features_in_ : int
        Number of features, if the classifier knows it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the classifier knows them.

    See Also
    --------
    TemperatureScaling : The calibrator to try first.

    Notes
    -----
    A class may be missing from the test part of a fold, not from the training part.

    A calibrator warns if the samples that it is fitted to hold few errors of the
    classifier, see :class:`~sklearn_calib.calibrators.Calibrator`. The errors of all
    folds count together: the average of their calibrators is about as good as one that
    is fitted to all folds.

    References
    ----------
    .. [1] A. Niculescu-Mizil and R. Caruana, "Predicting Good Probabilities With
       Supervised Learning", ICML 2005, section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> from sklearn_calib import CalibratedClassifier, TemperatureScaling
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X > 8, y, random_state=0)
    >>> for calibrator in [None, TemperatureScaling()]:
    ...     classifier = CalibratedClassifier(BernoulliNB(), calibrator).fit(X, y)
    ...     y_proba = classifier.predict_proba(X_test)
    ...     print(round(expected_calibration_error(y_test, y_proba), 2))
    0.06
    0.03
    """

    _weighted_part = "calibrator"
    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "cv": ["cv_object"],
        "ensemble": ["boolean", StrOptions({"auto"})],
        "response_method": [StrOptions({"auto", "decision_function", "predict_proba"})],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        calibrator: Calibrator | ClassifierMixin | None = None,
        *,
        cv: SplitterLike = 5,
        ensemble: bool | str = "auto",
        response_method: str = "auto",
        memory: MemoryLike = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response_method = response_method
        self.memory = memory

    @restores()
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier and calibrate it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data, as the classifier takes them; for a `FrozenEstimator`
            calibration data.

        y : array-like of shape (n_samples,)
            Labels of any kind, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the calibrator.

        **fit_params : dict
            Passed to `fit` of the classifier, those of length n_samples cut like X;
            with metadata routing enabled, also to the splitter.

        Returns
        -------
        self : CalibratedClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If `calibrator` is no classifier or not an instance.

        ValueError
            If the training part of a fold lacks a class, or the classifier has
            neither probabilities nor logits.
        """
        self._validate_params()
        _check_calibrator(self.calibrator)
        X, y, self.classes_ = check_training_data(X, y, self.estimator)
        sample_weight = check_sample_weight(sample_weight, X)
        fit_params, split_params = self._route(sample_weight, fit_params)
        splits, refit = self._plan(X, y, split_params)
        classifiers, scores, from_logits = self._fit_and_predict(
            self.estimator, X, y, splits, refit, fit_params, self.response_method
        )
        if self.calibrator is None and hasattr(classifiers[0], "predict_proba"):
            from_logits = False  # the probabilities as they are, not a softmax
        tests = [test for _, test in splits]
        if refit and splits:
            scores, tests = [np.concatenate(scores)], [np.concatenate(tests)]
        calibrators: list[Any] = [None] * len(classifiers)
        if self.calibrator is not None:
            calibrators = [
                self._fit_calibrator(part, y, sample_weight, test, from_logits)
                for part, test in zip(scores, tests, strict=True)
            ]
            # Their average is about as good as one calibrator for all of the errors.
            n_errors = sum(calibrator.n_errors_ for calibrator in calibrators)
            calibrators[0]._warn_of_few_errors(n_errors)
        self.calibrated_classifiers_ = [
            _CalibratedPair(classifier, calibrator, from_logits)
            for classifier, calibrator in zip(classifiers, calibrators, strict=True)
        ]
        copy_features(classifiers[0], self)
        return self

    def _plan(self, X: Any, y: Any, split_params: Any) -> tuple[list[Any], bool]:
        """Return the splits, and whether to train on all data afterwards."""
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        is_plain = self.calibrator is None
        ensemble = self.ensemble
        if ensemble == "auto":
            ensemble = not (is_frozen or is_plain)
        if not ensemble and is_plain:
            return [], True
        if not ensemble and is_frozen:
            return [(slice(None), slice(None))], False
        needed = [] if is_frozen else self.classes_
        return make_splits(self.cv, X, y, needed, **split_params), not ensemble

    def _fit_and_predict(self, *arguments: Any) -> Any:
        """Return the classifiers and what they say, remembered if there is a memory."""
        if self.memory is None:
            return fit_and_predict(*arguments)
        return pickle.loads(remembered(_fit_and_pickle, self.memory)(*arguments))

    def _fit_calibrator(
        self, scores: Any, y: Any, sample_weight: Any, rows: Any, from_logits: bool
    ) -> Calibrator:
        """Fit a clone of the calibrator to the scores of some rows."""
        calibrator = clone(self.calibrator)
        if isinstance(calibrator, Calibrator):
            calibrator.set_params(from_logits=from_logits)
        else:
            calibrator = ClassifierCalibrator(calibrator, from_logits=from_logits)
        weight = None if sample_weight is None else sample_weight[rows]
        return calibrator._fit_checked(scores, y[rows], weight, self.classes_)

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Return calibrated probabilities, averaged over the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one, columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        total: Any = sum(pair.predict_proba(X) for pair in pairs)
        return total / len(pairs)

    def predict(self, X: MatrixLike) -> Array:
        """Return the most probable class, the first one of a tie.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, as the classifier takes them.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Labels.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]


class _CalibratedPair:
    """A fitted classifier and its calibrator."""

    def __init__(self, estimator: Any, calibrator: Any, from_logits: bool) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.from_logits = from_logits

    def predict_proba(self, X: MatrixLike) -> Floats:
        scores = predict_scores(self.estimator, X, self.from_logits)
        if self.calibrator is not None:
            return self.calibrator.predict_proba(scores)
        return softmax(scores) if self.from_logits else scores


def _fit_and_pickle(*arguments: Any) -> bytes:
    """Return the results of `fit_and_predict` in one piece.

    joblib reads objects array by array: the trees of a forest twice, and those of a
    gradient boosting ten times as slowly.
    """
    return pickle.dumps(fit_and_predict(*arguments), protocol=5)


def _check_calibrator(calibrator: Any) -> None:
    """Refuse what cannot calibrate."""
    has_methods = hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    if calibrator is None or (has_methods and not isinstance(calibrator, type)):
        return
    raise TypeError(
        "calibrator must be None or an instance with fit and predict_proba, got "
        f"{calibrator!r}. Pass an object such as TemperatureScaling()."
    )
