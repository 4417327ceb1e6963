"""`PredictionSetClassifier`: conformal prediction sets of any classifier."""

import warnings
from math import ceil
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

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
from sklearn_calib._validation.arrays import row_blocks, shown
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    PROGRESS,
    Interval,
    StrOptions,
)
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.probabilities import (
    LEVEL_ROUNDING,
    check_sample_weight,
    nonzero_weight,
)
from sklearn_calib._validation.types import Array, Bools, Floats, Seed
from sklearn_calib.estimators._out_of_fold import (
    SplitterLike,
    fit_and_predict,
    held_out_splits,
)
from sklearn_calib.estimators._selective.conformity import (
    class_scores,
    tabulate,
    weight_below,
)
from sklearn_calib.estimators._selective.thresholds import (
    check_has_proba,
    check_tested_once,
)


def _draw(rng: np.random.RandomState, proba: Floats) -> Floats:
    """Return a random number for each sample, and one for each of its classes."""
    return rng.uniform(size=(len(proba), 1 + proba.shape[1]))


def _weight_of_new(sample_weight: Any, proba: Floats) -> Floats:
    """Return the positive weights of new samples, which are 1 by default."""
    # All of them may be zero, unlike those of `fit`.
    weight, has_weight = nonzero_weight(sample_weight)
    weight, tiny = check_sample_weight(weight, proba), np.finfo(np.float64).tiny
    if weight is None:
        return np.ones(len(proba))
    return np.maximum(weight * has_weight, tiny)


class PredictionSetClassifier(
    RoutingMixin,
    ClassifierMixin,
    MetaEstimatorMixin,
    CallbackSupportMixin,
    DocumentedEstimator,
):
    r"""Conformal prediction: sets of classes that contain the true class.

    A set contains the true class of a new sample with probability `confidence_level`,
    whatever the classifier and the distribution are. The better the classifier, the
    smaller the sets. They are calibrated with :term:`held-out data`.

    Parameters
    ----------
    estimator : estimator
        The classifier, with `predict_proba`. Pass a fitted classifier as
        `FrozenEstimator(estimator)`; then all data given to `fit` are used to calibrate
        the sets, and must not contain its training data.

    confidence_level : float in (0, 1), default=0.9
        Wanted coverage, the probability that a set contains the true class. It can be
        changed after `fit` with `set_params`.

    conformity_score : {"lac", "aps", "raps"}, default="lac"
        Score of a class, which decides whether it is in a set:

        - "lac", least ambiguous classifier [1]_: 1 minus the probability of the class.
          It has the smallest sets on average.
        - "aps", adaptive prediction sets [2]_: total probability of the more probable
          classes, plus a random fraction of that of the class itself. The sets are
          larger for difficult samples, and smaller for easy ones.
        - "raps", regularized adaptive prediction sets [3]_: "aps" with a penalty of
          `lambd` for each rank above `k_reg`, which avoids large sets for many classes.

    lambd : float, default=0.01
        Penalty for each rank, used by "raps". All values from 2 on give the same sets;
        with `k_reg=0`, their sizes hardly differ.

    k_reg : int, default=5
        Number of the most probable classes without a penalty, used by "raps".

    per_class : bool, default=False
        Whether to calibrate each class with the held-out samples of this class only
        (Mondrian conformal prediction [4]_). The coverage is then guaranteed for the
        samples of each class, and not only for all samples together.

    allow_empty : bool, default=True
        Whether sets can be empty. With False, the most probable class is in every set,
        and the coverage may exceed the level. It can be changed after `fit`.

    cv : int, cross-validation generator or iterable, default=5
        Splitting strategy for the held-out predictions; an int is the number of
        stratified folds. Each sample can be held out once at most. The sets use the
        classifiers of all folds. With a single split, such as
        `ShuffleSplit(1, test_size=0.5)`, one classifier is trained on one part and
        calibrated on the other, as with a `FrozenEstimator`.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws of "aps" and "raps". With an int, each call of
        `predict_set` repeats the same draws. Use None if samples are predicted one
        by one.

    n_jobs : int, default=None
        Number of classifiers to train in parallel; -1 means all processors.

    verbose : int, default=0
        Level of the progress messages of :class:`joblib.Parallel`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    estimators_ : list
        The fitted classifiers, one for each split, or the frozen classifier.

    n_features_in_ : int
        Number of features. Defined only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if the classifier has them.

    See Also
    --------
    SelectiveClassifier : Predict one class, or abstain.
    CalibratedClassifier : Calibrate the probabilities.
    sklearn_calib.metrics.set_coverage_score : Fraction of sets with the true class.
    sklearn_calib.metrics.mean_set_size_loss : Mean number of classes in a set.

    Notes
    -----
    For one classifier and n held-out samples (split conformal prediction), a class is
    in the set if its score is at most the :math:`\lceil (n + 1) c \rceil`-th smallest
    score of the true classes of these samples, where c is `confidence_level`. If
    samples are exchangeable, the coverage is at least c, on average over held-out and
    new samples [4]_. Without ties of scores, it is at most :math:`c + 1 / (n + 1)`, and
    given the held-out samples it has a beta distribution. Ties of scores can only
    increase it. If :math:`\lceil (n + 1) c \rceil > n`, all classes are in every set.

    With K > 1 folds (cross-conformal prediction, or CV+ [2]_, [5]_), a class is in the
    set if fewer than :math:`(n + 1) c` held-out samples have a lower score than the
    class has for the classifier of their fold. With :math:`\alpha = 1 - c`, the
    guaranteed coverage is :math:`1 - 2 \alpha - \min \{ 2 (1 - 1 / K) / (n / K + 1),
    (1 - K / n) / (K + 1) \}`, for folds of equal sizes. It is usually close to c.

    With `per_class`, this holds for each class, where n is the number of its held-out
    samples. A class without held-out samples is in every set. So is a class with too
    few: the level 0.9 needs 9 samples of a class. Both give a warning.

    A set is empty if all classes have larger scores than most held-out samples have.
    This happens if the classifier is more accurate than the level, so that 0.9 is
    reached without a class for some samples. The coverage counts them as errors.

    The scores of "aps" and "raps" contain one random draw for each sample, as in the
    papers. The guarantee includes the draws, which also make ties unlikely. Equal
    probabilities share their total and their last rank, so that the order of the
    classes does not matter.

    Probabilities of zero, such as those of a decision tree, would be ties of all
    samples. For "aps" and "raps", these classes have a random order, drawn for each
    sample, and 1 plus a random number in place of the total. With "lac", all classes
    are in every set, with a warning, if more than a fraction `1 - confidence_level` of
    the true classes has probability zero.

    A sample with weight 2 counts as two held-out samples, so the guarantee holds for
    weights that are numbers of samples. Their scale matters: n is their sum.

    If the distribution of the features has changed (covariate shift), the weights are
    the ratios of the new density to the old one, such as those of
    :class:`~sklearn_calib.deployment.DensityRatioEstimator`, for `fit` and for
    `predict_set`. With a single split, the coverage is then guaranteed for exact
    ratios, whose common factor does not matter [6]_.

    `predict_proba` is that of the classifier, averaged over the folds. The sets depend
    on the probabilities, so calibrating first may change their sizes, and never their
    guarantee: `PredictionSetClassifier(CalibratedClassifier(classifier))`.

    `set_callbacks` is that of :class:`CalibratedClassifier`.

    References
    ----------
    .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least Ambiguous Set-Valued Classifiers
       With Bounded Error Levels", Journal of the American Statistical Association 114,
       2019.
    .. [2] Y. Romano, M. Sesia and E. J. Candès, "Classification with Valid and Adaptive
       Coverage", NeurIPS 2020, equations 5 and 10, theorem 2.
    .. [3] A. N. Angelopoulos, S. Bates, J. Malik and M. I. Jordan, "Uncertainty Sets
       for Image Classifiers using Conformal Prediction", ICLR 2021, equation 4.
    .. [4] V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random
       World", Springer, 2005, sections 2.2 and 4.5.
    .. [5] V. Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial
       Intelligence 74, 2015.
    .. [6] R. J. Tibshirani, R. Foygel Barber, E. J. Candès and A. Ramdas, "Conformal
       Prediction Under Covariate Shift", NeurIPS 2019, corollary 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> from sklearn_calib.estimators import PredictionSetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X > 8, y, random_state=0)
    >>> model = PredictionSetClassifier(BernoulliNB(), confidence_level=0.95)
    >>> y_set = model.fit(X, y).predict_set(X_test)
    >>> [model.classes_[row].tolist() for row in y_set[4:9]]
    [[6], [7], [1], [9], [5, 8]]
    """

    _weighted_part = "calibration of the sets"
    _parameter_constraints = {
        "confidence_level": BETWEEN_0_AND_1,
        "conformity_score": [StrOptions({"aps", "lac", "raps"})],
        "lambd": [Interval(Real, 0, None, closed="left")],
        "k_reg": [Interval(Integral, 0, None, closed="left")],
        "per_class": ["boolean"],
        "allow_empty": ["boolean"],
        "cv": ["cv_object"],
        "random_state": ["random_state"],
        **PROGRESS,
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        confidence_level: float = 0.9,
        conformity_score: str = "lac",
        lambd: float = 0.01,
        k_reg: int = 5,
        per_class: bool = False,
        allow_empty: bool = True,
        cv: SplitterLike = 5,
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.conformity_score = conformity_score
        self.lambd = lambd
        self.k_reg = k_reg
        self.per_class = per_class
        self.allow_empty = allow_empty
        self.cv = cv
        self.random_state = random_state
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
        """Train the classifier and calibrate the sets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data in the form that the classifier accepts. For a
            `FrozenEstimator`, held-out data.

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for the classifier and for the sets.

        **fit_params : dict
            Passed to `fit` of the classifier. Values of length n_samples are split
            like X. With metadata routing enabled, also passed to the splitter. With an
            int as `cv`, folds do not divide `groups`, of shape (n_samples,).

        Returns
        -------
        self : PredictionSetClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If the folds hold out a sample repeatedly, a fold is trained with one class
            only, or the classifier has a decision threshold.

        Warns
        -----
        UserWarning
            If there are so few held-out samples, or so many probabilities of zero, that
            a class is in every set. With `sample_weight`, `predict_set` warns instead.
        """
        self._validate_params()
        check_has_proba(self.estimator)
        X, y, self.classes_ = check_training_data(X, y, self.estimator)
        weight = check_sample_weight(sample_weight, y)
        fit_params, split_params = self._route(weight, fit_params)
        labels = self.classes_
        codes = encode_labels(y, labels=labels, n_classes=len(labels), name="y")
        source = self.estimator, self.cv, X, y, labels
        splits = held_out_splits(*source, **split_params)
        tests = [test for _, test in splits]
        check_tested_once(np.concatenate(tests), "prediction sets")
        end_fit, tasks = begin_folds(self, len(splits), X, y, sample_weight)
        data = X, y, splits, False, fit_params, "predict_proba", labels
        self.estimators_, held_out, _ = fit_and_predict(
            self.estimator, *data, tasks=tasks, n_jobs=self.n_jobs, verbose=self.verbose
        )
        for classifier in self.estimators_:
            self._refuse_threshold(classifier)  # that a search has chosen
        self._fitted_score = self.conformity_score, self.lambd, self.k_reg
        weight = np.ones(len(codes)) if weight is None else weight.astype(np.float64)
        self._calibrate(held_out, [(codes[test], weight[test]) for test in tests])
        copy_features(self.estimators_[0], self)
        self._checked_level = None
        if sample_weight is None:  # else the weights of new samples matter, too
            self._checked_level = self.confidence_level
            self._warn_of_full_sets(np.ones(1))
        end_fit()
        return self

    def _calibrate(self, held_out: Any, targets: Any) -> None:
        """Tabulate the scores of true classes, of each fold and of each class or all.

        `targets` are the codes and the weights of each fold.
        """
        rng = check_random_state(self.random_state)
        n_tables = len(self.classes_) if self.per_class else 1
        self._tables = []
        for proba, (codes, weight) in zip(held_out, targets, strict=True):
            scores = np.empty(len(codes))
            for rows in row_blocks(*proba.shape):
                uniform = _draw(rng, proba[rows])
                every = class_scores(proba[rows], uniform, *self._fitted_score)
                scores[rows] = every[np.arange(len(every)), codes[rows]]
            kinds = codes if self.per_class else np.zeros_like(codes)
            self._tables.append(
                [
                    tabulate(scores[kinds == kind], weight[kinds == kind])
                    for kind in range(n_tables)
                ]
            )
        # The draws of predictions must not repeat those of the held-out samples.
        seed = rng.randint(np.iinfo(np.int32).max)
        is_seed = isinstance(self.random_state, Integral)
        self._random_state = seed if is_seed else self.random_state

    def _held_out_weight(self) -> Floats:
        """Return the total weight of the held-out samples, of each class or all."""
        return np.sum([[sums[-1] for _, sums in each] for each in self._tables], axis=0)

    def _warn_of_full_sets(self, weight: Floats) -> None:
        """Warn if the level puts a class into a set, whatever its score is.

        `weight` are the weights of the new samples.
        """
        limit = 1 - self.confidence_level + LEVEL_ROUNDING
        total, weight = self._held_out_weight(), weight[:, None]
        fraction = weight / (total + weight)
        is_few = fraction > limit
        if is_few.any():
            needed, found = ceil(1 / limit - 1), f"{1 / fraction.max() - 1:g}"
            samples = "held-out samples" + " of each class" * (len(total) > 1)
            reason = f"needs at least {needed} {samples}, got {found}. Use"
            if self._checked_level is None or (weight != 1).any():
                reason = (
                    f"needs {samples} with at least {needed} times the weight of the "
                    f"new sample, got {found} times. Pass weights on the same scale to "
                    "fit and predict_set, or use"
                )
            self._warn(is_few, f"{reason} more samples or a lower confidence_level.")
        # The score of "lac" is infinite for a probability of zero.
        end = np.array(np.inf)
        finite = [[weight_below(one, end) for one in each] for each in self._tables]
        n_zero = total - np.sum(finite, axis=0)
        is_tied = ((n_zero + weight) / (total + weight) > limit) & ~is_few
        if is_tied.any():
            self._warn(
                is_tied,
                "is larger than the fraction of held-out samples whose true class has "
                "a positive probability, and conformity_score='lac' does not rank the "
                "classes with probability zero. Use conformity_score='aps', or a lower "
                "confidence_level.",
            )

    def _warn(self, is_full: Bools, reason: str) -> None:
        """Warn of the samples (rows) with all classes, or those of the tables."""
        is_class = is_full.any(axis=0)
        which = "All classes"
        if not is_class.all():
            which = f"The classes {shown(self.classes_[is_class].tolist())}"
        n_sets, n_new = is_full.sum(axis=0)[is_class], len(is_full)
        up_to = "up to " if n_sets.min() < n_sets.max() else ""
        is_every = n_sets.min() == n_new
        where = "every set" if is_every else f"{up_to}{n_sets.max()} of {n_new} sets"
        level = f"confidence_level={self.confidence_level}"
        warnings.warn(f"{which} are in {where}: {level} {reason}", UserWarning)

    def predict_pvalue(
        self, X: MatrixLike, sample_weight: ArrayLike | None = None
    ) -> Floats:
        """Return the conformal p-value of each class.

        A class is in the set of `predict_set` if its p-value is above
        `1 - confidence_level`. A p-value is the weight of the sample plus the total
        weight of the held-out samples with at least the score of the class, divided by
        the weight of the sample plus that of all held-out samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the samples, on the scale of those in `fit`, such as
            density ratios, see the Notes of the class. By default, they are 1.

        Returns
        -------
        pvalue : ndarray of shape (n_samples, n_classes)
            In (0, 1], in the order of `classes_`. With `allow_empty=False`, that of the
            most probable class is 1.
        """
        members = self._members(X)
        self._validate_params()  # some may be changed after fit
        rng = check_random_state(self._random_state)
        weight = _weight_of_new(sample_weight, members[0])
        total = self._held_out_weight()
        pvalue = np.empty(members[0].shape)
        for rows in row_blocks(*members[0].shape):
            uniform = _draw(rng, members[0][rows])
            below = sum(
                self._below(tables, proba[rows], uniform)
                for tables, proba in zip(self._tables, members, strict=True)
            )
            added = weight[rows, None]
            pvalue[rows] = (total - below + added) / (total + added)
        if not self.allow_empty:
            predicted = np.mean(members, axis=0).argmax(axis=1)
            pvalue[np.arange(len(pvalue)), predicted] = 1
        return pvalue

    def _members(self, X: MatrixLike) -> list[Floats]:
        """Return the probabilities of each classifier."""
        check_is_fitted(self)
        return [
            predict_scores(each, X, from_logits=False, classes=self.classes_)
            for each in self.estimators_
        ]

    def _below(self, tables: Any, proba: Floats, uniform: Floats) -> Floats:
        """Return the weight of one fold's held-out samples with lower scores."""
        scores = class_scores(proba, uniform, *self._fitted_score)
        if len(tables) == 1:
            return weight_below(tables[0], scores)
        columns = zip(tables, scores.T, strict=True)
        return np.column_stack([weight_below(*column) for column in columns])

    def predict_set(
        self, X: MatrixLike, sample_weight: ArrayLike | None = None
    ) -> Bools:
        """Return which classes are in the set of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, see :meth:`predict_pvalue`.

        Returns
        -------
        y_set : ndarray of shape (n_samples, n_classes), dtype bool
            Columns are in the order of `classes_`.

        Warns
        -----
        UserWarning
            If, with these weights or a level that was changed after `fit`, a class is
            in a set whatever its score is.
        """
        pvalue = self.predict_pvalue(X, sample_weight)
        if sample_weight is not None or self.confidence_level != self._checked_level:
            self._warn_of_full_sets(_weight_of_new(sample_weight, pvalue))
        return pvalue > 1 - self.confidence_level + LEVEL_ROUNDING

    def predict(self, X: MatrixLike) -> Array:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels; ties go to the first class.
        """
        predicted = self.predict_proba(X).argmax(axis=1)
        return self.classes_[predicted]

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Predict probabilities, averaged over the classifiers of the folds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`.
        """
        members = self._members(X)
        return members[0] if len(members) == 1 else np.mean(members, axis=0)
