"""Properties of all losses that learn from bins of the validation confidences."""

import copy
import json
import pickle
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.base import clone

from sklearn_calib.losses import AdaDualFocalLoss, AdaFocalLoss, CalFocalLoss
from sklearn_calib.metrics import expected_calibration_error

LOSSES = [
    AdaDualFocalLoss(n_bins=4, lambd=3.0),
    AdaFocalLoss(n_bins=1),
    AdaFocalLoss(n_bins=4, lambd=3.0),
    CalFocalLoss(n_bins=4, lambd=3.0),
    CalFocalLoss(n_bins=4, lambd=3.0, per_sample=True),
]
BIN_NAMES = ["bin_accuracy", "bin_confidence", "bin_weight", "calibration_gap"]
BATCH = (torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.5]]), torch.tensor([0, 2]))

all_losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def quiet_update(loss, *targets, **kwargs):
    """Update without the warning of fewer bins."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return loss.update(*targets, **kwargs)


def validation(n_samples=200, *, seed=0, n_classes=3):
    """Return labels and probabilities without ties."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), n_samples)
    return rng.integers(n_classes, size=n_samples), proba


def binary(confidence):
    """Return probabilities of two classes whose first is predicted."""
    return np.column_stack([confidence, 1 - np.asarray(confidence)])


@st.composite
def validations(draw):
    """Draw class indices and probabilities with many ties, of one sample or more."""
    confidence = draw(st.lists(st.integers(10, 20), min_size=1, max_size=12))
    labels = st.lists(
        st.integers(0, 1), min_size=len(confidence), max_size=len(confidence)
    )
    return np.array(draw(labels)), binary(np.array(confidence) / 20)


def assert_same_state(loss, other):
    for name, buffer in loss.named_buffers():
        torch.testing.assert_close(buffer, other.get_buffer(name))


@all_losses
def test_record(loss):
    """One number per occupied bin, which json accepts, and valid bins."""
    y_true, proba = validation()
    record = clone(loss).update(y_true, proba)
    assert json.loads(json.dumps(record)) == record
    assert {*BIN_NAMES, "bin_edges"} <= record.keys()
    assert [*map(len, map(record.get, BIN_NAMES))] == [loss.n_bins] * 4
    assert record["bin_edges"][0] == 0
    assert record["bin_edges"][-1] == 1
    assert (np.diff(record["bin_edges"]) > 0).all()
    assert record["bin_weight"] == [200 / loss.n_bins] * loss.n_bins
    gap = np.subtract(record["bin_confidence"], record["bin_accuracy"])
    np.testing.assert_array_equal(record["calibration_gap"], gap)
    error = np.average(np.abs(gap), weights=record["bin_weight"])
    assert error == pytest.approx(
        expected_calibration_error(
            y_true, proba, n_bins=loss.n_bins, strategy="quantile"
        ),
        abs=1e-7,
    )


@all_losses
def test_state_is_what_was_recorded(loss):
    loss = clone(loss)
    record = loss.update(*validation())
    recorded = {"edges": record["bin_edges"][1:-1], **record}
    for name, buffer in loss.named_buffers():
        np.testing.assert_allclose(buffer, recorded[name], rtol=1e-6)


@all_losses
@given(targets=validations(), data=st.data())
def test_order_of_samples(loss, targets, data):
    y_true, proba = targets
    order = data.draw(st.permutations(range(len(y_true))))
    loss, other = clone(loss), clone(loss)
    record = quiet_update(loss, y_true, proba)
    permuted = quiet_update(other, y_true[order], proba[order])
    assert_same_state(loss, other)
    assert record.keys() == permuted.keys()
    for name in record:
        np.testing.assert_allclose(record[name], permuted[name], atol=1e-12)


@all_losses
@given(targets=validations(), data=st.data())
def test_weights_are_repetitions(loss, targets, data):
    y_true, proba = targets
    counts = st.lists(st.integers(0, 3), min_size=len(y_true), max_size=len(y_true))
    weight = np.array(data.draw(counts.filter(any)))
    loss, other = clone(loss), clone(loss)
    record = quiet_update(loss, y_true, proba, sample_weight=weight)
    repeated = quiet_update(other, y_true.repeat(weight), proba.repeat(weight, axis=0))
    assert_same_state(loss, other)
    for name in record:
        np.testing.assert_allclose(record[name], repeated[name], atol=1e-12)


@all_losses
@given(targets=validations())
def test_no_bin_is_empty(loss, targets):
    """However many confidences are tied."""
    loss = clone(loss)
    record = quiet_update(loss, *targets)
    n_used, n_samples = len(record["bin_weight"]), len(targets[0])
    assert n_used <= min(loss.n_bins, len(np.unique(targets[1][:, 0])))
    assert min(record["bin_weight"]) >= 1
    assert sum(record["bin_weight"]) == n_samples
    assert torch.isfinite(loss.edges).sum() == n_used - 1
    assert torch.isfinite(loss(*BATCH))


@pytest.mark.parametrize("loss", [one for one in LOSSES if one.n_bins > 1], ids=repr)
@pytest.mark.parametrize(
    ("confidence", "n_used"), [([0.9], 1), ([0.8, 0.9], 2), ([0.7] * 50, 1)]
)
def test_fewer_bins(loss, confidence, n_used):
    """The state of unused bins does not change."""
    loss = clone(loss)
    loss.update(*validation())
    before = copy.deepcopy(loss)
    message = rf"^n_bins must .*got {len(confidence)} samples, whose distinct "
    message += rf"confidences fill {n_used} of 4 bins\."
    with pytest.warns(UserWarning, match=message) as caught:
        loss.update(np.zeros(len(confidence), int), binary(confidence))
    assert caught[0].filename == __file__
    assert torch.isinf(loss.edges[n_used - 1 :]).all()
    for name, buffer in loss.named_buffers():
        if name != "edges":
            assert torch.equal(buffer[n_used:], before.get_buffer(name)[n_used:])


def test_confidences_that_single_precision_cannot_tell_apart():
    """They share a bin, so that training samples can be in each bin."""
    confidence = np.concatenate([np.linspace(0.5, 0.9, 8), 1 - np.arange(4) * 1e-9])
    loss = AdaFocalLoss(n_bins=6)
    record = quiet_update(loss, np.zeros(12, int), binary(confidence))
    assert record["bin_weight"] == [2, 2, 2, 2, 4]
    assert (np.diff(record["bin_edges"]) > 0).all()


@all_losses
def test_absent_class(loss):
    y_true, proba = validation()
    record = clone(loss).update(y_true % 2, proba)
    assert np.isfinite(record["calibration_gap"]).all()


@all_losses
@pytest.mark.parametrize(
    "copier",
    [copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))],
    ids=["deepcopy", "pickle"],
)
def test_copies_keep_the_state(loss, copier):
    loss = clone(loss)
    loss.update(*validation())
    twin = copier(loss)
    before = copy.deepcopy(loss)
    assert_same_state(loss, twin)
    assert torch.equal(twin(*BATCH), loss(*BATCH))
    twin.update(*validation(seed=1))
    assert_same_state(loss, before)


@all_losses
@pytest.mark.parametrize("n_samples", [2, 200])
def test_state_dict(loss, n_samples):
    """Also with fewer bins in use."""
    loss = clone(loss)
    quiet_update(loss, *validation(n_samples))
    twin = clone(loss)
    twin.load_state_dict(loss.state_dict())
    assert torch.equal(twin(*BATCH), loss(*BATCH))
    assert quiet_update(twin, *validation()) == quiet_update(loss, *validation())


@all_losses
def test_clone_has_the_initial_state(loss):
    fresh, learned = clone(loss), clone(loss)
    learned.update(*validation())
    assert_same_state(clone(learned), fresh)


@all_losses
def test_double_precision(loss):
    single, double = clone(loss), clone(loss).to(torch.float64)
    for seed in range(3):
        single.update(*validation(seed=seed))
        double.update(*validation(seed=seed))
    assert {buffer.dtype for buffer in double.buffers()} == {torch.float64}
    for name, buffer in single.named_buffers():
        torch.testing.assert_close(buffer.double(), double.get_buffer(name))
    logits, target = BATCH
    assert double(logits, target).dtype == torch.float32
    assert double(logits.double(), target).dtype == torch.float64


@pytest.mark.parametrize(
    ("y_true", "proba", "error", "message"),
    [
        ([0], [[np.nan, 0.5]], ValueError, "y_proba must be finite, got NaN"),
        ([0], [[3.0, -2.0]], ValueError, r"must lie in \[0, 1\], got values in \[-2"),
        ([0], [[0.3, 0.3]], ValueError, "rows that sum to one"),
        ([0], [0.3], ValueError, r"of shape \(n_samples, n_classes\)"),
        (
            [0, 1],
            [[0.5, 0.5]],
            ValueError,
            "y_true must contain one .*got 2 class indices and 1 rows",
        ),
        ([2], [[0.5, 0.5]], ValueError, r"only the labels \[0, 1\], got also \[2\]"),
    ],
)
def test_bad_validation_data(y_true, proba, error, message):
    loss = AdaFocalLoss()
    with pytest.raises(error, match=message):
        loss.update(np.array(y_true), np.array(proba))
    assert_same_state(loss, AdaFocalLoss())


@pytest.mark.parametrize("weight", [[-1.0, 1.0], [0.0, 0.0], [1.0]])
def test_bad_weight(weight):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        AdaFocalLoss().update([0, 1], binary([0.6, 0.7]), sample_weight=weight)


@pytest.mark.parametrize("loss", [AdaFocalLoss, CalFocalLoss, AdaDualFocalLoss])
def test_bad_number_of_bins(loss):
    with pytest.raises(ValueError, match=r"n_bins must be >= 1, got 0\. The paper"):
        loss(n_bins=0)
    for bad in (2.0, True, "15"):
        with pytest.raises(
            TypeError, match=r"n_bins must be an integer >= 1, got .*of"
        ):
            loss(n_bins=bad)


@all_losses
def test_ignored_samples_are_left_out(loss):
    y_true, proba = validation(60)
    weight, ignored = np.arange(60.0), np.arange(60) % 3 == 0
    given, expected = copy.deepcopy(loss), copy.deepcopy(loss)
    marked = np.where(ignored, loss.ignore_index, y_true)
    quiet_update(given, marked, proba, sample_weight=weight)
    kept = ~ignored
    quiet_update(expected, y_true[kept], proba[kept], sample_weight=weight[kept])
    assert_same_state(given, expected)
    with pytest.raises(ValueError, match="other than ignore_index, got only -100"):
        given.update(np.full(60, -100), proba)
