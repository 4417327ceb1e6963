"""Values of the AUROC of failure detection."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import roc_auc_score

from sklearn_calib.metrics import failure_auroc_score


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.booleans(), st.floats(0.1, 5)), max_size=30
    )
)
def test_is_the_roc_auc_of_correct_predictions(samples):
    """The reference is scikit-learn, with ties and weights."""
    samples = [(5, True, 1.0), (5, False, 1.0), *samples]
    level, correct, weight = map(np.array, zip(*samples, strict=True))
    confidence = 0.55 + level / 25
    value = failure_auroc_score(
        np.where(correct, 0, 1),
        np.column_stack([confidence, 1 - confidence]),
        sample_weight=weight,
    )
    expected = roc_auc_score(correct, confidence, sample_weight=weight)
    assert value == pytest.approx(expected, rel=1e-12)


def test_best_and_worst():
    proba = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]
    assert failure_auroc_score([0, 0, 1], proba) == 1
    assert failure_auroc_score([1, 0, 0], proba) == 0


@pytest.mark.parametrize(("y_true", "word"), [([0, 0], "correct"), ([1, 1], "wrong")])
def test_without_correct_or_wrong_predictions(y_true, word):
    with pytest.warns(UndefinedMetricWarning, match=f"all predictions are {word}"):
        value = failure_auroc_score(y_true, [[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
    assert np.isnan(value)
