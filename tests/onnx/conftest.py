"""Fixtures of the tests of exported models."""

from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from skl2onnx.common._container import ModelComponentContainer
from sklearn.datasets import make_classification

from sklearn_calib.onnx import to_onnx


@pytest.fixture(scope="session", autouse=True)
def versions_of_operators():
    """Let skl2onnx collect them once, and not for each part of a model: 10 ms."""
    found = SimpleNamespace()
    ModelComponentContainer._build_op_version(found)
    with pytest.MonkeyPatch.context() as patch:
        name, versions = vars(found).popitem()
        patch.setattr(ModelComponentContainer, name, versions, raising=False)
        yield


@pytest.fixture(scope="session")
def open_session():
    """Return a function for the session that runs a model, without more threads."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = 1

    def start(proto):
        return onnxruntime.InferenceSession(proto.SerializeToString(), settings)

    return start


@pytest.fixture(scope="session")
def run_onnx(open_session):
    """Return a function for the labels and probabilities of a model as ONNX."""

    def run(model, X, **options):
        # The comparison in to_onnx must not hide what the test is to see.
        proto = to_onnx(model, X, **{"atol": np.inf, **options})
        onnx.checker.check_model(proto, full_check=True)
        session = open_session(proto)
        names = [value.name for value in session.get_inputs()]
        if len(names) == 1:
            X = np.asarray(X)
            X = X[:, None].astype(object) if X.dtype.kind == "U" else X
            feed = {names[0]: X}
        else:
            columns = [X[name].to_numpy()[:, None] for name in X.columns]
            columns = [c.astype(object) if c.dtype.kind in "OU" else c for c in columns]
            feed = dict(zip(names, columns, strict=True))
        return session.run(["label", "probabilities"], feed)

    return run


@pytest.fixture(scope="session")
def largest_difference(run_onnx):
    """Return a function for the largest difference to `predict_proba`.

    It also compares the dtype, and the labels of samples that are not nearly tied.
    """

    def difference(model, X, **options):
        label, proba = run_onnx(model, X, **options)
        expected = model.predict_proba(X)
        largest = np.sort(expected, axis=1)
        is_clear = largest[:, -1] - largest[:, -2] > 1e-4
        np.testing.assert_array_equal(label[is_clear], model.predict(X)[is_clear])
        assert len(proba) == len(X)
        return np.abs(proba - expected).max()

    return difference


@pytest.fixture(scope="session", params=[2, 3])
def data(request):
    """Return features and labels of two and of three classes."""
    options = {"n_informative": 6, "n_redundant": 0, "class_sep": 2, "random_state": 0}
    return make_classification(100, 6, n_classes=request.param, **options)
