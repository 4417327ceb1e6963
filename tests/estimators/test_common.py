"""scikit-learn's checks for every estimator."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    estimator_checks_generator,
    parametrize_with_checks,
)

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.losses import get_loss, get_loss_names

# Sums of float32 depend on how the rows are grouped, in the seventh digit.
_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
_SPARSE_WEIGHTS = "check_sample_weight_equivalence_on_sparse_data"
_FLOAT32 = {
    "check_methods_subset_invariance": "float32 sums differ with the batch",
    _WEIGHTS: "float32 sums differ with weights",
    _SPARSE_WEIGHTS: "float32 sums differ with weights",
}


def _expected_failures(estimator):
    return _FLOAT32 if estimator.dtype == "float32" else {}


# Enough for most checks.
_FEW_EPOCHS = {"max_epochs": 2, "lr": 0.05}


def _needs_learning(check):
    """Return whether a check requires accuracy. The default is tested for these."""
    learning = {"check_classifiers_train", "check_classifiers_classes"}
    return check.func.__name__ in learning and not check.keywords


@parametrize_with_checks([NeuralClassifier(dtype="float64", **_FEW_EPOCHS)])
@pytest.mark.filterwarnings("default")
def test_sklearn_checks_neural(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [NeuralClassifier(dtype="float32")], expected_failed_checks=_expected_failures
)
@pytest.mark.filterwarnings("default")
def test_sklearn_checks_neural_in_single_precision(estimator, check):
    if not _needs_learning(check):
        estimator = clone(estimator).set_params(**_FEW_EPOCHS)
    check(estimator)


# Stage 1 draws other views for a repeated sample, and does not weigh any.
_TWO_STAGES = dict.fromkeys([_WEIGHTS, _SPARSE_WEIGHTS], "weights are stage 2's")


_FEW_OF_STAGES = {"refine__max_epochs": 1, "head__max_epochs": 3, "head__lr": 0.1}
_OF_STAGES = {"check_no_attributes_set_in_init": "parameters of stages are attributes"}


@pytest.mark.slow
@parametrize_with_checks(
    [RefCalClassifier(dtype="float64"), RefCalClassifier(dtype="float32")],
    expected_failed_checks=lambda model: _expected_failures(model) | _TWO_STAGES,
)
@pytest.mark.filterwarnings("default")
def test_sklearn_checks_refcal(estimator, check):
    has_default = estimator.dtype == "float64" and _needs_learning(check)
    if not has_default and check.func.__name__ not in _OF_STAGES:
        estimator = clone(estimator).set_params(**_FEW_OF_STAGES)
    check(estimator)


@parametrize_with_checks(
    [RefCalClassifier(dtype="float64", **_FEW_OF_STAGES)],
    expected_failed_checks=lambda _: _TWO_STAGES | _OF_STAGES,
)
@pytest.mark.filterwarnings("default")
def test_sklearn_checks_refcal_in_a_few_epochs(estimator, check):
    estimator.set_params(encoder__hidden_sizes=(8,), n_projection=8)
    check(estimator.set_params(head__max_epochs=2, head__lr=0.2))


@pytest.mark.slow
@pytest.mark.parametrize("loss", get_loss_names())
@pytest.mark.filterwarnings("ignore:n_bins must be small enough:UserWarning")
def test_sklearn_checks_hold_for_every_loss(loss):
    """The checks that a loss can break: learning, weights, labels, repeatability."""
    net = NeuralClassifier(loss=loss, dtype="float64", max_epochs=5, lr=0.02)
    checks = {
        "check_classifiers_train",
        "check_classifiers_classes",
        "check_fit_idempotent",
        "check_estimators_pickle",
    }
    criterion = get_loss(loss)()
    if not (criterion.learns_from_validation or criterion.needs_indices):
        # The validation set and the batches differ, once the samples are repeated.
        checks.add("check_sample_weight_equivalence_on_dense_data")
    if loss == "selective_aurc":  # does not learn from scratch, as its notes say
        checks.remove("check_classifiers_train")
    for estimator, check in estimator_checks_generator(net):
        if check.func.__name__ in checks:
            check(estimator)
