"""`RefCalClassifier`: training of the two stages, attributes, reproducibility."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split
from skorch.callbacks import Callback, LRScheduler
from torch.optim.lr_scheduler import CosineAnnealingLR

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.datasets import FeatureCorruption
from sklearn_calib.estimators import MLP
from sklearn_calib.losses import SupConLoss, get_loss, get_loss_names, refinement_loss
from sklearn_calib.metrics import expected_calibration_error

X, y = make_classification(
    n_samples=300, n_informative=6, n_classes=3, class_sep=3, random_state=0
)
OWN_ENCODER = RefCalClassifier(
    refine__max_epochs=2, refine__batch_size=150, head__max_epochs=3,
    n_projection=16, random_state=0,
)  # fmt: skip
QUICK = clone(OWN_ENCODER).set_params(encoder__hidden_sizes=(64,))
# A loss whose head does not fit the binary labels or the few bins of small data.
QUIET = pytest.mark.filterwarnings("ignore:n_bins must be small enough:UserWarning")


@pytest.fixture(scope="module")
def fitted():
    return clone(QUICK).fit(X, y)


def test_both_stages_learn(fitted):
    contrast = fitted.refine_history_[:, "train_loss"]
    assert (len(contrast), len(fitted.history_)) == (2, 3)
    assert contrast[-1] < contrast[0]
    assert fitted.history_[-1, "train_loss"] < fitted.history_[0, "train_loss"]
    assert fitted.score(X, y) > 0.85


def test_refinement():
    """Stage 1 lowers the refinement loss on new data."""
    data = train_test_split(X, y, random_state=0)
    losses = []
    for epochs in (1, 10):
        model = clone(QUICK).set_params(refine__max_epochs=epochs, head__max_epochs=1)
        embeddings = model.fit(data[0], data[2]).transform(data[1])
        units = torch.nn.functional.normalize(torch.tensor(embeddings))
        losses.append(refinement_loss(units, torch.tensor(data[3])))
    assert losses[1] < losses[0] < 0


@pytest.mark.slow
def test_more_refined_than_one_stage():
    """On noisy digits, two stages have a higher accuracy and a lower ECE."""
    digits, labels = load_digits(return_X_y=True)
    noise = np.random.default_rng(0).normal(scale=0.4, size=digits.shape)
    parts = train_test_split(digits / 16 + noise, labels, random_state=0)
    two = RefCalClassifier(refine__max_epochs=15, head__max_epochs=20, random_state=0)
    one = NeuralClassifier(random_state=0)
    errors, scores = [], []
    for model in (one, two):
        proba = model.fit(parts[0], parts[2]).predict_proba(parts[1])
        errors.append(expected_calibration_error(parts[3], proba))
        scores.append(model.score(parts[1], parts[3]))
    assert errors[1] < errors[0] / 1.5
    assert scores[1] >= scores[0]


@pytest.mark.parametrize(
    ("refine_loss", "loss"),
    [("supcon", SupConLoss(temperature=0.3)), ("refinement", refinement_loss)],
)
def test_loss_of_stage_1(refine_loss, loss):
    """Without augmentation and in one batch the loss is that of the embeddings."""
    model = clone(QUICK).set_params(
        augment=None, refine__batch_size=-1, refine__max_epochs=1, temperature=0.3,
        refine__lr=1e-12, dtype="float64", refine_loss=refine_loss,
    ).fit(X, y)  # fmt: skip
    projections = model.refiner_.module_(torch.tensor(X))
    torch.testing.assert_close(projections.norm(dim=1), torch.ones(300).double())
    expected = loss(projections, torch.tensor(y)).item()
    np.testing.assert_allclose(model.refine_history_[0, "train_loss"], expected)


def test_stage_2_is_a_linear_classifier_of_the_embeddings(fitted):
    embeddings = fitted.transform(X)
    assert embeddings.shape == (300, 64)
    assert embeddings.dtype == np.float32
    (layer,) = fitted.head_.module_
    assert isinstance(layer, torch.nn.Linear)
    head = clone(fitted.head_).fit(embeddings, y)
    np.testing.assert_array_equal(
        head.predict_proba(embeddings), fitted.predict_proba(X)
    )
    np.testing.assert_array_equal(
        head.decision_function(embeddings), fitted.decision_function(X)
    )
    np.testing.assert_array_equal(head.predict(embeddings), fitted.predict(X))
    encoder = fitted.encoder_.eval()
    with torch.no_grad():
        expected = encoder(torch.tensor(X, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(embeddings, expected, rtol=1e-4, atol=1e-6)


def test_the_encoder_does_not_depend_on_the_loss(fitted):
    other = clone(QUICK).set_params(loss="brier", head__lr=0.1).fit(X, y)
    np.testing.assert_array_equal(other.transform(X), fitted.transform(X))
    assert not np.allclose(other.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("loss", get_loss_names())
@QUIET
def test_any_loss(loss):
    model = (
        clone(QUICK)
        .set_params(
            loss=loss,
            refine__max_epochs=1,
            head__max_epochs=1,
            refine__batch_size=-1,
            head__batch_size=-1,
        )
        .fit(X[:150], y[:150])
    )
    assert type(model.head_.criterion_) is get_loss(loss)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    n_bins = {"adafocal": 1, "ada_dual_focal": 15, "calfocal": 15}
    if loss in n_bins:
        assert len(model.history_[-1, "gamma"]) == n_bins[loss]


def test_posterior_of_the_loss():
    model = clone(QUICK).set_params(loss="focal", head__posterior=True).fit(X, y)
    focal = model.head_.criterion_
    logits = model.decision_function(X)
    proba = torch.tensor(logits).softmax(1).numpy()
    np.testing.assert_allclose(model.predict_proba(X), focal.posterior(proba))
    assert not model.decision_function_is_logits
    assert QUICK.decision_function_is_logits


def test_string_labels_and_names():
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(20)])
    labels = np.array(["no", "yes", "maybe"])[y]
    model = clone(QUICK).fit(frame, labels)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert {*model.predict(frame)} <= {*labels}
    assert model.feature_names_in_.tolist() == [*frame]
    assert model.get_feature_names_out()[-1] == "refcalclassifier63"
    frame = model.set_output(transform="pandas").transform(frame)
    assert isinstance(frame, pd.DataFrame)


def test_images():
    images, labels = load_digits(return_X_y=True)
    images, labels = images[:200].reshape(-1, 1, 8, 8) / 16, labels[:200]
    model = clone(OWN_ENCODER).set_params(
        encoder__n_filters=8, refine__max_epochs=4, refine__lr=0.003,
        head__max_epochs=20, head__lr=0.1,
    )  # fmt: skip
    model.fit(images, labels)
    assert model.transform(images).shape == (200, 32)
    assert model.encoder_.training is False
    assert model.score(images, labels) > 0.7


def test_sequences_take_an_encoder_and_views_of_their_own():
    class LastStep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.GRU(4, 8, batch_first=True)

        def forward(self, X):
            return self.layer(X)[0][:, -1]

    def views(batch):
        noisy = [batch + 0.1 * torch.randn_like(batch) for _ in range(3)]
        return torch.stack(noisy, 1)

    model = clone(OWN_ENCODER).set_params(encoder=LastStep, augment=views)
    model.fit(X.reshape(300, 5, 4), y)
    assert model.transform(X.reshape(300, 5, 4)).shape == (300, 8)


def test_an_instance_is_copied():
    encoder = MLP(20, None, hidden_sizes=(8,))
    before = [p.clone() for p in encoder.parameters()]
    model = clone(OWN_ENCODER).set_params(encoder=encoder).fit(X, y)
    assert model.encoder is encoder
    assert all(map(torch.equal, encoder.parameters(), before))
    assert model.transform(X).shape == (300, 8)


class CountEpochs(Callback):
    def on_epoch_end(self, *args, **kwargs):
        self.n_epochs_ = getattr(self, "n_epochs_", 0) + 1


def test_own_optimisers_and_schedules():
    counter = CountEpochs()
    cosine = LRScheduler(CosineAnnealingLR, T_max=3, monitor=None)
    model = clone(QUICK).set_params(
        refine__optimizer=torch.optim.SGD, refine__optimizer__momentum=0.9,
        refine__lr=0.05, refine__max_epochs=3,
        refine__callbacks=[("cosine", cosine), ("counter", counter)],
        head__optimizer=torch.optim.AdamW, head__optimizer__weight_decay=0.1,
        head__max_epochs=4,
    ).fit(X, y)  # fmt: skip
    (group,) = model.refiner_.optimizer_.param_groups
    assert isinstance(model.refiner_.optimizer_, torch.optim.SGD)
    assert (group["momentum"], group["lr"]) == (0.9, 0.0)
    assert isinstance(model.head_.optimizer_, torch.optim.AdamW)
    assert model.head_.optimizer_.param_groups[0]["weight_decay"] == 0.1
    assert model.head_.lr == 0.01
    assert (len(model.refine_history_), len(model.history_)) == (3, 4)
    assert not hasattr(counter, "n_epochs_"), "the given callback is not a copy"


def test_repeatable(fitted):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    again = clone(QUICK).fit(X, y)
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = clone(QUICK).set_params(random_state=1).fit(X, y)
    assert not np.allclose(other.transform(X), fitted.transform(X))


def test_copies(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.history_ == fitted.history_
    twin = clone(fitted)
    assert not hasattr(twin, "head_")
    assert twin.get_params() == fitted.get_params()


def test_partial_fit_trains_the_head_alone(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    before = model.head_.module_[0].weight.clone()
    model.partial_fit(X[:100], y[:100])
    assert len(model.history_) == 4
    assert not torch.equal(model.head_.module_[0].weight, before)
    np.testing.assert_array_equal(model.transform(X), fitted.transform(X))
    with pytest.raises(ValueError, match="classes must stay"):
        model.partial_fit(X, y, classes=[0, 1])


def test_the_first_partial_fit_trains_the_encoder(fitted):
    model = clone(QUICK)
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1, 2, 3])
    assert len(model.refine_history_) == 2
    assert len(model.history_) == 1
    assert model.predict_proba(X).shape == (300, 4)
    np.testing.assert_array_equal(model.transform(X), fitted.transform(X))
    assert len(model.partial_fit(X, y).history_) == 2


def test_weights_are_those_of_stage_2(fitted):
    weight = np.arange(300) % 3 + 1.0
    model = clone(QUICK).fit(X, y, sample_weight=weight)
    embeddings = fitted.transform(X)
    np.testing.assert_array_equal(model.transform(X), embeddings)
    head = clone(model.head_).fit(embeddings, y, sample_weight=weight)
    np.testing.assert_array_equal(
        model.predict_proba(X), head.predict_proba(embeddings)
    )


def test_weights_of_zero_leave_samples_out():
    weight = np.where(np.arange(300) < 200, 1.0, 0.0)
    model = clone(QUICK).fit(X, y, sample_weight=weight)
    expected = clone(QUICK).fit(X[:200], y[:200])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_progress_of_both_stages(capsys):
    clone(QUICK).set_params(verbose=1).fit(X, y)
    first, second = capsys.readouterr().out.split("Stage 2: training of the")
    assert first.startswith("Stage 1: contrastive")
    for part, n_epochs in (first, "2"), (second, "3"):
        assert "train_loss" in part
        assert n_epochs in part
    clone(QUICK).fit(X, y)
    assert capsys.readouterr().out == ""


def test_auto_is_the_corruption_of_features(fitted):
    assert fitted.augment == "auto"
    given, none = (
        clone(QUICK).set_params(augment=augment).fit(X, y)
        for augment in (FeatureCorruption(), None)
    )
    np.testing.assert_array_equal(given.transform(X), fitted.transform(X))
    assert not np.allclose(none.transform(X), fitted.transform(X))
