"""Class temperature scaling: the minimum of its objective, and its prior."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from sklearn_calib.calibrators import ClassTemperatureScaling, TemperatureScaling
from sklearn_calib.calibrators._temperature.class_temperature import _estimate_precision

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make_data(n_samples, temperatures, seed=0):
    """Return logits that need these temperatures, and labels."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_samples, len(temperatures)))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits * np.array(temperatures)[logits.argmax(axis=1)][:, None], y


def objective(log_temperatures, logits, y, weight, center, lambd):
    """Return the penalised sum of the log losses."""
    inverse = np.exp(-log_temperatures)[logits.argmax(axis=1)]
    loss = -log_softmax(logits * inverse[:, None], axis=1)[np.arange(len(y)), y]
    return weight @ loss + lambd / 2 * ((log_temperatures - center) ** 2).sum()


@pytest.mark.parametrize("lambd", [1e-6, 3.0, 1e4])
@pytest.mark.parametrize("temperatures", [(1, 2, 4), (0.1, 1, 30, 1), (5, 0.2)])
def test_minimises_the_penalised_log_loss(lambd, temperatures):
    """SciPy minimises the same function."""
    logits, y = make_data(300, temperatures)
    weight = np.random.default_rng(1).uniform(0.1, 2, len(y))
    fitted = ClassTemperatureScaling(lambd=lambd, from_logits=True)
    fitted.fit(logits, y, weight)
    center = np.log(fitted.temperature_)
    args = logits, y, weight, center, lambd
    found = minimize(objective, np.full(len(temperatures), center), args, tol=1e-10)
    np.testing.assert_allclose(np.log(fitted.temperatures_), found.x, atol=1e-4)
    alone = TemperatureScaling(from_logits=True).fit(logits, y, weight)
    assert fitted.temperature_ == alone.temperature_


def test_the_precision_maximises_the_marginal_likelihood():
    """The estimates of the classes have normal errors, so the likelihood is exact."""
    rng = np.random.default_rng(0)
    information = rng.uniform(1, 100, 30)
    spread = 0.5 * rng.normal(size=30)
    estimate = spread + rng.normal(size=30) / np.sqrt(information)

    def cost(log_precision):
        variance = np.exp(-log_precision) + 1 / information
        return (estimate**2 / variance + np.log(variance)).sum()

    exact = minimize_scalar(cost, bounds=(0, 10), method="bounded").x
    found = _estimate_precision(information, information * estimate)
    assert np.log(found) == pytest.approx(exact, abs=1e-3)
    assert found == pytest.approx(4, rel=0.5)
    # Without a spread, all temperatures are the common one; the prior has a bound.
    assert _estimate_precision(information, np.zeros(30)) > 1e5
    assert _estimate_precision(information, 1e3 * information) < 1.001


def test_equal_temperatures_are_not_told_apart():
    logits, y = make_data(5000, [3, 3, 3, 3])
    fitted = ClassTemperatureScaling(from_logits=True).fit(logits, y)
    np.testing.assert_allclose(fitted.temperatures_, 3, rtol=0.05)
    assert fitted.lambd_ > 100


def test_different_temperatures_are_found():
    truth = [0.5, 1, 2, 4]
    logits, y = make_data(20_000, truth)
    fitted = ClassTemperatureScaling(from_logits=True).fit(logits[::2], y[::2])
    np.testing.assert_allclose(fitted.temperatures_, truth, rtol=0.06)
    one = TemperatureScaling(from_logits=True).fit(logits[::2], y[::2])
    losses = [log_loss(y[1::2], m.predict_proba(logits[1::2])) for m in (fitted, one)]
    assert losses[0] < losses[1] - 0.05


def test_a_class_of_five_samples_does_no_harm():
    """Its temperature is shrunk to those of the other classes."""
    logits, y = make_data(3000, [2, 2, 2, 2, 2])
    few = np.flatnonzero(logits.argmax(axis=1) == 0)[5:]
    logits, y = np.delete(logits, few, axis=0), np.delete(y, few)
    for true in (y, np.where(logits.argmax(axis=1) == 0, 1, y)):
        fitted = ClassTemperatureScaling(from_logits=True).fit(logits, true)
        assert 1.5 < fitted.temperatures_[0] < 4
    free = ClassTemperatureScaling(lambd=1e-6, from_logits=True).fit(logits, true)
    assert free.temperatures_[0] > 10


def test_a_class_that_is_never_predicted_has_the_common_temperature():
    logits, y = make_data(500, [1, 2, 3])
    logits[:, 2] -= 100
    fitted = ClassTemperatureScaling(from_logits=True).fit(logits, y)
    assert fitted.temperatures_[2] == fitted.temperature_
    proba = fitted.predict_proba(logits[:1, ::-1])
    np.testing.assert_allclose(
        proba, softmax(logits[:1, ::-1] / fitted.temperature_, axis=1)
    )


@pytest.mark.parametrize(("order", "lambd"), [(1, None), (1, 1e-6), (-1, None)])
def test_all_are_the_common_temperature_if_it_is_a_bound(order, lambd):
    """All predictions are correct, or worse than chance."""
    logits = make_data(300, [1, 2, 3])[0]
    y = (order * logits).argmax(axis=1)
    fitted = ClassTemperatureScaling(lambd=lambd, from_logits=True).fit(logits, y)
    alone = TemperatureScaling(from_logits=True).fit(logits, y)
    ratio = fitted.temperatures_ / alone.temperature_
    np.testing.assert_allclose(ratio, 1, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_scale_of_the_logits_does_not_matter(scale):
    logits, y = make_data(500, [1, 2, 3])
    expected = ClassTemperatureScaling(from_logits=True).fit(logits, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*look like prob", UserWarning)
        fitted = ClassTemperatureScaling(from_logits=True).fit(scale * logits, y)
    ratio = fitted.temperatures_ / scale / expected.temperatures_
    np.testing.assert_allclose(ratio, 1, rtol=1e-6)


def test_networks_whose_classes_differ(shared_data):
    """The log loss on new data is not above that of one temperature."""
    data = shared_data("logits/cifar10_resnet50_mukhoti_ce.npz")
    nll = []
    for kind in (ClassTemperatureScaling, TemperatureScaling):
        fitted = kind(from_logits=True).fit(data["val_logits"], data["val_labels"])
        proba = fitted.predict_proba(data["test_logits"]).astype(np.float64)
        nll.append(-np.log(proba[np.arange(len(proba)), data["test_labels"]]).mean())
    assert nll[0] < nll[1]


def test_grid_search_over_the_strength():
    logits, y = make_data(600, [1, 2, 4])
    grid = {"lambd": [None, 1, 1e3], "from_logits": [True]}
    search = GridSearchCV(ClassTemperatureScaling(), grid, scoring="neg_log_loss")
    assert search.fit(logits, y).best_params_["lambd"] in grid["lambd"]


@pytest.mark.parametrize("lambd", [0, -1.0, np.nan, np.inf, "cv"])
def test_bad_strength(lambd):
    logits, y = make_data(50, [1, 1])
    with pytest.raises(ValueError, match=r"'lambd' parameter.*Got"):
        ClassTemperatureScaling(lambd=lambd, from_logits=True).fit(logits, y)
