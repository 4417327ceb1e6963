"""`CalibratedClassifier`: a classifier and its calibrator in one estimator."""

import copy
import warnings
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, stdtrit
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._expressions.rows import pool
from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.fit_tasks import (
    CallbackSupportMixin,
    begin_folds,
    with_callbacks,
)
from sklearn_calib._sklearn.metadata_routing import RoutingMixin
from sklearn_calib._sklearn.response import RESPONSES, find_response
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import (
    MatrixLike,
    check_training_data,
    copy_features,
)
from sklearn_calib._solvers.blas import one_blas_thread
from sklearn_calib._state.json_values import refuse
from sklearn_calib._state.saved_wrapper import SavedWrapper, check_classes, unfrozen
from sklearn_calib._state.schema import (
    POSITIVE,
    Labels,
    ListOf,
    Number,
    Numbers,
    Object,
    Spec,
    Tuple,
)
from sklearn_calib._validation.arrays import first_lines, shown
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.declarations import (
    COUNT,
    INTERVAL,
    PROGRESS,
    HasMethods,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.groups import group_frame, select_columns
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array, Floats, Seed
from sklearn_calib.calibrators import (
    AutoCalibrator,
    Calibrator,
    GroupCalibrator,
    VennAbers,
    get_calibrator_names,
)
from sklearn_calib.estimators._calibrated.average import (
    average_held_out,
    identity_pool,
)
from sklearn_calib.estimators._calibrated.fold_calibrators import (
    KINDS,
    CalibratedPair,
    ClassifierCalibrator,
    HeldOut,
    JointMarginCalibrator,
    MarginCalibrator,
    accepts_margins,
    check_calibrator,
    contains,
    cross_calibrate,
    draw_fits,
    explain,
    fit_with_pool,
    for_margins,
    has_steps,
    make_calibrator,
    numbered,
    parts_lack_a_class,
    share_folds,
)
from sklearn_calib.estimators._out_of_fold import (
    MemoryLike,
    SplitterLike,
    check_held_out_as,
    fit_and_predict_cached,
    group_codes,
    make_splits,
    naming_held_out_as,
)


def _check_has_interval(classifier: Any) -> bool:
    """Raise AttributeError unless `predict_interval` has what it needs."""
    calibrator = _calibrator_of(classifier)
    if isinstance(calibrator, VennAbers):
        return True
    got, is_own = shown(calibrator), isinstance(calibrator, KINDS)
    if not is_own or isinstance(calibrator, ClassifierCalibrator):
        rule = "a calibrator of this package"
    elif has_steps(calibrator):
        rule = "a calibrator without steps, where the bootstrap is inconsistent"
    elif "calibrated_classifiers_" in vars(classifier) and not classifier._held_out:
        rule, got = "the held-out predictions of fit, which save does not keep", "none"
    else:
        return True
    raise AttributeError(
        f"predict_interval needs {rule}, got {got}. Use predict_proba, or fit with "
        "another calibrator, such as VennAbers(), whose intervals need nothing else."
    )


def _calibrator_of(classifier: Any) -> Any:
    """Return the calibrator of `fit`, or of the parameter before it."""
    if "calibrated_classifiers_" not in vars(classifier):
        return make_calibrator(classifier.calibrator, False)
    calibrator = classifier.calibrated_classifiers_[0].calibrator
    if isinstance(calibrator, MarginCalibrator | JointMarginCalibrator):
        return calibrator.calibrator
    return calibrator


class CalibratedClassifier(
    RoutingMixin,
    ClassifierMixin,
    SavedWrapper,
    CallbackSupportMixin,
    DocumentedEstimator,
):
    r"""Calibrate the probabilities of any classifier with a post-hoc calibrator.

    For each fold of a cross-validation, the classifier is trained on the training part,
    and the calibrator is fitted to its predictions for the :term:`held-out data`. The
    calibrator is an object or a name, so a search can compare calibrators and tune
    their parameters, `calibrator__...`.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba` or a decision function. Pass a fitted
        classifier as `FrozenEstimator(estimator)`; then all data given to `fit` are
        used for calibration, and must not contain its training data. A decision
        threshold is set outside, see Notes.

    calibrator : Calibrator, GroupCalibrator, classifier, str or None, default="auto"
        The :term:`post-hoc calibration <Post-hoc calibration>` method, cloned for each
        fold. Its parameter `from_logits` is set automatically. A name that
        :func:`get_calibrator_names` returns is a calibrator with its default
        parameters, one for each label of a multilabel problem: "auto" is an
        :class:`AutoCalibrator`, for margins with other calibrators, see Notes, and
        "platt" is what scikit-learn calls `method="sigmoid"`. Any other classifier is
        fitted with the logits as features. None leaves the probabilities unchanged, for
        comparisons in a search. Other calibrators of multilabel problems must be a
        `PerLabelCalibrator`.

    cv : int, cross-validation generator or iterable, default=4
        Splitting strategy; an int is the number of stratified folds. The default does
        not depend on the data, so that a search and its refit draw the same number.
        More folds train on more samples and take longer.

    n_repeats : int, default=2
        How often the folds are drawn, if `cv` is an int and an ensemble is trained,
        which then has `cv` times `n_repeats` classifiers. With two or more repeats,
        their average is calibrated, see Notes.

    ensemble : bool or "auto", default="auto"
        With True, the calibrated probabilities of the classifiers of all folds are
        averaged. On data sets that were put aside, the mean confidence of the default
        differed from the accuracy by 0.018 with 200 samples, 0.011 with 1000 samples,
        and 0.037 and 0.048 with 600 and 1783 samples of many classes; 0.002 to 0.008 of
        this were due to averaging. With False, the classifier is retrained on all data,
        and one calibrator is fitted to the pooled held-out predictions of all folds.
        "auto" is True, except for a `FrozenEstimator` and for `calibrator=None`, which
        then trains the classifier once.

    response_method : str, default="auto"
        Input of the calibrator: logits from "decision_function", logits from
        "predict_logits", a method of TabPFN and similar classifiers that returns one
        column for each class, or probabilities from "predict_proba". "auto" is never
        "predict_logits". It means logits if the decision function is known to return
        them: the classifier has a true attribute `decision_function_is_logits`, like
        :class:`NeuralClassifier`, or is scikit-learn's LogisticRegression (not
        one-vs-rest), LogisticRegressionCV, LinearDiscriminantAnalysis,
        QuadraticDiscriminantAnalysis or HistGradientBoostingClassifier. Margins, such
        as those of a support vector machine, are not logits. "auto" uses them if the
        classifier has no `predict_proba` and the calibrator does not depend on their
        origin and unit, such as "auto" and `IsotonicCalibration`.

    memory : str, path or joblib.Memory, default=None
        Cache for the classifiers and their predictions, so that a search over
        calibrators and their parameters trains each classifier once. Unless
        `ensemble=True`, `calibrator=None` needs one more training, on all data. Splits
        that differ between calls, as with a shuffled `cv` without a `random_state`, are
        not found in the cache.

    held_out_as : str or tuple of two str, default=None
        Arguments of the classifier's `fit` that receive the held-out part of each fold,
        for early stopping: "eval_set" for `eval_set=[(X_test, y_test)]` of LightGBM,
        XGBoost and CatBoost, or ("X_val", "y_val") for two arguments, as in
        HistGradientBoostingClassifier. Needs `ensemble=True`. A pipeline belongs
        outside, as it would not transform the held-out part.

    groups : str, int or list of these, default=None
        Columns of X with the groups of a calibrator such as
        :class:`PerGroupCalibrator`, by name or index. The classifier gets them too, but
        a pipeline may drop them. With None, they are passed to `fit`, `predict_proba`,
        `predict` and `score`. Scorers such as "neg_log_loss" do not pass them, so
        cross-validation with `scoring` needs columns. Groups that folds must not divide
        are passed to `fit`, with columns or another calibrator, or to the splitter.

    n_jobs : int, default=None
        Number of classifiers to train in parallel, as in scikit-learn: None means 1,
        and -1 means all processors.

    verbose : int, default=0
        Level of the progress messages of :class:`joblib.Parallel`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or list of ndarray
        The labels, sorted. For multilabel problems, the classes of each label,
        `array([0, 1])`.

    calibrated_classifiers_ : list
        Pairs with the attributes `estimator` (fitted) and `calibrator` (fitted, or
        None): one for each fold with `ensemble=True`, otherwise one. Coefficients and
        feature importances are those of `estimator`.

    pool_temperature_ : float or ndarray of shape (n_labels,)
        Temperature of the average, see Notes.

    pool_offset_ : ndarray of shape (n_classes,) or (n_labels,)
        Offsets of the logarithms of the average, or of the log-odds of labels.

    reference_ : tuple of ndarrays
        `(y_true, y_proba)` of the training samples that were held out, or `(y_true,
        y_proba, sample_weight)`, the `reference` of
        :func:`~sklearn_calib.deployment.estimate_performance`. Neither the classifiers
        nor the calibrators of a prediction were fitted to the sample: calibrators are
        fitted five more times, when it is read first. Defined for one label per sample,
        a calibrator and a classifier that is not frozen, if the average is calibrated
        or there is one classifier. A pickle contains the data of it, but not a file of
        :func:`~sklearn_calib.save`.

    n_features_in_ : int
        Number of features. Defined only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if the classifier has them.

    See Also
    --------
    TemperatureScaling : Calibrator with one parameter, the first to try.

    Notes
    -----
    An average of calibrated probabilities is underconfident [2]_: where classifiers
    disagree, it is close to the class frequencies, but is right more often than each
    of them. If at least half of the held-out samples have two predictions, the average
    is therefore calibrated: the probability of class k is proportional to
    :math:`\bar p_k^{1 / T} e^{b_k}`, where :math:`\bar p_k` is the squared mean of the
    square roots of the probabilities of m classifiers. Otherwise it is their mean, as
    with `n_repeats=1`, and :math:`T = 1`. The temperature is
    :math:`T = 1 - \rho (1 - 1 / m)`. If the log-odds of the classifiers are a common
    part plus independent errors, :math:`\rho` is the part of the errors in their
    variance. It maximises

    .. math:: \sum_i \log q_{i y_i}(S (1 - \rho / 2))
        + e \log \rho + (1 - e) \log (1 - \rho), \qquad
        q_{ik}(t) \propto \pi_k (\bar p_{ik} / \pi_k)^{1 / t},

    where :math:`\bar p_i` is of the first two held-out predictions :math:`p_i` and
    :math:`p'_i` of sample i, and :math:`\pi` their mean over the samples. S, from 1/4
    to 4, is the t that maximises the likelihood of q with single predictions in place
    of :math:`\bar p`. The second term is a beta prior with mode
    :math:`e = \sum_i |p_i - p'_i|^2 / \sum_i (|p_i - \pi|^2 + |p'_i - \pi|^2)`, at most
    1. The offsets sum to zero and keep the mean :math:`\pi` for the averages of these
    two predictions. Sums and means are weighted by `sample_weight`.

    With an int as `cv`, the folds are those of `RepeatedStratifiedKFold` with
    `random_state=0`, or of `StratifiedKFold` for one repeat, and not stratified for
    multilabel problems; one calibrator is fitted to all held-out predictions of a
    repeat. With `groups` in `fit`, they are those of `StratifiedGroupKFold` with
    `shuffle=True`, drawn with `random_state=0`, for one sample of each class of a
    group: the draws of groups of different sizes differ, too. With a splitter, each
    fold has its own calibrator, and test parts must overlap, as with `ShuffleSplit`,
    for the average to be calibrated. If a class is absent from the test part of a fold,
    as with `LeaveOneOut`, one calibrator is fitted to the held-out predictions of all
    folds.

    For margins of two classes or of labels, "auto" averages :class:`PlattScaling`,
    :class:`QuadraticLogisticCalibration`, :class:`IsotonicCalibration` and
    :class:`VennAbers`. For more classes, :class:`VectorScaling` with
    `penalty="empirical_bayes"` first turns all margins into probabilities, for which
    the default calibrators, :class:`IsotonicCalibration` and :class:`VennAbers` are
    averaged. Other calibrators are fitted to the margins of one class at a time; after
    normalisation, the probabilities of many classes are often underconfident.

    A decision threshold belongs outside, where it applies to the calibrated
    probabilities: `TunedThresholdClassifierCV(CalibratedClassifier(...))`. A threshold
    inside raises an error, because it would have no effect.

    If a class is absent from the training part of a fold, the classifier of the fold
    gives it the smallest positive probability of each row, before calibration, and
    `fit` warns.

    A calibrator warns if the samples that it is fitted to contain few errors of the
    classifier, see :class:`~sklearn_calib.calibrators.Calibrator`. The errors of all
    folds are added up, because averaging the calibrators of the folds is about as good
    as one calibrator fitted to all folds. Repeats do not add errors.

    With scikit-learn 1.9 and later, callbacks that are passed to `set_callbacks`
    follow each training of the classifier, except those found in `memory`, and those
    of the classifier follow its own steps.

    References
    ----------
    .. [1] A. Niculescu-Mizil and R. Caruana, "Predicting Good Probabilities With
       Supervised Learning", ICML 2005, section 4.

    .. [2] T. Gneiting and R. Ranjan, "Combining predictive distributions", Electronic
       Journal of Statistics 7, 2013, theorem 3.1.

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
    _threshold_hint = (
        "Apply the threshold to the calibrated probabilities, as in "
        "TunedThresholdClassifierCV(CalibratedClassifier(classifier, calibrator)). If "
        "the classifier is already fitted, use "
        "CalibratedClassifier(FrozenEstimator(fitted.estimator_), ...)."
    )
    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "cv": ["cv_object"],
        "n_repeats": COUNT,
        "ensemble": ["boolean", StrOptions({"auto"})],
        "response_method": [StrOptions({"auto", *RESPONSES})],
        "held_out_as": [str, tuple, None],
        "groups": [str, Integral, list, tuple, None],
        **PROGRESS,
    }
    _saved_params = {
        *("calibrator", "cv", "ensemble", "estimator", "groups"),
        *("n_repeats", "response_method"),
    }
    # Of files in which the average is not calibrated.
    pool_temperature_: Any = 1.0
    pool_offset_: Any = 0.0
    _reference: tuple[Array, ...] | None = None
    _held_out: Any = None  # a `HeldOut` as a tuple, a type that readers of files know
    _clusters: Any = None
    _has_reference = False

    def __init__(
        self,
        estimator: BaseEstimator,
        calibrator: (
            Calibrator | GroupCalibrator | ClassifierMixin | str | None
        ) = "auto",
        *,
        cv: SplitterLike = 4,
        n_repeats: int = 2,
        ensemble: bool | str = "auto",
        response_method: str = "auto",
        memory: MemoryLike = None,
        held_out_as: str | tuple[str, str] | None = None,
        groups: str | int | list[str | int] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.n_repeats = n_repeats
        self.ensemble = ensemble
        self.response_method = response_method
        self.memory = memory
        self.held_out_as = held_out_as
        self.groups = groups
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.groups is not None and not isinstance(self.calibrator, GroupCalibrator):
            raise ValueError(
                "groups must be None for a calibrator that does not use groups, got "
                f"groups={shown(self.groups)} and calibrator={shown(self.calibrator)}. "
                "Use calibrator=PerGroupCalibrator(), for example."
            )

    @restores()
    @with_callbacks
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

        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels of any type, of at least two classes. For multilabel problems, an
            indicator matrix of zeros and ones.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the calibrator.

        **fit_params : dict
            Passed to `fit` of the classifier. Values of length n_samples are split
            like X. With metadata routing enabled, also passed to the splitter. `groups`
            of shape (n_samples,) or (n_samples, n_group_columns) is passed to a
            calibrator of groups instead, if the parameter `groups` is None. Otherwise,
            with an int as `cv`, folds do not divide these groups.

        Returns
        -------
        self : CalibratedClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If `calibrator` is neither None, a name, nor an instance of a classifier or
            calibrator.

        ValueError
            If the training part of a fold contains only one class, the classifier
            returns neither probabilities nor logits, or has a decision threshold.
        """
        self._validate_params()
        X, y, self.classes_ = check_training_data(
            X, y, self.estimator, allow_multilabel=True
        )
        is_multilabel = isinstance(self.classes_, list)
        calibrator = make_calibrator(self.calibrator, is_multilabel)
        check_calibrator(calibrator, is_multilabel)
        sample_weight = check_sample_weight(sample_weight, y)
        passed, fit_params = self._passed_groups("fit", fit_params)
        groups = self._groups_of("fit", X, passed)
        if groups is not None and self.groups is None:
            groups = group_frame(groups, len(y))
        fit_params, split_params = self._route(sample_weight, fit_params)
        splits, refit, n_sharing = self._plan(X, y, split_params)
        data = X, y, sample_weight
        end_fit, tasks = begin_folds(self, len(splits) + refit, *data)
        takes_margins = accepts_margins(calibrator)
        with naming_held_out_as(self.held_out_as, self.estimator):
            classifiers, scores, response = fit_and_predict_cached(
                self.memory,
                self.estimator,
                X,
                y,
                splits,
                refit,
                fit_params,
                self.response_method,
                self.classes_,
                takes_margins=takes_margins,
                held_out_as=self.held_out_as,
                tasks=tasks,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
            )
        for classifier in classifiers:
            self._refuse_threshold(classifier)  # that a search has chosen
        # The cache may contain margins, which another calibrator has accepted.
        find_response(classifiers[0], self.response_method, takes_margins=takes_margins)
        from_logits = response != "probabilities"
        if response == "margins":
            calibrator = for_margins(calibrator, self.classes_)
        calibrators: list[Any] = [None] * len(classifiers)
        weights = identity_pool(self.classes_)
        self._reference, self._held_out, self._clusters = None, None, None
        self._has_reference = False
        if calibrator is not None:
            rows = np.arange(len(y))
            tests = [rows[test] for _, test in splits]
            parts = share_folds(scores, tests, n_sharing)
            targets = y, sample_weight, self.classes_
            held_out = HeldOut(clone(calibrator), response, *parts, *targets, groups)
            fitted, weights = fit_with_pool(held_out, len(classifiers))
            calibrators = [each for each in fitted for _ in range(n_sharing)]
            is_frozen = isinstance(self.estimator, FrozenEstimator)
            # With a temperature of 1, too few samples have two predictions.
            self._has_reference = not (is_frozen or is_multilabel) and (
                len(classifiers) == 1 or weights.temperature != 1
            )
            can_draw = isinstance(calibrator, KINDS) and not has_steps(calibrator)
            if self._has_reference or can_draw:
                self._held_out = tuple(held_out)
                self._clusters = group_codes(split_params.get("groups"), len(y))
        self.pool_temperature_, self.pool_offset_ = weights
        pairs = zip(classifiers, calibrators, strict=False)
        self.calibrated_classifiers_ = [
            CalibratedPair(*pair, from_logits, self.classes_, self.response_method)
            for pair in pairs
        ]
        self._fitted_groups = self.groups
        copy_features(classifiers[0], self)
        end_fit()
        return self

    @property
    def reference_(self) -> tuple[Array, ...]:
        """Labels and held-out probabilities of training samples, and weights."""
        check_is_fitted(self)
        if not self._has_reference:
            raise AttributeError(
                "reference_ needs held-out predictions, which fit keeps for one label "
                "per sample, a calibrator and a classifier that is not frozen, with "
                "two repeats of the folds or ensemble=False, and save does not. Pass "
                "other labelled samples: (y, classifier.predict_proba(X))."
            )
        if self._reference is None:
            held_out = HeldOut(*self._held_out)
            y, sample_weight = held_out.y, held_out.sample_weight
            proba, rows = cross_calibrate(*held_out)
            n_members = len(self.calibrated_classifiers_)
            if n_members == 1:
                samples, first = np.unique(rows, return_index=True)
                proba = proba[first]
            else:
                about = sample_weight, self.pool_temperature_, n_members
                samples, proba = average_held_out(proba, rows, *about)
            extra = [] if sample_weight is None else [sample_weight[samples]]
            self._reference = y[samples], proba, *extra
        return self._reference

    def _plan(self, X: Any, y: Any, split_params: Any) -> tuple[list[Any], bool, int]:
        """Return the splits, whether to train on all data, and the folds per map."""
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        is_plain = self.calibrator is None
        ensemble = self.ensemble
        if ensemble == "auto":
            ensemble = not (is_frozen or is_plain)
        if self.held_out_as is not None:
            trains_on_folds = bool(ensemble) and not is_frozen
            check_held_out_as(self.held_out_as, self.estimator, trains_on_folds)
        if not ensemble and is_plain:
            return [], True, 1
        if not ensemble and is_frozen:
            return [(slice(None), slice(None))], False, 1
        needed = [] if is_frozen or y.ndim == 2 else self.classes_
        is_repeated = isinstance(self.cv, Integral) and ensemble and not is_frozen
        n_repeats = self.n_repeats if is_repeated else 1
        source = self.cv, X, y, needed
        splits = make_splits(*source, n_repeats=n_repeats, **split_params)
        if is_repeated:
            return splits, False, len(splits) // n_repeats
        is_shared = not ensemble or parts_lack_a_class(y, splits)
        return splits, not ensemble, len(splits) if is_shared else 1

    @maps_blocks()
    def predict_proba(self, X: MatrixLike, **params: Any) -> Floats:
        """Predict calibrated probabilities, averaged over the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        **params : dict
            `groups` of the samples, if they were passed to `fit`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            Rows sum to one, and columns are in the order of `classes_`. For multilabel
            problems, the probability of each label. For a Dask array, they are a lazy
            Dask array of float64.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        groups = self._groups_of("predict_proba", X, self._only_groups(params))
        members = [pair.predict_proba(X, groups) for pair in pairs]
        return pool(members, self.pool_temperature_, self.pool_offset_)

    @maps_blocks()
    def predict(self, X: MatrixLike, **params: Any) -> Array:
        """Predict the most probable class, or the labels with a probability above 0.5.

        Ties go to the first class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        **params : dict
            `groups` of the samples, if they were passed to `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,) or (n_samples, n_labels)
            Predicted labels, for multilabel problems as an indicator matrix.
        """
        proba = self.predict_proba(X, **params)
        if isinstance(self.classes_, list):
            return (proba > 0.5).astype(np.int64)
        return self.classes_[proba.argmax(axis=1)]

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> float:
        """Return the accuracy on given data and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        **params : dict
            `groups` of the samples, if they were passed to `fit`.

        Returns
        -------
        score : float
            Accuracy of `predict`. A multilabel prediction is correct if all its labels
            are.
        """
        y_pred = self.predict(X, **params)
        return float(accuracy_score(y, y_pred, sample_weight=sample_weight))

    @available_if(_check_has_interval)
    @validate_params(INTERVAL)
    def predict_interval(
        self,
        X: MatrixLike,
        *,
        confidence_level: float = 0.95,
        n_resamples: int = 100,
        random_state: Seed = None,
        **params: Any,
    ) -> Floats:
        r"""Return an interval for the calibrated probability of each class.

        It is a confidence interval for the error of the calibrator, by the Bayesian
        bootstrap [1]_. With `calibrator=VennAbers()`, it is p0 and p1 of Venn-Abers
        calibration, averaged over the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        confidence_level : float, default=0.95
            Confidence level of the intervals, in (0, 1). Not used by `VennAbers`.

        n_resamples : int, default=100
            Number of random draws. Each call fits the calibrator again for each draw:
            for 3,000 samples of three classes and a `FrozenEstimator`, this takes about
            1 s with a temperature and 20 s with "auto". Not used by `VennAbers`.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        **params : dict
            `groups` of the samples, if they were passed to `fit`.

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper limit for each class, or for each label of a multilabel
            problem. For `VennAbers`, p0 and p1.

        Raises
        ------
        AttributeError
            If the calibrator is a map with steps, such as `IsotonicCalibration`,
            histograms or trees, alone or in an average: the bootstrap is inconsistent
            for them [2]_. Also if there is no calibrator, if it is another classifier,
            or after :func:`~sklearn_calib.load`.

        Warns
        -----
        UserWarning
            If the calibrator is an `AutoCalibrator`, see Notes.

        See Also
        --------
        sklearn_calib.calibrators.VennAbers.predict_interval : Of a single calibrator.
            The statement that p0 or p1 is perfectly calibrated holds for it, and not
            for averages.

        Notes
        -----
        In each draw, the weights of the held-out samples of `fit` are multiplied by
        independent exponential variables, one for each group if the folds did not
        divide `groups` of `fit`. The calibrator and the calibration of the average are
        fitted again, while the classifiers stay the same. Let :math:`l` be the log-odds
        of a probability, clipped to [eps, 1 - eps] of its dtype, and :math:`l_b` those
        of the B draws. The limits have the log-odds

        .. math:: l \pm t_B \sqrt{\frac{1}{B} \sum_b (l_b - l)^2},

        where :math:`t_B` is a quantile of the t distribution with B degrees of freedom.

        For one classifier and a map of the right form, the intervals cover the true
        probability of the class given the predictions of the classifier. Otherwise,
        they cover the best approximation by such a map. They do not account for the
        error of the classifiers, nor for the bias of maps that are shrunk, such as
        "auto", whose intervals may be too narrow. `fit` keeps the held-out predictions;
        a pickle contains them.

        References
        ----------
        .. [1] D. B. Rubin, "The Bayesian Bootstrap", Annals of Statistics 9, 1981.

        .. [2] B. Sen, M. Banerjee and M. Woodroofe, "Inconsistency of Bootstrap: The
           Grenander Estimator", Annals of Statistics 38, 2010.
        """
        check_is_fitted(self)
        pairs, calibrator = self.calibrated_classifiers_, _calibrator_of(self)
        if contains(calibrator, AutoCalibrator):
            warnings.warn(
                'Intervals of calibrator="auto" may be too narrow, because its maps '
                "are shrunk and averaged. Those of calibrators without a penalty, such "
                "as BetaCalibration() or VectorScaling(), have their level if the map "
                "is right.",
                UserWarning,
            )
        if isinstance(calibrator, VennAbers):
            members = [pair.predict_interval(X) for pair in pairs]
            # The log-odds of a class against the others, which have different offsets.
            offset = np.reshape(self.pool_offset_, (-1, 1))
            offset = offset * len(self.classes_) / (len(self.classes_) - 1)
            return pool(members, np.array([self.pool_temperature_]), offset)
        groups = self._groups_of("predict_proba", X, self._only_groups(params))
        scores = [pair._predict_scores(X) for pair in pairs]
        of_groups = {} if groups is None else {"groups": groups}

        def log_odds(calibrators: Any, about_pool: Any) -> Floats:
            n_sharing = len(scores) // len(calibrators)
            members = [
                calibrators[i // n_sharing].predict_proba(score, **of_groups)
                for i, score in enumerate(scores)
            ]
            proba = pool(members, *about_pool)
            eps = np.finfo(proba.dtype).eps
            return logit(np.clip(proba, eps, 1 - eps).astype(np.float64))

        about_pool = self.pool_temperature_, self.pool_offset_
        middle = log_odds([pair.calibrator for pair in pairs], about_pool)
        held_out = HeldOut(*self._held_out)
        y, weight = held_out.y, held_out.sample_weight
        clusters = read_clusters(self._clusters, len(y), weight, "groups")
        rng = check_random_state(random_state)
        draws = draw_fits(held_out, len(pairs), clusters, n_resamples, rng)
        with without_warnings(), one_blas_thread():
            total = sum((log_odds(*fits) - middle) ** 2 for fits in draws)
        quantile = stdtrit(n_resamples, (1 + confidence_level) / 2)
        width = quantile * np.sqrt(total / n_resamples)
        return expit(np.stack([middle - width, middle + width], axis=2))

    def uncalibrated(self) -> Self:
        """Return a fitted copy without calibrators, for comparison.

        Returns
        -------
        classifier : CalibratedClassifier
            Its probabilities are the mean of `predict_proba` of the classifiers, which
            are not trained again.

        Raises
        ------
        ValueError
            If the classifier returns margins, which are not probabilities.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        find_response(pairs[0].estimator, self.response_method)  # refuses margins
        plain = copy.copy(self).set_params(calibrator=None, groups=None)
        plain._reference, plain._held_out, plain._clusters = None, None, None
        plain._has_reference = False
        plain.pool_temperature_, plain.pool_offset_ = identity_pool(self.classes_)
        plain.calibrated_classifiers_ = [pair.uncalibrated() for pair in pairs]
        return plain

    @property
    def explanation_(self) -> str:
        """How the probabilities are calculated, in at most 30 lines."""
        check_is_fitted(self)
        calibrators = [pair.calibrator for pair in self.calibrated_classifiers_]
        if len(calibrators) == 1:
            text = f"One classifier. Calibrator: {explain(calibrators[0])}"
        else:
            temperature = np.round(self.pool_temperature_, 3).tolist()
            how = f"calibrated with the temperature {shown(temperature)}"
            if np.all(self.pool_temperature_ == 1):
                how = "which is not calibrated again"
            of_each = numbered("Calibrator of classifier", calibrators, first=1)
            text = f"Average of {len(calibrators)} classifiers, {how}.\n{of_each}"
        return first_lines(text.splitlines(), "calibrated_classifiers_")

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing to the classifier, calibrator and splitter.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        router = super().get_metadata_routing()
        callers = "fit", "predict", "predict_proba", "score"
        if taking := [caller for caller in callers if self._takes_groups(caller)]:
            methods = MethodMapping()
            for caller in taking:
                callee = "fit" if caller == "fit" else "predict_proba"
                methods.add(caller=caller, callee=callee)
            calibrator, _ = self._settings_of(taking[0])
            router.add(calibrator=calibrator, method_mapping=methods)
        return router

    def _settings_of(self, method: str) -> tuple[Any, Any]:
        """Return the calibrator and the columns of groups that a method uses.

        After `fit`, predictions use those of `fit`, whatever the parameters are now.
        """
        if method == "fit" or "calibrated_classifiers_" not in vars(self):
            return self.calibrator, self.groups
        return self.calibrated_classifiers_[0].calibrator, self._fitted_groups

    def _takes_groups(self, method: str) -> bool:
        """Whether groups must be passed to a method."""
        calibrator, groups = self._settings_of(method)
        return isinstance(calibrator, GroupCalibrator) and groups is None

    def _draws_group_folds(self) -> bool:
        """Return whether `groups` of `fit` are those that folds do not divide."""
        return super()._draws_group_folds() and not self._takes_groups("fit")

    def _passed_groups(self, method: str, params: dict[str, Any]) -> tuple[Any, Any]:
        """Return the groups among the parameters of a method, and the parameters.

        Without metadata routing, the groups are removed from the parameters.
        """
        if get_config()["enable_metadata_routing"]:
            # The groups may also be those of the splitter, or have another name.
            routed = process_routing(self, method, **params)
            own = routed.calibrator[method] if self._takes_groups(method) else {}
            return own.get("groups"), params
        if "groups" not in params or not self._takes_groups(method):
            return None, params
        others = {name: value for name, value in params.items() if name != "groups"}
        return params["groups"], others

    def _only_groups(self, params: dict[str, Any]) -> Any:
        """Return the groups that were passed to `predict_proba`, and nothing else."""
        passed, others = self._passed_groups("predict_proba", params)
        if others and not get_config()["enable_metadata_routing"]:
            calibrator, groups = self._settings_of("predict_proba")
            raise TypeError(
                "predict_proba takes X only, or X and groups if groups were passed to "
                f"fit, got also {sorted(others)} for groups={shown(groups)} and "
                f"calibrator={shown(calibrator)}. Omit these arguments, or use "
                "PerGroupCalibrator() with groups=None."
            )
        return passed

    def _groups_of(self, method: str, X: Any, passed: Any) -> Any:
        """Return the groups of samples, or None if the calibrator uses none."""
        calibrator, groups = self._settings_of(method)
        if not isinstance(calibrator, GroupCalibrator):
            return None
        if groups is not None:
            return select_columns(X, groups)
        if passed is None:
            raise ValueError(
                f"groups must be given for calibrator={shown(calibrator)}, got None. "
                "Set groups to columns of X, CalibratedClassifier(..., groups=...), or "
                "pass groups to fit and to predict_proba."
            )
        return passed

    @property
    def _state_schema(self) -> dict[str, Spec]:
        pair = Tuple(Object(), Object(or_none=True))
        return {
            "classes_": Labels(),
            "calibrated_classifiers_": ListOf(pair),
            "pool_temperature_": Number(POSITIVE, is_optional=True),
            "pool_offset_": Numbers("n_classes", is_optional=True),
        }

    def _get_saved_params(self) -> dict[str, Any]:
        saved = super()._get_saved_params()
        # A splitter is only used in training.
        saved["cv"] = self.cv if isinstance(self.cv, int) else None
        return saved

    @classmethod
    def _from_saved_params(
        cls, params: dict[str, Any], key: str, passed: dict[str, Any]
    ) -> Self:
        new = super()._from_saved_params(params, key, passed)
        given = params.get("calibrator")
        is_name = isinstance(given, str) and given in get_calibrator_names()
        if not is_name and not isinstance(given, Calibrator | GroupCalibrator | None):
            refuse(f"{key}.calibrator", "a calibrator, its name or null", given)
        return new

    def _get_state(self) -> dict[str, Any]:
        pairs = self.calibrated_classifiers_
        parts = [(unfrozen(pair.estimator), pair.calibrator) for pair in pairs]
        return {
            "classes_": self.classes_,
            "calibrated_classifiers_": parts,
            "pool_temperature_": self.pool_temperature_,
            "pool_offset_": self.pool_offset_,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        classes, pairs = state["classes_"], []
        for classifier, calibrator in state["calibrated_classifiers_"]:
            check_classes(classifier, classes)
            response = find_response(classifier, self.response_method)
            from_logits = response != "probabilities"
            if calibrator is not None:
                check_classes(calibrator, classes, may_lack=False)
                _check_calibrator(calibrator, from_logits)
            options = from_logits, classes, self.response_method
            pairs.append(CalibratedPair(classifier, calibrator, *options))
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator = FrozenEstimator(pairs[0].estimator)
        self.classes_, self.calibrated_classifiers_ = classes, pairs
        self.pool_temperature_ = state.get("pool_temperature_", 1.0)
        self.pool_offset_ = state.get("pool_offset_", np.zeros(len(classes)))
        self._fitted_groups = self.groups
        copy_features(pairs[0].estimator, self)


def _check_calibrator(calibrator: Any, from_logits: bool) -> None:
    """Raise ValueError unless a calibrator fits the predictions of the classifier."""
    if not isinstance(calibrator, Calibrator | GroupCalibrator):
        refuse("calibrated_classifiers_", "pairs with a calibrator", calibrator)
    wanted = from_logits, len(calibrator.classes_)
    found = calibrator.from_logits, calibrator.n_features_in_
    if wanted != found:
        refuse("from_logits and n_features_in_ of the calibrator", wanted, found)
