"""Serialization of tensors in plain containers."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import save

from sklearn_calib._torch.net_state import from_bytes, to_bytes

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.uint8, torch.int64, torch.bool),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3, 4)], ids=str)
def test_tensors_come_back(dtype, shape):
    value = torch.randint(0, 2, shape).to(dtype)
    again = from_bytes(to_bytes({"a": value}))["a"]
    assert (again.dtype, again.shape) == (dtype, shape)
    assert torch.equal(again, value)


def test_a_stride_of_zero():
    for value in (torch.tensor(np.empty(0)), torch.ones(()).expand(1)):
        assert value.stride() == (0,)
        assert torch.equal(from_bytes(to_bytes([value]))[0], value)


def test_bits_come_back():
    value = torch.tensor([math.nan, math.inf, -0.0, 1e-45, 1 / 3]).flip(0)[::2]
    again = from_bytes(to_bytes([value]))[0]
    assert again.numpy().tobytes() == value.numpy().tobytes()


def test_containers_come_back():
    value = {
        "state": {0: {"step": 3.0}, 1: {}},
        "groups": [{"betas": (0.9, 0.999), "lr": np.float64(0.1), "fused": None}],
        "flag": True,
        "numbers": [math.inf, -(2**70), "text", np.int64(3)],
        ("a", 1): [[], ()],
    }
    again = from_bytes(to_bytes(value))
    assert again == value
    assert type(again["groups"][0]["betas"]) is tuple


@pytest.mark.parametrize("value", [{1, 2}, print, torch.nn.Linear, b"bytes", object()])
def test_others_are_refused(value):
    with pytest.raises(TypeError, match="must consist of tensors, numbers, strings, "):
        to_bytes({"state": [value]})


def test_a_tensor_is_stored_once_for_each_use():
    value = torch.arange(4)
    first, second = from_bytes(to_bytes([value, value[:2]]))
    assert torch.equal(first, value)
    assert torch.equal(second, value[:2])


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        (["list", 2 * [["tensor", "0"]]], "KeyError: '0'"),
        (["Linear", []], "KeyError: 'Linear'"),
        ([1, 2, 3], "ValueError: too many values"),
    ],
    ids=["twice", "kind", "length"],
)
def test_crafted_structures(structure, message):
    text = torch.tensor([*json.dumps(structure).encode()], dtype=torch.uint8)
    content = save({"structure": text, "0": torch.zeros(4)})
    with pytest.raises(ValueError, match=message):
        from_bytes(content)
