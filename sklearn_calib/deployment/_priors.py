"""Class priors: adjustment of probabilities, and estimates without labels."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtri
from sklearn.utils import check_random_state

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._solvers.stacking import stacking_weights
from sklearn_calib._validation.arrays import as_numbers, is_instance, shown
from sklearn_calib._validation.declarations import INTERVAL, validate_params
from sklearn_calib._validation.labels import as_list
from sklearn_calib._validation.probabilities import (
    ROW_SUM_TOLERANCE,
    check_proba,
    check_sample_weight,
)
from sklearn_calib._validation.samples import check_columns
from sklearn_calib._validation.types import Array, Floats, Seed
from sklearn_calib.deployment._reference import (
    Reference,
    ReferenceLike,
    posterior_ratio,
    read_reference,
)

# The estimate of a class is near zero if it explains less than this number of samples.
FEWEST_SAMPLES = 1.0

# The estimate is unreliable if the samples contain less information about some
# direction of the priors than this number of labelled samples.
FEWEST_LABELS = 25.0

# Pseudo-samples with the training priors, for each class.
STRENGTHS = [1, 3, 10, 30, 100, 300, 1000, 10_000]


@validate_params(
    {
        "y_proba": ["array-like"],
        "train_priors": ["array-like"],
        "priors": ["array-like"],
    }
)
def adjust_priors(
    y_proba: ArrayLike, train_priors: ArrayLike, priors: ArrayLike
) -> Floats:
    r"""Adjust predicted probabilities to new class priors.

    The class priors are the frequencies of the classes. The adjusted probabilities are
    those of a classifier trained on data with the new priors, if the distribution of
    the features within each class is the same [1]_.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities; a 1-d array contains those of the positive class.

    train_priors : array-like of shape (n_classes,)
        Class priors of the training data, positive.

    priors : array-like of shape (n_classes,)
        Class priors to adjust to, non-negative.

    Returns
    -------
    y_proba : ndarray of shape (n_samples, n_classes) or (n_samples,)
        Adjusted probabilities, in the shape of the input.

    See Also
    --------
    estimate_priors : Estimate the new priors from predictions without labels.
    PriorShiftClassifier : Do both for any classifier.

    Notes
    -----
    With predicted probabilities :math:`p_k`, training priors :math:`\pi_k` and new
    priors :math:`\pi'_k`, the adjusted probabilities are proportional to
    :math:`p_k \pi'_k / \pi_k`.

    Class weights in training act like other class frequencies: the training priors are
    then proportional to the frequency times the weight of each class.

    References
    ----------
    .. [1] M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the Outputs of a
       Classifier to New a Priori Probabilities: A Simple Procedure", Neural Computation
       14, 2002.

    Examples
    --------
    >>> from sklearn_calib.deployment import adjust_priors
    >>> adjust_priors([[0.5, 0.5], [0.2, 0.8]], [0.5, 0.5], [0.9, 0.1]).round(2)
    array([[0.9 , 0.1 ],
           [0.69, 0.31]])
    """
    # `read_samples` needs labels.
    proba = check_proba(y_proba, allow_1d=True)
    classes = np.arange(2 if proba.ndim == 1 else proba.shape[1])
    train = check_priors(train_priors, classes, "train_priors")
    new = check_priors(priors, classes, "priors", may_be_zero=True)
    if _are_by_label(train_priors) or _are_by_label(priors):
        check_columns(y_proba, None, classes)
    if proba.ndim == 1:
        return _adjust(np.column_stack([1 - proba, proba]), train, new)[:, 1]
    return _adjust(proba, train, new)


def _adjust(proba: Floats, train_priors: Floats, priors: Floats) -> Floats:
    """Return checked probabilities adjusted to other priors, in their dtype."""
    # A probability of zero is raised to the smallest number, as the prior of the only
    # other class may be zero.
    log_proba = np.log(np.maximum(proba, np.finfo(proba.dtype).tiny))
    with np.errstate(divide="ignore"):
        log_ratio = np.log(priors) - np.log(train_priors)
    return softmax(log_proba + log_ratio.astype(proba.dtype))


@validate_params(
    {
        "y_proba": ["array-like"],
        "train_priors": ["array-like"],
        "sample_weight": ["array-like", None],
        "reference": [tuple, list, None],
        **INTERVAL,
    }
)
def estimate_priors(
    y_proba: ArrayLike,
    train_priors: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    reference: ReferenceLike | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> tuple[Floats, Floats]:
    r"""Estimate the class priors of new data from predictions without labels.

    The estimate maximises the likelihood, like the EM algorithm of [1]_, also called
    maximum likelihood label shift or EMQ. Unless the data show a shift, it is shrunk to
    the training priors. It assumes that the distribution of the features within each
    class has not changed, and that the probabilities are calibrated for the training
    priors.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities of new samples, predicted for the training priors; a 1-d array
        contains those of the positive class.

    train_priors : array-like of shape (n_classes,)
        Class priors of the training data, positive.

    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the samples. Their scale does not matter.

    reference : tuple (y_true, y_proba), default=None
        Labels of all classes of :term:`held-out data`, whose sorted values are the
        classes, and their probabilities from the same classifier, for the training
        priors. The interval then contains the error of the calibration. A third entry
        contains sample weights.

    confidence_level : float, default=0.95
        Confidence level of the interval, in (0, 1).

    n_resamples : int, default=1000
        Number of bootstrap draws for the interval without a reference.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    priors : ndarray of shape (n_classes,)
        Estimated priors, positive; they sum to one.

    interval : ndarray of shape (n_classes, 2)
        Lower and upper limit for each class, see Notes.

    Warns
    -----
    UserWarning
        If less than one sample is assigned to a class, or the predictions contain less
        information about the priors than 25 labelled samples, see Notes.

    See Also
    --------
    adjust_priors : Adjust probabilities to new priors.
    PriorShiftClassifier : Do both for any classifier.

    Notes
    -----
    With probabilities :math:`p_{ik}`, training priors :math:`\pi_k` and K classes, the
    maximum of

    .. math:: \sum_i \log \sum_k \theta_k \frac{p_{ik}}{\pi_k}
              + c K \sum_k \pi_k \log \theta_k

    is the estimate of EM with c K more samples that have the training priors. The
    function is concave, and Newton's method finds its maximum. The maxima for c = 1, 3,
    10, 30, 100, 300, 1000 and 10,000 are averaged. Their weights are proportional to
    the marginal likelihood of the data in Laplace's approximation, as a function of all
    but one of the :math:`\theta_k`, where the prior of :math:`\theta` is a Dirichlet
    distribution with the parameters :math:`1 + c K \pi_k`. If the data show a shift,
    the weight of c = 1 is near one. Without a shift, large c prevail, and the
    adjustment does less harm than that of EM. Sample weights are first multiplied by
    their sum and divided by the sum of their squares.

    The interval is that for c = 1: the samples are resampled, and each draw is one step
    of Newton's method from the estimate. It is widened to contain the average. It is
    that of the sampling error only: the error of a calibration is not contained. For a
    calibrated classifier, its coverage is close to the confidence level, but lower if
    less than a few samples of a class are expected. It is not valid for priors of
    exactly 0, as estimates are positive, or after a warning of little information.

    With a reference, the interval is that of the priors :math:`\theta` for which the
    mean of :math:`r_{ik}` below equals its means over each class of the reference,
    averaged with the weights :math:`\theta`. This holds for any probabilities, if the
    distribution of the features within each class is the same. The interval is the
    normal one, with the errors of both means, within [0, 1] and widened to contain the
    estimate, which is that without a reference.

    Let :math:`r_{ik}` be the ratio of :math:`p_{ik} / \pi_k` to its mean over the
    classes with weights :math:`\theta_k`. The smallest eigenvalue of the matrix
    :math:`\sum_i \sqrt{\theta_k \theta_l} \, r_{ik} r_{il}` is the number of labelled
    samples that contain as much information about the priors, in the direction with the
    least information. It is near zero if the classifier cannot distinguish two classes.

    If the mean probability of each class equals its training prior, no change is
    estimated for data of the training distribution. Calibrators with an intercept for
    each class have this property, such as
    :class:`~sklearn_calib.calibrators.PlattScaling` for two classes and
    :class:`~sklearn_calib.calibrators.VectorScaling` for several [2]_.

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
    >>> from sklearn_calib.deployment import estimate_priors
    >>> rng = np.random.default_rng(0)
    >>> is_ill = rng.uniform(size=2000) < 0.1
    >>> x = rng.normal(size=2000) + 2 * is_ill
    >>> y_proba = 1 / (1 + np.exp(2 - 2 * x))  # if half of the samples were ill
    >>> priors, interval = estimate_priors(y_proba, [0.5, 0.5], random_state=0)
    >>> print(priors.round(2), interval[1].round(2), is_ill.mean().round(2))
    [0.89 0.11] [0.09 0.13] 0.1
    """
    # `read_samples` needs labels.
    proba = check_proba(y_proba, allow_1d=True).astype(np.float64, copy=False)
    if proba.ndim == 1:
        proba = np.column_stack([1 - proba, proba])
    classes = np.arange(proba.shape[1])
    train = check_priors(train_priors, classes, "train_priors")
    if _are_by_label(train_priors):
        check_columns(y_proba, None, classes)
    held_out = None
    if reference is not None:
        held_out = read_reference(reference, None, len(classes), needs_all=True)
    weight = check_sample_weight(sample_weight, proba)
    weight = np.ones(len(proba)) if weight is None else weight
    proba, weight = proba[weight > 0], weight[weight > 0]
    # The ratio to a subnormal prior would be infinite.
    likelihood = proba / np.maximum(train, np.finfo(np.float64).tiny)
    # The sum is the number of samples with equal weights and the same information.
    weight = weight * (weight.sum() / (weight**2).sum())
    fits = [_fit(likelihood, weight, c * len(train) * train) for c in STRENGTHS]
    estimates, log_evidence = map(np.array, zip(*fits, strict=True))
    priors = softmax(log_evidence[None])[0] @ estimates
    _warn_if_unreliable(likelihood, weight, priors)
    tail = (1 - confidence_level) / 2
    if held_out is None:
        counts, rng = len(train) * train, check_random_state(random_state)
        draws = _draw(likelihood, weight, estimates[0], counts, n_resamples, rng)
        # The quantiles of "weibull" cover as often as stated for any number of draws.
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0, method="weibull")
    else:
        ratio = posterior_ratio(proba, train, priors)
        known = posterior_ratio(held_out.proba, train, priors)
        centre, error = _solve(ratio, weight, held_out, known)
        low, high = np.clip(centre + np.outer(ndtri([tail, 1 - tail]), error), 0, 1)
    low, high = np.minimum(low, priors), np.maximum(high, priors)
    return priors, np.column_stack([low, high])


def _fit(likelihood: Floats, weight: Floats, counts: Floats) -> tuple[Floats, float]:
    """Return the priors with pseudo-counts, and the log marginal likelihood.

    The prior distribution is Dirichlet with the parameters `1 + counts`.
    """
    priors = stacking_weights(likelihood, counts, weight)
    hessian = _hessian(likelihood, weight, priors, counts)
    log_density = gammaln(np.sum(1 + counts)) - gammaln(1 + counts).sum()
    log_posterior = weight @ np.log(likelihood @ priors) + counts @ np.log(priors)
    # Laplace's approximation, without the terms that do not depend on the counts.
    return priors, log_posterior + log_density - np.linalg.slogdet(hessian)[1] / 2


def _hessian(
    likelihood: Floats, weight: Floats, priors: Floats, counts: Floats
) -> Floats:
    """Return the negative Hessian with the last prior as one minus the others."""
    ratio = likelihood / (likelihood @ priors)[:, None]
    ratio = ratio[:, :-1] - ratio[:, -1:]
    curvature = counts / priors**2
    hessian = (ratio * weight[:, None]).T @ ratio + curvature[-1]
    return hessian + np.diag(curvature[:-1])


def _draw(
    likelihood: Floats,
    weight: Floats,
    priors: Floats,
    counts: Floats,
    n_resamples: int,
    rng: np.random.RandomState,
) -> Floats:
    """Return bootstrap draws of the priors, each by one step of Newton's method."""
    ratio = likelihood / (likelihood @ priors)[:, None]
    score = (ratio[:, :-1] - ratio[:, -1:]) * weight[:, None]
    n_samples = len(score)
    change = np.empty((n_resamples, len(priors) - 1))
    for row in change:
        drawn = rng.randint(n_samples, size=n_samples)
        times = np.bincount(drawn, minlength=n_samples)
        row[:] = (times - 1.0) @ score
    hessian = _hessian(likelihood, weight, priors, counts)
    step = np.linalg.solve(hessian, change.T).T
    step = np.column_stack([step, -step.sum(axis=1)])
    draws = np.clip(priors + step, 0, None)
    return draws / draws.sum(axis=1, keepdims=True)


def _solve(
    ratio: Floats, weight: Floats, reference: Reference, known: Floats
) -> tuple[Floats, Floats]:
    """Return priors that agree with the reference, and their standard errors.

    `ratio` and `known` are the ratios of the samples and of the reference.
    """
    share = weight / weight.sum()
    mean, means = share @ ratio, reference.means_of_classes(known)
    if np.linalg.matrix_rank(means, tol=1e-6) < len(means):
        # The reference does not tell the classes apart.
        return known.mean(axis=0), np.full(len(means), np.inf)
    inverse = np.linalg.inv(means)
    priors = inverse @ mean
    deviations = np.vstack([ratio - mean, known - means.T[reference.codes]])
    deviations *= np.append(share, reference.for_priors(priors))[:, None]
    return priors, np.sqrt(((deviations @ inverse.T) ** 2).sum(axis=0))


def _warn_if_unreliable(likelihood: Floats, weight: Floats, priors: Floats) -> None:
    """Warn of classes that are hardly there, and of classes that look alike."""
    total = weight.sum()
    ratio = likelihood * np.sqrt(priors) / (likelihood @ priors)[:, None]
    is_rare = np.sqrt(priors) * (weight @ ratio) < FEWEST_SAMPLES
    if is_rare.any():
        warnings.warn(
            "The estimated priors of some classes are near zero: less than one of "
            f"{total:.6g} samples is assigned to the columns "
            f"{shown(np.flatnonzero(is_rare).tolist())}, so these classes are hardly "
            "predicted any more. Pass known priors, or more samples.",
            UserWarning,
        )
    if is_rare.sum() >= len(priors) - 1:
        return
    kept = ratio[:, ~is_rare]
    information = max(np.linalg.eigvalsh((kept * weight[:, None]).T @ kept)[0], 0.0)
    if information < FEWEST_LABELS:
        warnings.warn(
            f"The predictions for {total:.6g} samples contain as little information "
            f"about the priors as {information:.1f} labelled samples, because the "
            "classifier hardly distinguishes some classes or there are few samples. "
            "Neither the estimate nor its interval is reliable. Pass known priors, or "
            "more samples.",
            UserWarning,
        )


def _are_by_label(priors: Any) -> bool:
    """Whether priors are given by label, and not in the order of the classes."""
    return isinstance(priors, dict) or is_instance(priors, "pandas", "Series")


def check_priors(
    priors: Any, classes: Array, name: str, *, may_be_zero: bool = False
) -> Floats:
    """Return priors, given by label or in the order of the classes, as an array."""
    labels = as_list(classes)
    if _are_by_label(priors):
        priors = dict(priors)  # of a Series, the result of value_counts
        if set(priors) != set(labels):
            raise ValueError(
                f"{name} must have the class labels as keys, {shown(labels)}, got "
                f"{shown(list(priors))}. Pass one number for each class."
            )
        priors = [priors[label] for label in labels]
    values = as_numbers(priors, name).astype(np.float64)
    if values.shape != (len(labels),):
        raise ValueError(
            f"Number of priors must match number of classes: {name} must have shape "
            f"({len(labels)},), got {values.shape}. Pass one number for each class."
        )
    if not (values >= 0).all():
        raise ValueError(
            f"Priors must be non-negative: {name} must contain frequencies, got "
            f"{shown(values.tolist())}. Pass the fraction of each class."
        )
    if not abs(values.sum() - 1) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"The sum of the priors should be 1: {name} must be fractions, got the sum "
            f"{values.sum():.6g}. Divide them by their sum."
        )
    if not (may_be_zero or values.all()):
        absent = as_list(classes[values == 0])
        raise ValueError(
            f"{name} must be positive, got 0 for the classes {shown(absent)}. Pass the "
            "class frequencies with which the classifier was trained."
        )
    return values / values.sum()
