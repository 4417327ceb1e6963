"""Common tests of predictions: they run for every registered calibrator."""

from functools import cache

import numpy as np
import pytest
from sklearn.metrics import log_loss

from sklearn_calib._numerics.softmax import log_softmax, softmax
from sklearn_calib.calibrators import (
    BetaCalibration,
    ClassTemperatureScaling,
    DirichletCalibrator,
    EnsembleTemperatureScaling,
    FocalPosterior,
    FocalTemperatureScaling,
    MatrixScaling,
    PlattScaling,
    QuadraticLogisticCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_calib.metrics import expected_calibration_error

# Calibrators to which a test does not apply, with the reason; see conftest.py.
ONE_MAP = "only inverts the map of the focal loss"
EXCUSED = {
    "test_repairs_a_sharpened_prediction": {"FocalPosterior": ONE_MAP},
}
# Allowed excess of the log loss over that of the true model on new samples: 1.5 times
# the values that were measured for two and for ten classes after a fit to 5000 samples.
EXCESS = {
    "BBQ": (0.02, 0.047),
    "ENIR": (0.02, 0.042),
    "BetaCalibration(parameters='ab')": (0.02, 0.05),
    "HistogramBinning()": (0.02, 0.055),
    "HistogramBinning(strategy='uniform')": (0.044, 0.25),
    "IsotonicCalibration": (0.02, 0.052),
    "MetaCal()": (0.02, 0.061),
    "MetaCal(random_state=0, threshold_fraction=0.1)": (0.02, 0.095),
    "ScalingBinning": (0.02, 0.026),
    "SplineCalibration": (0.02, 0.031),
    "TopLabelCalibrator(calibrator=IsotonicCalibration())": (0.02, 0.035),
    "VennAbers": (0.02, 0.03),
}
# These minimise the log loss over maps that include the identity. One-vs-rest
# calibrators do so only for two classes, as rows of more classes are normalised.
MINIMISE_LOG_LOSS = [
    ClassTemperatureScaling(),
    DirichletCalibrator(),
    EnsembleTemperatureScaling(),
    FocalPosterior(),
    FocalTemperatureScaling(),
    MatrixScaling(),
    TemperatureScaling(),
    VectorScaling(),
]
OF_TWO_CLASSES = [
    BetaCalibration(),
    BetaCalibration(parameters="ab"),
    BetaCalibration(parameters="am"),
    PlattScaling(smooth_targets=False),
    QuadraticLogisticCalibration(),
]
# Their parameters are shared by all classes, so a class may have no samples.
REASON = "has no parameters of a single class"
SHARED = {
    "ClassTemperatureScaling": "the temperature of a class without samples is shared",
    "EnsembleTemperatureScaling": REASON,
    "JointIsotonicCalibration": REASON,
    "FocalPosterior": REASON,
    "FocalTemperatureScaling": REASON,
    "MetaCal": REASON,
    "SplineCalibration": REASON,
    "TemperatureScaling": REASON,
    "TopLabelCalibrator": REASON,
}
EXCUSED["test_class_without_samples_is_said"] = SHARED
FROM_BELOW = "quantile bins depend on the direction of counting"
EXCUSED["test_swapped_classes_swap_the_output"] = {
    "BBQ": FROM_BELOW,
    "HistogramBinning": FROM_BELOW,
    "ScalingBinning": FROM_BELOW,
}
EXCUSED["test_preserves_argmax_if_it_says_so"] = {
    "SplineCalibration": "preserves it, except for two classes"
}
DRAWN = "MetaCal(random_state=0, threshold_fraction=0.1)"
BY_ROWS = {DRAWN: "draws random rows, which depend on the order and number of rows"}
FOLDS = {"AutoCalibrator": "the copies of a sample are in different folds"}
EXCUSED["test_weights_equal_repetitions"] = BY_ROWS | FOLDS
EXCUSED["test_order_of_samples_does_not_matter"] = BY_ROWS
EXCUSED["test_refit_gives_the_same"] = {
    "TopLabelCalibrator(calibrator=IsotonicCalibration())": "has an object as parameter"
}
# With few samples, calibrators warn of a bound or of the end of a grid.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
both_scales = pytest.mark.parametrize("from_logits", [False, True])


def top_label_ece(proba, y):
    correct = proba.argmax(axis=1) == y
    return expected_calibration_error(correct, proba.max(axis=1), labels=[False, True])


def test_the_excused_exist(registered):
    named = {name for reasons in EXCUSED.values() for name in reasons}
    assert named | {*EXCESS} <= registered
    assert all(callable(globals().get(test)) for test in EXCUSED)


def mean_log_loss(y, proba):
    return -np.log(proba[np.arange(len(y)), y]).mean()


@cache
def sharpened(make_logits, n_classes, from_logits):
    """Return data for `fit`, other data, their ECE, and the log loss of the truth."""
    # With fewer samples, maps with a parameter for each pair of ten classes overfit.
    n_train = 1000 if n_classes == 2 else 3000
    logits, y = make_logits(n_train + 2000, n_classes)
    X = 3 * logits if from_logits else softmax(3 * logits)
    y_test = y[n_train:]
    before = top_label_ece(softmax(3 * logits[n_train:]), y_test)
    best = mean_log_loss(y_test, softmax(logits[n_train:]))
    return (X[:n_train], y[:n_train]), (X[n_train:], y_test), before, best


@both_scales
@pytest.mark.parametrize("n_classes", [2, 10])
def test_repairs_a_sharpened_prediction(
    calibrator, from_logits, n_classes, make_logits, fresh
):
    """For logits that are three times too large, the top-label ECE falls to a quarter.

    The log loss of new samples exceeds that of the true model by EXCESS at most.
    """
    train, (X_test, y_test), before, best = sharpened(
        make_logits, n_classes, from_logits
    )
    fitted = fresh(calibrator, from_logits=from_logits, is_whole=from_logits)
    proba = fitted.fit(*train).predict_proba(X_test)
    assert top_label_ece(proba, y_test) < before / 4
    excess = mean_log_loss(y_test, proba) - best
    usual = EXCESS.get(type(calibrator).__name__, (0.02, 0.02))
    two, ten = EXCESS.get(repr(calibrator), usual)
    assert excess < (two if n_classes == 2 else ten)


def test_leaves_a_calibrated_prediction_alone(calibrator, make_logits, fresh):
    """The parameter is correct within the sampling error of 5000 samples."""
    logits, y = make_logits(5000)
    proba = softmax(logits)
    repaired = fresh(calibrator).fit(proba, y).predict_proba(proba)
    assert np.abs(repaired - proba).mean() < 0.02


@pytest.mark.parametrize(
    ("minimiser", "n_classes"),
    [(c, 2) for c in OF_TWO_CLASSES]
    + [(c, n_classes) for c in MINIMISE_LOG_LOSS for n_classes in (2, 4)],
)
@both_scales
@pytest.mark.filterwarnings("ignore:y contains no samples:UserWarning")
def test_log_loss_is_never_above_that_before(
    minimiser, from_logits, n_classes, make_logits, fresh
):
    """Checked on the data of `fit`, for several distortions."""
    logits, y = make_logits(200, n_classes)
    bias = np.linspace(-1, 1, n_classes)
    few = slice(2 * n_classes)
    wrong = [logits, 3 * logits, 0.3 * logits, -logits, logits + bias, 50 * logits]
    for faulty in [*wrong, logits[few], 3 * logits[few]]:
        X = faulty if from_logits else softmax(faulty)
        true = np.arange(len(X)), y[: len(X)]
        fitted = fresh(minimiser, from_logits=from_logits)
        fitted.fit(X, true[1], labels=np.arange(n_classes))
        before = -log_softmax(faulty)[true].mean()
        assert -np.log(fitted.predict_proba(X)[true]).mean() <= before * (1 + 1e-9)


@both_scales
def test_gives_positive_probabilities_at_the_extremes(
    calibrator, from_logits, make_logits, fresh
):
    """Forests and saturated networks predict exact zeros and ones."""
    logits = np.array([[0.0, 0, 0], [800, 0, -800], [-800, 0, 800], [0, 1e4, -1e4]])
    logits = np.vstack([logits, make_logits(30, 3)[0]])
    y = np.arange(34) % 3
    X = logits if from_logits else softmax(logits)
    fitted = fresh(calibrator, from_logits=from_logits).fit(X, y)
    for seen in (X, X[1:2], X[::-1]):
        proba = fitted.predict_proba(seen)
        assert (proba > 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)


def test_no_zero_on_rows_that_fit_has_not_seen(calibrator, make_logits, fresh):
    """With 60 samples, some bins of a rare class are empty."""
    logits, y = make_logits(2000)
    X = softmax(logits - [0, 0, 2, 4])
    y = (np.log(X) + np.random.default_rng(1).gumbel(size=X.shape)).argmax(axis=1)
    fitted = fresh(calibrator).fit(X[:60], y[:60], labels=[0, 1, 2, 3])
    true = fitted.predict_proba(X)[np.arange(len(y)), y]
    assert true.min() > 1e-9
    assert -np.log(true).mean() < np.log(4)


def test_one_hot_predictions(calibrator, make_logits, fresh):
    """A decision tree predicts only zeros and ones."""
    y = make_logits(60, 3)[1]
    X = np.eye(3)[np.where(np.arange(60) % 5 == 0, 0, y)]
    proba = fresh(calibrator).fit(X, y).predict_proba(X)
    assert np.isfinite(proba).all()
    assert log_loss(y, proba) < 0.8


@cache
def groups_on_computers(shared_data):
    """Return probabilities with 4682 zeros, 25 for the true class, and labels."""
    data = shared_data("logits/20news_cleanlab_probs.npz")
    y = data["labels"]
    rows = np.isin(y, range(1, 6))
    X = data["probs"][rows, 1:6]
    return X / X.sum(axis=1, keepdims=True), y[rows]


def test_probabilities_of_zero_in_real_data(calibrator, shared_data, fresh):
    X, y = groups_on_computers(shared_data)
    proba = fresh(calibrator).fit(X[::4], y[::4]).predict_proba(X[1::2])
    assert (proba > 0).all()
    assert log_loss(y[1::2], proba) < 0.6


@both_scales
def test_permuted_classes_permute_the_output(
    calibrator, from_logits, fitted, overconfident, fresh
):
    """The result does not depend on the order of the classes."""
    X, y = overconfident(3, from_logits)
    order = np.array([2, 0, 1])  # column j contains class order[j]
    expected = fitted(calibrator, 3, from_logits).predict_proba(X)
    calibrator = fresh(calibrator, from_logits=from_logits)
    by_code = calibrator.fit(X[:, order], order.argsort()[y]).predict_proba(X[:, order])
    np.testing.assert_allclose(by_code, expected[:, order], rtol=1e-6, atol=1e-12)
    by_label = calibrator.fit(X[:, order], y, labels=order)
    np.testing.assert_array_equal(by_label.predict_proba(X[:, order]), by_code)
    np.testing.assert_array_equal(by_label.classes_, order)


@both_scales
def test_swapped_classes_swap_the_output(calibrator, from_logits, make_logits, fresh):
    """The result must not depend on which of two classes is the second."""
    logits, y = make_logits(180, 2)
    X = logits if from_logits else softmax(logits)
    calibrator = fresh(calibrator, from_logits=from_logits)
    expected = calibrator.fit(X, y).predict_proba(X)
    swapped = calibrator.fit(X[:, ::-1], 1 - y).predict_proba(X[:, ::-1])
    np.testing.assert_allclose(swapped[:, ::-1], expected, rtol=1e-6, atol=1e-12)


@both_scales
def test_weights_equal_repetitions(calibrator, from_logits, make_logits, fresh):
    """A sample of weight 2 counts as two samples, and weights change the fit."""
    logits, y = make_logits(60, 3)
    # Underconfident, so that no calibrator is the identity.
    X = 0.3 * logits if from_logits else softmax(0.3 * logits)
    # Misclassified samples have lower weights, so that weights affect the result.
    weight = np.where(logits.argmax(axis=1) == y, 3, np.arange(60) % 3)
    calibrator = fresh(calibrator, from_logits=from_logits)
    weighted = calibrator.fit(X, y, sample_weight=weight).predict_proba(X)
    calibrator.fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted, calibrator.predict_proba(X), rtol=1e-6)
    assert not np.allclose(weighted, calibrator.fit(X, y).predict_proba(X), rtol=1e-6)


def test_refit_gives_the_same(calibrator, fitted, overconfident, fresh):
    X, y = overconfident()
    again = fresh(calibrator).fit(X[:30], y[:30]).fit(X, y)
    expected = fitted(calibrator)
    np.testing.assert_array_equal(again.predict_proba(X), expected.predict_proba(X))
    params = fresh(calibrator).get_params()
    assert again.get_params() == expected.get_params() == params


def test_order_of_samples_does_not_matter(calibrator, fitted, overconfident, fresh):
    X, y = overconfident()
    expected = fitted(calibrator).predict_proba(X)
    order = np.random.default_rng(0).permutation(len(y))
    mixed = fresh(calibrator).fit(X[order], y[order]).predict_proba(X)
    np.testing.assert_allclose(mixed, expected, rtol=1e-6, atol=1e-12)


@both_scales
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_sample_a_class(calibrator, from_logits, make_logits, fresh):
    """Fitting works with one sample per class and separable or equal predictions."""
    logits = make_logits(3, 3, seed=1)[0]
    for raw, y in [
        (logits, [2, 0, 1]),
        (np.eye(3), [0, 1, 2]),
        (0 * logits, [0, 1, 2]),
    ]:
        X = raw if from_logits else softmax(raw)
        fitted = fresh(calibrator, from_logits=from_logits).fit(X, y)
        proba = fitted.predict_proba(np.vstack([X, X[::-1]]))
        assert (proba > 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_class_without_samples(calibrator, make_logits, fresh):
    """`labels` is required, as 0, 1 and 3 may be any three of the columns."""
    logits, y = make_logits()
    X, kept = softmax(3 * logits), y != 2
    fitted = fresh(calibrator).fit(X[kept], y[kept], labels=[0, 1, 2, 3])
    proba = fitted.predict_proba(X)
    assert (proba > 0).all()
    assert (2 in fitted.predict(X)) or type(calibrator).__name__ not in SHARED
    others = np.delete(proba, 2, axis=1)[kept]
    before = np.delete(X, 2, axis=1)[kept]
    assert np.corrcoef(others.argmax(axis=1), before.argmax(axis=1))[0, 1] > 0.8
    with pytest.raises(
        ValueError, match=r"4 distinct labels.*got \[0, 1, 3\].*labels="
    ):
        fresh(calibrator).fit(X[kept], y[kept])


def test_class_without_samples_is_said(calibrator, overconfident, fresh):
    """`_fit` calls `warn_of_absent_classes` if parameters are those of a class."""
    X, y = overconfident()
    kept, names = y != 2, np.array(["ant", "bee", "cat"])
    with pytest.warns(UserWarning, match="cat"):
        fresh(calibrator).fit(X[kept], names[y[kept]], labels=names)


def test_preserves_argmax_if_it_says_so(calibrator, make_logits, fresh):
    """The data have class-dependent errors, which other calibrators can correct."""
    logits, y = make_logits(200, 3)
    for biased in (3 * logits + [2.0, 0.0, -2.0], 0.5 * logits + [0.0, 1.0, 0.0]):
        fitted = fresh(calibrator, from_logits=True).fit(biased, y)
        same = fitted.predict(biased) == biased.argmax(axis=1)
        assert same.all() == type(calibrator).preserves_argmax


def test_predict_is_the_label_of_the_largest_probability(
    calibrator, overconfident, fresh
):
    X, y = (array[:60] for array in overconfident())
    fitted = fresh(calibrator).fit(X, y + 10)
    largest = fitted.predict_proba(X).argmax(axis=1)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[largest])
    assert fitted.score(X, y + 10) == np.mean(fitted.predict(X) == y + 10)
