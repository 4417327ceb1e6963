"""Precisions by empirical Bayes, which maximise the marginal likelihood."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sklearn_calib.calibrators._linear import empirical_bayes as empirical_bayes


@pytest.mark.parametrize("curvature", [0.0, 1e-300, 1e-17])
def test_precisions_without_information(curvature):
    """An effective number of zero does not overflow."""
    group = np.array([[0, 1]])
    terms = [(np.diag([100.0, curvature])[None], np.array([[50.0, 1e9]]), group)]
    precision, _, used = empirical_bayes.estimate_precisions(terms, np.ones(2))
    assert precision[0] == pytest.approx(4, rel=0.1)
    assert empirical_bayes.LEAST <= precision[1] <= empirical_bayes.LARGEST
    assert used == pytest.approx([1, 0], abs=0.05)


def test_precisions_maximise_the_marginal_likelihood():
    """Of linear regression with noise of variance one, where it is exact."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 7))
    group = np.array([0, 0, 0, 0, 1, 1, 1])
    coef = np.append(rng.normal(scale=0.1, size=4), [0.3, -0.5, 0.4])
    y = X @ coef + rng.normal(size=200)
    terms = [((X.T @ X)[None], (X.T @ y)[None], group[None])]
    precision, (mean,), used = empirical_bayes.estimate_precisions(terms, np.ones(2))

    def minus_log_evidence(log_precision):
        covariance = np.eye(200) + (X / np.exp(log_precision)[group]) @ X.T
        return np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)

    best = np.exp(minimize(minus_log_evidence, np.ones(2)).x)
    np.testing.assert_allclose(precision, best, rtol=0.1)
    posterior = X.T @ X + np.diag(precision[group])
    np.testing.assert_allclose(mean[0], np.linalg.solve(posterior, X.T @ y), rtol=1e-9)
    assert (used > 0).all()
    assert (used < [4, 3]).all()
