"""Mixup: exact targets and weights, and training."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from sklearn_calib import NeuralClassifier
from sklearn_calib.datasets import Mixup
from sklearn_calib.losses import cross_entropy_loss

X, y = make_classification(n_samples=300, n_informative=5, n_classes=3, random_state=0)
NET = NeuralClassifier(max_epochs=2, batch_size=150, random_state=0)


def batch(n_samples=6, n_classes=3):
    torch.manual_seed(0)
    target = torch.nn.functional.one_hot(torch.arange(n_samples) % n_classes).double()
    return torch.randn(n_samples, 2, dtype=torch.float64), target


def test_inputs_and_targets_are_mixed_alike():
    """If the inputs are also the targets, both are mixed in the same way."""
    _, target = batch()
    mixed, same, weight = Mixup(alpha=1.0)(target, target)
    torch.testing.assert_close(mixed, same)
    torch.testing.assert_close(same.sum(1), torch.ones(6, dtype=torch.float64))
    assert weight is None
    assert not torch.equal(same, target)


def test_each_sample_is_the_first_or_the_second_once():
    X, target = batch()
    mixed, _, _ = Mixup()(X, target)
    torch.testing.assert_close(mixed.mean(0), X.mean(0))


def test_weighted_loss_is_that_of_the_weighted_pair():
    """share * w_i * loss(y_i) + (1 - share) * w_j * loss(y_j), for any logits."""
    logits, target = torch.randn(6, 3, dtype=torch.float64), batch()[1]
    weight = torch.tensor([1.0, 2, 3, 1, 5, 2], dtype=torch.float64)
    mixed, soft, total = Mixup(alpha=1.0)(torch.diag(weight), target, weight)
    # Row i of `mixed` has share * w_i in column i and (1 - share) * w_j in column j.
    losses = torch.stack(
        [
            cross_entropy_loss(logits, label.expand(6), reduction="none")
            for label in target.argmax(1)
        ],
        dim=1,
    )
    result = cross_entropy_loss(logits, soft, reduction="none", sample_weight=total)
    torch.testing.assert_close(result, (mixed * losses).sum(1))


def test_a_pair_without_weight_has_a_target():
    """Its value does not matter, but a loss would raise an error for NaN."""
    X, target = batch()
    weight = torch.tensor([0.0, 0, 0, 0, 1, 1])
    _, mixed, total = Mixup(alpha=1.0)(X, target, weight)
    assert (total == 0).any()
    torch.testing.assert_close(mixed.sum(1), torch.ones(6).double())


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0, 5.0])
def test_weights_of_the_mixture_follow_the_distribution(alpha):
    """The variance of Beta(alpha, alpha) is 1 / (4 * (2 * alpha + 1))."""
    torch.manual_seed(0)
    # A sample that the permutation moves keeps its share of itself, on the diagonal.
    samples = torch.eye(8)
    mixed = [Mixup(alpha=alpha)(samples, samples)[0] for _ in range(2000)]
    share = torch.stack(mixed).diagonal(dim1=1, dim2=2).amin(dim=1)
    second_moment = (share - 0.5).square().mean().item()
    expected = 1 / (4 * (2 * alpha + 1))
    assert second_moment == pytest.approx(expected, rel=0.1)


def test_trains_another_network_and_repeats_it():
    net = clone(NET).set_params(batch_transform=Mixup(alpha=1.0))
    proba = net.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(clone(net).fit(X, y).predict_proba(X), proba)
    assert np.abs(clone(NET).fit(X, y).predict_proba(X) - proba).max() > 1e-3


def test_makes_a_network_less_confident():
    plain = clone(NET).set_params(max_epochs=3, lr=0.03)
    mixed = clone(plain).set_params(batch_transform=Mixup(alpha=0.4))
    confidence = [
        net.fit(X, y).predict_proba(X).max(1).mean() for net in (plain, mixed)
    ]
    assert confidence[1] < confidence[0] - 0.02


def test_weights_reach_the_mixture():
    weight = np.random.default_rng(0).uniform(0.5, 2, 300)
    net = clone(NET).set_params(batch_transform=Mixup())
    weighted = clone(net).fit(X, y, sample_weight=weight).predict_proba(X)
    doubled = clone(net).fit(X, y, sample_weight=2 * weight).predict_proba(X)
    np.testing.assert_allclose(doubled, weighted, rtol=1e-4)
    assert np.abs(net.fit(X, y).predict_proba(X) - weighted).max() > 1e-4


def test_mixes_where_a_mixin_replaces_the_step():
    """Like skorch's mixin for accelerate."""

    dims = []

    class Replaced(NeuralClassifier):
        def train_step_single(self, batch, **fit_params):
            dims.append(batch[1].ndim)
            return super().train_step_single(batch, **fit_params)

    Replaced(max_epochs=1, batch_transform=Mixup()).fit(X, y)
    assert set(dims) == {2}


def test_validation_data_are_not_mixed():
    net = clone(NET).set_params(batch_transform=Mixup(), validation_fraction=0.2)
    assert np.isfinite(net.fit(X, y).history_[-1, "valid_log_loss"])


def test_search_over_alpha():
    grid = {"batch_transform": [None, Mixup(alpha=0.1), Mixup(alpha=0.4)]}
    search = GridSearchCV(NET, grid, scoring="neg_ece", cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "focal"},
        {"loss": "focal_calibration", "loss__lambd": 0.5},
        {"loss": "mdca", "loss__base": "focal", "loss__base__gamma": 1.0},
        {"loss": "adafocal"},
        {"loss": "acls", "loss__margin": 1.0, "loss__base": "dual_focal"},
    ],
    ids=lambda params: params["loss"],
)
def test_trains_with_other_losses(params):
    net = clone(NET).set_params(max_epochs=4, lr=1e-2, **params)
    mixed = clone(net).set_params(batch_transform=Mixup(alpha=1.0)).fit(X, y)
    assert mixed.score(X, y) > 0.7
    assert np.abs(mixed.predict_proba(X) - net.fit(X, y).predict_proba(X)).max() > 1e-3


def test_a_loss_for_labels_only_is_refused():
    net = clone(NET).set_params(loss="mmce", batch_transform=Mixup())
    with pytest.raises(ValueError, match=r"target must have .* Soft targets"):
        net.fit(X, y)


@pytest.mark.parametrize("alpha", [0, -1.0, np.inf, np.nan])
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="alpha must be > 0 and finite, got"):
        Mixup(alpha=alpha)(*batch())


@pytest.mark.parametrize("alpha", [5e-324, 1e-3])
def test_alpha_that_torch_cannot_draw_with(alpha):
    with pytest.raises(ValueError, match=r"alpha must be at least 0\.01, got "):
        Mixup(alpha=alpha)(*batch())


@pytest.mark.parametrize("alpha", ["0.2", True, None])
def test_alpha_of_no_number(alpha):
    with pytest.raises(TypeError, match="alpha must be a number > 0, got"):
        Mixup(alpha=alpha)(*batch())
