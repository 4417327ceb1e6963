"""Values and gradients of every loss agree with mpmath at margins up to 1e4.

The reference is the formula of the loss, computed with 400 digits, so that 1 - p_t is
accurate. It is a function of the logits z, a list of rows, and of c, the same logits
where they are treated as constants in the gradient.
"""

import math
from functools import lru_cache
from itertools import chain

import mpmath as mp
import pytest
import torch
from mpmath import fsum, mpf, sqrt

from sklearn_calib.losses import ACLSLoss

DIGITS = 400
# The step of a difference quotient, whose relative error is far below that of a double.
STEP = mpf(10) ** -40
# All losses have the same logits, and always the same digits.
keep = lru_cache(maxsize=10_000)
exp, log, log1p = map(keep, (mp.exp, mp.log, mp.log1p))


def terms_and_grads(loss, z, y):
    """Return the terms whose sum is the mean loss of a batch, and their gradients."""
    with mp.workdps(DIGITS):
        z = [tuple(map(mpf, row)) for row in z]
        terms, grads = _terms(loss, z, y, z), []
        for i, row in enumerate(z):
            for k in range(len(row)):
                moved = [*z]
                moved[i] = (*row[:k], row[k] + STEP, *row[k + 1 :])
                pairs = zip(_terms(loss, moved, y, z), terms, strict=True)
                grads.append([(after - before) / STEP for after, before in pairs])
        return terms, grads


def _terms(loss, z, y, c):
    name = type(loss).__name__
    if name in OF_BATCH:
        return [
            *_terms(loss.base_, z, y, c),
            mpf(loss.lambd) * OF_BATCH[name](loss, z, y),
        ]
    of_samples = [TERMS[name](loss, *each) for each in zip(z, y, c, strict=True)]
    return [mean(values) for values in zip(*of_samples, strict=True)]


def mean(values):
    return fsum(values) / len(values)


@keep
def softmax(z):
    parts = [exp(value - max(z)) for value in z]
    total = fsum(parts)
    return [part / total for part in parts]


@keep
def rest(z, y):
    """Return 1 - p_t."""
    return fsum(p for k, p in enumerate(softmax(z)) if k != y)


@keep
def cross_entropy(z, y):
    others = rest(z, y)
    return -log1p(-others) if others < 0.5 else -log(softmax(z)[y])


def _cross_entropy(loss, z, y, _):
    smoothing = mpf(loss.label_smoothing)
    uniform = mean([cross_entropy(z, k) for k in range(len(z))]) if smoothing else 0
    return [(1 - smoothing) * cross_entropy(z, y), smoothing * uniform]


def focal(z, y, gamma, base=None):
    base = rest(z, y) if base is None else base
    return [base ** mpf(gamma) * cross_entropy(z, y)]


def _inverse_focal(loss, z, y, _):
    return focal(z, y, loss.gamma, 2 - rest(z, y))


def competitor(z, y, kind):
    """Return q, which the dual focal loss adds to 1 - p_t."""
    below = sorted((p for p in softmax(z) if p < softmax(z)[y]), reverse=True)
    rank = {"largest": 1, 2: 2, 3: 3}.get(kind)
    if rank:
        return below[rank - 1] if len(below) >= rank else mpf(0)
    if kind in ("mean", "mean2", "mean3"):
        below = below[: int(kind[4:] or len(below))]
        return mean(below) if below else mpf(0)
    return mpf(kind)


def _dual_focal(loss, z, y, _):
    base = rest(z, y) + competitor(z, y, loss.competitor)
    return focal(z, y, loss.gamma, base)


def _adafocal(loss, z, y, c, *, kind=0):
    base = rest(z, y) + competitor(z, y, kind)
    lead = 1 - rest(c, y) - competitor(c, y, kind)
    index = sum(lead > edge for edge in loss.edges.tolist())
    gamma = loss.gamma[index].item()
    return focal(z, y, abs(gamma), base if gamma >= 0 else 2 - base)


def _ada_dual_focal(loss, z, y, c):
    return _adafocal(loss, z, y, c, kind="largest")


def _calfocal(loss, z, y, c):
    proba = 1 - rest(c, y)
    index = sum(proba > edge for edge in loss.edges.tolist())
    gap = mpf(loss.bin_confidence[index].item()) - loss.bin_accuracy[index].item()
    return focal(z, y, exp(loss.lambd * gap))


def _sample_dependent_focal(loss, z, y, c):
    kind = 0 if loss.competitor is None else loss.competitor
    lead = 1 - rest(c, y) - competitor(c, y, kind)
    gamma = loss.gammas[sum(lead >= threshold for threshold in loss.thresholds)]
    return focal(z, y, gamma, rest(z, y) + competitor(z, y, kind))


def _brier(_loss, z, y, _):
    p = softmax(z)
    return [rest(z, y) ** 2 + fsum(p[k] ** 2 for k in range(len(z)) if k != y)]


def _focal_calibration(loss, z, y, c):
    distance = 2 * rest(z, y) if loss.norm == "l1" else _brier(loss, z, y, c)[0]
    gate = 1 if loss.gamma_cal is None else rest(c, y) ** mpf(loss.gamma_cal)
    return [*focal(z, y, loss.gamma), loss.lambd * gate * distance]


def _label_relaxation(loss, z, y, _):
    alpha, others = mpf(loss.alpha), rest(z, y)
    if others <= alpha:
        return [mpf(0)]
    of_label = (1 - alpha) * (cross_entropy(z, y) + log(1 - alpha))
    return [of_label + alpha * log(alpha / others)]


def _logitnorm(loss, z, y, _):
    length = sqrt(fsum(value**2 for value in z)) + mpf(1e-7)
    scale = length * mpf(loss.temperature)
    return [cross_entropy(tuple(v / scale for v in z), y)]


def _with_penalty(penalty):
    def terms(loss, z, y, c):
        base = TERMS[type(loss.base_).__name__](loss.base_, z, y, c)
        return [*base, mpf(loss.lambd) * penalty(loss, z, c)]

    return terms


def relu(value):
    return max(value, mpf(0))


def _acls(loss, z, c):
    top = relu(max(z) - mpf(loss.margin)) ** 2
    others = fsum(relu(max(c) - value - mpf(loss.margin)) ** 2 for value in z)
    return loss.lambd_top * top + mpf(loss.lambd_others) / (len(z) - 1) * others


def _confidence_penalty(loss, z, _):
    if loss.penalty == "l1":
        return fsum(abs(p - mpf(1) / len(z)) for p in softmax(z))
    return fsum(p * log(p) for p in softmax(z))


def _max_sup(_loss, z, _):
    return max(z) - mean(z)


def _mbls(loss, z, _):
    return mean([relu(max(z) - value - mpf(loss.margin)) for value in z])


TERMS = {
    "ACLSLoss": _with_penalty(_acls),
    "AdaDualFocalLoss": _ada_dual_focal,
    "AdaFocalLoss": _adafocal,
    "BrierLoss": _brier,
    "CalFocalLoss": _calfocal,
    "ConfidencePenaltyLoss": _with_penalty(_confidence_penalty),
    "CrossEntropyLoss": _cross_entropy,
    "DualFocalLoss": _dual_focal,
    "FocalCalibrationLoss": _focal_calibration,
    "FocalLoss": lambda loss, z, y, _: focal(z, y, loss.gamma),
    "InverseFocalLoss": _inverse_focal,
    "LabelRelaxationLoss": _label_relaxation,
    "LogitNormLoss": _logitnorm,
    "MaxSupLoss": _with_penalty(_max_sup),
    "MbLSLoss": _with_penalty(_mbls),
    "SampleDependentFocalLoss": _sample_dependent_focal,
}


def gaps(z, y):
    """Return the confidence minus the correctness of each prediction."""
    tops = [row.index(max(row)) for row in z]
    doubt = [rest(row, top) for row, top in zip(z, tops, strict=True)]
    pairs = zip(doubt, tops, y, strict=True)
    return [-d if top == label else 1 - d for d, top, label in pairs]


def _mdca(_loss, z, y):
    rows = list(zip(z, y, strict=True))
    columns = [
        mean([-rest(row, k) if k == label else softmax(row)[k] for row, label in rows])
        for k in range(len(z[0]))
    ]
    return mean([abs(column) for column in columns])


def embedding(error, z):
    """Return the sum over pairs behind the MMCE."""
    pairs = [(e, max(softmax(row))) for e, row in zip(error, z, strict=True)]
    return fsum(e * f * exp(-abs(r - s) / mpf(0.4)) for e, r in pairs for f, s in pairs)


def root(square):
    return square / sqrt(max(square, mpf(1e-10)))


def _mmce(loss, z, y):
    square = embedding([gap / len(z) for gap in gaps(z, y)], z)
    return square if loss.squared else root(square)


def _weighted_mmce(_loss, z, y):
    n_wrong = sum(gap > 0 for gap in gaps(z, y))
    if not 0 < n_wrong < len(z):
        return mpf(0)
    n_right = len(z) - n_wrong
    error = [gap / (n_wrong if gap > 0 else n_right) for gap in gaps(z, y)]
    return root(embedding(error, z))


OF_BATCH = {
    "CRLLoss": lambda *_: mpf(0),
    "DCALoss": lambda _, z, y: abs(mean(gaps(z, y))),
    "MDCALoss": _mdca,
    "MMCELoss": _mmce,
    "WeightedMMCELoss": _weighted_mmce,
}

# The terms of the product rule, or of a projection, may cancel, so that the error is
# relative to the largest component of the gradient.
OPPOSITE = ("AdaDualFocalLoss", "LogitNormLoss", "MMCELoss", "WeightedMMCELoss")

# The log-odds are rounded, and (1 - p_t) ** gamma is off by gamma + 1 times as much.
LARGEST_EXACT_GAMMA = 5

# No reference: ranks and soft bins amplify rounding errors of a confidence by
# 1 / epsilon or 1 / bandwidth, and a variance of close scores is inaccurate.
STEEP = (
    *("AUCMLoss", "AURCLoss", "AvUCLoss", "KDEECELoss", "RegularizedAURCLoss"),
    *("SelectiveAURCLoss", "SoftBinnedECELoss"),
)


def tolerance(loss, dtype, spread):
    """Return the largest relative error, given the largest distance of two logits."""
    gamma = loss.get_params().get("gamma", 0)
    factor = 2 if gamma > LARGEST_EXACT_GAMMA else 1
    return factor * (4 * (1 + spread) + 16) * torch.finfo(dtype).eps


def evaluate(loss, z, y):
    """Return the value, or the values, and the gradients in both precisions."""
    results = []
    for dtype in (torch.float32, torch.float64):
        logits = torch.tensor(z, dtype=dtype, requires_grad=True)
        value = loss(logits, torch.tensor(y))
        value.sum().backward()
        results.append((dtype, value.tolist(), logits.grad.tolist()))
    return results


def assert_exact(loss, z, y, results):
    """Compare the values and gradients of a batch with the reference."""
    terms, grads = terms_and_grads(loss, z, y)
    totals = list(map(fsum, (terms, *grads)))
    sizes = [fsum(map(abs, each)) for each in (terms, *grads)]
    if type(loss).__name__ in OPPOSITE:
        sizes[1:] = [max(sizes[1:])] * len(grads)
    spread = max(max(row) - min(row) for row in z)
    for dtype, value, grad in results:
        relative, tiny = tolerance(loss, dtype, spread), torch.finfo(dtype).tiny
        found = value, *chain.from_iterable(grad)
        for result, total, size in zip(found, totals, sizes, strict=True):
            assert math.isfinite(result)
            assert abs(mpf(result) - total) <= relative * size + tiny


def rounded(z):
    """Return logits rounded to single precision."""
    return torch.tensor(z).tolist()


DISTANCES = [0.0, 1e-3, 0.5, 3.3, 10.3, 17.7, 33.3, 39.9, 63.2, 100.3, 710.0, 1e4]


def is_exact(loss):
    """Return whether the loss has a reference: a row of TERMS, or of OF_BATCH."""
    return type(loss).__name__ not in STEEP


@pytest.mark.filterwarnings("ignore:gamma must be at most")
@pytest.mark.losses(where=lambda loss: is_exact(loss) and loss.is_per_sample)
def test_samples(loss):
    """Correct, wrong and uncertain predictions, and very small logits."""
    z = [[distance, 0.01, -1.25] for distance in DISTANCES]
    z += [[0.1, distance + 0.11, -1.25] for distance in DISTANCES]
    z += [[20.3, -20.4, 19.8], [0.3, -4.12, -10.3]]
    y = [0] * (len(z) - 1) + [2]
    if loss.get_params().get("penalty") != "l1":  # the signs of p - 1 / C are rounding
        z, y = [*z, [1e-8, 0.0, -2e-8]], [*y, 0]
    z = rounded(z)
    params = {**loss.get_params(deep=False), "reduction": "none"}
    results = evaluate(type(loss)(**params).eval(), z, y)
    for i, (row, label) in enumerate(zip(z, y, strict=True)):
        own = [(dtype, value[i], [grad[i]]) for dtype, value, grad in results]
        assert_exact(loss, [row], [label], own)


def is_bounded(loss):
    """Return whether the gradient fits into single precision at the largest logits."""
    return loss.get_params().get("epsilon") != 1e-4 and not isinstance(loss, ACLSLoss)


@pytest.mark.losses(where=is_bounded)
@pytest.mark.parametrize("label", [0, 1])
def test_gradient_at_the_largest_logits(loss, label):
    """The gradient is finite, although the loss is close to overflow or overflows."""
    for z in ([3e38, 0.0, -1.0], [0.0, -3e38, -1e38]):
        logits = torch.tensor([z], requires_grad=True)
        loss(logits, torch.tensor([label])).backward()
        assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("z", [3e19, 5e19])
def test_squares_overflow_but_the_loss_does_not(z):
    logits = torch.tensor([[z, 0.0, 0.0]], requires_grad=True)
    value = ACLSLoss()(logits, torch.tensor([0]))
    value.backward()
    expected = torch.tensor(0.11 * z**2)  # 0.1 * (1 + 2 * 0.1 / 2)
    torch.testing.assert_close(value.detach(), expected)
    torch.testing.assert_close(logits.grad[0, 0], torch.tensor(0.2 * z))


@pytest.mark.losses(where=lambda loss: is_exact(loss) and not loss.is_per_sample)
@pytest.mark.parametrize("y", [[0, 1, 2], [0, 0, 2]])
def test_batches(loss, y):
    """All predictions are correct, or all but one."""
    for distance in (0.1, 7.0, 19.5, 90.0, 1e4):
        z = [
            [distance, 0.0, -0.7 * distance],
            [0.1, 0.93 * distance + 0.2, 0.2],
            [-0.4 * distance, 0.3, 1.02 * distance + 0.3],
        ]
        z = rounded(z)
        assert_exact(loss, z, y, evaluate(loss, z, y))
