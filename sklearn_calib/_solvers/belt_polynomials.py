"""Calibration belt: polynomial logistic recalibration and its confidence region."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, expit

from sklearn_calib._numerics.class_scores import log_odds_of_one
from sklearn_calib._solvers.logistic import log_loss, newton_logistic
from sklearn_calib._validation.samples import effective_weights
from sklearn_calib._validation.types import Array, Bools, Floats, Weights

# Degrees of freedom of the first polynomial, and its degree. A logistic regression has
# the slope 1 and the intercept 0 on its own training data.
FIRST = {"external": (2, 1), "internal": (1, 2)}
# Why there is no estimate, for messages.
UNDEFINED = (
    "only one outcome occurs, the probabilities separate the outcomes, or too few "
    "probabilities are distinct"
)
# Nodes of the quadrature, in each of at most three nested integrals.
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(40)
# Most log-odds for which the belt is computed. More are merged in cells of this number.
MOST_VALUES = 2048
MAX_STEPS, MAX_HALVINGS = 100, 40
# Largest last change of the log-odds of an end.
TOLERANCE = 1e-6
# An end beyond these log-odds need not be precise.
LARGEST = 100
# How far outside of the region a step may lead, relative to its depth.
SLACK = 0.1
# Added to the diagonal of the information, in units of the diagonal.
JITTER = 1e-10


class Polynomial(NamedTuple):
    """Polynomial in the log-odds, with coefficients in the Chebyshev basis."""

    middle: float
    half_width: float
    coef: Floats

    @property
    def degree(self) -> int:
        return len(self.coef) - 1

    def basis(self, log_odds: Floats) -> Floats:
        """Return the basis functions (n_values, degree + 1)."""
        # Powers of log-odds are close to linearly dependent.
        return chebvander((log_odds - self.middle) / self.half_width, self.degree)

    def __call__(self, log_odds: Floats) -> Floats:
        return self.basis(log_odds) @ self.coef


class Sample(NamedTuple):
    """Log-odds of the evaluated probabilities, outcomes, and effective weights.

    The log loss of the predictions is infinite if a true outcome has the probability 0.
    """

    log_odds: Floats
    outcome: Array
    weight: Floats
    loss: float


class Selected(NamedTuple):
    """Selected polynomial, statistic of the test, and its distribution."""

    polynomial: Polynomial
    statistic: float
    n_added: int
    df: int
    level: float

    def survival(self, value: Any) -> Any:
        """Return the probability of a larger statistic for calibrated predictions."""
        return survival(value, self.n_added, self.df, self.level)

    @property
    def pvalue(self) -> float:
        # Beyond this, it is 0 in double precision.
        return float(self.survival(min(self.statistic, 2000.0)))

    def quantile(self, probability: float) -> float:
        """Return the quantile of the statistic for calibrated predictions."""
        high = self.df + 1.0
        while self.survival(high) > 1 - probability:
            high *= 2
        low = self.n_added * chdtri(1, self.level)
        return float(brentq(lambda t: self.survival(t) - 1 + probability, low, high))


def belt_sample(value: Floats, outcome: Bools, weight: Weights) -> Sample:
    """Return the samples that count, with effective weights."""
    weight = effective_weights(weight, len(value))
    kept = weight > 0
    # Correct certainty has the same likelihood for calibrated predictions and others.
    uncertain = kept & (value != outcome)
    kept = uncertain if uncertain.any() else kept
    value, outcome, weight = value[kept], outcome[kept], weight[kept]
    log_odds, target = log_odds_of_one(value), outcome.astype(np.float64)
    is_impossible = (value == ~outcome).any()
    loss = np.inf if is_impossible else log_loss(log_odds, target, weight)[0]
    return Sample(log_odds, target, weight, float(loss))


def select_polynomial(
    sample: Sample, validation: str, max_degree: int, level: float
) -> Selected | None:
    """Return the polynomial of the forward selection, or None if there is none.

    The degree increases as long as the likelihood ratio test at the level is
    significant, and the estimate exists.
    """
    df, first = FIRST[validation]
    n_values = len(np.unique(sample.log_odds))
    selected, loss, critical = None, np.inf, chdtri(1, level)
    for degree in range(first, min(max_degree, n_values - 1) + 1):
        fit = _fit(sample, degree)
        if fit is None:
            break
        polynomial, next_loss = fit
        if selected is not None and 2 * (loss - next_loss) <= critical:
            break
        selected, loss = polynomial, next_loss
    if selected is None:
        return None
    statistic = max(2 * (sample.loss - loss), 0.0)
    return Selected(selected, statistic, selected.degree - first, df, level)


def _fit(sample: Sample, degree: int) -> tuple[Polynomial, float] | None:
    """Return the estimate and its log loss, or None if it does not exist."""
    low, high = sample.log_odds.min(), sample.log_odds.max()
    blank = Polynomial((low + high) / 2, (high - low) / 2, np.zeros(degree + 1))
    # The intercept is expected in the last column.
    basis = blank.basis(sample.log_odds)[:, ::-1]
    coef, has_converged = newton_logistic(basis, sample.outcome, sample.weight)
    if not has_converged:
        return None
    loss = log_loss(basis @ coef, sample.outcome, sample.weight)[0]
    return blank._replace(coef=coef[::-1]), float(loss)


def survival(value: Any, n_added: int, df: int, level: float) -> Any:
    """Return the survival function of the statistic, given the selected degree.

    It is the sum of a chi-square variable with `df` degrees of freedom, and for each
    degree that was added, one with 1 degree, conditional on being significant at the
    level. The integral is over the last of them.
    """
    value = np.asarray(value, dtype=np.float64)
    if n_added == 0:
        return chdtrc(df, np.maximum(value, 0))
    critical = chdtri(1, level)
    # The others are at least (n_added - 1) * critical, where they have a square root
    # singularity, which the substitution removes.
    end = np.maximum(value - (n_added - 1) * critical, critical)[..., None]
    step = (NODES + 1) / 2
    last = end - (end - critical) * step**2
    density = np.exp(-last / 2) / np.sqrt(2 * np.pi * last)
    density *= (end - critical) * step * NODE_WEIGHTS
    others = survival(value[..., None] - last, n_added - 1, df, level)
    return ((density * others).sum(axis=-1) + chdtrc(1, end[..., 0])) / level


def belt(
    sample: Sample, selected: Selected, log_odds: Floats, probability: float
) -> Floats:
    """Return the ends (2, n_points) of the belt at log-odds, as log-odds.

    The belt is the range of the polynomials in the confidence region of the likelihood
    ratio test. Its ends are found for all points at once, by Newton's method for the
    profile likelihood.
    """
    merged = _merge(sample)
    fit = _refit(merged, selected.polynomial)
    likelihood = _Likelihood(fit.basis(merged.log_odds), merged)
    depth = selected.quantile(probability) / 2
    target = likelihood.value(fit.coef @ likelihood.rows) - depth
    direction = np.repeat(fit.basis(log_odds), 2, axis=0)
    sign = np.tile([-1.0, 1.0], len(log_odds))
    coef = np.repeat(fit.coef[None], len(sign), axis=0)
    rest = np.arange(len(sign))
    for _ in range(MAX_STEPS):
        margin = coef[rest] @ likelihood.rows
        value = likelihood.value(margin)
        step = likelihood.step(margin, value - target, direction[rest], sign[rest])
        move = step @ likelihood.rows
        # Far outside of the region, the quadratic approximation fails.
        lowest = np.minimum(value, target - SLACK * depth)
        length = np.ones((len(rest), 1))
        for _ in range(MAX_HALVINGS):
            is_outside = likelihood.value(margin + length * move) < lowest
            if not is_outside.any():
                break
            length[is_outside] /= 2
        coef[rest] += length * step
        change, end = (
            sign[rest] * np.einsum("ij,ij->i", direction[rest], each)
            for each in (step, coef[rest])
        )
        rest = rest[(np.abs(change) > TOLERANCE) & (end < LARGEST)]
        if not len(rest):
            break
    return np.einsum("ij,ij->i", direction, coef).reshape(-1, 2).T


class _Likelihood:
    """Log-likelihood of many polynomials."""

    def __init__(self, basis: Floats, sample: Sample) -> None:
        self.basis, self.rows = basis, basis.T
        self.total = sample.weight
        self.positive = sample.weight * sample.outcome
        self.pairs = (basis[:, :, None] * basis[:, None]).reshape(len(basis), -1)

    def value(self, margin: Floats) -> Any:
        """Return the log-likelihoods of log-odds (..., n_values)."""
        return margin @ self.positive - np.logaddexp(0, margin) @ self.total

    def step(
        self, margin: Floats, excess: Floats, direction: Floats, sign: Floats
    ) -> Floats:
        """Return the steps to the largest value in a direction at the target.

        `excess` is by how much the log-likelihoods of the log-odds exceed it.
        """
        proba = expit(margin)
        gradient = (self.positive - proba * self.total) @ self.basis
        information = (proba * expit(-margin) * self.total) @ self.pairs
        n_coef = direction.shape[1]
        information = information.reshape(-1, n_coef, n_coef)
        diagonal = np.sqrt(np.einsum("ijj->ij", information))
        # Curvatures vanish where all probabilities are close to 0 and 1.
        diagonal = np.maximum(diagonal, np.finfo(np.float64).tiny ** 0.25)
        information /= diagonal[:, :, None] * diagonal[:, None]
        information += JITTER * np.eye(n_coef)
        right = np.stack([gradient / diagonal, direction / diagonal], axis=-1)
        newton, profile = np.moveaxis(
            np.linalg.solve(information, right) / diagonal[..., None], -1, 0
        )
        excess = excess + np.einsum("ij,ij->i", gradient, newton) / 2
        norm = np.einsum("ij,ij->i", direction, profile)
        scale = sign * np.sqrt(2 * np.maximum(excess, 0) / norm)
        return newton + scale[:, None] * profile


def _merge(sample: Sample) -> Sample:
    """Return a sample with at most `MOST_VALUES` log-odds, by merging those of a cell.

    Outcomes are then frequencies.
    """
    log_odds, index = np.unique(sample.log_odds, return_inverse=True)
    if len(log_odds) > MOST_VALUES:
        edges = np.linspace(log_odds[0], log_odds[-1], MOST_VALUES + 1)[1:-1]
        index = np.unique(edges.searchsorted(sample.log_odds), return_inverse=True)[1]
    total = np.bincount(index, sample.weight).astype(np.float64)
    log_odds, outcome = (
        np.bincount(index, sample.weight * each) / total
        for each in (sample.log_odds, sample.outcome)
    )
    return Sample(log_odds, outcome, total, sample.loss)


def _refit(sample: Sample, polynomial: Polynomial) -> Polynomial:
    """Return the estimate of the same degree and basis for another sample."""
    basis = polynomial.basis(sample.log_odds)[:, ::-1]
    coef, _ = newton_logistic(basis, sample.outcome, sample.weight)
    return polynomial._replace(coef=coef[::-1])
