"""`NeuralClassifier`: data, labels, weights, validation set, output."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.utils.multiclass import type_of_target
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, ProgressBar
from skorch.dataset import Dataset, ValidSplit
from skorch.helper import predefined_split

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP
from sklearn_calib.losses import CrossEntropyLoss, get_loss, get_loss_names

SEEDED = {"random_state": 0, "max_epochs": 2}
SMALL = {**SEEDED, "module__hidden_sizes": (8,), "batch_size": -1}


@pytest.fixture(scope="module")
def table():
    """Three classes, labelled by strings."""
    X, y = make_classification(
        n_samples=240, n_features=8, n_informative=5, n_classes=3, random_state=0
    )
    return X, np.array(["cat", "dog", "eel"])[y]


@pytest.fixture(scope="module")
def binary(table):
    X, y = table
    return X[y != "eel"], y[y != "eel"]


@pytest.mark.parametrize("loss", get_loss_names())
def test_every_loss_gives_probabilities(table, loss):
    X, y = table
    proba = NeuralClassifier(loss=loss, **SMALL).fit(X, y).predict_proba(X)
    assert proba.dtype == np.float64
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [5, 7, 6], [2.0, 1.0, 3.0]])
def test_labels_of_any_kind(table, labels):
    X, y = table
    y = np.array(labels)[np.unique(y, return_inverse=True)[1]]
    net = NeuralClassifier(**SEEDED).fit(X, y)
    np.testing.assert_array_equal(net.classes_, np.unique(y))
    assert set(net.predict(X)) <= set(y)
    assert net.predict(X).dtype == y.dtype
    assert type_of_target(net.predict(X)) == type_of_target(y)


def test_output_is_logits_and_their_softmax(table):
    X, y = table
    net = NeuralClassifier(**SEEDED).fit(X, y)
    logits = net.decision_function(X)
    with torch.no_grad():
        expected = net.module_(torch.tensor(X, dtype=torch.float32)).double()
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(
        net.predict_proba(X), torch.softmax(torch.tensor(logits), 1), rtol=1e-12
    )


def test_binary_decision_function_is_the_log_odds(binary):
    X, y = binary
    net = NeuralClassifier(**SEEDED).fit(X, y)
    proba = net.predict_proba(X)
    assert proba.shape == (len(X), 2)
    np.testing.assert_allclose(
        net.decision_function(X), np.log(proba[:, 1] / proba[:, 0]), rtol=1e-9
    )


def test_data_of_any_kind_give_the_same(table):
    X, y = table
    expected = NeuralClassifier(**SMALL).fit(X, y).predict_proba(X)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    for data, labels in [
        (X.tolist(), y.tolist()),
        (frame, pd.Series(y)),
        (frame, pd.Series(y, dtype="category")),
        (torch.tensor(X), y),
        (np.asfortranarray(X), y.astype(object)),
    ]:
        net = NeuralClassifier(**SMALL).fit(data, labels)
        np.testing.assert_allclose(net.predict_proba(data), expected, rtol=1e-12)


def test_images_get_a_convnet_and_a_batch_of_one_is_avoided():
    X, y = load_digits(return_X_y=True)
    X = X[:129].reshape(-1, 1, 8, 8)
    net = NeuralClassifier(**SEEDED, module__n_filters=4).fit(X, y[:129])
    assert net.predict_proba(X).shape == (129, 10)
    assert len(net.history_[-1, "batches"]) == 1


def test_other_shapes_need_a_module():
    X, y = np.zeros((10, 3, 4)), np.arange(10) % 2
    with pytest.raises(ValueError, match="module must be given unless X is a table"):
        NeuralClassifier().fit(X, y)
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    assert NeuralClassifier(flat, **SEEDED).fit(X, y).predict_proba(X).shape == (10, 2)


def test_a_module_gets_the_sizes_that_it_asks_for(table):
    X, y = table
    net = NeuralClassifier(MLP, module__hidden_sizes=(), **SEEDED).fit(X, y)
    assert net.module_[0].weight.shape == (3, 8)


def test_a_module_instance_is_copied(table):
    X, y = table
    module = torch.nn.Linear(8, 3)
    before = module.weight.clone()
    net = NeuralClassifier(module, **SEEDED)
    first = net.fit(X, y).predict_proba(X)
    torch.testing.assert_close(module.weight, before)
    np.testing.assert_array_equal(net.fit(X, y).predict_proba(X), first)


def test_float64_trains_in_float64(table):
    X, y = table
    net = NeuralClassifier(dtype="float64", **SEEDED).fit(X, y)
    assert {p.dtype for p in net.module_.parameters()} == {torch.float64}


# Weights ---------------------------------------------------------------------------


# The correctness ranking loss ranks neighbours, which repetitions are to each other.
@pytest.mark.parametrize("loss", sorted({*get_loss_names()} - {"crl"}))
def test_weights_equal_repetition(table, loss):
    X, y = (part[:80] for part in table)
    weight = np.random.default_rng(0).integers(0, 4, size=len(X))
    net = NeuralClassifier(loss=loss, dtype="float64", **SMALL)
    if get_loss(loss)().learns_from_validation:  # the same samples to learn from
        net.set_params(train_split=predefined_split(Dataset(X, y)))
    weighted = clone(net).fit(X, y, sample_weight=weight).predict_proba(X)
    repeated = clone(net).fit(X.repeat(weight, 0), y.repeat(weight)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


def test_a_class_of_weight_zero_keeps_its_column(table):
    X, y = table
    net = NeuralClassifier(**SEEDED).fit(X, y, sample_weight=(y != "eel") + 0.0)
    assert net.predict_proba(X).shape == (len(X), 3)


def test_a_loss_without_weights_says_so(table):
    X, y = table
    net = NeuralClassifier(loss=torch.nn.CrossEntropyLoss)
    with pytest.raises(
        TypeError, match="sample_weight must be None for the loss Cross"
    ):
        net.fit(X, y, sample_weight=np.ones(len(X)))


def test_weights_are_not_lost_in_a_data_loader(table):
    X, y = table
    net = NeuralClassifier(iterator_train__drop_last=True)
    with pytest.raises(ValueError, match="sample_weight cannot be used if"):
        net.fit(X, y, sample_weight=np.ones(len(X)))


# Validation set --------------------------------------------------------------------


def _valid_size(net):
    return sum(
        batch["valid_batch_size"]
        for batch in net.history_[-1]["batches"]
        if "valid_batch_size" in batch
    )


def test_nothing_is_held_out_by_default(table):
    net = NeuralClassifier(**SEEDED).fit(*table)
    assert "valid_loss" not in net.history_[-1]


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True},
        {"callbacks": [EarlyStopping()]},
        {"callbacks": [("stop", EarlyStopping(monitor="valid_log_loss"))]},
        {"callbacks": [EarlyStopping]},
    ],
)
def test_a_tenth_is_held_out_for_what_watches_it(table, params):
    net = NeuralClassifier(**SMALL, **params).fit(*table)
    assert _valid_size(net) == 24
    assert {"valid_loss", "valid_acc", "valid_log_loss", "valid_ece"} <= set(
        net.history_[-1]
    )


def test_the_validation_set_is_stratified(table):
    X, y = table
    y = np.where(np.arange(len(y)) < 60, "rare", "usual")
    seen = []

    def keep(*args):
        seen.append(np.bincount(args[2]))
        return 0.0

    NeuralClassifier(
        validation_fraction=0.2, callbacks=[EpochScoring(keep, name="keep")], **SEEDED
    ).fit(X, y)
    np.testing.assert_array_equal(seen[0], [12, 36])


def test_own_split_wins_and_both_are_an_error(table):
    net = NeuralClassifier(train_split=ValidSplit(4), early_stopping=True, **SEEDED)
    assert _valid_size(net.fit(*table)) == 60
    with pytest.raises(ValueError, match="validation_fraction must be None with"):
        net.set_params(validation_fraction=0.1).fit(*table)


def test_a_predefined_validation_set_is_encoded(table):
    X, y = table
    net = NeuralClassifier(
        train_split=predefined_split(Dataset(X[:50], y[:50])), **SEEDED
    ).fit(X, y)
    expected = accuracy_score(y[:50], net.predict(X[:50]))
    assert net.history_[-1, "valid_acc"] == pytest.approx(expected)


def test_early_stopping_returns_to_the_best_epoch(table):
    X, y = table
    net = NeuralClassifier(
        early_stopping=True,
        n_iter_no_change=3,
        lr=0.05,
        max_epochs=200,
        random_state=0,
        validation_fraction=0.3,
    ).fit(X, y)
    losses = net.history_[:, "valid_log_loss"]
    assert len(losses) < 200
    assert len(losses) - 1 - np.argmin(losses) == 3


def test_a_loss_that_learns_gets_validation_data(table):
    class Learning(CrossEntropyLoss):
        learns_from_validation = True

        def update(self, y_true, y_proba):
            """Count the validation predictions."""
            return {"n_seen": len(y_true), "n_rows": len(y_proba)}

    net = NeuralClassifier(loss=Learning, **SEEDED).fit(*table)
    assert _valid_size(net) == net.history_[-1, "n_seen"] == 24
    assert net.history_[-1, "n_rows"] == 24


# skorch ----------------------------------------------------------------------------


@pytest.mark.parametrize("use_caching", [True, False])
def test_scoring_callbacks_work_with_string_labels(table, use_caching):
    X, y = table
    scorers = {
        "f1": make_scorer(f1_score, average="macro"),
        "nll": "neg_log_loss",
        "own": lambda net, X, y: accuracy_score(y, net.predict(X)),
    }
    callbacks = [
        EpochScoring(score, name=name, use_caching=use_caching, lower_is_better=False)
        for name, score in scorers.items()
    ]
    net = NeuralClassifier(validation_fraction=0.25, callbacks=callbacks, **SEEDED).fit(
        X, y
    )
    last = net.history_[-1]
    assert last["own"] == pytest.approx(last["valid_acc"])
    assert last["nll"] == pytest.approx(-last["valid_log_loss"])
    assert 0 < last["f1"] <= 1
    np.testing.assert_array_equal(net.classes_, ["cat", "dog", "eel"])


def test_checkpoint_keeps_the_best_weights(table, tmp_path):
    X, y = table
    checkpoint = Checkpoint(monitor="valid_log_loss_best", dirname=tmp_path)
    params = {**SMALL, "lr": 0.2, "max_epochs": 6, "random_state": 2}
    net = NeuralClassifier(callbacks=[checkpoint], **params).fit(X, y)
    best = int(np.argmin(net.history_[:, "valid_log_loss"])) + 1
    assert best < 6
    again = clone(net).set_params(max_epochs=best, callbacks=None)
    again.set_params(validation_fraction=0.1).fit(X, y)
    net.load_params(checkpoint=checkpoint)
    np.testing.assert_allclose(net.predict_proba(X), again.predict_proba(X))


def test_progress_bar_on_request(table, capsys):
    NeuralClassifier(callbacks=[ProgressBar()], **SEEDED).fit(*table)
    assert "it/s" in capsys.readouterr().err


def test_silent_by_default_and_a_row_an_epoch_on_request(table, capsys):
    NeuralClassifier(**SEEDED).fit(*table)
    assert capsys.readouterr() == ("", "")
    NeuralClassifier(verbose=1, **SEEDED).fit(*table)
    assert "train_loss" in capsys.readouterr().out


def test_pickle_and_clone(table):
    X, y = table
    net = NeuralClassifier(loss="focal", loss__gamma=2.0, **SEEDED).fit(X, y)
    proba = net.predict_proba(X)
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again.predict_proba(X), proba)
    np.testing.assert_array_equal(clone(net).fit(X, y).predict_proba(X), proba)


@pytest.mark.parametrize("name", ["criterion", "criterion__x", "predict_nonlinearity"])
def test_other_spellings_are_refused(name):
    with pytest.raises(TypeError, match=f"'{name}' is not a parameter .*(Use|Omit) "):
        NeuralClassifier(**{name: None})
    with pytest.raises(TypeError, match=f"'{name}' is not a parameter .*(Use|Omit) "):
        NeuralClassifier().set_params(**{name: None})


# partial_fit -----------------------------------------------------------------------


def test_partial_fit_is_one_epoch_on_all_data(table):
    X, y = table
    net = NeuralClassifier(validation_fraction=0.2, **SEEDED)
    for epoch in (1, 2):
        net.partial_fit(X, y, classes=["eel", "cat", "dog"] if epoch == 1 else None)
        assert len(net.history_) == epoch
        assert "valid_loss" not in net.history_[-1]
    whole = NeuralClassifier(random_state=0, max_epochs=2).fit(X, y)
    np.testing.assert_allclose(net.predict_proba(X), whole.predict_proba(X))


def test_partial_fit_takes_a_part_with_one_class(table):
    X, y = table
    net = NeuralClassifier(**SEEDED)
    net.partial_fit(X[y == "dog"], y[y == "dog"], classes=np.unique(y))
    assert net.predict_proba(X).shape == (len(X), 3)


@pytest.mark.parametrize(
    ("params", "classes", "message"),
    [
        ({}, None, "classes must be given in the first call"),
        ({"early_stopping": True}, [0, 1], "early_stopping must be False"),
        ({}, ["cat"], "at least 2 classes"),
        ({}, ["cat", "dog"], "eel"),
        ({}, [["cat"], ["dog"], ["eel"]], r"classes must be a 1-d array .*\(3, 1\)"),
        ({}, [{}, {}], "classes must contain labels of one type .* got dict"),
    ],
)
def test_partial_fit_says_what_is_wrong(table, params, classes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        NeuralClassifier(**params).partial_fit(*table, classes=classes)


def test_partial_fit_keeps_its_classes(table):
    net = NeuralClassifier(**SEEDED).partial_fit(*table, classes=np.unique(table[1]))
    with pytest.raises(ValueError, match="classes must stay"):
        net.partial_fit(*table, classes=["a", "b"])
