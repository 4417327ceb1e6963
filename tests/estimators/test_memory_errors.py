"""Errors for a memory that cannot be written."""

import joblib
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier, RefCalClassifier

X, Y = load_iris(return_X_y=True)


class Reads(GaussianNB):
    """Classifier that reads a missing file."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def fit(self, X, y):  # noqa: ARG002
        self.path.read_text("utf-8")


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(GaussianNB(), None, cv=2),
        RefCalClassifier(refine__max_epochs=1, head__max_epochs=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_memory_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").write_text("")
    for memory in (tmp_path / "file", str(tmp_path / "file" / "folder")):
        with pytest.raises(ValueError, match=r"must be a writable folder, got '.*file"):
            model.set_params(memory=memory).fit(X, Y)
    # The folder of the results is a file.
    (tmp_path / "memory" / "joblib").mkdir(parents=True)
    (tmp_path / "memory" / "joblib" / "sklearn_calib").write_text("")
    memory = joblib.Memory(str(tmp_path / "memory"), verbose=0)
    with pytest.raises(ValueError, match=r"must be a writable folder, got '.*memory'"):
        model.set_params(memory=memory).fit(X, Y)


def test_errors_of_the_classifier_are_its_own(tmp_path):
    model = CalibratedClassifier(
        Reads(tmp_path / "missing"), None, memory=tmp_path / "kept"
    )
    with pytest.raises(FileNotFoundError):
        model.fit(X, Y)
