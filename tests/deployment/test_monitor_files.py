"""Files of CalibrationMonitor: a loaded monitor goes on, a crafted file is refused."""

import json

import numpy as np
import pytest
from sklearn.base import clone

import sklearn_calib
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.persistence import from_dict, to_dict


def draw(rng, logits):
    """Return labels whose probabilities are the softmax of logits, and these."""
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    y = (rng.random((len(proba), 1)) > proba.cumsum(axis=1)).sum(axis=1)
    return y.clip(max=proba.shape[1] - 1), proba


def sharpen(proba, power):
    sharp = proba**power
    return sharp / sharp.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def stream():
    """Return batches of three classes; from batch 12 on, they are overconfident."""
    rng = np.random.default_rng(0)
    batches = [draw(rng, 2 * rng.normal(size=(100, 3))) for _ in range(40)]
    return [
        (y, proba if i < 12 else sharpen(proba, 2))
        for i, (y, proba) in enumerate(batches)
    ]


def monitored(stream, **options):
    monitor = CalibrationMonitor(labels=range(3), **options)
    for batch in stream:
        monitor.update(*batch)
    return monitor


@pytest.fixture(scope="module")
def honest(stream):
    """Return the document of a monitor as text."""
    return json.dumps(to_dict(monitored(stream[:20])))


@pytest.mark.parametrize("n_batches", [0, 1, 5, 40])
def test_saved_monitors(stream, n_batches, tmp_path):
    """A loaded monitor goes on like the original."""
    monitor = monitored(stream[:n_batches])
    document = json.loads(json.dumps(to_dict(monitor), allow_nan=False))
    sklearn_calib.save(monitor, tmp_path / "monitor.json")
    for loaded in (from_dict(document), sklearn_calib.load(tmp_path / "monitor.json")):
        if n_batches:
            assert loaded.e_value_ == monitor.e_value_
            assert loaded.p_value_ == monitor.p_value_
            assert loaded.diagnose() == monitor.diagnose()
        assert loaded.alarm_at_ == monitor.alarm_at_
        assert loaded.update(*stream[0]).e_value_ == (
            (monitor + clone(monitor)).update(*stream[0]).e_value_
        )


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (("counts_", "values", 0), 3.0, "counts_"),
        (("largest_log_e_value_",), -5.0, "largest_log_e_value_"),
        (("alarm_at_",), 99.0, "alarm_at_"),
        (("alarm_at_",), 1.5, "alarm_at_"),
    ],
)
def test_crafted_monitors(path, value, match, honest):
    document = json.loads(honest)
    from_dict(document)
    *keys, last = path
    place = document["object"]["state"]
    for key in keys:
        place = place[key]
    place[last] = value
    with pytest.raises(ValueError, match=match):
        from_dict(document)


def test_labels_must_be_in_the_file():
    document = to_dict(CalibrationMonitor(labels=[0, 1]))
    document["object"]["params"]["labels"] = []
    with pytest.raises(ValueError, match="at least two labels"):
        from_dict(document)


def test_alarm_must_be_in_the_file(stream):
    document = to_dict(monitored(stream))
    del document["object"]["state"]["alarm_at_"]
    with pytest.raises(ValueError, match="alarm_at_ must be the index of a batch"):
        from_dict(document)


def test_labels_must_be_classes():
    with pytest.raises(ValueError, match=r"at least two labels, got \[\]"):
        to_dict(CalibrationMonitor(labels=[]))
    document = to_dict(CalibrationMonitor(labels=["a", "b"]))
    for values in ([], ["a"]):
        document["object"]["params"]["labels"] |= {
            "shape": [len(values)],
            "values": values,
        }
        with pytest.raises(ValueError, match="at least two labels"):
            from_dict(document)
