"""Chunks that live at once, without garbage collection: the last ones, and no other.

Cycles of references would keep the chunks of large data until the next collection.
"""

import gc
import inspect
import weakref

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.calibrators import (
    IsotonicCalibration,
    JointIsotonicCalibration,
    TemperatureAccumulator,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.metrics import CalibrationAccumulator, calibration_slope

RNG = np.random.default_rng(2)
LOGITS = 2 * RNG.standard_normal((60, 3))
Y = (LOGITS / 2 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
LABELS = [0, 1, 2]
few_errors = pytest.mark.filterwarnings("ignore:.* misclassified samples:UserWarning")


class Chunks:
    """Copies of an array, which are counted while they live."""

    def __init__(self, array):
        self.array, self.references, self.most = array, [], 0

    @property
    def n_living(self):
        return sum(reference() is not None for reference in self.references)

    def new(self):
        chunk = self.array.copy()
        self.references.append(weakref.ref(chunk))
        self.most = max(self.most, self.n_living)
        return chunk

    def pairs(self):
        for _ in range(4):
            yield self.new(), Y


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


def make_calibrator(name, from_logits):
    pair = [TemperatureScaling(), IsotonicCalibration()]
    params = {"cv": 2, "calibrators": pair} if name == "auto" else {}
    return get_calibrator(name)(from_logits=from_logits, **params)


@few_errors
@pytest.mark.parametrize("name", get_calibrator_names())
@pytest.mark.usefixtures("no_collection", "nothing_kept")
def test_calibrators(name, monkeypatch):
    # JointIsotonicCalibration joins chunks of fewer rows.
    monkeypatch.setattr(f"{JointIsotonicCalibration.__module__}.MIN_ROWS", 1)
    chunks = Chunks(LOGITS)
    make_calibrator(name, True).fit(batches=chunks.pairs, labels=LABELS)
    assert chunks.most <= 3
    assert chunks.n_living == 0


@few_errors
@pytest.mark.parametrize("name", get_calibrator_names())
@pytest.mark.usefixtures("no_collection")
def test_calibrators_after_fit(name):
    """During the fit, small data are kept."""
    chunks = Chunks(softmax(LOGITS, axis=1))
    calibrator = make_calibrator(name, False)
    calibrator.fit(chunks.new(), Y).predict_proba(chunks.new())
    if hasattr(calibrator, "partial_fit"):
        clone(calibrator).partial_fit(chunks.new(), Y, classes=LABELS)
    assert chunks.n_living == 0


@pytest.mark.usefixtures("no_collection")
def test_accumulators():
    for member in TemperatureAccumulator, CalibrationAccumulator, CalibrationMonitor:
        chunks, accumulator = Chunks(softmax(LOGITS, axis=1)), member(labels=LABELS)
        first = next(iter(inspect.signature(accumulator.update).parameters))
        for _ in range(3):
            pair = chunks.new(), Y
            accumulator.update(*(pair if first == "X" else pair[::-1]))
            del pair
            assert chunks.n_living == 0


@pytest.mark.usefixtures("no_collection")
def test_numbers_of_each_sample_in_the_search_for_a_root():
    """A cycle of SciPy's function would contain those of `calibration_slope`."""
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        calibration_slope(Y, softmax(LOGITS, axis=1))
        gc.collect()
        kept = [each for cell in gc.garbage for each in gc.get_referents(cell)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert not [each for each in kept if np.size(each) == len(Y)]


@pytest.mark.parametrize(
    "network",
    [
        NeuralClassifier(max_epochs=2, random_state=0),
        RefCalClassifier(refine__max_epochs=1, head__max_epochs=1, random_state=0),
    ],
    ids=lambda network: type(network).__name__,
)
@pytest.mark.usefixtures("no_collection")
def test_networks(network):
    chunks = Chunks(LOGITS.astype(np.float32))
    # What torch imports for its first optimizer keeps the frames of the call.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    network.fit(chunks.new(), Y).predict_proba(chunks.new())
    network.partial_fit(chunks.new(), Y)
    assert chunks.n_living == 0


@pytest.mark.usefixtures("no_collection")
def test_networks_with_a_stream():
    chunks = Chunks(LOGITS.astype(np.float32))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            for X, y in chunks.pairs():
                yield from zip(X, y, strict=True)

    network = NeuralClassifier(max_epochs=2, batch_size=30, random_state=0)
    network.fit(Stream(), classes=LABELS).predict_proba(Stream())
    assert chunks.most <= 3
    assert chunks.n_living == 0
