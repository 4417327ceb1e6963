"""`PriorShiftClassifier`: a classifier adjusted to changed class frequencies."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.metadata_routing import RoutingMixin
from sklearn_calib._sklearn.response import (
    clone_classifier,
    find_response,
    predict_scores,
    unwrap,
)
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import (
    MatrixLike,
    check_training_data,
    copy_features,
)
from sklearn_calib._state.saved_wrapper import SavedWrapper, check_classes, unfrozen
from sklearn_calib._state.schema import (
    FRACTION,
    UP_TO_ONE,
    Labels,
    Numbers,
    Object,
    Spec,
)
from sklearn_calib._validation.arrays import shown, without_gradient
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.declarations import INTERVAL, HasMethods, StrOptions
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array, Floats, Seed
from sklearn_calib.deployment._priors import (
    adjust_priors,
    check_priors,
    estimate_priors,
)
from sklearn_calib.deployment._reference import ReferenceLike, read_reference
from sklearn_calib.estimators import CalibratedClassifier

# Parameters of samplers and classifiers that change the class frequencies in training,
# with the values besides None that do not.
CHANGE_PRIORS: dict[str, Any] = {
    "sampling_strategy": None,
    "class_weight": None,
    "scale_pos_weight": 1,
    "is_unbalance": False,
    "auto_class_weights": None,
}


class PriorShiftClassifier(
    RoutingMixin, ClassifierMixin, SavedWrapper, DocumentedEstimator
):
    """Prior shift (label shift): adjust any classifier to changed class frequencies.

    The class priors are the frequencies of the classes. If they differ between the
    training data and the data to predict, the predicted probabilities are adjusted
    [1]_. The new priors are known, or `adapt` estimates them from new data without
    labels. If resampling or class weights have changed those of the training data, the
    adjustment undoes it.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba`. Its probabilities should be calibrated,
        see Notes. Pass a fitted classifier as `FrozenEstimator(estimator)`.

    priors : dict, Series or array-like of shape (n_classes,), default=None
        Class priors of the data to predict, non-negative numbers that sum to one: a
        dict or a pandas Series with the labels as keys, such as
        `y_new.value_counts(normalize=True)`, or numbers in the order of `classes_`.
        None means the class frequencies in `fit`.

    train_priors : "balanced", dict, Series or array-like, default=None
        Class priors for which the classifier predicts, positive. None means the class
        frequencies in `fit`. "balanced" means equal priors, as in training with
        `class_weight="balanced"`, or in a pipeline with an over- or undersampler.

    confidence_level : float, default=0.95
        Confidence level of `priors_interval_`, in (0, 1).

    n_resamples : int, default=1000
        Number of bootstrap draws for `priors_interval_`.

    random_state : int, RandomState instance or None, default=None
        Controls the bootstrap draws. Pass an int for reproducible results.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    estimator_ : estimator
        The fitted classifier.

    train_priors_ : ndarray of shape (n_classes,)
        Class priors for which the classifier predicts.

    priors_ : ndarray of shape (n_classes,)
        Class priors of the data to predict: those of `adapt` after it was called.

    priors_interval_ : ndarray of shape (n_classes, 2)
        Confidence interval of the priors, see :func:`estimate_priors`; without a
        reference, of the sampling error only. Defined only after `adapt`.

    reference_ : tuple of ndarrays
        That of a :class:`~sklearn_calib.CalibratedClassifier`, adjusted to `priors_`:
        the `reference` of :func:`estimate_performance`. Defined only if the classifier
        has it; put a pipeline inside of the `CalibratedClassifier`.

    n_features_in_ : int
        Number of features. Defined only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if the classifier has them.

    See Also
    --------
    adjust_priors : The adjustment, for an array of probabilities.
    estimate_priors : The estimate of `adapt`, with formulas.

    Notes
    -----
    The estimate needs calibrated probabilities: wrap `CalibratedClassifier(estimator,
    PlattScaling())` for two classes, and use
    :class:`~sklearn_calib.calibrators.VectorScaling` for several. These calibrators
    have an intercept for each class, like bias-corrected temperature scaling [2]_.
    Temperature scaling has none, and structured vector scaling shrinks it; both may
    lead to the estimate of a shift where there is none.

    Only the frequencies of the classes may change. If new data look different within a
    class, neither the estimate nor the adjustment is valid.

    A class weight, such as `scale_pos_weight` of XGBoost and LightGBM, acts like other
    class frequencies: with weights w and class frequencies f, `train_priors` is
    `w * f / (w * f).sum()`. With `scale_pos_weight` equal to the ratio of negative to
    positive samples, it is "balanced".

    With `sample_weight`, the class frequencies in `fit` are weighted.

    References
    ----------
    .. [1] M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the Outputs of a
       Classifier to New a Priori Probabilities: A Simple Procedure", Neural Computation
       14, 2002.
    .. [2] A. Alexandari, A. Kundaje and A. Shrikumar, "Maximum Likelihood with
       Bias-Corrected Calibration is Hard-To-Beat at Label Shift Adaptation", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_calib.deployment import PriorShiftClassifier
    >>> def draw(n_samples, prevalence, random_state):
    ...     rng = np.random.default_rng(random_state)
    ...     y = np.where(rng.uniform(size=n_samples) < prevalence, "ill", "well")
    ...     return rng.normal(size=(n_samples, 2)) + (y == "ill")[:, None], y
    >>> X, y = draw(2000, 0.5, random_state=0)
    >>> X_new, y_new = draw(2000, 0.1, random_state=1)
    >>> model = PriorShiftClassifier(LogisticRegression(), random_state=0).fit(X, y)
    >>> print(f"accuracy {model.score(X_new, y_new):.2f}")
    accuracy 0.76
    >>> model = model.adapt(X_new)
    >>> print(f"accuracy {model.score(X_new, y_new):.2f}")
    accuracy 0.91
    >>> for label, prior in zip(model.classes_, model.priors_):
    ...     print(f"{label}: {prior:.2f}")
    ill: 0.08
    well: 0.92
    """

    _weighted_part = "class frequencies"
    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "priors": [dict, "array-like", None],
        "train_priors": [dict, "array-like", StrOptions({"balanced"}), None],
        **INTERVAL,
    }
    _saved_params = {*_parameter_constraints}

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        priors: dict[Any, float] | ArrayLike | None = None,
        train_priors: str | dict[Any, float] | ArrayLike | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.priors = priors
        self.train_priors = train_priors
        self.confidence_level = confidence_level
        self.n_resamples = n_resamples
        self.random_state = random_state

    @restores()
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier and store the class priors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data in the form that the classifier accepts.

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes. For a `FrozenEstimator`, they
            only determine the class frequencies.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the class frequencies.

        **fit_params : dict
            Passed to `fit` of the classifier.

        Returns
        -------
        self : PriorShiftClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If `priors` or `train_priors` are not frequencies of the classes, a class
            is absent from y, or the classifier has no `predict_proba`.

        Warns
        -----
        UserWarning
            If `train_priors` is None and a sampler or class weights, of the classifier
            or of the steps of a pipeline, change the class frequencies in training,
            unless a calibrator with an intercept for each class undoes it. Classifiers
            in an ensemble are not searched.
        """
        self._validate_params()
        X, y, classes = check_training_data(X, y, self.estimator)
        weight = check_sample_weight(sample_weight, y)
        codes = encode_labels(y, labels=classes, n_classes=len(classes), name="y")
        counts = np.bincount(codes, weight, minlength=len(classes))
        frequencies = counts / counts.sum()
        train = frequencies if self.train_priors is None else self.train_priors
        if isinstance(train, str):
            train = np.full(len(classes), 1 / len(classes))
        priors = frequencies if self.priors is None else self.priors
        self.train_priors_ = check_priors(train, classes, "train_priors")
        self.priors_ = check_priors(priors, classes, "priors", may_be_zero=True)
        self.__dict__.pop("priors_interval_", None)
        fit_params, _ = self._route(weight, fit_params)
        X = without_gradient(X)  # scikit-learn cannot read tensors that require grad
        self.estimator_ = clone_classifier(self.estimator).fit(X, y, **fit_params)
        self._refuse_threshold(self.estimator_)  # that a search has chosen
        find_response(self.estimator_, "predict_proba")
        self.classes_ = classes
        copy_features(self.estimator_, self)
        change = _change_of_priors(self.estimator_)
        if change and self.train_priors is None:
            warnings.warn(
                "train_priors must be given if training changes the class frequencies, "
                f"got None with {change}. The class frequencies in fit are used. Pass "
                '"balanced" if all classes are equally frequent in training, '
                "otherwise their frequencies.",
                UserWarning,
            )
        return self

    @restores()
    def adapt(
        self,
        X: MatrixLike,
        sample_weight: ArrayLike | None = None,
        *,
        reference: ReferenceLike | None = None,
    ) -> Self:
        """Estimate the class priors of new data without labels, and store them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New data in the form that the classifier accepts.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Their scale does not matter.

        reference : tuple (y_true, y_proba), default=None
            Labels of held-out samples with the class frequencies of training, and their
            probabilities, predicted by `estimator_`. By default, those that a
            :class:`~sklearn_calib.CalibratedClassifier` keeps in `reference_`; without
            any, `priors_interval_` does not contain the error of the calibration.

        Returns
        -------
        self : PriorShiftClassifier
            The classifier, which now predicts for the estimated priors.

        Warns
        -----
        UserWarning
            If the estimate is unreliable, see :func:`estimate_priors`.
        """
        proba = self._predict_for_training_priors(X)
        if reference is None:
            reference = self._kept_reference()
        if reference is not None:
            given = reference, self.classes_, len(self.classes_)
            found = read_reference(*given, needs_all=True)
            reference = found.codes, found.proba, found.weight
        self.priors_, self.priors_interval_ = estimate_priors(
            proba,
            self.train_priors_,
            sample_weight=sample_weight,
            reference=reference,
            confidence_level=self.confidence_level,
            n_resamples=self.n_resamples,
            random_state=self.random_state,
        )
        return self

    @property
    def reference_(self) -> tuple[Any, ...]:
        """The held-out predictions that the classifier keeps, for `priors_`."""
        check_is_fitted(self)
        kept = self._kept_reference()
        if kept is None:
            raise AttributeError(
                "reference_ needs a CalibratedClassifier that has reference_, got "
                f"{shown(self.estimator_)}. Its page says when it has. Or pass labels "
                "and probabilities of other samples."
            )
        y_true, proba, *weight = kept
        return y_true, adjust_priors(proba, self.train_priors_, self.priors_), *weight

    def _kept_reference(self) -> tuple[Any, ...] | None:
        """Return `reference_` of the classifier, or None."""
        same = np.array_equal(self.estimator_.classes_, self.classes_)
        return getattr(self.estimator_, "reference_", None) if same else None

    def _predict_for_training_priors(self, X: MatrixLike) -> Floats:
        """Return the probabilities of the classifier for all classes."""
        check_is_fitted(self)
        return predict_scores(self.estimator_, X, False, self.classes_)

    @maps_blocks()
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Predict probabilities for the class priors `priors_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one, and columns are in the order of `classes_`.
        """
        proba = self._predict_for_training_priors(X)
        return adjust_priors(proba, self.train_priors_, self.priors_)

    @maps_blocks()
    def predict(self, X: MatrixLike) -> Array:
        """Predict the most probable class for the class priors `priors_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels; ties go to the first class.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    # What `sklearn_calib.save` writes.

    @property
    def _state_schema(self) -> dict[str, Spec]:
        return {
            "classes_": Labels(),
            "estimator_": Object(),
            "train_priors_": Numbers("n_classes", range=UP_TO_ONE, total=1),
            "priors_": Numbers("n_classes", range=FRACTION, total=1),
            "priors_interval_": Numbers(
                "n_classes", 2, range=FRACTION, is_optional=True
            ),
        }

    def _get_saved_params(self) -> dict[str, Any]:
        saved = super()._get_saved_params()
        for name in ("priors", "train_priors") if "classes_" in vars(self) else ():
            if not isinstance(saved[name], str | None):  # JSON has no dict of labels
                saved[name] = check_priors(
                    saved[name], self.classes_, name, may_be_zero=True
                )
        return saved

    def _get_state(self) -> dict[str, Any]:
        return {**super()._get_state(), "estimator_": unfrozen(self.estimator_)}

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        check_classes(self.estimator_, self.classes_)
        find_response(self.estimator_, "predict_proba")
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator = self.estimator_ = FrozenEstimator(self.estimator_)
        copy_features(self.estimator_, self)


def _change_of_priors(classifier: Any) -> str:
    """Return the parameter that changed the class frequencies in training, or ""."""
    for each in unwrap(classifier):
        if isinstance(each, CalibratedClassifier):
            first = each.calibrated_classifiers_[0]
            # A map that keeps the predicted class has no intercepts to undo the change.
            alone = first.calibrator is None
            is_kept = getattr(first.calibrator, "preserves_argmax", alone)
            return _change_of_priors(first.estimator) if is_kept else ""
        steps = each.steps if isinstance(each, Pipeline) else [("", each)]
        for _, step in steps:
            # A boosting library's classifier may not be a BaseEstimator.
            params = step.get_params(deep=False) if hasattr(step, "get_params") else {}
            for name, neutral in CHANGE_PRIORS.items():
                value = params.get(name)
                if isinstance(value, dict) and {*value.values()} <= {1}:
                    continue
                if value is not None and (neutral is None or value != neutral):
                    return f"{name}={shown(value)} of {type(step).__name__}"
    return ""
