"""The default networks."""

import pytest
import torch

from sklearn_calib.estimators import MLP, ConvNet


@pytest.mark.parametrize("hidden_sizes", [(), (5,), (5, 6, 7)])
def test_mlp_has_the_layers_asked_for(hidden_sizes):
    net = MLP(4, 3, hidden_sizes=hidden_sizes, dropout=0.5)
    linear = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    assert [layer.in_features for layer in linear] == [4, *hidden_sizes]
    assert [layer.out_features for layer in linear] == [*hidden_sizes, 3]
    assert net(torch.zeros(2, 4)).shape == (2, 3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: MLP(4, True),
        lambda: MLP(4, 3, hidden_sizes=[True]),
        lambda: ConvNet(1, 3, n_filters=True),
    ],
    ids=["classes", "hidden sizes", "filters"],
)
def test_true_is_no_width(build):
    with pytest.raises(ValueError, match=r"must (be|hold) .*True"):
        build()


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (33, 17), (1, 1)])
def test_convnet_takes_images_of_any_size(size):
    net = ConvNet(n_channels=2, n_classes=5, n_filters=4).eval()
    assert net(torch.zeros(3, 2, *size)).shape == (3, 5)


@pytest.mark.parametrize(
    ("module", "X"),
    [
        (MLP(5, None, hidden_sizes=(4, 3)), torch.ones(2, 5)),
        (ConvNet(1, None, n_filters=3, n_stages=1), torch.ones(2, 1, 8, 8)),
    ],
)
def test_no_classes_make_an_encoder(module, X):
    """Only the output layer is missing."""
    assert module(X).shape == (2, 3)
    torch.manual_seed(0)
    whole = MLP(5, 7, hidden_sizes=(4, 3))
    torch.manual_seed(0)
    part = MLP(5, None, hidden_sizes=(4, 3))
    assert torch.equal(whole[-1](part(torch.ones(2, 5))), whole(torch.ones(2, 5)))
