"""Both bodies of each operation: numpy arrays, and arrays in a graph."""

import inspect

import numpy as np
import pytest
import torch

from sklearn_calib._expressions import columns, replace_top as tops, rows, symbol
from sklearn_calib._expressions.eager import evaluate
from sklearn_calib._torch.calibrator_module import CalibratorModule
from sklearn_calib.calibrators import operations as op

RNG = np.random.default_rng(0)
KNOTS = [np.array([-1.0, 0.0, 2.0]), np.zeros(0), np.array([0.5])]
EDGES = [np.array([0.1, 0.3, 0.9]), np.zeros(0), np.array([0.5])]
TABLES = [RNG.random(len(knots) + 1) for knots in KNOTS]
POINTS = [
    (np.array([-1.0, 0.0, 0.0, 2.0]), np.array([0.0, 0.1, 0.7, 1.0])),
    (np.zeros(1), np.ones(1)),
    (np.array([-3.0, 3.0]), np.array([1.0, 0.0])),
]
CURVE = np.array([-1.0, 0.0, 2.0]), np.array([-2.0, 0.0, 3.0]), np.array([2.0, 1, 0.5])
CURVES = [CURVE, CURVE, tuple(part[:2] for part in CURVE)]


def top(x):
    return x.argmax(axis=1, keepdims=True)


def largest(x):
    return op.softmax(x).max(axis=1, keepdims=True)


# For each operation, expressions of logits of three classes.
OFFSETS = np.array([-0.3, 0.1, 0.2])

CASES = {
    "bins": [lambda x: columns.bins(op.softmax(x), EDGES, TABLES)],
    "by_group": [
        lambda x: rows.by_group(abs, [lambda y: -y, None, op.exp], top(x), x),
    ],
    "clip": [lambda x: op.clip(x, -0.5, np.array([0.0, 1.0, 2.0]))],
    "cubic": [
        lambda x: columns.cubic(x, CURVES),
        lambda x: columns.cubic(x, CURVE),
    ],
    "exp": [op.exp],
    "expit": [op.expit],
    "focal_posterior": [lambda x: rows.focal_posterior(op.softmax(x), 1.5)],
    "hstack": [lambda x: op.hstack([x, x[:, :1], -x[:, [2, 0]]])],
    "in_order": [lambda x: rows.in_order(x, "F")],
    "interpolate": [
        lambda x: op.interpolate(x, POINTS),
        lambda x: op.interpolate(x, POINTS[0]),
    ],
    "is_top": [lambda x: op.where(op.is_top(x), 1.0, 0 * x)],
    "keep_top": [lambda x: tops.keep_top(op.softmax(x), x)],
    "lift_zeros": [lambda x: rows.lift_zeros(op.softmax(x), 0.1)],
    "linear": [
        lambda x: columns.linear([x, x * x], np.arange(9.0).reshape(3, 3)),
    ],
    "log": [lambda x: op.log(abs(x) + 1)],
    "log1p": [lambda x: op.log1p(abs(x)), lambda x: op.log1p(1e-20 * x)],
    "log_expit": [op.log_expit],
    "log_odds": [op.log_odds],
    "log_of_pool": [lambda x: rows.log_of_pool([op.softmax(x), op.softmax(-x)])],
    "pool": [
        lambda x: rows.pool([op.softmax(x), op.softmax(-x)], 1.0, 0.0),
        lambda x: rows.pool([op.softmax(x), op.softmax(-x)], 0.8, OFFSETS),
        lambda x: rows.pool([op.expit(x), op.expit(-x)], OFFSETS + 1.1, OFFSETS),
    ],
    "log_odds_of_proba": [lambda x: rows.log_odds_of_proba(op.log_softmax(x), 1e-9)],
    "log_proba_and_rest": [lambda x: op.hstack(rows.log_proba_and_rest(x))],
    "log_softmax": [op.log_softmax],
    "lookup": [lambda x: x * op.lookup(np.array([1, 2, 3], dtype=x.dtype), top(x))],
    "maximum": [lambda x: op.maximum(x, 0.0), lambda x: op.maximum(x, -x)],
    "minimum": [lambda x: op.minimum(x, 0.0), lambda x: op.minimum(x, -x)],
    "negative_entropy": [lambda x: rows.negative_entropy(op.softmax(x))],
    "replace_top": [
        lambda x: tops.replace_top(x, (2 + largest(x)) / 3, (1 - largest(x)) / 3),
        lambda x: tops.replace_top(x, (1 + largest(x)) / 3, (2 - largest(x)) / 3),
    ],
    "round_to": [lambda x: op.round_to(x, 2)],
    "softmax": [op.softmax],
    "softplus": [op.softplus],
    "steps": [
        lambda x: op.steps(x, KNOTS, TABLES, side="left"),
        lambda x: op.steps(x, KNOTS, TABLES, side="right"),
    ],
    "top_log_odds": [rows.top_log_odds],
    "mixture": [lambda x: rows.mixture(np.array([0.5, 0.2, 0.3]), [x, x * x])],
    "where": [
        lambda x: op.where(x > 0, x, -1.0),
        lambda x: op.where(x > 0, 2.5, -1.0),
        lambda x: op.where(np.array([True, False, True]), x, -x),
        lambda x: op.where(x > 0, np.array([1.0, 2.0, 3.0]), 0.5),
    ],
    "operators": [
        lambda x: (2 - x) / (1 + abs(x)) ** 2 + 1 / (3 + x * x) - (-x) * x / 2,
        lambda x: x @ np.arange(6.0).reshape(3, 2).astype(x.dtype),
        lambda x: op.where((x > 0) & (x <= 1) | ~(x >= -1) | (x < -2), x, 0 * x),
        lambda x: op.where(top(x) == 1, x, x[:, ::-1]),
        lambda x: (x > 0) * x + (x > 1) * 2.5 - top(x) / 2.0,
        lambda x: x.mean(axis=1, keepdims=True) - x.sum(axis=1, keepdims=True),
        lambda x: x.astype(np.float32).astype(np.float64, copy=False) * x,
        lambda x: x @ np.arange(6).reshape(3, 2) + np.array([1, 2]),
        lambda x: (x != 0.0) * 2.0**x,
        lambda x: x + np.arange(3.0)[::-1],
        lambda x: op.minimum(1, op.maximum(-1, x)),
    ],
    "columns": [
        lambda x: x[:, [-1]] - x[:, -2:],
        lambda x: x[:, np.array([True, False, True])],
    ],
    "masks": [
        lambda x: ((x > 0) * 2 - 1) * x,
        lambda x: (1 - (x > 0)) * x,
        lambda x: ((x > 0) + (x > 1)) * x * ((x < 2) * (x < 1)),
        lambda x: (x > 0).sum(axis=1, keepdims=True) * x,
        lambda x: (x > 0).mean(axis=1, keepdims=True) * x,
        lambda x: np.array([True, False, True]) & (x > 0),
        lambda x: (np.array([True, False, True]) | (x > 0)) * 1.0,
    ],
    "indices": [
        lambda x: top(x) / 2 + x,
        lambda x: op.exp(top(x)) + op.log(1 + top(x)) + x,
        lambda x: top(x).mean(axis=1, keepdims=True) + x,
        lambda x: 2 ** top(x) * x,
    ],
}
# Cases of the arrays in a graph themselves.
OF_ARRAYS = {"operators", "columns", "masks", "indices"}
IN_GRAPHS_ONLY = {"node", "log_of_tiny"}
IN_NUMPY_ONLY = {"with_uniform"}


def test_every_operation_is_tested():
    modules = columns, tops, rows, symbol
    functions = {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert functions - IN_GRAPHS_ONLY - IN_NUMPY_ONLY == {*CASES} - OF_ARRAYS
    assert {*op.__all__} <= functions


def make_logits(dtype):
    logits = 2 * np.random.default_rng(1).normal(size=(60, 3))
    logits[:5, 0], logits[5:7] = 0.0, [[1, 1, 1], [2, 2, -3]]
    logits[7:11] = [[-1, 0, 2], [2, 0.5, 0.5], [40, 0, 0], [0, 30, 29.9]]
    return logits.astype(dtype)


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_both_bodies_agree(name, dtype):
    X = make_logits(dtype)
    for case in CASES[name]:
        before = X.copy()
        expected = case(X)
        np.testing.assert_array_equal(X, before)
        found = evaluate(case, torch.from_numpy(X)).numpy()
        assert found.shape == expected.shape
        rtol = 1e-12 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", CASES)
def test_torch_modules_agree(name):
    X = make_logits(np.float64)
    for case in CASES[name]:
        module = CalibratorModule(lambda x, f=case: f(x.with_columns(3)), "case", 3)
        found = module(torch.from_numpy(X)).numpy()
        np.testing.assert_allclose(found, case(X), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: np.where(x > 0, x, 0),
        np.exp,
        np.asarray,
        lambda x: x if x > 0 else -x,
        lambda x: x[0],
        lambda x: x[:5, :1],
        lambda x: x.max(axis=0, keepdims=True),
        lambda x: x.max(axis=1),
        lambda x: x.T,
        lambda x: x * x.shape[0],
        lambda x: x[:, 0],
        lambda x: x @ np.ones(3),
        lambda x: op.clip(x, None, 1.0),
        len,
    ],
)
def test_what_is_not_known_in_a_graph(wrong):
    with pytest.raises((TypeError, AttributeError)):
        evaluate(wrong, torch.ones(5, 3))
