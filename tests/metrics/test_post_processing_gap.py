"""The post-processing gap: by hand, by general solvers, and between its bounds."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.optimize import linprog, minimize, minimize_scalar
from scipy.special import expit, logit, softmax, xlog1py, xlogy

from sklearn_calib import losses
from sklearn_calib.calibrators import TemperatureScaling
from sklearn_calib.metrics import bootstrap_interval, post_processing_gap


def draw_problem(seed):
    """Return a few labels and probabilities, with ties, miscalibrated at random."""
    rng = np.random.default_rng(seed)
    proba = rng.integers(1, 20, size=rng.integers(1, 12)) / 20
    return (rng.uniform(size=proba.size) < proba ** rng.uniform(0.2, 5)), proba


def largest_drop(y_true, score, losses, slopes, bound=None):
    """Return the largest reduction of the mean loss by a Lipschitz update.

    It is at most `bound`, or by default keeps the score between 0 and 1.
    """
    value, index = np.unique(score, return_inverse=True)
    before = losses(y_true, score).mean()
    gaps, matrix = np.diff(value), np.diff(np.eye(value.size), axis=0)

    def after(update):
        return losses(y_true, (value + update)[index]).mean()

    def gradient(update):
        slope = slopes(y_true, (value + update)[index])
        return np.bincount(index, slope) / y_true.size

    limits = [
        {
            "type": "ineq",
            "fun": lambda update, sign=sign: gaps + sign * matrix @ update,
            "jac": lambda _, sign=sign: sign * matrix,
        }
        for sign in (-1, 1)
    ]
    best = minimize(
        after,
        np.zeros(value.size),
        jac=gradient,
        bounds=[(-bound, bound) if bound else (1e-9 - v, 1 - 1e-9 - v) for v in value],
        constraints=limits if value.size > 1 else (),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return before - best.fun


def smooth_error(y_true, proba, score, scale):
    """Return the largest mean of update * (y - v), by linear programming.

    The update is `scale`-Lipschitz in the score, and between -1 and 1.
    """
    order = np.argsort(score)
    gaps = scale * np.diff(score[order])
    matrix = np.diff(np.eye(len(proba)), axis=0)
    best = linprog(
        -(y_true - proba)[order] / len(proba),
        np.vstack([matrix, -matrix]),
        np.tile(gaps, 2),
        bounds=(-1, 1),
    )
    return -best.fun


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # One group: its probability becomes its frequency, 7 of 10. The log loss is
        # 0.7 log(0.7 / 0.9) + 0.3 log(0.3 / 0.1).
        ("squared", 0.04),
        ("log", 0.15366358680379844),
    ],
)
def test_one_group(loss, expected):
    y_true = [1] * 7 + [0] * 3
    value = post_processing_gap(y_true, [0.9] * 10, loss=loss)
    assert value == pytest.approx(expected, rel=1e-12)


def focal(gamma, lambd):
    """Return the loss of equations 10 to 12 of Liang et al. for two classes."""

    def losses(y_true, proba):
        true = np.where(y_true, proba, 1 - proba)
        return -((1 - true) ** gamma) * np.log(true) + 2 * lambd * (1 - true) ** 2

    return losses


FOCAL = {
    "focal": focal(gamma=3.0, lambd=0.0),
    "focal_calibration": focal(gamma=2.0, lambd=1.0),
}


@pytest.mark.parametrize("loss", FOCAL)
def test_focal_losses_of_one_group(loss):
    """The best map is the minimiser of the loss, which is not the frequency."""
    y_true = np.arange(10) < 7
    best = minimize_scalar(
        lambda p: FOCAL[loss](y_true, p).mean(),
        bounds=(0.5, 0.7),
        options={"xatol": 1e-12},
    )
    for proba in (0.9, 0.7, best.x):
        expected = FOCAL[loss](y_true, proba).mean() - best.fun
        value = post_processing_gap(y_true, [proba] * 10, loss=loss)
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_focal_losses_are_those_of_training():
    for loss, function in (
        ("focal", losses.focal_loss),
        ("focal_calibration", losses.focal_calibration_loss),
    ):
        logits = torch.tensor([[0.0, 2.0]], dtype=torch.float64)
        for code in (0, 1):
            expected = function(logits, torch.tensor([code])).item()
            value = FOCAL[loss](code, expit(2.0))
            assert value == pytest.approx(expected, rel=1e-12)


def test_focal_calibration_can_have_the_larger_gap():
    """By `minimize_scalar`. Theorem 4.5 of Liang et al. says that it never has."""
    y_true, y_proba = [1] * 7 + [0] * 3, [0.9] * 10
    gaps = [
        post_processing_gap(y_true, y_proba, loss=loss, gamma=2)
        for loss in ("focal", "focal_calibration")
    ]
    assert gaps == pytest.approx([0.40546145725825, 0.46783740224188], rel=1e-10)


@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    lambd=st.sampled_from([0.0, 0.5, 50.0]),
)
def test_focal_losses_by_a_general_solver(seed, gamma, lambd):
    y_true, proba = draw_problem(seed)
    loss = focal(gamma, lambd)
    # By a complex step.
    drop = largest_drop(
        y_true, proba, loss, lambda y, v: loss(y, v + 1e-30j).imag / 1e-30
    )
    options = {"loss": "focal_calibration", "gamma": gamma, "lambd": lambd}
    value = post_processing_gap(y_true, proba, labels=[False, True], **options)
    assert value == pytest.approx(drop, abs=1e-7)


@pytest.mark.parametrize("lambd", [0.0, 1.0, 1e4])
def test_focal_losses_of_zeros_and_ones(lambd):
    """The slopes are infinite at the ends, from where the method does not converge."""
    rng = np.random.default_rng(0)
    y_true = rng.uniform(size=300) < expit(rng.logistic(size=300))
    y_proba = np.clip(rng.normal(0.5, 0.5, size=300), 0, 1)
    options = {"loss": "focal_calibration", "gamma": 3, "lambd": lambd}
    value = post_processing_gap(y_true, y_proba, **options)
    loss = focal(3, lambd)
    before = loss(y_true, np.clip(y_proba, 2.0**-52, 1 - 2.0**-52)).mean()
    # Constant maps are some of the maps.
    best = min(loss(y_true, constant).mean() for constant in np.linspace(0.1, 0.9, 81))
    assert before - best < value < before


def test_focal_loss_of_values_closer_than_rounding():
    """A half minus these values differs by more than they do."""
    low, high = 3.04e-16, 3.06e-16
    value = post_processing_gap([1, 0], [low, high], loss="focal")
    # Both become 1/2, from -log(low) and 0.
    assert value == pytest.approx(-np.log(low) / 2 - np.log(2) / 8, rel=1e-9)


def test_one_group_that_newton_overshoots():
    """Undamped Newton steps from 0.2 to a frequency of 5/6 oscillate."""
    y_true = [1] * 5 + [0]
    expected = 5 / 6 * np.log(5 / 6 / 0.2) + np.log(1 / 6 / 0.8) / 6
    value = post_processing_gap(y_true, [0.2] * 6)
    assert value == pytest.approx(expected, rel=1e-11)


def test_slopes_are_limited():
    """The frequency is 0 at 0.4 and 1 at 0.6, so both updates are at their limits.

    The update is odd around one half, and 0.1 there: 0.4 becomes 0.3, and 0.6 is 0.7.
    For the log loss the logits are doubled.
    """
    y_true, y_proba = [0, 0, 1, 1], [0.4, 0.4, 0.6, 0.6]
    squared = post_processing_gap(y_true, y_proba, loss="squared")
    assert squared == pytest.approx(0.4**2 - 0.3**2, rel=1e-11)
    doubled = np.log1p((2 / 3) ** 2)
    expected = np.log1p(2 / 3) - doubled
    assert post_processing_gap(y_true, y_proba) == pytest.approx(expected, rel=1e-11)


def test_order_stays():
    """For frequencies in the reverse order, the best map is constant."""
    y_true, y_proba = [1, 0], [0.4, 0.6]
    squared = post_processing_gap(y_true, y_proba, loss="squared")
    assert squared == pytest.approx(0.6**2 - 0.5**2, rel=1e-11)
    expected = -np.log(0.4) - np.log(2)
    assert post_processing_gap(y_true, y_proba) == pytest.approx(expected, rel=1e-11)


@given(seed=st.integers(0, 2**32 - 1))
def test_equals_a_general_solver(seed):
    y_true, proba = draw_problem(seed)
    squared = largest_drop(
        y_true, proba, lambda y, v: (v - y) ** 2, lambda y, v: 2 * (v - y), 1.0
    )
    log = largest_drop(
        y_true,
        logit(proba),
        lambda y, t: np.logaddexp(0, t) - y * t,
        lambda y, t: expit(t) - y,
        4.0,
    )
    options = {"labels": [False, True]}
    value = post_processing_gap(y_true, proba, loss="squared", **options)
    assert value == pytest.approx(squared, abs=1e-8)
    assert post_processing_gap(y_true, proba, **options) == pytest.approx(log, abs=1e-8)


@given(seed=st.integers(0, 2**32 - 1))
def test_between_the_bounds_of_smooth_calibration(seed):
    """Błasiok et al. 2023, theorems 2.4 and 4.6."""
    y_true, proba = draw_problem(seed)
    error = smooth_error(y_true, proba, proba, 1.0)
    gap = post_processing_gap(y_true, proba, loss="squared", labels=[False, True])
    assert error**2 - 1e-12 <= gap <= 2 * error + 1e-12
    dual = smooth_error(y_true, proba, logit(proba), 0.25)
    gap = post_processing_gap(y_true, proba, labels=[False, True])
    assert 2 * dual**2 - 1e-12 <= gap <= 4 * dual + 1e-12


def test_certain_and_wrong_counts_by_its_limit():
    y_true = np.array([0, 1, 1, 1])
    near = [
        post_processing_gap(y_true, expit([score, score, score, -1.0]))
        for score in (5.0, 20.0, np.inf)
    ]
    assert near[0] < near[1]
    assert near[1] == pytest.approx(near[2], abs=1e-6)
    # The wrong one of the three loses 4, the other two nothing, and the last is free
    # to gain all that it may: 4 too.
    gain = np.log(expit(3.0) / expit(-1.0))
    assert near[2] == pytest.approx((4 + gain) / 4, rel=1e-9)
    assert post_processing_gap([0, 0], [1.0, 1.0], labels=[0, 1]) == pytest.approx(4)
    assert post_processing_gap([1, 1], [0.0, 0.0], labels=[0, 1]) == pytest.approx(4)


def test_top_label_is_the_positive_class_of_correctness():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=200)
    y_true = np.arange(200) % 3
    correct = proba.argmax(axis=1) == y_true
    for loss in ("log", "squared"):
        assert post_processing_gap(y_true, proba, loss=loss) == post_processing_gap(
            correct, proba.max(axis=1), loss=loss
        )


def test_calibrated_in_the_limit():
    """The bias of the estimate, as stated in the docstring."""
    values = []
    for n_samples in (1000, 100_000):
        rng = np.random.default_rng(0)
        # Few values, so that the solver is fast.
        proba = rng.integers(1, 2000, size=n_samples) / 2000
        values.append(post_processing_gap(rng.uniform(size=n_samples) < proba, proba))
    assert 0.005 < values[0] < 0.02
    assert 0.0003 < values[1] < 0.0008


def test_many_samples_that_are_not_calibrated():
    """A temperature of 2 is a 1-Lipschitz update of the logit: it is found."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=50_000).round(2)
    true = expit(score)
    said = expit(score / 2)
    y_true = rng.uniform(size=score.size) < true

    def log_loss(proba):
        return -(xlogy(y_true, proba) + xlog1py(1 - y_true, -proba)).mean()

    gap = post_processing_gap(y_true, said)
    expected = log_loss(said) - log_loss(true)
    assert 0 < gap - expected < 0.002


def test_temperature_scaling_of_a_resnet(shared_data):
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    scaling = TemperatureScaling(from_logits=True)
    scaling.fit(data["val_logits"], data["val_labels"])
    logits, y_true = data["test_logits"], data["test_labels"]
    before, after = softmax(logits, axis=1), scaling.predict_proba(logits)
    for loss, low, high in (("log", 0.1, 0.003), ("squared", 0.004, 0.001)):
        assert post_processing_gap(y_true, before, loss=loss) > low
        assert post_processing_gap(y_true, after, loss=loss) < high


@pytest.mark.parametrize(("loss", "method"), [("log", "debiased"), ("focal", "bca")])
def test_intervals_are_debiased_only_if_the_gap_of_calibration_is_zero(loss, method):
    rng = np.random.default_rng(0)
    proba = rng.integers(1, 10, size=100) / 10
    data = partial(post_processing_gap, loss=loss), rng.uniform(size=100) < proba, proba
    auto, named = (
        bootstrap_interval(*data, method=each, n_resamples=50, random_state=0)
        for each in ("auto", method)
    )
    assert auto == named


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "brier"}, "The 'loss' parameter.*Got 'brier'"),
        ({"loss": "focal", "gamma": -1}, "The 'gamma' parameter.*Got -1"),
        ({"lambd": np.inf}, "The 'lambd' parameter.*Got inf"),
        ({"mode": "classwise"}, "The 'mode' parameter.*Got 'classwise'"),
        ({"mode": "positive"}, "requires two classes"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        post_processing_gap([0, 1, 2], np.eye(3), **options)
