"""The fit of an affine map under a softmax: derivatives, optimum, both solvers."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import log_softmax, softmax

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib.calibrators._linear import multinomial_fit as multinomial
from sklearn_calib.calibrators._linear.multinomial_fit import fit_multinomial
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap, FullMap

both_kinds = pytest.mark.parametrize("kind", [DiagonalMap(), FullMap()])


@pytest.fixture(scope="module")
def data():
    """Return features, codes and weights of 150 samples of 4 classes."""
    rng = np.random.default_rng(0)
    features = log_softmax(2 * rng.normal(size=(150, 4)), axis=1)
    bias = np.linspace(-1, 1, 4)
    codes = (0.7 * features + bias + rng.gumbel(size=(150, 4))).argmax(axis=1)
    weight = rng.uniform(0.5, 1.5, 150)
    return features, codes, weight / weight.sum()


@pytest.fixture(scope="module")
def least(data):
    """Return a function for the minimum that a general minimiser finds."""

    @cache
    def find(kind, strength):
        center = kind.identity(4)
        problem = kind, data, ridge_of(center, strength), center
        return minimize(
            objective(*problem),
            0.1 * center.ravel(),
            jac=gradient_of(*problem),
            method="BFGS",
            options={"gtol": 1e-7},
        ).fun

    return find


def ridge_of(center, strength):
    return strength * np.arange(1.0, center.size + 1).reshape(center.shape)


def objective(kind, data, ridge, center):
    """Return an independent objective as a function of flat parameters."""
    features, codes, weight = data

    def value(flat):
        parameters = flat.reshape(center.shape)
        scores = kind.scores(features, parameters)
        true = log_softmax(scores, axis=1)[np.arange(len(codes)), codes]
        return (ridge * (parameters - center) ** 2).sum() - weight @ true

    return value


def gradient_of(kind, data, ridge, center):
    """Return the gradient of the objective; the scores are linear in the parameters."""
    features, codes, weight = data
    directions = np.eye(center.size).reshape(-1, *center.shape)
    change = np.stack([kind.scores(features, direction) for direction in directions])
    change -= kind.scores(features, 0 * center)

    def gradient(flat):
        parameters = flat.reshape(center.shape)
        excess = softmax(kind.scores(features, parameters), axis=1)
        excess[np.arange(len(codes)), codes] -= 1
        of_ridge = 2 * ridge * (parameters - center)
        return of_ridge.ravel() + np.einsum("knc,nc,n->k", change, excess, weight)

    return gradient


@both_kinds
def test_derivatives(kind, data):
    """Compare gradient and Hessian product with finite differences."""
    rng = np.random.default_rng(1)
    center = kind.identity(4)
    ridge, at, along = rng.uniform(size=(3, *center.shape))
    problem = multinomial.Objective(kind, array_blocks(*data), ridge, center)
    value = objective(kind, data, ridge, center)

    def gradient(flat):
        return problem.evaluate(flat.reshape(center.shape))[1].ravel()

    assert problem.evaluate(at)[0] == pytest.approx(value(at.ravel()), rel=1e-12)
    assert check_grad(value, gradient, at.ravel(), seed=0) < 1e-5
    change = gradient((at + 1e-5 * along).ravel()) - gradient(
        (at - 1e-5 * along).ravel()
    )
    change = change.reshape(center.shape) / 2e-5
    product = problem._multiply(problem.curved(at), along)
    np.testing.assert_allclose(product, change, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        problem.newton_step(at, change), -along, rtol=1e-5, atol=1e-7
    )


@both_kinds
@pytest.mark.parametrize("max_dense", [1000, 0])
@pytest.mark.parametrize("strength", [1e-6, 0.1])
def test_reaches_the_optimum_of_a_general_minimiser(
    kind, max_dense, strength, data, least, monkeypatch
):
    monkeypatch.setattr(kind, "max_dense", max_dense)
    center = kind.identity(4)
    ridge = ridge_of(center, strength)
    parameters, has_converged = fit_multinomial(
        kind, array_blocks(*data), ridge=ridge, center=center, start=0.1 * center
    )
    assert has_converged
    value = objective(kind, data, ridge, center)
    rtol = 1e-12 if max_dense else 1e-7
    assert value(parameters.ravel()) <= least(kind, strength) * (1 + rtol)


@both_kinds
@pytest.mark.parametrize("max_dense", [1000, 0])
def test_says_that_classes_can_be_separated(kind, max_dense, data, monkeypatch):
    monkeypatch.setattr(kind, "max_dense", max_dense)
    features, _, weight = data
    start = 0.5 * kind.identity(4)
    parameters, has_converged = fit_multinomial(
        kind,
        array_blocks(features, features.argmax(axis=1), weight),
        ridge=np.zeros_like(start),
        center=start,
        start=start,
    )
    assert not has_converged
    assert np.isfinite(parameters).all()


def test_stays_among_equal_maps_at_the_closest_to_the_start(data):
    """A constant added to a column of W does not change the probabilities."""
    start = FullMap().identity(4)
    parameters, _ = fit_multinomial(
        FullMap(), array_blocks(*data), ridge=0 * start, center=start, start=start
    )
    assert np.abs(parameters - start).max() > 0.1
    np.testing.assert_allclose((parameters - start).sum(axis=0), 0, atol=1e-5)


# Raw logits and differences to the last class, neither of which is offered: the one is
# not determined by probabilities, the other treats the last class apart.
@pytest.mark.parametrize(
    ("kind", "case"),
    [
        (DiagonalMap(), "dirichletcal-vector-logits"),
        (DiagonalMap(), "dirichletcal-vector-probs"),
        (FullMap(), "dirichletcal-matrix-logits"),
        (FullMap(), "dirichletcal-matrix-probs"),
    ],
)
def test_recorded_likelihood_of_other_features(kind, case, reference):
    record = reference("cal_vector_matrix")
    (expected,) = (e["values"] for e in record["expected"] if e["id"] == case)
    inputs = record["inputs"]["multiclass"]
    logits, codes = np.array(inputs["fit_logits"]), np.array(inputs["fit_labels"])
    if case.endswith("probs"):
        logits = logits - logits[:, -1:]
    start = 0.4 * kind.identity(4)
    weight = np.full(len(codes), 1 / len(codes))
    parameters, _ = fit_multinomial(
        kind,
        array_blocks(logits, codes, weight),
        ridge=0 * start,
        center=start,
        start=start,
    )
    log_proba = log_softmax(kind.scores(logits, parameters), axis=1)
    nll = -log_proba[np.arange(len(codes)), codes].mean()
    assert nll == pytest.approx(expected["fit_nll"], rel=1e-10)
