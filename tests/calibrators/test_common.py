"""Laws that every calibrator obeys: a new row in the registry is tested by all."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from sklearn_calib import calibrators
from sklearn_calib._core.binning import binned_calibration_error
from sklearn_calib._core.links import softmax
from sklearn_calib.calibrators import (
    Calibrator,
    FocalPosterior,
    FocalTemperatureScaling,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)

# The defaults of every registered calibrator, and settings known to be delicate.
CALIBRATORS = [get_calibrator(name)() for name in get_calibrator_names()] + [
    TemperatureScaling(objective="ece"),
    TemperatureScaling(objective="ece", n_bins=1),
    FocalTemperatureScaling(gamma=2),
    FocalTemperatureScaling(gamma=0.5),
]
# Those that undo one map, of a loss, and no other fault.
UNDO_A_LOSS = (FocalPosterior,)
# A bound or the end of a grid is reached by data of a few samples, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
all_calibrators = pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
both_scales = pytest.mark.parametrize("from_logits", [False, True])


def make_logits(n_samples=2000, n_classes=4, seed=0):
    """Return logits of the true model, and labels drawn from it."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n_samples, n_classes))
    return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def top_label_ece(proba, y):
    return binned_calibration_error(proba.max(axis=1), proba.argmax(axis=1) == y)


def fresh(calibrator, **params):
    """Return an unfitted copy, with other parameters."""
    return clone(calibrator).set_params(**params)


@pytest.mark.parametrize(
    "calibrator", [c for c in CALIBRATORS if not isinstance(c, UNDO_A_LOSS)], ids=repr
)
@both_scales
@pytest.mark.parametrize("n_classes", [2, 10])
def test_repairs_a_sharpened_prediction(calibrator, from_logits, n_classes):
    logits, y = make_logits(10_000, n_classes)
    X = 3 * logits if from_logits else softmax(3 * logits)
    fitted = fresh(calibrator, from_logits=from_logits).fit(X[:5000], y[:5000])
    proba, test, y_test = fitted.predict_proba(X[5000:]), logits[5000:], y[5000:]
    before = top_label_ece(softmax(3 * test), y_test)
    assert top_label_ece(proba, y_test) < before / 4
    excess = log_loss(y_test, proba) - log_loss(y_test, softmax(test))
    assert excess < 0.02


@all_calibrators
def test_leaves_a_calibrated_prediction_alone(calibrator):
    """Within the sampling error of a parameter from 20,000 samples."""
    logits, y = make_logits(20_000)
    proba = softmax(logits)
    repaired = fresh(calibrator).fit(proba, y).predict_proba(proba)
    assert np.abs(repaired - proba).mean() < 0.02


@all_calibrators
@both_scales
def test_gives_positive_probabilities_at_the_extremes(calibrator, from_logits):
    """Exact zeros and ones are common: forests, saturated networks."""
    logits = np.array([[0.0, 0, 0], [800, 0, -800], [-800, 0, 800], [0, 1e4, -1e4]])
    logits = np.vstack([logits, make_logits(30, 3)[0]])
    y = np.arange(34) % 3
    X = logits if from_logits else softmax(logits)
    fitted = fresh(calibrator, from_logits=from_logits).fit(X, y)
    for seen in (X, X[1:2], X[::-1]):
        proba = fitted.predict_proba(seen)
        assert (proba > 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)


@all_calibrators
def test_one_hot_predictions(calibrator):
    """A decision tree says nothing but zeros and ones."""
    y = make_logits(500, 3)[1]
    X = np.eye(3)[np.where(np.arange(500) % 5 == 0, 0, y)]
    fitted = fresh(calibrator).fit(X, y)
    proba = fitted.predict_proba(X)
    assert np.isfinite(proba).all()
    assert log_loss(y, proba) < 0.8


@all_calibrators
def test_probabilities_of_zero_in_real_data(calibrator, shared_data):
    """111,050 zeros, 61 of them for the true class."""
    data = shared_data("logits/20news_cleanlab_probs.npz")
    X, y = data["probs"], data["labels"]
    proba = fresh(calibrator).fit(X[::2], y[::2]).predict_proba(X[1::2])
    assert (proba > 0).all()
    assert log_loss(y[1::2], proba) < 0.6


@all_calibrators
@both_scales
def test_permuted_classes_permute_the_output(calibrator, from_logits):
    logits, y = make_logits()
    X = logits if from_logits else softmax(logits)
    order = np.array([2, 0, 3, 1])  # column j then holds class order[j]
    calibrator = fresh(calibrator, from_logits=from_logits)
    expected = calibrator.fit(X, y).predict_proba(X)
    by_code = calibrator.fit(X[:, order], order.argsort()[y]).predict_proba(X[:, order])
    np.testing.assert_allclose(by_code, expected[:, order], rtol=1e-6, atol=1e-12)
    by_label = calibrator.fit(X[:, order], y, labels=order)
    np.testing.assert_array_equal(by_label.predict_proba(X[:, order]), by_code)
    np.testing.assert_array_equal(by_label.classes_, order)


@all_calibrators
@both_scales
def test_weights_equal_repetitions(calibrator, from_logits):
    logits, y = make_logits(300)
    # Flat, so that all of them have something to learn.
    X = 0.3 * logits if from_logits else softmax(0.3 * logits)
    # Errors count less, so that the weights make a difference.
    weight = np.where(logits.argmax(axis=1) == y, 3, np.arange(300) % 3)
    calibrator = fresh(calibrator, from_logits=from_logits)
    weighted = calibrator.fit(X, y, sample_weight=weight).predict_proba(X)
    calibrator.fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted, calibrator.predict_proba(X), rtol=1e-6)
    assert not np.allclose(weighted, calibrator.fit(X, y).predict_proba(X), rtol=1e-6)


@all_calibrators
def test_refit_gives_the_same(calibrator):
    logits, y = make_logits()
    X = softmax(3 * logits)
    once = fresh(calibrator).fit(X, y)
    first = once.predict_proba(X)
    params = once.get_params()
    once.fit(X[:100], y[:100]).fit(X, y)
    np.testing.assert_array_equal(once.predict_proba(X), first)
    assert once.get_params() == params == calibrator.get_params()


@all_calibrators
@both_scales
def test_one_sample_a_class(calibrator, from_logits):
    logits = make_logits(3, 3, seed=1)[0]
    X = logits if from_logits else softmax(logits)
    fitted = fresh(calibrator, from_logits=from_logits).fit(X, [2, 0, 1])
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


@all_calibrators
def test_class_without_samples(calibrator):
    """The labels of the columns must be said: 0, 1 and 3 might be any three of them."""
    logits, y = make_logits()
    X, kept = softmax(3 * logits), y != 2
    fitted = fresh(calibrator).fit(X[kept], y[kept], labels=[0, 1, 2, 3])
    assert (fitted.predict_proba(X) > 0).all()
    assert 2 in fitted.predict(X)
    with pytest.raises(ValueError, match=r"4 distinct labels.*got 3: 0, 1, 3.*labels="):
        fresh(calibrator).fit(X[kept], y[kept])


@all_calibrators
@pytest.mark.parametrize("kind", [str, object])
def test_string_labels(calibrator, kind):
    logits, y = make_logits()
    names = np.array(["ant", "bee", "cat", "dog"], dtype=kind)
    X = softmax(3 * logits)
    fitted = fresh(calibrator).fit(X, names[y])
    np.testing.assert_array_equal(fitted.classes_, names)
    expected = fresh(calibrator).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), names[expected.predict(X)])
    np.testing.assert_array_equal(fitted.predict_proba(X), expected.predict_proba(X))


@all_calibrators
def test_pandas(calibrator):
    logits, y = make_logits()
    X = softmax(3 * logits)
    frame = pd.DataFrame(X, columns=["ant", "bee", "cat", "dog"])
    frame.index += 100
    target = pd.Series(y, index=frame.index)
    fitted = fresh(calibrator).fit(frame, target)
    expected = fresh(calibrator).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(frame), expected)
    np.testing.assert_array_equal(fitted.feature_names_in_, frame.columns)
    positive = frame["dog"]
    fitted.fit(positive, target == 3)
    assert fitted.predict_proba(positive).shape == (2000, 2)


@all_calibrators
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_positive_class_alone_equals_two_columns(calibrator, shape):
    logits, y = make_logits(n_classes=2)
    proba = softmax(3 * logits)
    one = fresh(calibrator).fit(proba[:, 1].reshape(shape), y)
    proba[:, 0] = 1 - proba[:, 1]
    two = fresh(calibrator).fit(proba, y)
    assert (one.n_features_in_, two.n_features_in_) == (1, 2)
    expected = two.predict_proba(proba)
    np.testing.assert_array_equal(
        one.predict_proba(proba[:, 1].reshape(shape)), expected
    )


@all_calibrators
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_difference_of_logits_equals_two_columns(calibrator, shape):
    logits, y = make_logits(n_classes=2)
    difference = (logits[:, 1] - logits[:, 0]).reshape(shape)
    calibrator = fresh(calibrator, from_logits=True)
    one = calibrator.fit(difference, y).predict_proba(difference)
    two = calibrator.fit(logits, y).predict_proba(logits)
    np.testing.assert_allclose(one, two, rtol=1e-9)


@all_calibrators
@both_scales
def test_float32_is_kept_and_close_to_float64(calibrator, from_logits):
    logits, y = make_logits()
    X = 3 * logits if from_logits else softmax(3 * logits)
    calibrator = fresh(calibrator, from_logits=from_logits)
    double = calibrator.fit(X, y).predict_proba(X)
    single = calibrator.fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(single.sum(axis=1), 1, rtol=1e-6)


@all_calibrators
def test_logits_equal_their_softmax(calibrator):
    logits, y = make_logits()
    proba = softmax(2 * logits)
    from_logits = fresh(calibrator, from_logits=True).fit(2 * logits, y)
    from_proba = fresh(calibrator).fit(proba, y)
    np.testing.assert_allclose(
        from_logits.predict_proba(2 * logits), from_proba.predict_proba(proba)
    )


@all_calibrators
def test_zeros_and_small_probabilities_that_fit_has_not_seen(calibrator):
    """A zero is taken for a small value, and a smaller one is not touched."""
    logits, y = make_logits()
    fitted = fresh(calibrator).fit(softmax(logits), y)
    assert fitted.zero_replacement_ == softmax(logits).min() / 2
    proba = fitted.predict_proba([[0.5, 0.3, 0.2, 0], [0.5, 0.3, 0.2, 1e-30]])
    assert (proba > 0).all()
    if fitted.preserves_argmax:
        np.testing.assert_array_equal(proba.argmax(axis=1), 0)
        assert proba[0, 3] > proba[1, 3]
    fitted.fit(np.eye(4)[[0, 1, 2, 3, 0]], [0, 1, 2, 3, 1])
    assert fitted.zero_replacement_ == 1 / 8


@all_calibrators
def test_memory_order_and_input_are_left_alone(calibrator):
    logits, y = make_logits()
    X = softmax(3 * logits)
    copy = X.copy()
    fitted = fresh(calibrator).fit(X, y)
    proba = fitted.predict_proba(X)
    np.testing.assert_array_equal(X, copy)
    fortran = np.asfortranarray(X)
    np.testing.assert_allclose(
        fresh(calibrator).fit(fortran, y).predict_proba(fortran), proba, rtol=1e-12
    )
    X.flags.writeable = False
    fresh(calibrator).fit(X, y).predict_proba(X)


@all_calibrators
def test_pickle(calibrator):
    logits, y = make_logits()
    X = softmax(3 * logits)
    fitted = fresh(calibrator).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


@all_calibrators
def test_predict_is_the_label_of_the_largest_probability(calibrator):
    logits, y = make_logits()
    X = softmax(3 * logits)
    fitted = fresh(calibrator).fit(X, y + 10)
    largest = fitted.predict_proba(X).argmax(axis=1)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[largest])
    assert fitted.score(X, y + 10) == np.mean(fitted.predict(X) == y + 10)


@all_calibrators
def test_preserves_argmax_if_it_says_so(calibrator):
    """On data with class-dependent errors, which any other calibrator would repair."""
    logits, y = make_logits(n_classes=3)
    biased = 3 * logits + [2.0, 0.0, -2.0]
    fitted = fresh(calibrator, from_logits=True).fit(biased, y)
    same = fitted.predict(biased) == biased.argmax(axis=1)
    assert same.all() == type(calibrator).preserves_argmax


PROBA = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])
BAD_FITS = {
    "logits": ((PROBA * 9, [0, 1, 2]), r"X must lie in \[0, 1\].*from_logits=True"),
    "negative": (([[1.5, -0.5], [0, 1]], [0, 1]), r"must lie in \[0, 1\].*-0.5"),
    "sums": ((PROBA * 0.9, [0, 1, 2]), r"sum to one.*0\.9.*from_logits=True"),
    "nan": ((PROBA * np.nan, [0, 1, 2]), "NaN"),
    "infinite": ((PROBA + np.inf, [0, 1, 2]), "infinity"),
    "1-d logits": (([-1.0, 2.0], [0, 1]), r"must lie in \[0, 1\].*from_logits=True"),
    "3-d": ((PROBA[None], [0]), "dim 3"),
    "length of y": ((PROBA, [0, 1]), r"inconsistent numbers of samples.*\[3, 2\]"),
    "nan in y": ((PROBA, [0, 1, np.nan]), "y must hold no missing values"),
    "too many labels": ((PROBA[:, 1] * 1, [0, 1, 2]), "y must hold 2 distinct labels"),
    "weight": ((PROBA, [0, 1, 2], [1, -1, 1]), "sample_weight must be non-negative"),
    "no weight": ((PROBA, [0, 1, 2], [0, 0, 0]), "ample.weight"),
    "weights": ((PROBA, [0, 1, 2], [1, 1]), "sample_weight"),
}


@all_calibrators
@pytest.mark.parametrize(
    ("arguments", "message"), BAD_FITS.values(), ids=list(BAD_FITS)
)
def test_bad_data_is_refused(calibrator, arguments, message):
    with pytest.raises(ValueError, match=message):
        fresh(calibrator).fit(*arguments)


@all_calibrators
@pytest.mark.parametrize("from_logits", [None, "yes"])
def test_bad_from_logits_is_refused(calibrator, from_logits):
    with pytest.raises(ValueError, match=f"'from_logits'.*Got {from_logits!r}"):
        fresh(calibrator, from_logits=from_logits).fit(PROBA, [0, 1, 2])


@all_calibrators
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3], r"only the labels \[0, 1, 3\], got also \[2\]"),
        ([0, 1, 2, 3], "labels must hold 3 distinct labels"),
        ([0, 1, 1], "labels must hold 3 distinct labels"),
    ],
)
def test_bad_labels_are_refused(calibrator, labels, message):
    with pytest.raises(ValueError, match=message):
        fresh(calibrator).fit(PROBA, [0, 1, 2], labels=labels)


@all_calibrators
def test_bad_predictions_are_refused(calibrator):
    with pytest.raises(NotFittedError):
        fresh(calibrator).predict(PROBA)
    fitted = fresh(calibrator).fit(PROBA, [0, 1, 2])
    with pytest.raises(ValueError, match=r"2 features, but .* is expecting 3"):
        fitted.predict_proba(PROBA[:, :2] / PROBA[:, :2].sum(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="sum to one"):
        fitted.predict_proba(2 * PROBA / 3)


def test_every_calibrator_is_registered():
    public = [getattr(calibrators, name) for name in calibrators.__all__]
    registered = {get_calibrator(name) for name in get_calibrator_names()}
    missing = [
        f'"{thing.__name__}": {thing.__name__},'
        for thing in public
        if isinstance(thing, type)
        and issubclass(thing, Calibrator)
        and thing not in registered | {Calibrator}
    ]
    assert not missing, f"Add to calibrators/_registry.py: {missing}"


def test_registry():
    assert get_calibrator_names() == sorted(get_calibrator_names())
    with pytest.raises(ValueError, match=r"'temprature'\. Did you mean 'temperature'?"):
        get_calibrator("temprature")
    with pytest.raises(ValueError, match="got 3"):
        get_calibrator(3)
