"""Calibration of groups of samples, shrunk towards that of all samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._numerics.sample_blocks import Blocks, array_blocks
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._state.json_values import refuse
from sklearn_calib._state.schema import NON_NEGATIVE, POSITIVE, Numbers
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import ABOVE_0, StrOptions
from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._groups.group_calibrator import GroupCalibrator
from sklearn_calib.calibrators._linear.empirical_bayes import fit_empirical_bayes
from sklearn_calib.calibrators._linear.linear_calibrator import EMPIRICAL_BAYES
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap


class PerGroupCalibrator(GroupCalibrator):
    r"""Per-group calibration: a map for each group, shrunk towards one for all samples.

    A calibrator is fitted to all samples. Then each group gets a slope and an intercept
    for each class, which correct the log-probabilities of this calibrator. Corrections
    that the samples of a group do not support are shrunk towards none, so a small group
    has almost the map of all samples. A group that did not occur in `fit` has exactly
    this map.

    Parameters
    ----------
    calibrator : Calibrator, default=None
        Calibrator to clone and to fit to all samples; None is :class:`AutoCalibrator`.
        The `from_logits` of the clone is set to that of this calibrator.

    lambd : float or "empirical_bayes", default="empirical_bayes"
        Strength of the shrinkage: the precision of the prior of each slope and
        intercept, which is normal with standard deviation 1 / sqrt(lambd).
        "empirical_bayes" estimates one strength of the slopes and one of the
        intercepts, from all groups.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    calibrator_ : Calibrator
        The calibrator that is fitted to all samples.

    groups_ : list
        The groups of `fit`: values of the column of `groups`, or tuples of values if
        there are several columns. None stands for a missing value.

    n_samples_ : ndarray of shape (n_groups,)
        Number of samples of each group, or the sum of their weights.

    coef_, intercept_ : ndarray of shape (n_groups, n_classes)
        Slopes and intercepts of each group.

    prior_precision_ : ndarray of shape (2,)
        Precisions of the priors on the slopes and on the intercepts. Defined only if
        there are several groups.

    values_ : list of ndarray
        Distinct values of each column of `groups`, sorted, without missing values.

    group_codes_ : ndarray of shape (n_groups, n_group_columns)
        Indices of the values of each group in `values_`, or `len(values_[j])` for a
        missing value in column j.

    group_names_in_ : ndarray of shape (n_group_columns,)
        Names of the columns of `groups`. Defined only if they are strings.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X. Defined only if they are strings.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    See Also
    --------
    MulticalibrationBoosting : Corrections of overlapping groups.
    sklearn_calib.CalibratedClassifier : Its parameter `groups` selects columns of X.
    sklearn_calib.metrics.per_group : Any metric for each group.

    Notes
    -----
    Let :math:`q_{ik}` be the probability of class k for sample i after calibration
    without groups. The probabilities of a sample of group g are

    .. math:: \mathrm{softmax}_k(a_{gk} \log q_{ik} + b_{gk}).

    Let :math:`m_{gk}` be the mean of :math:`\log q_{ik}` over the samples of the group,
    weighted by :math:`q_{ik} (1 - q_{ik})`. The slopes and intercepts maximise the
    likelihood of the samples of the group times the density of their priors:
    :math:`a_{gk}` and :math:`a_{gk} m_{gk} + b_{gk}` are normal with the means 1 and
    :math:`m_{gk}`, their values without a correction. The precisions of the two priors
    maximise the marginal likelihood of all groups, in Laplace's approximation [1]_. The
    number of samples and the differences between the groups thus determine how much the
    maps differ. Precisions are at least 1, so a group may lack a class.

    If there are several columns of groups, each combination of their values is a group.
    If there is only one group, no correction is needed.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import PerGroupCalibrator, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], size=2000)
    >>> logits = rng.normal(size=2000)
    >>> bias = np.where(groups == "a", 0.8, -0.8)
    >>> y = logits + bias + rng.logistic(size=2000) > 0
    >>> calibrator = PerGroupCalibrator(PlattScaling(), from_logits=True)
    >>> calibrator = calibrator.fit(logits, y, groups=groups)
    >>> calibrator.predict_proba([0.0, 0.0, 0.0], groups=["a", "b", "c"]).round(1)
    array([[0.3, 0.7],
           [0.7, 0.3],
           [0.5, 0.5]])
    """

    _fitted = {
        "group_codes_": Numbers(
            "n_groups", "n_group_columns", range=NON_NEGATIVE, kind="i"
        ),
        "n_samples_": Numbers("n_groups", range=POSITIVE),
        "coef_": Numbers("n_groups", "n_classes"),
        "intercept_": Numbers("n_groups", "n_classes"),
        "prior_precision_": Numbers(2, range=POSITIVE, is_optional=True),
    }
    _parameter_constraints = {
        **GroupCalibrator._parameter_constraints,
        "lambd": [*ABOVE_0, StrOptions({EMPIRICAL_BAYES})],
    }

    def __init__(
        self,
        calibrator: Calibrator | None = None,
        *,
        lambd: float | str = EMPIRICAL_BAYES,
        from_logits: bool = False,
    ) -> None:
        self.calibrator = calibrator
        self.lambd = lambd
        self.from_logits = from_logits

    @property
    def groups_(self) -> list[Any]:
        """The groups of `fit`."""
        check_is_fitted(self)
        values = [[*known.tolist(), None] for known in self.values_]
        columns = [
            [known[code] for code in codes]
            for known, codes in zip(values, self.group_codes_.T.tolist(), strict=True)
        ]
        return columns[0] if len(columns) == 1 else [*zip(*columns, strict=True)]

    def _fit_groups(
        self, logits: Floats, codes: Ints, weight: Floats, groups: Ints
    ) -> None:
        counted = weight > 0
        logits, codes, weight = logits[counted], codes[counted], weight[counted]
        self.group_codes_, row = np.unique(groups[counted], axis=0, return_inverse=True)
        row, n_groups = row.ravel(), len(self.group_codes_)
        self.n_samples_ = np.bincount(row, weight, n_groups)
        order, sizes = np.argsort(row, kind="stable"), np.bincount(row)
        members = np.split(order, sizes.cumsum()[:-1])
        data = [
            array_blocks(logits[rows], codes[rows], weight[rows]) for rows in members
        ]
        self._fit_slopes(data, logits.shape[1])

    def _fit_slopes(self, data: list[Blocks], n_classes: int) -> None:
        """Fit the slopes and intercepts to the samples of each group."""
        kind = DiagonalMap()
        center = kind.identity(n_classes)
        parameters = [center]
        self.__dict__.pop("prior_precision_", None)
        if len(data) > 1:
            parameters, self.prior_precision_ = fit_empirical_bayes(
                kind,
                [samples.normalised() for samples in data],
                center=center,
                group=kind.groups(n_classes),
                precision=None if isinstance(self.lambd, str) else self.lambd,
            )
        self.coef_, self.intercept_ = np.moveaxis(np.array(parameters), 2, 0)

    def _set_state(self, state: dict[str, Any]) -> None:
        largest = np.array([len(values) for values in state["values_"]])
        if (state["group_codes_"] > largest).any():
            codes = state["group_codes_"].tolist()
            refuse(
                "group_codes_",
                f"at most {shown(largest.tolist())} in each column",
                codes,
            )
        super()._set_state(state)

    def _correct(self, logits: Floats, groups: Ints) -> Floats:
        known = {tuple(row): i for i, row in enumerate(self.group_codes_.tolist())}
        distinct, inverse = np.unique(groups, axis=0, return_inverse=True)
        found = [known.get(tuple(row), -1) for row in distinct.tolist()]
        row = np.array(found)[inverse.ravel()]
        # A group that is unknown has the index -1, the last one.
        slope = np.vstack([self.coef_, np.ones(logits.shape[1])])
        intercept = np.vstack([self.intercept_, np.zeros(logits.shape[1])])
        return softmax(logits * slope[row] + intercept[row])
