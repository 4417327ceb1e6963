"""How much of a calibration error is chance."""

import numpy as np
from sklearn.utils import check_random_state

from sklearn_calib._core.binning import bin_index, class_gap_norm, interior_edges
from sklearn_calib._core.validation import (
    StrOptions,
    check_proba,
    check_sample_weight,
    row_blocks,
    validate_params,
)
from sklearn_calib.metrics._targets import (
    BETWEEN_0_AND_1,
    BINS,
    DRAWS,
    MODES,
    TARGETS,
    as_columns,
    check_targets,
    confidence_and_hit,
    resolve_mode,
    resolve_n_bins,
)


@validate_params(
    {
        **TARGETS,
        **BINS,
        **DRAWS,
        "norm": [StrOptions({"l1", "l2"})],
        "mode": [StrOptions(MODES), None],
        "confidence_level": BETWEEN_0_AND_1,
    },
    prefer_skip_nested_validation=True,
)
def ece_interval(
    y_true,
    y_proba,
    *,
    confidence_level=0.95,
    n_bins=15,
    strategy="uniform",
    norm="l1",
    mode=None,
    labels=None,
    sample_weight=None,
    n_resamples=1000,
    random_state=None,
):
    """Debiased confidence interval for the expected calibration error.

    The error of a sample is larger than that of the population, because the gap of a
    bin counts whatever its sign. The usual bootstrap doubles that bias, and its
    interval never reaches zero for a calibrated classifier; this one does.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence_level : float, default=0.95
        Share of the samples in which the interval holds the error of the population,
        with these bins. In (0, 1).

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    norm : {"l1", "l2"}, default="l1"
        How the gaps of the bins are put together.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured, as in :func:`expected_calibration_error`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable interval.

    Returns
    -------
    low, high : float
        Ends of the interval, in [0, 1]. The plug-in value of
        :func:`expected_calibration_error` may lie above its middle, never outside.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    Notes
    -----
    Noise with the standard error of each bin's gap is drawn and added to the gaps. The
    lower end subtracts what the noise adds to the error if gaps within two standard
    errors of zero are taken as zero, and is zero if noise alone could have made the
    observed error. The upper end allows for the spread of the noise but subtracts no
    bias, for there may be none where gaps are large. The interval is rather too wide
    than too narrow, for a calibrated classifier most of all. Not so with
    `mode="classwise"` and norm "l2": the noise of the classes is drawn as if it were
    independent, and for two classes an interval of level 0.95 was seen to hold the
    value in 0.89 of the samples.

    References
    ----------
    .. [1] A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration",
       NeurIPS 2019.

    .. [2] Y. Sun, P. Chaudhari, I. J. Barnett and E. Dobriban, "A Confidence Interval
       for the l2 Expected Calibration Error", arXiv:2408.08998, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import ece_interval, expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < y_proba  # perfectly calibrated
    >>> round(expected_calibration_error(y_true, y_proba), 3)
    0.043
    >>> low, high = ece_interval(y_true, y_proba, random_state=0)
    >>> low
    0.0
    """
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    values, hit = _judged(proba, codes, resolve_mode(mode, proba))
    weight = np.ones(len(values)) if weight is None else weight
    cells, shape = _cells(values, weight, n_bins, strategy)
    mass = _cell_sums(cells, weight[:, None], shape)
    gap, standard_error = _gaps(values, hit, weight, cells, shape)
    clear_gap = np.where(np.abs(gap) > 2 * standard_error, gap, 0)
    # So far from zero that the noise adds no bias, only spread.
    far_gap = gap + np.where(gap < 0, -4, 4) * standard_error
    observed = class_gap_norm(mass, gap, norm)

    rng = check_random_state(random_state)
    spread, excess, null = np.empty((3, n_resamples))
    for draws in row_blocks(n_resamples, gap.size):
        noise = standard_error * rng.standard_normal((draws.stop - draws.start, *shape))
        spread[draws] = class_gap_norm(mass, far_gap + noise, norm)
        excess[draws] = class_gap_norm(mass, clear_gap + noise, norm)
        null[draws] = class_gap_norm(mass, noise, norm)
    excess -= class_gap_norm(mass, clear_gap, norm)

    tail = (1 - confidence_level) / 2
    low = observed - np.quantile(excess, 1 - tail)
    if observed <= np.quantile(null, 1 - tail):
        low = 0.0
    high = observed + spread.mean() - np.quantile(spread, tail)
    return float(max(low, 0.0)), float(min(high, 1.0))


@validate_params(
    {
        "y_proba": TARGETS["y_proba"],
        "sample_weight": TARGETS["sample_weight"],
        **BINS,
        **DRAWS,
        "norm": [StrOptions({"l1", "l2", "max"})],
        "mode": [StrOptions(MODES), None],
        "level": BETWEEN_0_AND_1,
    },
    prefer_skip_nested_validation=True,
)
def ece_consistency_bound(
    y_proba,
    *,
    level=0.95,
    n_bins=15,
    strategy="uniform",
    norm="l1",
    mode=None,
    sample_weight=None,
    n_resamples=1000,
    random_state=None,
):
    """Error that a perfectly calibrated classifier stays under in most samples.

    Labels are drawn from the predicted probabilities themselves, many times over, and
    the expected calibration error is measured each time. An observed error below the
    bound is no sign of miscalibration.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    level : float, default=0.95
        Share of the samples in which the error stays under the bound. In (0, 1).

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured, as in :func:`expected_calibration_error`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    n_resamples : int, default=1000
        Number of draws of all labels.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable bound.

    Returns
    -------
    bound : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If `y_proba` holds anything but probabilities.

    Notes
    -----
    This is consistency resampling [1]_ [2]_ with the confidences held fixed.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability
       Diagrams", Weather and Forecasting 22, 2007.

    .. [2] J. Vaicenavicius, D. Widmann, C. Andersson, F. Lindsten, J. Roll and
       T. B. Schön, "Evaluating model calibration in classification", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import ece_consistency_bound
    >>> y_proba = np.random.default_rng(0).uniform(size=500)
    >>> bound = ece_consistency_bound(y_proba, random_state=0)
    >>> 0.07 < bound < 0.09
    True
    """
    proba = check_proba(y_proba, allow_1d=True)
    values, _ = _judged(proba, np.zeros(len(proba), int), resolve_mode(mode, proba))
    # In the order of the confidences, so that the order of the rows does not matter.
    order = np.argsort(values.max(axis=1), kind="stable")
    weight = check_sample_weight(sample_weight, proba)
    weight = np.ones(len(values)) if weight is None else weight
    values, weight = values[order], weight[order]
    cells, shape = _cells(values, weight, n_bins, strategy)
    mass = _cell_sums(cells, weight[:, None], shape)
    confidence = _cell_sums(cells, weight[:, None] * values, shape)

    rng = check_random_state(random_state)
    errors = np.empty(n_resamples)
    for draws in row_blocks(n_resamples, len(values)):
        hit = _draw_hits(draws.stop - draws.start, values, weight, cells, shape, rng)
        errors[draws] = class_gap_norm(mass, confidence - hit, norm)
    return float(np.quantile(errors, level))


def _judged(proba, codes, mode):
    """Return the probabilities that are judged and their hits, a column per class."""
    if mode == "classwise":
        values = check_proba(as_columns(proba))
        return values, codes[:, None] == np.arange(values.shape[1])
    confidence, hit = confidence_and_hit(proba, codes, mode)
    return confidence[:, None], hit[:, None]


def _cells(values, weight, n_bins, strategy):
    """Return the number of each value's bin, and the shape of the table of bins."""
    n_bins = resolve_n_bins(n_bins, len(values), weight)
    indices = [
        bin_index(
            column,
            interior_edges(
                column, n_bins=n_bins, strategy=strategy, sample_weight=weight
            ),
        )
        for column in values.T
    ]
    first = n_bins * np.arange(len(indices))
    return np.stack(indices, axis=1) + first, (len(indices), n_bins)


def _cell_sums(cells, summand, shape):
    """Sum over the samples in each bin of each column."""
    summand = np.broadcast_to(summand, cells.shape)
    return np.bincount(cells.ravel(), summand.ravel(), np.prod(shape)).reshape(shape)


def _gaps(values, hit, weight, cells, shape):
    """Return the summed gap of each bin and its standard error."""
    weight = weight[:, None]
    deviation = weight * (values - hit)
    gap = _cell_sums(cells, deviation, shape)
    n_effective = weight.sum() ** 2 / (weight**2).sum()
    variance = _cell_sums(cells, deviation**2, shape) - gap**2 / n_effective
    # A bin whose few samples are all hits has seen no variance, but there is some.
    if_calibrated = _cell_sums(cells, weight**2 * values * (1 - values), shape)
    return gap, np.sqrt(np.maximum(variance, if_calibrated))


def _draw_hits(n_draws, values, weight, cells, shape, rng):
    """Draw the true classes from the probabilities, and sum the hits in each bin."""
    n_samples, n_columns = values.shape
    # One column is hit or missed, of several exactly one is hit.
    thresholds = values.cumsum(axis=1)[:, : max(1, n_columns - 1)]
    uniform = rng.random_sample((n_draws, n_samples))
    drawn = np.zeros(uniform.shape, dtype=np.int64)
    for threshold in thresholds.T:
        drawn += uniform >= threshold
    n_cells = np.prod(shape)
    cell_or_miss = np.column_stack([cells, np.full(n_samples, n_cells)])
    hit = cell_or_miss[np.arange(n_samples), drawn]
    hit += (n_cells + 1) * np.arange(n_draws)[:, None]
    sums = np.bincount(
        hit.ravel(),
        np.broadcast_to(weight, hit.shape).ravel(),
        n_draws * (n_cells + 1),
    )
    return sums.reshape(n_draws, -1)[:, :-1].reshape(n_draws, *shape)
