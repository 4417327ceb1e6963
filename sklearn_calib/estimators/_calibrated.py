"""`CalibratedClassifier`: a classifier and its calibrator in one estimator."""

import pickle
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
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
from sklearn_calib.estimators._saved_ensemble import SavableEnsemble


class CalibratedClassifier(RoutingMixin, ClassifierMixin, SavableEnsemble):
    """Calibrate the probabilities of any classifier with a post-hoc calibrator.

    For each fold of a cross-validation, the classifier is trained on the training part,
    and the calibrator is fitted to its predictions for the :term:`held-out data`. In
    scikit-learn's `CalibratedClassifierCV`, the calibrator is named by a string. Here
    it is an object, so a search can compare calibrators and tune their parameters,
    `calibrator__...`.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba` or a decision function that returns logits.
        Pass a fitted classifier as `FrozenEstimator(estimator)`; then all data given to
        `fit` are used for calibration, and must not contain its training data.

    calibrator : Calibrator or classifier, default=None
        The :term:`post-hoc calibration <Post-hoc calibration>` method, cloned for each
        fold. Its parameter `from_logits` is set automatically. Any other classifier is
        fitted with the logits as features. None leaves the probabilities unchanged.

    cv : int, cross-validation generator or iterable, default=5
        Splitting strategy; an int is the number of stratified folds.

    ensemble : bool or "auto", default="auto"
        With True, the calibrated probabilities of the classifiers of all folds are
        averaged. With False, the classifier is retrained on all data, and one
        calibrator is fitted to the pooled held-out predictions of all folds. "auto" is
        True, except for a `FrozenEstimator` and for `calibrator=None`, which then
        trains the classifier once.

    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Input of the calibrator: logits from `decision_function`, or probabilities from
        `predict_proba`. "auto" means logits if the decision function is known to return
        them: the classifier has a true attribute `decision_function_is_logits`, like
        :class:`NeuralClassifier`, or is scikit-learn's LogisticRegression (not
        one-vs-rest), LogisticRegressionCV, LinearDiscriminantAnalysis,
        QuadraticDiscriminantAnalysis or HistGradientBoostingClassifier. Margins, such
        as those of a support vector machine, are not logits.

    memory : str, path or joblib.Memory, default=None
        Cache for the classifiers and their predictions, so that a search over
        calibrators and their parameters trains each classifier once. Unless
        `ensemble=True`, `calibrator=None` needs one more training, on all data. Splits
        that differ between calls, as with a shuffled `cv` without a `random_state`, are
        not found in the cache.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    calibrated_classifiers_ : list
        Pairs with the attributes `estimator` (fitted) and `calibrator` (fitted, or
        None): one for each fold with `ensemble=True`, otherwise one.

    n_features_in_ : int
        Number of features. Defined only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if the classifier has them.

    See Also
    --------
    TemperatureScaling : Calibrator with one parameter, the first to try.

    Notes
    -----
    A class may be absent from a test fold but not from a training fold.

    A calibrator warns if the samples that it is fitted to contain few errors of the
    classifier, see :class:`~sklearn_calib.calibrators.Calibrator`. The errors of all
    folds are added up, because averaging the calibrators of the folds is about as good
    as one calibrator fitted to all folds.

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
            Training data in the form that the classifier accepts. For a
            `FrozenEstimator`, calibration data.

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the calibrator.

        **fit_params : dict
            Passed to `fit` of the classifier. Values of length n_samples are split
            like X. With metadata routing enabled, also passed to the splitter.

        Returns
        -------
        self : CalibratedClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If `calibrator` is not an instance of a classifier or calibrator.

        ValueError
            If a class is absent from the training part of a fold, or the classifier
            returns neither probabilities nor logits.
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
            from_logits = False  # keep the probabilities instead of a softmax
        tests = [test for _, test in splits]
        if refit and splits:
            scores, tests = [np.concatenate(scores)], [np.concatenate(tests)]
        calibrators: list[Any] = [None] * len(classifiers)
        if self.calibrator is not None:
            calibrators = [
                self._fit_calibrator(part, y, sample_weight, test, from_logits)
                for part, test in zip(scores, tests, strict=True)
            ]
            # Their average is about as good as one calibrator fitted to all errors.
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
        """Return the classifiers and their predictions, cached if `memory` is set."""
        if self.memory is None:
            return fit_and_predict(*arguments)
        return pickle.loads(remembered(_fit_and_pickle, self.memory)(*arguments))

    def _fit_calibrator(
        self, scores: Any, y: Any, sample_weight: Any, rows: Any, from_logits: bool
    ) -> Calibrator:
        """Fit a clone of the calibrator to the scores of the given rows."""
        calibrator = clone(self.calibrator)
        if isinstance(calibrator, Calibrator):
            calibrator.set_params(from_logits=from_logits)
        else:
            calibrator = ClassifierCalibrator(calibrator, from_logits=from_logits)
        weight = None if sample_weight is None else sample_weight[rows]
        return calibrator._fit_checked(scores, y[rows], weight, self.classes_)

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Predict calibrated probabilities, averaged over the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one. Columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        total: Any = sum(pair.predict_proba(X) for pair in pairs)
        return total / len(pairs)

    def predict(self, X: MatrixLike) -> Array:
        """Predict the most probable class; ties go to the first class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
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
    """Return the results of `fit_and_predict` as one pickle.

    joblib reads an object array by array, which takes twice as long for a random forest
    and ten times as long for gradient boosting.
    """
    return pickle.dumps(fit_and_predict(*arguments), protocol=5)


def _check_calibrator(calibrator: Any) -> None:
    """Raise TypeError unless the calibrator is None or an instance of a classifier."""
    has_methods = hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    if calibrator is None or (has_methods and not isinstance(calibrator, type)):
        return
    raise TypeError(
        "calibrator must be None or an instance with fit and predict_proba, got "
        f"{calibrator!r}. Pass an object such as TemperatureScaling()."
    )
