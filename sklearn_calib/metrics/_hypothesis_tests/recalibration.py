"""Likelihood ratio test of the multinomial logistic recalibration."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from scipy.stats import chi2
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_random_state

from sklearn_calib._numerics.softmax import lift_zeros, log_softmax
from sklearn_calib._solvers.logistic import SMALLEST_LOSS
from sklearn_calib._solvers.newton import newton_steps
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.declarations import (
    CLUSTERS,
    DRAWS,
    TARGETS,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import as_list, code_of_label, column_classes
from sklearn_calib._validation.samples import TESTED, effective_weights, read_samples
from sklearn_calib._validation.types import Array, Floats, Ints, Seed
from sklearn_calib.metrics._hypothesis_tests.cluster_scores import (
    effective_clusters,
    sandwich,
    sum_clusters,
    wald_test,
)
from sklearn_calib.metrics._hypothesis_tests.consistency import tail_pvalue
from sklearn_calib.metrics._hypothesis_tests.hosmer_lemeshow import ChiSquareResult
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import has_impossible_label

# Smallest eigenvalue of the information with a diagonal of ones.
SINGULAR = 1e-13
# Smallest variance of the count of a class for the chi-square distribution, and its
# growth with the root of the number of classes.
DENSE, DENSE_GROWTH = 10, 4
# The statistics of draws are less precise, in units of their standard deviation.
PRECISION = 0.01


@validate_params(
    {
        **TARGETS,
        "mode": [TESTED],
        "reference": [object],
        "method": [StrOptions({"asymptotic", "auto"})],
        **CLUSTERS,
        **DRAWS,
    }
)
def recalibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str = "canonical",
    reference: Any = None,
    method: str = "auto",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> ChiSquareResult:
    r"""Recalibration test: likelihood ratio test of calibration slopes and intercepts.

    The null hypothesis is that all slopes of the logistic recalibration are 1 and all
    intercepts 0. A small p-value is evidence against calibration.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    reference : label, default=None
        Label of the class with which the others are compared. By default, the class of
        the first column. For two classes, the choice does not matter. It must be
        None for "top_label".

    method : {"auto", "asymptotic"}, default="auto"
        Source of the null distribution. "asymptotic" is the chi-square distribution.
        "auto" draws labels from the probabilities if a class has too few samples for
        it, see Notes.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. They are scaled to sum to the effective number of samples, so
        that unequal weights are worth fewer samples.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. The test is then another one, see Notes. There should be at
        least 50 clusters; otherwise, there is a warning. By default, all samples are
        independent.

    n_resamples : int, default=1000
        Number of random draws of the labels, if a class has too few samples.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    result : ChiSquareResult
        Named tuple of the `statistic`, the `pvalue`, and the degrees of freedom `df`.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, `y_proba` contains values
        that are not probabilities, or `reference` is not a label or is given with
        `mode="top_label"`.

    Warns
    -----
    UndefinedMetricWarning
        If the recalibration has no estimate: because a class is absent, or the
        probabilities are equal or separate the outcomes. Statistic and p-value are then
        nan.

    See Also
    --------
    calibration_slope : The slopes and intercepts, with intervals.
    calibration_belt_test : Test with a polynomial, for the probability of one class.

    Notes
    -----
    The statistic is twice the difference between the largest log-likelihood of

    .. math:: \log \frac{P(y_i = k)}{P(y_i = r)} = a_k + b_k \log \frac{p_{ik}}{p_{ir}},
        \quad k \ne r,

    and the log-likelihood of the predictions. For many samples, its distribution is
    chi-square with `2 * (n_classes - 1)` degrees of freedom [1]_. For two classes, it
    is the test of Cox's recalibration. With unequal weights, it is the distribution of
    a weighted sum of squares of normal variables, which is approximated by a multiple
    of a chi-square variable with the same mean and variance.

    This rejects too often if a class has few samples. With "auto", labels are therefore
    drawn from the probabilities if the variance of the weighted count of a class,
    :math:`\sum_i w_i p_{ik} (1 - p_{ik})`, is less than 10 or less than
    :math:`4 \sqrt{K}` for K classes. If :math:`k` of :math:`m` draws are at least as
    large as the statistic, the p-value is :math:`(1 + k) / (1 + m)`. The recalibration
    is fitted to each draw; if it has no estimate, the statistic of the draw is that of
    the limit. For 10 classes, 1000 draws take about a second; for 100 classes, they
    take a minute or more, so use fewer draws.

    With clusters, the statistic is that of the Wald test with the covariance of
    :func:`calibration_slope`. Its p-value is that of Hotelling's T squared for the
    effective number of clusters, and no labels are drawn.

    If a true class has the probability 0, the statistic is infinite and the p-value is
    0, because this is impossible for a calibrated classifier. Other probabilities of 0
    remain 0 in the model.

    References
    ----------
    .. [1] K. Van Hoorde, Y. Vergouwe, D. Timmerman, S. Van Huffel, E. W. Steyerberg and
       B. Van Calster, "Assessing Calibration of Multinomial Risk Prediction Models",
       Statistics in Medicine 33, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import recalibration_test
    >>> rng = np.random.default_rng(2)
    >>> proba = rng.dirichlet([1, 1, 1], size=500)
    >>> y_true = (rng.random((500, 1)) > proba.cumsum(axis=1)).sum(axis=1)  # calibrated
    >>> result = recalibration_test(y_true, proba)
    >>> result.pvalue > 0.05, result.df
    (True, 4)
    >>> overconfident = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    >>> recalibration_test(y_true, overconfident).pvalue < 0.001
    True
    """
    given = y_true, y_proba, labels, sample_weight, mode, pos_label
    proba, codes, weight = read_samples(*given, is_symmetric=True).proba()
    if mode == "top_label" and reference is not None:
        raise ValueError(
            f'reference must be None with mode="top_label", got {shown(reference)}. '
            "Correct predictions are compared with wrong ones."
        )
    code = reference_code(reference, column_classes(y_true, labels))
    weight = effective_weights(weight, len(codes))
    clusters = read_clusters(clusters, len(codes), weight)
    df = 2 * (proba.shape[1] - 1)
    if has_impossible_label(proba, codes, weight):
        return ChiSquareResult(np.inf, 0.0, df)
    data = log_ratios(proba, codes, weight, code, clusters, zeros_remain=True)
    n_clusters, fit = np.inf, None
    if data.clusters is not None:
        n_clusters = effective_clusters(data.clusters, data.weight)
    if len(np.unique(codes[weight > 0])) == proba.shape[1] and n_clusters > df:
        fit = fit_recalibration(data, slopes=True)
    if fit is None:
        warn(
            "The recalibration test is not defined because a class is absent, or the "
            "predicted probabilities are equal or separate the outcomes, or because "
            "there are too few clusters. Its result is set to NaN.",
            UndefinedMetricWarning,
        )
        return ChiSquareResult(np.nan, np.nan, df)
    if data.clusters is not None:
        excess = (fit.coef - [[0], [1]]).ravel()
        statistic, pvalue = wald_test(excess, fit.covariance, n_clusters)
        return ChiSquareResult(statistic, pvalue, df)
    statistic = float(max(2 * (log_loss_of_predictions(data) - fit.loss), 0))
    if method == "auto" and _is_sparse(data):
        null = _null_draws(data, n_resamples, check_random_state(random_state))
        return ChiSquareResult(statistic, tail_pvalue(statistic, null), df)
    return ChiSquareResult(statistic, _asymptotic_pvalue(statistic, data), df)


class Ratios(NamedTuple):
    """Log-ratios (n_samples, n_classes - 1) to the reference class, and outcomes.

    `log_factor` (n_samples, n_classes) is added to the logarithms of the probabilities,
    that of the reference class first: 0, or minus infinity for impossible classes.
    """

    x: Floats
    log_factor: Floats
    outcome: Floats
    weight: Floats
    clusters: Ints | None


class Fit(NamedTuple):
    """Estimates (n_terms, n_classes - 1), their covariance, and the log loss."""

    coef: Floats
    covariance: Floats  # in the order of `ravel`
    loss: float

    @property
    def errors(self) -> Floats:
        """Standard errors of the estimates."""
        return np.sqrt(self.covariance.diagonal()).reshape(self.coef.shape)


def reference_code(reference: Any, classes: Array) -> int:
    """Return the column of the reference class; by default, the first."""
    if reference is None:
        return 0
    code = code_of_label(reference, classes)
    if code is None:
        raise ValueError(
            f"reference must be one of {shown(as_list(classes))}, got "
            f"{shown(reference)}. Pass the label of the class with which to compare "
            "the others."
        )
    return code


def log_ratios(
    proba: Floats,
    codes: Ints,
    weight: Floats,
    reference: int,
    clusters: Ints | None = None,
    *,
    zeros_remain: bool = False,
) -> Ratios:
    """Return the samples with positive weight, relative to the reference class."""
    kept = weight > 0
    proba = proba[kept].astype(np.float64)
    zero = np.finfo(np.float64).eps
    if proba.min() == 0:
        zero = max(proba.min(where=proba > 0, initial=1) / 2, zero)
    log_proba = np.log(lift_zeros(proba, zero))
    others = np.arange(proba.shape[1]) != reference
    outcome = codes[kept, None] == np.flatnonzero(others)
    x = log_proba[:, others] - log_proba[:, [reference]]
    order = [reference, *np.flatnonzero(others)]
    is_impossible = (proba[:, order] == 0) & zeros_remain
    log_factor = np.where(is_impossible, -np.inf, 0)
    clusters = None if clusters is None else clusters[kept]
    outcome = outcome.astype(np.float64)
    return Ratios(x, log_factor, outcome, weight[kept], clusters)


def fit_recalibration(data: Ratios, *, slopes: bool) -> Fit | None:
    """Return the estimates that maximise the likelihood, or None if there are none.

    The terms are the intercept and the slope, or the intercept alone with the slope 1.
    """
    terms = np.ones_like(data.x)[None]
    if slopes:
        terms = np.stack([terms[0], data.x])
    # Slopes start at 0, where the information is not degenerate.
    offset = np.zeros_like(data.x) if slopes else data.x
    start = np.zeros((len(terms), data.x.shape[1]))
    start[0] = _start(offset, data)
    inverse: Floats | None

    def solve(_: Floats, proba: Floats) -> tuple[Floats, Floats]:
        nonlocal inverse
        gradient = _gradient(terms, proba, data)
        inverse = _inverse(_information(terms, proba, data.weight))
        if inverse is None:
            return np.zeros_like(gradient), gradient
        return -(inverse @ gradient.ravel()).reshape(gradient.shape), gradient

    loss = partial(_log_loss, terms=terms, offset=offset, data=data)
    previous: Any = np.inf
    for at in newton_steps(loss, solve, start):
        if inverse is None:
            return None
        if at.gain <= 1e-10 * at.value:
            # Newton's method converges quadratically unless the estimate is infinite.
            is_zero = at.value <= SMALLEST_LOSS * data.weight.sum()
            if slopes and (is_zero or at.gain > 0.05 * previous):
                return None
            if data.clusters is None:
                variance = _information(terms, at.state, data.weight**2)
                covariance: Floats = inverse @ variance @ inverse
            else:
                covariance = _cluster_covariance(terms, at.state, data, data.clusters)
            return Fit(at.point + at.step, covariance, at.value - at.gain / 2)
        previous = at.gain
    return None


def _gradient(terms: Floats, proba: Floats, data: Ratios) -> Floats:
    """Return the gradient of the log loss."""
    residual = data.weight[:, None] * (proba[:, 1:] - data.outcome)
    return np.einsum("snk,nk->sk", terms, residual)


def _inverse(information: Floats) -> Floats | None:
    """Return the inverse, or None if the information is singular."""
    scale = np.sqrt(information.diagonal())
    if not scale.all():
        return None
    scaled = information / np.outer(scale, scale)
    if np.linalg.eigvalsh(scaled)[0] < SINGULAR:
        return None
    return np.linalg.inv(scaled) / np.outer(scale, scale)


def _cluster_covariance(
    terms: Floats, proba: Floats, data: Ratios, clusters: Ints
) -> Floats:
    """Return the covariance of the coefficients, from the scores of clusters."""
    order = np.argsort(clusters, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1)
    information = [
        _information(terms[:, rows], proba[rows], data.weight[rows]) for rows in members
    ]
    residual = data.weight[:, None] * (data.outcome - proba[:, 1:])
    scores = np.concatenate(terms * residual, axis=1)
    return sandwich(sum_clusters(scores, clusters), np.array(information))


def _start(offset: Floats, data: Ratios) -> Floats:
    """Return intercepts for which the mean probabilities are about right."""
    log_proba = log_softmax(np.pad(offset, [(0, 0), (1, 0)]))
    mean = logsumexp(log_proba, b=data.weight[:, None], axis=0)
    n_others = data.weight @ data.outcome
    n_reference = data.weight @ (1 - data.outcome.sum(axis=1))
    return np.log(n_others / n_reference) - (mean[1:] - mean[0])


def log_loss_of_predictions(data: Ratios) -> float:
    """Return the weighted sum of the log losses of the predictions."""
    return _log_loss(np.ones((1, data.x.shape[1])), data.x[None], 0, data)[0]


class Null(NamedTuple):
    """Recalibration that changes nothing: terms, coefficients and probabilities.

    `information` has a diagonal of ones; `scale` contains the roots of its diagonal.
    """

    terms: Floats
    coef: Floats
    proba: Floats
    information: Floats
    scale: Floats


def _null(data: Ratios) -> Null:
    terms = np.stack([np.ones_like(data.x), data.x])
    coef = np.repeat([[0.0], [1.0]], data.x.shape[1], axis=1)
    _, proba = _log_loss(coef, terms, 0, data)
    information = _information(terms, proba, data.weight)
    scale = np.sqrt(information.diagonal())
    scale[scale == 0] = 1
    return Null(terms, coef, proba, information / np.outer(scale, scale), scale)


def _asymptotic_pvalue(statistic: float, data: Ratios) -> float:
    """Return the p-value for many samples, by Satterthwaite's approximation."""
    factor, df = 1.0, 2.0 * data.x.shape[1]
    if data.weight.min() < data.weight.max():
        null = _null(data)
        variance = _information(null.terms, null.proba, data.weight**2)
        inverse = np.linalg.pinv(null.information, rcond=SINGULAR, hermitian=True)
        product = inverse @ (variance / np.outer(null.scale, null.scale))
        mean, square = np.trace(product), (product * product.T).sum()
        factor, df = square / mean, mean**2 / square
    return float(chi2.sf(statistic / factor, df))


def _is_sparse(data: Ratios) -> bool:
    """Whether a class has too few samples for the chi-square distribution."""
    proba = _null(data).proba
    variances = data.weight @ (proba * _complement(proba))
    limit = max(DENSE, DENSE_GROWTH * np.sqrt(proba.shape[1]))
    return bool(variances.min() < limit)


def _null_draws(data: Ratios, n_draws: int, rng: np.random.RandomState) -> Floats:
    """Return draws of the statistic for calibrated predictions."""
    null = _null(data)
    inverse = np.linalg.pinv(null.information, rcond=SINGULAR, hermitian=True)
    cumulated = null.proba.cumsum(axis=1)[:, :-1]
    classes = np.arange(1, null.proba.shape[1])
    draws = np.empty(n_draws)
    for draw in range(n_draws):
        uniform = rng.random_sample((len(cumulated), 1))
        codes = (uniform >= cumulated).sum(axis=1, keepdims=True)
        drawn = data._replace(outcome=(codes == classes).astype(np.float64))
        draws[draw] = _likelihood_ratio(drawn, null, inverse)
    return draws


def _likelihood_ratio(data: Ratios, null: Null, inverse: Floats) -> float:
    """Return the statistic of drawn labels, with little precision.

    The correlations of the coefficients remain those of the predictions, so that no
    matrix is computed in a step.
    """
    terms, squares = null.terms, null.terms**2

    def solve(_: Floats, proba: Floats) -> tuple[Floats, Floats]:
        gradient = _gradient(terms, proba, data)
        variance = data.weight[:, None] * proba[:, 1:] * _complement(proba)[:, 1:]
        scale = np.sqrt(np.einsum("snk,nk->sk", squares, variance))
        scale[scale == 0] = 1
        step = -(inverse @ (gradient / scale).ravel()).reshape(scale.shape) / scale
        return step, gradient

    loss, losses = partial(_log_loss, terms=terms, offset=0, data=data), []
    for at in newton_steps(loss, solve, null.coef):
        losses.append(at.value)
        if at.gain < PRECISION * np.sqrt(null.coef.size):
            break
    return 2 * (losses[0] - losses[-1])


def _log_loss(
    coef: Floats, terms: Floats, offset: Any, data: Ratios
) -> tuple[float, Floats]:
    """Return the weighted sum of the log losses, and the probabilities."""
    scores = offset + np.einsum("sk,snk->nk", coef, terms)
    scores = np.column_stack([np.zeros(len(scores)), scores]) + data.log_factor
    log_proba = log_softmax(scores)
    outcome = np.column_stack([1 - data.outcome.sum(axis=1), data.outcome])
    loss = -data.weight @ log_proba.sum(axis=1, where=outcome > 0)
    return float(loss), np.exp(log_proba)


def _complement(proba: Floats) -> Floats:
    """Return 1 - p in full precision, as the sum of the others where p is large."""
    is_large = proba > 0.5
    others = np.where(is_large, 0, proba).sum(axis=1, keepdims=True)
    return np.where(is_large, others, 1 - proba)


def _information(terms: Floats, proba: Floats, weight: Floats) -> Floats:
    """Return the Fisher information of the coefficients, in the order of `ravel`."""
    proba, rest = proba[:, 1:], _complement(proba)[:, 1:]
    rows = np.concatenate(list(terms * proba), axis=1)
    information = -(rows.T * weight) @ rows
    n_terms, _, n_classes = terms.shape
    blocks = information.reshape(n_terms, n_classes, n_terms, n_classes)
    diagonal = np.arange(n_classes)
    # Not the difference of p and p squared, which cancel where p is close to 1.
    scaled = terms * (weight[:, None] * (proba * rest))
    blocks[:, diagonal, :, diagonal] = np.einsum("snk,tnk->kst", scaled, terms)
    return information
