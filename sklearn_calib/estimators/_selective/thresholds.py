"""Confidence thresholds and the label for abstaining."""

from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from math import ceil, e
from numbers import Real
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc, rel_entr

from sklearn_calib._numerics.confidence import check_confidence
from sklearn_calib._validation.arrays import as_numbers, shorten, shown
from sklearn_calib._validation.declarations import BETWEEN_0_AND_1, validate_params
from sklearn_calib._validation.labels import as_list, code_of_label
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.estimators._selective.risks import Risk, resolve_risks

# An error message rounds the lowest limit of a risk up to a multiple of 1 / STEPS.
STEPS = 10_000
# Number of tests whose p-values are computed at once: most sequences are short.
BLOCK = 64

# Risks with the total loss and the number of samples that count, by threshold.
Tested: TypeAlias = list[tuple[Risk, Floats]]


def check_goals(coverage: float | None, max_risk: Any) -> None:
    """Raise ValueError unless one goal is given."""
    if (coverage is None) == (max_risk is None):
        raise ValueError(
            "exactly one of coverage and max_risk must be given, got "
            f"coverage={coverage} and max_risk={shown(max_risk)}. Set the fraction "
            "of samples to predict, or the error rate that must not be exceeded."
        )


def check_has_proba(estimator: Any) -> None:
    """Raise ValueError unless the classifier has probabilities."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            "estimator must have predict_proba, got "
            f"{type(estimator).__name__}. Use another classifier, or wrap it in "
            "CalibratedClassifier."
        )


def check_tested_once(rows: Ints, purpose: str) -> None:
    """Raise ValueError if folds test a sample repeatedly."""
    n_samples = len(np.unique(rows))
    if n_samples < len(rows):
        raise ValueError(
            f"cv must test each sample at most once for {purpose}, got {len(rows)} "
            f"tests of {n_samples} samples. Use a splitter without repetitions."
        )


def refuse_logits(estimator: Any, confidence: Any) -> NoReturn:
    """Raise ValueError for a classifier whose logits are unknown."""
    raise ValueError(
        'confidence must be computed from probabilities, such as "msp", if the '
        f"decision function is not known to return logits, got {confidence!r} and "
        f"{type(estimator).__name__}. If it does return logits, set the attribute "
        "decision_function_is_logits = True of the classifier."
    )


@validate_params(
    {
        "correct": ["array-like"],
        "confidence": ["array-like"],
        "max_risk": BETWEEN_0_AND_1,
        "delta": BETWEEN_0_AND_1,
    }
)
def choose_threshold(
    correct: ArrayLike, confidence: ArrayLike, *, max_risk: float, delta: float = 0.05
) -> float:
    """Choose the confidence threshold that guarantees a maximum error rate.

    It is the threshold of :class:`SelectiveClassifier` for predictions of any kind,
    such as answers of a language model that were marked as correct or wrong. Accept
    predictions whose confidence is at or above it.

    Parameters
    ----------
    correct : array-like of shape (n_samples,)
        Whether each prediction is correct, on :term:`held-out data`.

    confidence : array-like of shape (n_samples,)
        Confidence of each prediction, in any unit; larger for higher confidence. Use
        minus infinity for predictions to accept last.

    max_risk : float in (0, 1)
        Upper bound for the error rate among the accepted predictions.

    delta : float in (0, 1), default=0.05
        Probability, over the draw of the held-out samples, that the error rate of the
        accepted predictions exceeds `max_risk`.

    Returns
    -------
    threshold : float
        The lowest confidence to accept.

    Raises
    ------
    ValueError
        If no threshold can guarantee `max_risk`; the message contains the lowest error
        rate that can be guaranteed. Also if `correct` has other values than 0 and 1, or
        a confidence is NaN.

    See Also
    --------
    SelectiveClassifier : A classifier with such a threshold, and bounds on other risks.
    sklearn_calib.metrics.coverage_at_risk : Coverage at an error rate, without a
        guarantee.

    Notes
    -----
    From the highest confidence to the lowest, the exact binomial test is applied to the
    hypothesis that the error rate exceeds `max_risk`. `delta` is divided among several
    starts of this fixed sequence of tests, see :class:`SelectiveClassifier`. The
    guarantee holds for new samples from the same distribution. There are no sample
    weights, because the test counts independent samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.estimators import choose_threshold
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(size=1000)
    >>> correct = rng.uniform(size=1000) < confidence
    >>> threshold = choose_threshold(correct, confidence, max_risk=0.2)
    >>> accepted = confidence >= threshold
    >>> print(f"coverage {accepted.mean():.2f}")
    coverage 0.33
    >>> print(f"accuracy {correct[accepted].mean():.2f}")
    accuracy 0.84
    """
    correct = _check_correct(correct)
    confidence = check_confidence(confidence, len(correct))
    # A wrong prediction has the loss 1.
    risks = resolve_risks(max_risk, None, np.array([False, True]))
    losses = [risk.losses(correct, np.ones_like(correct)) for risk in risks]
    return float(threshold_for_risk(confidence, risks, losses, delta))


def _check_correct(correct: ArrayLike) -> Ints:
    """Return 1 for correct predictions and 0 for wrong ones."""
    values = as_numbers(correct, "correct")
    if values.ndim == 1 and len(values) and np.isin(values, (0, 1)).all():
        return values.astype(np.int64)
    got = shown(np.unique(values).tolist())
    raise ValueError(
        "correct must contain True or False for each of at least one sample, got an "
        f"array of shape {values.shape} with the values {got}. Pass y_pred == y_true."
    )


def threshold_for_coverage(
    confidence: Floats, weight: Floats, coverage: float
) -> float:
    """Return the highest threshold that accepts at least this fraction of the weight.

    All samples tied at the threshold are accepted. For full coverage it is minus
    infinity, so that less confident new samples are accepted too.
    """
    if coverage == 1:
        return -np.inf
    order = np.argsort(-confidence, kind="stable")
    accepted = np.cumsum(weight[order])
    # Without the last factor, a coverage of 0.07 would accept 8 of 100 samples, as the
    # product is slightly above 7.
    wanted = coverage * accepted[-1] * (1 - 1e-12)
    return confidence[order[np.searchsorted(accepted, wanted)]]


def threshold_for_risk(
    confidence: Floats, risks: list[Risk], losses: list[Floats], delta: float
) -> float:
    """Return the lowest threshold that fixed-sequence testing accepts.

    From higher thresholds to lower ones, each hypothesis "some risk exceeds its limit"
    is tested; its p-value is the largest of the risks. The level is the level assigned
    to the test, plus the level of the previous test if that one rejected.

    Parameters
    ----------
    confidence : ndarray of shape (n_samples,)
        Confidence of the samples.

    risks : list of Risk
        The risks.

    losses : list of ndarrays of shape (n_samples,)
        The losses of each risk, with NaN for samples that do not count.

    delta : float
        Probability of a wrong rejection.
    """
    thresholds, index = np.unique(-confidence, return_inverse=True)
    n_accepted = np.bincount(index).cumsum()
    tested = [
        (risk, _accumulate(index, each))
        for risk, each in zip(risks, losses, strict=True)
    ]
    assigned = _levels(n_accepted, tested, delta)
    found, level, n_tests = None, 0.0, len(n_accepted)
    starts = {*assigned, *range(min(assigned), n_tests, BLOCK), n_tests}
    for start, end in pairwise(sorted(starts)):
        level += assigned.get(start, 0.0)
        if not level:  # none is left after a test that does not reject
            continue
        pvalue = _largest_pvalue(tested, slice(start, end))
        n_rejected = np.append(pvalue > level, True).argmax()
        if n_rejected > 0:
            found = start + n_rejected - 1
        if n_rejected < end - start:
            level = 0.0
    if found is None:
        lowest = [_lowest_limit(n_accepted, *each, delta) for each in tested]
        _refuse_max_risk(risks, lowest, delta, len(confidence))
    return -thresholds[found]


def _levels(n_accepted: Ints, tested: Tested, delta: float) -> dict[int, float]:
    """Return the significance level of the tests that have one, by index.

    Each of four thresholds gets a quarter of `delta`: those that accept all samples,
    half of them and a quarter of them, and the first that accepts enough samples for a
    rejection after a loss of 1. With all samples, a risk that is the same at all
    thresholds is rejected; with few, some samples are accepted rather than none. If a
    quarter of the samples is not enough, the first threshold with enough gets two
    quarters. This depends on the number of samples that count, but not on their losses,
    as fixed-sequence testing requires.
    """
    last = len(n_accepted) - 1
    wanted = n_accepted[-1] * np.array([0.25, 0.5])
    quarter, half = np.searchsorted(n_accepted, wanted).tolist()

    def first_enough(start: int, level: float) -> int:
        def is_enough(end: int) -> bool:
            return all(
                _pvalue(1.0, n_counted[end], risk) <= level
                for risk, (_, n_counted) in tested
            )

        return start + bisect_left(range(start, last), True, key=is_enough)

    part = delta / 4
    few = first_enough(0, part)
    if few >= quarter:
        few = quarter = first_enough(quarter, 2 * part)
    levels: dict[int, float] = {}
    for start in (few, quarter, max(quarter, half), last):
        levels[start] = levels.get(start, 0.0) + part
    return levels


def _largest_pvalue(tested: Tested, place: slice | list[int]) -> Floats:
    """Return the p-values of the hypotheses that some risk exceeds its limit."""
    values = [_pvalue(count[0, place], count[1, place], risk) for risk, count in tested]
    return np.max(values, axis=0)


def _accumulate(index: Ints, losses: Floats) -> Floats:
    """Return the total loss and the number of samples that count, by threshold."""
    counted = ~np.isnan(losses)
    columns = np.where(counted, losses, 0.0), counted
    return np.array([np.bincount(index, weights=each).cumsum() for each in columns])


def _pvalue(total: Any, n_samples: Any, risk: Risk) -> Any:
    """Return p-values of the hypothesis that the risk exceeds its limit.

    The test is the exact binomial test for losses of 0 and 1, and that of Hoeffding and
    Bentkus for other losses.
    """
    limit = risk.limit / risk.highest
    # As binom.cdf of scipy.stats, which is slow for a single number.
    most = np.ceil(total)
    tail = betaincc(most + 1, n_samples - most, limit)
    binomial = np.where(most < n_samples, tail, 1.0)
    if risk.is_binary:
        return binomial
    mean = np.minimum(total / np.maximum(n_samples, 1), limit)
    divergence = rel_entr(mean, limit) + rel_entr(1 - mean, 1 - limit)
    hoeffding = np.exp(-n_samples * divergence)
    return np.minimum(hoeffding, e * binomial)


def _lowest_limit(n_accepted: Ints, risk: Risk, count: Floats, delta: float) -> float:
    """Return the lowest limit, in steps, that can be guaranteed for one risk alone."""

    def is_found(step: int) -> bool:
        tested = [(replace(risk, limit=step / STEPS), count)]
        levels = _levels(n_accepted, tested, delta)
        return bool((_largest_pvalue(tested, [*levels]) <= [*levels.values()]).any())

    steps = range(1, ceil(risk.highest * STEPS))
    return (1 + bisect_left(steps, True, key=is_found)) / STEPS


def _refuse_max_risk(
    risks: list[Risk], lowest: list[float], delta: float, n_samples: int
) -> NoReturn:
    """Raise ValueError with the lowest risks that the same tests guarantee."""
    limits = [f"{each:.4g}" for each in lowest]
    wanted, here = "a risk that some threshold can guarantee", f"here is {limits[0]}"
    got = ", ".join(f"{risk} {risk.limit}" for risk in risks)
    if len(risks) > 1:
        wanted = "limits that one threshold can guarantee together"
        here = "limits of each risk alone are " + ", ".join(
            f"{risk} {each}" for risk, each in zip(risks, limits, strict=True)
        )
    raise ValueError(
        f"max_risk must be {wanted}, got {shorten(got)}. The lowest {shorten(here)}, "
        f"for delta={delta} and {n_samples} held-out samples. Set a larger max_risk or "
        "delta, or use more samples or a more accurate classifier."
    )


# By the kind of the labels' dtype: the type of the label for abstaining, its name,
# and the default.
ABSTAIN_LABELS: dict[str, tuple[type, str, Any]] = {
    "U": (str, "string", "abstain"),
    "M": (np.datetime64, "datetime64", np.datetime64("NaT")),
    "m": (np.timedelta64, "timedelta64", np.timedelta64("NaT")),
}


def resolve_abstain_label(label: Any, classes: Array) -> Any:
    """Return the label for abstaining, of the classes' type and different from them."""
    kind = "U" if isinstance(classes[0], str) else classes.dtype.kind
    wanted, name, default = ABSTAIN_LABELS.get(kind, (Real, "number", None))
    label = default if label is None else label
    if not isinstance(label, wanted):
        way_out = "such as -1" if default is None else "or pass None for the default"
        raise ValueError(
            f"abstain_label must be a {name}, like the labels, got {shown(label)}. "
            f"Choose one that is not a class, {way_out}."
        )
    if code_of_label(label, classes) is not None:
        raise ValueError(
            f"abstain_label must not be one of the classes {shown(as_list(classes))}, "
            f"got {shown(label)}. Choose another label."
        )
    return label
