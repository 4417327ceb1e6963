"""Serialization of tensors in plain containers."""

import io
import json
import math
from collections import OrderedDict

import numpy as np
import pytest
import torch

from sklearn_calib._torch.net_state import from_bytes, to_bytes

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.uint8, torch.int64, torch.bool, torch.complex64),
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


def test_versions_of_modules_come_back():
    state = torch.nn.BatchNorm1d(2).state_dict()
    again = from_bytes(to_bytes(state))
    assert type(again) is OrderedDict
    assert again._metadata == state._metadata


@pytest.mark.parametrize("value", [{1, 2}, print, torch.nn.Linear, b"bytes", object()])
def test_others_are_refused(value):
    with pytest.raises(TypeError, match="must consist of tensors, numbers, strings, "):
        to_bytes({"state": [value]})


def test_a_flipped_byte_is_found_or_changes_nothing():
    """Bytes of the archive that are not data, such as a date, may differ."""
    content, n_found = to_bytes({"a": torch.arange(5.0)}), 0
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 0xFF
        try:
            again = from_bytes(bytes(flipped))
        except ValueError:
            n_found += 1
        else:
            assert torch.equal(again["a"], torch.arange(5.0))
    assert n_found > len(content) / 2


def archive(structure, *arrays, save=np.savez):
    """Return crafted bytes."""
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    save(file, structure=text, **{str(i): each for i, each in enumerate(arrays)})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            archive(0, np.zeros(10**7, np.uint8), save=np.savez_compressed),
            r"its \d{5} bytes would become 10000\d{3} bytes",
        ),
        (
            archive(["tensor", 0, "float32", [10**15]], np.zeros(4, np.uint8)),
            "4 bytes are not torch.float32 of shape",
        ),
        (
            archive(["list", 2 * [["tensor", 0, "uint8", [4]]]], np.zeros(4, np.uint8)),
            "KeyError: '0'",
        ),
    ],
    ids=["compressed", "shape", "twice"],
)
def test_memory_is_not_more_than_the_file(content, message):
    with pytest.raises(ValueError, match=message):
        from_bytes(content)
