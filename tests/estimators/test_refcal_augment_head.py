"""The head of RefCal learns from new views in each epoch."""

import pickle
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch.utils.data import DataLoader

from sklearn_calib import RefCalClassifier
from sklearn_calib.datasets import FeatureCorruption, ImageAugmentation, Mixup

X, y = make_classification(
    n_samples=120, n_informative=6, n_classes=3, class_sep=2, random_state=0
)
QUICK = RefCalClassifier(
    encoder__hidden_sizes=(8,),
    refine__max_epochs=1,
    head__max_epochs=3,
    n_projection=4,
    random_state=0,
)


def same(batch):
    return batch[:, None]


def same_twice(batch):
    return torch.stack([batch, batch], 1)


def noisy(batch):
    return torch.stack([batch, batch + torch.randn_like(batch)], 1)


def fit(sample_weight=None, **params):
    return clone(QUICK).set_params(**params).fit(X, y, sample_weight=sample_weight)


class Inputs(Callback):
    """Record the input of the head in training and in validation."""

    def on_train_begin(self, net, **kwargs):
        self.train, self.valid = [], []
        net.module_.register_forward_pre_hook(self.keep)

    def keep(self, module, inputs):
        (self.train if module.training else self.valid).append(inputs[0].numpy())


def fit_adafocal(augment, weighted):
    weight = np.arange(120) % 3 + 0.5 if weighted else None
    params = {"loss": "adafocal", "loss__n_bins": 3, "head__validation_fraction": 0.2}
    return fit(weight, augment_head=augment, **params)


@cache
def plain_fit(weighted):
    return fit_adafocal(None, weighted)


@pytest.mark.parametrize("augment", [same, same_twice])
@pytest.mark.parametrize("weighted", [False, True])
def test_views_that_are_the_samples_change_nothing(augment, weighted):
    plain, augmented = plain_fit(weighted), fit_adafocal(augment, weighted)
    np.testing.assert_allclose(
        augmented.predict_proba(X), plain.predict_proba(X), atol=1e-5
    )
    np.testing.assert_allclose(
        augmented.history_[:, "valid_loss"], plain.history_[:, "valid_loss"], rtol=1e-4
    )


def test_each_epoch_sees_the_embeddings_of_new_views():
    views = []

    def draw(batch):
        views.append(noisy(batch))
        return views[-1]

    inputs = Inputs()
    model = fit(
        augment_head=draw,
        head__batch_size=-1,
        head__iterator_train__shuffle=False,
        head__validation_fraction=0.25,
        head__callbacks=[("inputs", inputs)],
    )
    inputs = dict(model.head_.callbacks_)["inputs"]
    assert len(views) == len(inputs.train) == 3
    assert not np.allclose(inputs.train[0], inputs.train[1])
    for seen, drawn in zip(inputs.train, views, strict=True):
        embeddings = model.transform(drawn.flatten(0, 1).numpy())
        np.testing.assert_allclose(seen, embeddings, atol=1e-5)
    # The first view of a sample is the sample: these are the same ones in each epoch.
    np.testing.assert_array_equal(views[0][:, 0], views[1][:, 0])


def test_validation_samples_are_not_augmented():
    inputs = ("inputs", Inputs())
    params = {"head__validation_fraction": 0.25, "head__callbacks": [inputs]}
    plain, augmented = (fit(augment_head=a, **params) for a in (None, noisy))
    seen = [dict(each.head_.callbacks_)["inputs"].valid for each in (plain, augmented)]
    assert len(seen[0]) > 0
    np.testing.assert_array_equal(*seen)


def test_repeatable():
    state = torch.get_rng_state()
    first, second = (fit(augment_head=noisy).predict_proba(X) for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, fit().predict_proba(X))
    other = fit(augment_head=noisy, random_state=1)
    assert not np.allclose(first, other.predict_proba(X))


def test_the_encoder_stays_as_stage_1_left_it():
    """The views must not change the encoder, including its batch normalisation."""
    images = X.reshape(120, 1, 4, 5)
    base = RefCalClassifier(
        encoder__n_filters=4, refine__max_epochs=1, head__max_epochs=2, random_state=0
    )
    plain = clone(base).fit(images, y)
    augment = ImageAugmentation(n_views=1, jitter=0)
    augmented = clone(base).set_params(augment_head=augment).fit(images, y)
    np.testing.assert_array_equal(plain.transform(images), augmented.transform(images))
    assert not np.allclose(plain.predict_proba(images), augmented.predict_proba(images))


def test_weights_of_zero_leave_samples_out():
    weight = np.where(np.arange(120) < 80, 2.0, 0.0)
    model, expected = clone(QUICK), clone(QUICK)
    model.set_params(augment_head=noisy).fit(X, y, sample_weight=weight)
    expected.set_params(augment_head=noisy).fit(X[:80], y[:80], weight[:80])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    model.partial_fit(X, y, sample_weight=weight)
    expected.partial_fit(X[:80], y[:80], sample_weight=weight[:80])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_partial_fit_draws_views_too():
    plain, augmented = clone(QUICK), clone(QUICK).set_params(augment_head=noisy)
    for model in (plain, augmented):
        model.partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X, y)
    assert len(augmented.history_) == 2
    assert not np.allclose(plain.predict_proba(X), augmented.predict_proba(X))


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "crl"},  # which knows each sample by its place
        {"loss": "mdca", "head__batch_transform": Mixup()},
        {"head__early_stopping": True, "head__refit": True},
        {"head__iterator_train": DataLoader},
    ],
)
def test_with_what_else_the_head_can_do(params):
    model = fit(augment_head=noisy, **params)
    assert np.isfinite(model.history_[-1, "train_loss"])
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


def test_history_of_a_loss_counts_every_view():
    model = fit(augment_head=same_twice, loss="crl")
    assert (model.head_.criterion_.history[:, 1] == 2 * 3).all()


def test_copies_hold_no_samples():
    model = fit(augment_head=noisy)
    content = pickle.dumps(model)
    assert X.astype("f4")[7].tobytes() not in content
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params()["augment_head"] is noisy
    # The head alone is a classifier of embeddings.
    head = clone(model.head_).fit(model.transform(X), y)
    np.testing.assert_array_equal(
        head.predict_proba(model.transform(X)), fit().predict_proba(X)
    )


@pytest.mark.slow
def test_search_in_several_processes():
    # What is pickled must be importable by the workers, unlike the functions above.
    views = [None, FeatureCorruption()]
    grid = {"augment_head": views, "loss": ["cross_entropy", "brier"]}
    one, two = (
        GridSearchCV(clone(QUICK), grid, scoring="neg_log_loss", cv=2, n_jobs=n_jobs)
        .fit(X, y)
        .cv_results_["mean_test_score"]
        for n_jobs in (None, 2)
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)
    assert not np.allclose(one[:2], one[2:])


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"augment_head": "auto"}, ValueError, "augment_head.* must be a callable"),
        (
            {"augment_head": lambda batch: batch},
            ValueError,
            r"augment_head must return views of shape \(120, n_views, \.\.\.\), got",
        ),
        (
            {
                "augment_head": noisy,
                "head__train_split": lambda *data: (
                    Dataset(np.zeros((9, 8), "f4"), y[:9]),
                    None,
                ),
            },
            ValueError,
            "head__train_split must select rows of the training data .* got .* 9 ",
        ),
    ],
)
def test_bad_input(params, error, message):
    with pytest.raises(error, match=message):
        fit(**params)


def test_other_data_to_validate_on():
    valid = Dataset(np.zeros((9, 8), "f4"), y[:9])
    model = fit(augment_head=same, head__train_split=predefined_split(valid))
    plain = fit(head__train_split=predefined_split(valid))
    np.testing.assert_allclose(
        model.predict_proba(X), plain.predict_proba(X), atol=1e-5
    )
