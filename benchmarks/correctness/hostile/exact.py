"""Losses and metrics compared with the same formula in 50 digits."""

from functools import cache, partial

import mpmath as mp
import numpy as np
import torch

from hostile.judge import SILENT, Outcome
from sklearn_calib import losses, metrics

MARGINS = [0.0, 1e-300, 1e-8, 1e-3, 0.5, 1.0, 3.0, 10.0, 40.0, 100.0, 700.0, 1e4]


def _log_p(logits, label):
    others = (z - logits[label] for k, z in enumerate(logits) if k != label)
    return -mp.log1p(mp.fsum(mp.exp(gap) for gap in others))


def _rest(logits, label):
    """Return 1 - p of the label, without cancellation."""
    largest = max(logits)
    powers = [mp.exp(z - largest) for z in logits]
    others = mp.fsum(power for k, power in enumerate(powers) if k != label)
    return others / mp.fsum(powers)


def _brier(logits, label):
    proba = [mp.exp(_log_p(logits, k)) for k in range(len(logits))]
    others = mp.fsum(p**2 for k, p in enumerate(proba) if k != label)
    return _rest(logits, label) ** 2 + others


def _smoothed(logits, label):
    smoothing = mp.mpf(0.1) / len(logits)
    uniform = mp.fsum(-_log_p(logits, k) for k in range(len(logits)))
    return (1 - mp.mpf(0.1)) * -_log_p(logits, label) + smoothing * uniform


def _focal(gamma):
    return lambda logits, label: (
        -_log_p(logits, label) * _rest(logits, label) ** mp.mpf(gamma)
    )


def _inverse_focal(logits, label):
    return -_log_p(logits, label) * (2 - _rest(logits, label))


LOSSES = {
    "cross_entropy": (losses.cross_entropy_loss, lambda z, k: -_log_p(z, k)),
    "smoothed": (partial(losses.cross_entropy_loss, label_smoothing=0.1), _smoothed),
    "brier": (losses.brier_loss, _brier),
    "inverse_focal": (losses.inverse_focal_loss, _inverse_focal),
    **{
        f"focal {gamma:g}": (partial(losses.focal_loss, gamma=gamma), _focal(gamma))
        for gamma in (0.5, 1.0, 2.0, 3.0, 5.0)
    },
}


def loss_is_exact(name, dtype, margin):
    """Compare a loss, with relative tolerance 4 eps (1 + |margin|) + 16 eps."""
    function, exact = LOSSES[name]
    rows = torch.tensor([[margin, 0.0, -0.5], [0.25, margin, 0.0]], dtype=dtype)
    logits, labels = rows.repeat_interleave(3, dim=0), torch.arange(3).repeat(2)
    values = function(logits, labels, reduction="none")
    info = torch.finfo(dtype)
    with mp.workdps(50):
        for row, label, value in zip(
            logits.tolist(), labels.tolist(), values.tolist(), strict=True
        ):
            truth = exact([mp.mpf(z) for z in row], label)
            error = abs(mp.mpf(value) - truth)
            bound = info.eps * (4 * (1 + abs(mp.mpf(margin))) + 16) * abs(truth)
            if error > max(bound, mp.mpf(info.tiny)):
                return Outcome(
                    SILENT,
                    f"{value!r} in place of {mp.nstr(truth, 17)} at margin "
                    f"{margin:g}: {mp.nstr(error / bound, 3)} bounds",
                )
    return None


def _problem(kind, seed):
    """Return labels and probabilities of two classes, some of them extreme."""
    rng = np.random.default_rng(seed)
    size = (40,)
    p = {
        "spread": rng.uniform(size=size),
        "sharp": rng.choice([0.0, 1.0, 1e-300, 1e-17, 1 - 2**-53, 0.3], size=size),
        "tied": rng.choice([0.1, 0.5, 0.9], size=size),
    }[kind]
    y = (rng.uniform(size=size) < p).astype(int)
    y[:2] = 0, 1
    return y, p, rng.uniform(0.5, 2, size=size)


def _weighted_mean(values, weight):
    return mp.fsum(v * w for v, w in zip(values, weight, strict=True)) / mp.fsum(weight)


def _root_brier(y, p, w):
    # For two classes, both columns are used.
    return mp.sqrt(
        _weighted_mean([2 * (a - b) ** 2 for a, b in zip(p, y, strict=True)], w)
    )


def _ece(y, p, w):
    bins = {}
    for label, prob, weight in zip(y, p, w, strict=True):
        # Bins are closed on the right, the first one on both sides.
        edges = np.linspace(0, 1, 16)
        index = int(np.searchsorted(edges[1:-1], float(prob)))
        bins.setdefault(index, []).append(weight * (prob - label))
    return mp.fsum(abs(mp.fsum(gaps)) for gaps in bins.values()) / mp.fsum(w)


METRICS = {
    "root_brier_score_loss": _root_brier,
    "expected_calibration_error": _ece,
}


@cache
def _exact_metric(name, kind, seed):
    numbers = [[mp.mpf(float(v)) for v in each] for each in _problem(kind, seed)]
    return METRICS[name](*numbers)


def metric_is_exact(name, kind, seed, factor):
    """Compare a metric, with tolerance 1e-12 for any scale of the weights."""
    y, p, weight = _problem(kind, seed)
    value = getattr(metrics, name)(y, p, sample_weight=weight * factor)
    with mp.workdps(50):
        truth = _exact_metric(name, kind, seed)
        if abs(mp.mpf(value) - truth) > 1e-12:
            return Outcome(SILENT, f"{value!r} in place of {mp.nstr(truth, 17)}")
    return None


def comparisons():
    """Return each comparison as a function without arguments, by name."""
    found = {}
    for name in LOSSES:
        for dtype in (torch.float32, torch.float64):
            for margin in MARGINS:
                for sign in (1, -1) if margin else (1,):
                    title = f"losses.{name}: exact {dtype} at {sign * margin:g}"
                    found[title] = partial(loss_is_exact, name, dtype, sign * margin)
    for name in METRICS:
        for kind in ("spread", "sharp", "tied"):
            for seed in range(10):
                for factor in (1.0, 7.0, 1e-300, 1e300):
                    title = f"metrics.{name}: exact {kind} {seed} times {factor:g}"
                    found[title] = partial(metric_is_exact, name, kind, seed, factor)
    return found
