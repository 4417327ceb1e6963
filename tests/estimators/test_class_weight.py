"""`class_weight` multiplies the weights of the samples, as in scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.utils import compute_sample_weight

from sklearn_calib import NeuralClassifier, RefCalClassifier

X, codes = make_classification(
    200, n_informative=4, n_classes=3, weights=[0.7, 0.2], random_state=0
)
y = np.array(["cat", "dog", "eel"])[codes]
NET = NeuralClassifier(max_epochs=2, random_state=0)
WEIGHT = np.random.default_rng(0).integers(0, 3, len(y)) * 1.0


def proba(class_weight, sample_weight=None):
    net = clone(NET).set_params(class_weight=class_weight)
    return net.fit(X, y, sample_weight=sample_weight).predict_proba(X)


@pytest.mark.parametrize("class_weight", ["balanced", {"cat": 0.5, "eel": 4}, {}])
def test_it_is_a_sample_weight(class_weight):
    by_sample = compute_sample_weight(class_weight, y)
    np.testing.assert_allclose(proba(class_weight), proba(None, by_sample), rtol=1e-6)


def test_it_multiplies_the_given_weights():
    by_class = {"cat": 0.5, "eel": 4}
    product = WEIGHT * compute_sample_weight(by_class, y)
    expected = proba(None, product)
    np.testing.assert_allclose(proba(by_class, WEIGHT), expected, rtol=1e-6)


def test_balanced_counts_a_weight_of_two_as_two_samples():
    repeated = np.repeat(np.arange(len(y)), WEIGHT.astype(int))
    balanced = compute_sample_weight("balanced", y[repeated])
    of_label = dict(zip(y[repeated], balanced, strict=True))
    np.testing.assert_allclose(
        proba("balanced", WEIGHT), proba(of_label, WEIGHT), rtol=1e-6
    )


def test_a_class_of_weight_zero_is_left_out_but_keeps_its_column():
    present = y != "eel"
    net = clone(NET).set_params(class_weight={"eel": 0}).fit(X, y)
    weights = np.where(present, 1.0, 0.0)
    expected = clone(NET).fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_array_equal(net.predict_proba(X), expected)
    again = clone(NET).set_params(class_weight="balanced")
    assert again.fit(X, y, sample_weight=weights).predict_proba(X).shape == (200, 3)


def test_it_raises_the_recall_of_a_rare_class():
    plain, balanced = proba(None), proba("balanced")
    assert (balanced[:, 2] > plain[:, 2]).mean() > 0.9


def test_partial_fit_takes_a_dict():
    whole = clone(NET).set_params(class_weight={"eel": 3})
    net = clone(whole).set_params(max_epochs=1).fit(X, y)
    part = whole.partial_fit(X, y, classes=np.unique(y))
    np.testing.assert_array_equal(part.predict_proba(X), net.predict_proba(X))
    for model in (clone(NET).set_params(class_weight="balanced"),
                  RefCalClassifier(head__class_weight="balanced")):  # fmt: skip
        with pytest.raises(ValueError, match="must not be 'balanced' for partial_fit"):
            model.partial_fit(X, y, classes=np.unique(y))


def test_losses_without_weights_refuse_it():
    message = "sample_weight must be None for the loss CrossEntropyLoss"
    for model in (
        NeuralClassifier(loss=torch.nn.CrossEntropyLoss, class_weight="balanced"),
        RefCalClassifier(loss=torch.nn.CrossEntropyLoss, head__class_weight={"cat": 2}),
    ):
        with pytest.raises(TypeError, match=message):
            model.fit(X, y)


BAD = {
    "name": ("balance", ValueError, "The 'class_weight' parameter"),
    "list": ([1, 2, 3], ValueError, "The 'class_weight' parameter"),
    "negative": ({"cat": -1}, ValueError, "class_weight must .* got -1 for 'cat'"),
    "nan": ({"cat": np.nan}, ValueError, "class_weight must .* got nan for 'cat'"),
    "text": ({"cat": "2"}, ValueError, "class_weight must .* got '2' for 'cat'"),
    "unknown": ({"kitten": 2}, ValueError, "class_weight must .* label 'kitten'; the"),
    "misspelt": ({"cat": 1, "dgo": 2}, ValueError, "'dgo'; .* Did you mean 'dog'"),
    "none left": (dict.fromkeys(("cat", "dog", "eel"), 0), ValueError, "class_weight"),
    "huge": ({"cat": 1e300}, ValueError, "times class_weight must .* finite sum"),
    "one left": ({"cat": 0, "dog": 0}, ValueError, "y must hold at least 2 classes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_class_weight(case):
    value, error, message = BAD[case]
    with pytest.raises(error, match=message):
        clone(NET).set_params(class_weight=value).fit(X, y)


def test_the_head_of_refcal_takes_it():
    quick = RefCalClassifier(
        n_projection=4, random_state=0, refine__max_epochs=1, head__max_epochs=3
    )
    plain = clone(quick).fit(X, y).predict_proba(X)
    quick.set_params(head__class_weight="balanced").fit(X, y)
    assert quick.predict_proba(X)[:, 2].mean() > plain[:, 2].mean()
