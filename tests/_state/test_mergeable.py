"""What all accumulators tell: the number of samples, however they were added."""

import json

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

from sklearn_calib._state.mergeable import Accumulator
from sklearn_calib.calibrators import TemperatureAccumulator
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.metrics import CalibrationAccumulator
from sklearn_calib.persistence import from_dict, to_dict

RNG = np.random.default_rng(0)
PROBA = softmax(RNG.normal(size=(50, 3)), axis=1)
Y, WEIGHT = RNG.integers(3, size=50), np.append(RNG.uniform(0.1, 1, 40), np.zeros(10))
MEMBERS = [TemperatureAccumulator, CalibrationAccumulator, CalibrationMonitor]
every_member = pytest.mark.parametrize("member", MEMBERS)


def test_all_members():
    assert {*MEMBERS} == {*Accumulator.__subclasses__()}


def add(accumulator, rows, weight=WEIGHT):
    """Return the accumulator after adding some samples."""
    pair = Y[rows], PROBA[rows]
    if isinstance(accumulator, TemperatureAccumulator):
        pair = pair[::-1]
    return accumulator.update(*pair, None if weight is None else weight[rows])


@every_member
def test_number_of_samples(member):
    """It counts samples with positive weight, whatever the weights and the chunks."""
    empty = member(labels=[0, 1, 2])
    assert empty.n_samples_ == add(clone(empty), slice(0, 0)).n_samples_ == 0
    assert add(clone(empty), slice(None), None).n_samples_ == 50
    assert add(clone(empty), slice(None)).n_samples_ == 40
    parts = [add(clone(empty), rows) for rows in (slice(30), slice(30, 45))]
    whole = add(add(clone(empty), slice(30)), slice(30, 45))
    assert sum([], start=empty).n_samples_ == 0
    for total in (sum(parts), sum(parts, start=empty), whole):
        assert total.n_samples_ == 40
        assert add(total, slice(45, 50)).n_samples_ == 40
        read = from_dict(json.loads(json.dumps(to_dict(total))))
        assert read.n_samples_ == 40
        assert type(read.n_samples_) is int
    assert empty.n_samples_ == clone(parts[0]).n_samples_ == 0
    assert parts[0].merge(parts[1]).merge(parts[1]).n_samples_ == 50


def test_number_of_samples_of_groups():
    groups = np.arange(50) % 2
    total = CalibrationAccumulator(labels=[0, 1, 2])
    total.update(Y, PROBA, WEIGHT, groups=groups)
    total = total + total
    assert total.n_samples_ == 80
    assert [each.n_samples_ for each in total.groups_.values()] == [40, 40]
