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


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (33, 17), (1, 1)])
def test_convnet_takes_images_of_any_size(size):
    net = ConvNet(n_channels=2, n_classes=5, n_filters=4).eval()
    assert net(torch.zeros(3, 2, *size)).shape == (3, 5)
