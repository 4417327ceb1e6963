"""`DensityRatioEstimator`: importance weights for changed features."""

import warnings
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.response import clone_classifier
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import MatrixLike, copy_features
from sklearn_calib._validation.arrays import (
    as_array,
    column_names,
    is_instance,
    shown,
)
from sklearn_calib._validation.declarations import ABOVE_0, HasMethods
from sklearn_calib._validation.samples import effective_n_samples
from sklearn_calib._validation.types import Floats
from sklearn_calib.estimators import CalibratedClassifier

# Effective number of samples, and fraction of the source samples, that is too small.
FEW, SMALL = 30, 0.1


class DensityRatioEstimator(MetaEstimatorMixin, DocumentedEstimator):
    r"""Density ratio estimation: importance weights under covariate shift.

    A classifier distinguishes target samples, which are to be predicted, from source
    samples, which have labels. Its calibrated odds give the ratio of the densities of
    the features [1]_, [2]_. Weighted with it, the source samples are like target
    samples, if the probability of each class given the features has not changed. This
    is called covariate shift.

    Parameters
    ----------
    estimator : estimator, default=None
        The classifier, which is calibrated. A
        :class:`~sklearn_calib.CalibratedClassifier` is used as it is. None means
        logistic regression of standardised features. Its ratio is log-linear, so it
        cannot follow a change of the variances; `HistGradientBoostingClassifier()` can.

    max_weight : float, default=None
        Largest weight; larger ones are reduced to it. None means the square root of the
        number of source samples [3]_.

    Attributes
    ----------
    classifier_ : CalibratedClassifier
        The fitted classifier. Its class 1 is the target.

    source_weight_, target_weight_ : ndarray of shape (n_source,), (n_target,)
        Weights of the samples in `fit`, each from classifiers and calibrators that were
        not fitted to the sample. The mean of the source weights is about 1.

    effective_n_samples_ : float
        Effective number of source samples, :math:`(\sum w)^2 / \sum w^2`.

    n_features_in_ : int
        Number of features. Defined only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if the classifier has them.

    See Also
    --------
    PriorShiftClassifier : For changed class frequencies.
    estimate_performance : Performance on target samples, from weighted source samples.
    sklearn_calib.PredictionSetClassifier : Prediction sets for target samples.

    Notes
    -----
    With the probability :math:`p(x)` that a sample is of the target, the weight is

    .. math:: w(x) = \frac{p(x)}{1 - p(x)} \, \frac{n_{source}}{n_{target}}.

    It is correct if :math:`p(x)` is calibrated, whatever the classifier is. Weights
    reduce the effective number of samples, so leave out features that are irrelevant
    for the class. Where there are target samples but no source samples, the ratio is
    infinite, and weights do not help.

    References
    ----------
    .. [1] S. Bickel, M. Brückner and T. Scheffer, "Discriminative Learning Under
       Covariate Shift", Journal of Machine Learning Research 10, 2009.
    .. [2] M. Sugiyama, T. Suzuki and T. Kanamori, "Density Ratio Estimation in Machine
       Learning", Cambridge University Press, 2012, chapter 4.
    .. [3] E. L. Ionides, "Truncated Importance Sampling", Journal of Computational and
       Graphical Statistics 17, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.deployment import DensityRatioEstimator
    >>> rng = np.random.default_rng(0)
    >>> X_source, X_target = rng.normal(size=(1000, 1)), rng.normal(1, size=(500, 1))
    >>> ratio = DensityRatioEstimator().fit(X_source, X_target)
    >>> print(f"{ratio.effective_n_samples_:.0f} of 1000 samples")
    335 of 1000 samples
    >>> ratio.predict_weight([[-1], [0], [1]]).round(1)  # the true ones: exp(x - 0.5)
    array([0.2, 0.6, 1.7])
    """

    # Samples are not metadata.
    __metadata_request__fit = {"X_source": UNUSED, "X_target": UNUSED}
    _parameter_constraints = {
        "estimator": [HasMethods(["fit"]), None],
        "max_weight": [*ABOVE_0, None],
    }

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        max_weight: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.max_weight = max_weight

    @restores()
    def fit(self, X_source: MatrixLike, X_target: MatrixLike) -> Self:
        """Train the classifier that distinguishes the samples.

        Parameters
        ----------
        X_source : array-like of shape (n_source, n_features)
            Labelled data of the old distribution: an array, a sparse matrix, or a
            pandas or polars table.

        X_target : array-like of shape (n_target, n_features)
            Data of the new distribution, of the same type.

        Returns
        -------
        self : DensityRatioEstimator
            The fitted estimator.

        Raises
        ------
        ValueError
            If the columns differ, or the classifier has no held-out predictions of all
            samples.

        Warns
        -----
        UserWarning
            If `effective_n_samples_` is below 30 or a tenth of the source samples.
        """
        self._validate_params()
        X, n_source = _stack(X_source, X_target)
        is_target = np.arange(X.shape[0]) >= n_source
        if not 2 <= n_source <= len(is_target) - 2:
            raise ValueError(
                "X_source and X_target must each contain at least two samples, got "
                f"{n_source} and {is_target.sum()}. Pass more samples."
            )
        estimator = self.estimator
        if estimator is None:
            scaler = StandardScaler(with_mean=not issparse(X))
            estimator = make_pipeline(scaler, LogisticRegression())
        if not isinstance(estimator, CalibratedClassifier):
            estimator = CalibratedClassifier(estimator)
        self.classifier_ = clone_classifier(estimator).fit(X, is_target.astype(int))
        kept = getattr(self.classifier_, "reference_", None)
        if kept is None or len(kept[0]) != len(is_target):
            raise ValueError(
                "estimator must have held-out predictions of all samples, got "
                f"{shown(self.estimator)}. Pass a classifier that is not frozen, or a "
                "CalibratedClassifier with the defaults of cv, n_repeats and ensemble."
            )
        self._prior_odds = (~is_target).sum() / is_target.sum()
        self._largest = self.max_weight or np.sqrt(n_source)
        weight = self._ratio(kept[1])
        self.source_weight_, self.target_weight_ = np.split(weight, [n_source])
        self.effective_n_samples_ = effective_n_samples(self.source_weight_)
        if self.effective_n_samples_ < max(FEW, SMALL * n_source):
            warnings.warn(
                "Estimates with these weights are unreliable, since few source samples "
                f"are like target samples: {n_source} weighted samples are worth "
                f"{self.effective_n_samples_:.3g} unweighted ones. Leave out features "
                "that separate the two but are irrelevant for the class, such as "
                "dates, or label target samples.",
                UserWarning,
            )
        copy_features(self.classifier_, self)
        return self

    def _ratio(self, proba: Floats) -> Floats:
        """Return the density ratios of probabilities."""
        with np.errstate(divide="ignore"):
            ratio = self._prior_odds * proba[:, 1] / proba[:, 0]
        return np.clip(ratio, np.finfo(np.float64).tiny, self._largest)

    def predict_weight(self, X: MatrixLike) -> Floats:
        """Return the density ratio of new samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that were not passed to `fit`.

        Returns
        -------
        weight : ndarray of shape (n_samples,)
            Positive weights, at most `max_weight`.
        """
        check_is_fitted(self)
        return self._ratio(self.classifier_.predict_proba(X))


def _stack(X_source: Any, X_target: Any) -> tuple[Any, int]:
    """Return the rows of both, and how many the first has."""
    parts = X_source, X_target
    names, others = map(column_names, parts)
    if bool(names) != bool(others):
        raise ValueError(
            "X_target must be of the same type as X_source, got "
            f"{type(X_target).__name__} and {type(X_source).__name__}. Pass two tables "
            "or two arrays."
        )
    if names != others:
        raise ValueError(
            f"X_target must have the columns of X_source, {shown(names)}, got "
            f"{shown(others)}. Use X_target[X_source.columns]."
        )
    if any(map(issparse, parts)):
        return vstack(parts, format="csr"), X_source.shape[0]
    if is_instance(X_source, "pandas", "DataFrame"):
        import pandas as pd

        joined = pd.concat(parts, ignore_index=True)
        for k in range(len(names)):
            columns = [part.iloc[:, k] for part in parts]
            if all(isinstance(each.dtype, pd.CategoricalDtype) for each in columns):
                # Different categories would become numbers or objects.
                joined.isetitem(k, joined.iloc[:, k].astype("category"))
        return joined, len(X_source)
    if is_instance(X_source, "polars", "DataFrame"):
        return X_source.vstack(X_target), len(X_source)
    source = as_array(X_source, "X_source")
    return np.concatenate([source, as_array(X_target, "X_target")]), len(source)
