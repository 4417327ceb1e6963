"""`PredictionSetClassifier`: recorded sets, coverage, and use with scikit-learn."""

import pickle
import runpy
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import betabinom
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_calib.estimators import PredictionSetClassifier

SCORES = ["lac", "aps", "raps"]
NAMES = np.array(["ant", "bee", "cat", "dog"])
all_scores = pytest.mark.parametrize("score", SCORES)
HELPERS = Path(__file__).parents[2] / "benchmarks" / "studies" / "helpers"
Recorded = runpy.run_path(str(HELPERS / "recorded.py"))["Recorded"]


class Draws(np.random.RandomState):
    """Random state with the given uniform number of each sample."""

    def __init__(self, *draws):
        super().__init__(0)
        self.draws = iter(draws)

    def uniform(self, size):
        draws = np.zeros(size)
        draws[:, 0] = next(self.draws)
        return draws


def recorded(n_classes=4, **params):
    """Return a classifier around one whose features are its probabilities."""
    return PredictionSetClassifier(FrozenEstimator(Recorded(n_classes)), **params)


def draw(rng, n_samples, decimals=None):
    """Return probabilities of four classes and labels, with ties if they are rounded.

    The probabilities are too extreme.
    """
    true = rng.dirichlet(np.ones(4), size=n_samples)
    y = (rng.uniform(size=(n_samples, 1)) > true.cumsum(axis=1)[:, :-1]).sum(axis=1)
    proba = true**2 / (true**2).sum(axis=1, keepdims=True)
    if decimals is not None:
        proba = proba.round(decimals) + 1e-3
        proba /= proba.sum(axis=1, keepdims=True)
    return proba, y


def harden(proba, rest):
    """Return a probability of about 1 for one class, as a decision tree does."""
    hard = np.eye(4)[proba.argmax(axis=1)] + rest * proba
    return hard / hard.sum(axis=1, keepdims=True)


def make_data(n_samples=200, random_state=0):
    """Return noisy data of four classes."""
    rng = np.random.default_rng(random_state)
    y = np.arange(n_samples) % 4
    return 1.5 * np.eye(4)[y] + rng.normal(size=(n_samples, 4)), y


def coverage(y_set, y):
    return y_set[np.arange(len(y)), y].mean()


@parametrize_with_checks([PredictionSetClassifier(LogisticRegression(), cv=2)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator.set_params(estimator__tol=0.1))


# Sets of other programs


@pytest.fixture(scope="module")
def others(reference):
    """Return what was recorded, and a function that fits to the same samples."""
    table = reference("sets_conformal")
    inputs = {name: np.array(each) for name, each in table["inputs"].items()}

    def fit(draws=None, **params):
        random_state = draws and Draws(draws["held_out"], draws["new"])
        model = recorded(6, random_state=random_state, **params)
        return model.fit(inputs["held_out"], inputs["labels"])

    return table, inputs["new"], fit


def test_pvalues_of_crepes(others):
    table, new, fit = others
    expected = table["crepes"]
    assert_allclose(fit().predict_pvalue(new), expected["pvalues"], atol=1e-12)
    with pytest.warns(UserWarning, match="of each class, got 2"):
        by_class = fit(per_class=True).predict_pvalue(new)
    assert_allclose(by_class, expected["pvalues_by_class"], atol=1e-12)


def as_sets(rows):
    return np.array([[digit == "1" for digit in row] for row in rows])


def test_sets_of_mapie(others):
    table, new, fit = others
    # MAPIE subtracts the fraction of the class from its cumulated probability.
    draws = {name: 1 - np.array(u) for name, u in table["mapie"]["draws"].items()}
    for score in ("lac", "aps"):
        for level, expected in table["mapie"][score].items():
            model = fit(draws, conformity_score=score, confidence_level=float(level))
            if score == "lac":
                model = fit(conformity_score=score, confidence_level=float(level))
            assert_array_equal(model.predict_set(new), as_sets(expected))


def test_sets_of_the_authors_of_raps(others):
    table, new, fit = others
    expected = table["raps"]
    options = {"conformity_score": "raps", "k_reg": 2, "lambd": 0.1}
    for level, rows in expected["sets"].items():
        model = fit(expected["draws"], confidence_level=float(level), **options)
        assert_array_equal(model.predict_set(new), as_sets(rows))


def test_raps_without_a_penalty_is_aps(others):
    table, new, fit = others
    draws = table["raps"]["draws"]
    expected = fit(draws, conformity_score="aps").predict_pvalue(new)
    for penalty in ({"lambd": 0.0}, {"k_reg": 6}):
        model = fit(draws, conformity_score="raps", **penalty)
        assert_array_equal(model.predict_pvalue(new), expected)


@pytest.mark.parametrize("level", [0.7, 0.9])
def test_cross_conformal_sets_by_the_definition(level):
    """Equation 10 of Romano, Sesia and Candès (2020), with loops."""
    X, y = make_data(60)
    X_test = make_data(20, random_state=1)[0]
    model = PredictionSetClassifier(
        GaussianNB(), confidence_level=level, cv=KFold(3, shuffle=True, random_state=0)
    )
    n_lower = np.zeros((20, 4))
    for train, test in model.cv.split(X):
        fold = GaussianNB().fit(X[train], y[train])
        scores = 1 - fold.predict_proba(X_test)
        for proba, label in zip(fold.predict_proba(X[test]), y[test], strict=True):
            n_lower += 1 - proba[label] < scores
    y_set = model.fit(X, y).predict_set(X_test)
    assert_array_equal(y_set, n_lower < level * 61 - 1e-9)
    assert y_set.any()
    assert not y_set.all()


# What is guaranteed


@pytest.mark.parametrize(
    ("score", "rest"),
    [
        ("lac", None),
        ("aps", 1e-20),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("aps", None), ("raps", None), ("lac", 1e-20), ("raps", 0.0))
        ),
    ],
)
def test_coverage_has_its_beta_binomial_distribution(score, rest):
    """Also if all classes but one have a probability of zero, or almost zero."""
    n_draws, n_samples, n_new = 100, 24, 40
    rng, counts = np.random.default_rng(0), []
    for seed in range(n_draws):
        model = recorded(conformity_score=score, random_state=seed)
        X, y = draw(rng, n_samples + n_new)
        X = X if rest is None else harden(X, rest)
        model.fit(X[:n_samples], y[:n_samples])
        X, y = X[n_samples:], y[n_samples:]
        counts.append(round(n_new * coverage(model.predict_set(X), y)))
    # The 23rd of 24 scores is the threshold.
    law = betabinom(n_new, 23, 2)
    assert abs(np.mean(counts) - law.mean()) < 4 * law.std() / np.sqrt(n_draws)
    # The level of this limit is about 0.001.
    grid = np.arange(n_new + 1)
    below = np.searchsorted(np.sort(counts), grid, side="right") / n_draws
    assert np.abs(below - law.cdf(grid)).max() < 0.195


@all_scores
@pytest.mark.parametrize("per_class", [False, True])
def test_ties_do_not_reduce_the_coverage(score, per_class):
    rng, found = np.random.default_rng(0), []
    params = {"conformity_score": score, "per_class": per_class}
    for seed in range(10):
        model = recorded(**params, random_state=seed).fit(*draw(rng, 600, 0))
        X, y = draw(rng, 600, 0)
        found.append(coverage(model.predict_set(X), y))
    assert np.mean(found) > 0.9 - 4 * np.std(found) / np.sqrt(10)


def test_equal_scores_of_all_samples():
    """Then no class can be left out."""
    X = np.full((50, 4), 0.25)
    assert recorded().fit(X, np.arange(50) % 4).predict_set(X[:3]).all()


def test_equal_scores_up_to_rounding_errors():
    """Probabilities of one sample can differ from those of many in the last digits."""
    X, y = np.tile([0.7, 0.1, 0.1, 0.1], (50, 1)), np.arange(50) % 4
    model = recorded().fit(X, y)
    expected = model.predict_pvalue(X[:1])
    for change in (-3e-16, 3e-16):
        assert_array_equal(model.predict_pvalue(X[:1] + change), expected)


@pytest.mark.parametrize(("level", "n_needed"), [(0.9, 9), (0.7, 3), (0.99, 99)])
def test_all_classes_are_in_the_sets_of_too_few_samples(level, n_needed):
    X, y = draw(np.random.default_rng(0), 2000)
    model = recorded(confidence_level=level)
    message = f"All classes .* at least {n_needed} held-out samples, got {n_needed - 1}"
    with pytest.warns(UserWarning, match=message):
        model.fit(X[: n_needed - 1], y[: n_needed - 1])
    assert model.predict_set(X).all()
    assert not model.fit(X[:n_needed], y[:n_needed]).predict_set(X).all()
    model.set_params(confidence_level=0.995)
    with pytest.warns(UserWarning, match="confidence_level=0.995 needs at least 199"):
        assert model.predict_set(X).all()


def test_a_class_without_held_out_samples_is_in_all_sets():
    X, y = draw(np.random.default_rng(0), 300)
    some = y != 2
    message = r"The classes \[2\] are in every set: .* 9 .* of each class, got 0"
    with pytest.warns(UserWarning, match=message):
        model = recorded(per_class=True).fit(X[some], y[some])
    is_in = model.predict_set(X).all(axis=0)
    assert is_in.tolist() == [False, False, True, False]


@pytest.mark.parametrize("per_class", [False, True])
def test_probabilities_of_zero_fill_the_sets_of_lac_only(per_class):
    X, y = draw(np.random.default_rng(0), 400)
    X = harden(X, 0)
    wrong = np.mean(X.argmax(axis=1) != y)
    model = recorded(per_class=per_class, random_state=0)
    with pytest.warns(UserWarning, match=r"All classes .*=0.9 is larger than the frac"):
        assert model.fit(X, y).predict_set(X).all()
    model.set_params(confidence_level=1 - wrong - 0.1, per_class=False)
    assert model.fit(X, y).predict_set(X).sum() == len(X)
    for score in ("aps", "raps"):
        model.set_params(confidence_level=0.9, conformity_score=score)
        sizes = model.fit(X, y).predict_set(X).sum(axis=1)
        # The probable class, and others such that a tenth of all are missing.
        assert sizes.mean() == pytest.approx(1 + 3 * (1 - 0.1 / wrong), abs=0.2)
        assert len(np.unique(sizes)) > 1


def test_coverage_of_each_class():
    """Only thresholds of each class cover the class that is predicted too rarely."""
    rng = np.random.default_rng(0)
    X, y = draw(rng, 4000)
    X = X * [1, 1, 1, 0.1]
    X /= X.sum(axis=1, keepdims=True)
    covered = [
        coverage(recorded(per_class=each).fit(X, y).predict_set(X)[y == 3], y[y == 3])
        for each in (False, True)
    ]
    assert covered[0] < 0.75
    assert covered[1] == pytest.approx(0.9, abs=0.01)


def test_sets_grow_with_the_level_without_another_fit():
    X, y = draw(np.random.default_rng(0), 300)
    model = recorded().fit(X, y)
    sets = [
        model.set_params(confidence_level=level).predict_set(X)
        for level in (0.5, 0.7, 0.9, 0.99)
    ]
    for small, large in pairwise(sets):
        assert (large >= small).all()
        assert large.sum() > small.sum()
    assert_array_equal(sets[2], model.predict_pvalue(X) > 0.1 + 1e-9)


@all_scores
def test_empty_sets_can_be_excluded(score):
    X, y = draw(np.random.default_rng(0), 300)
    model = recorded(confidence_level=0.3, conformity_score=score, random_state=0)
    sets = model.fit(X, y).predict_set(X)
    is_empty = ~sets.any(axis=1)
    assert is_empty.any()
    filled = model.set_params(allow_empty=False).predict_set(X)
    sets[np.arange(300), X.argmax(axis=1)] = True
    assert_array_equal(filled, sets)


@all_scores
def test_the_order_of_classes_does_not_matter(score):
    """With ties of probabilities, too."""
    X, y = draw(np.random.default_rng(0), 300, 1)
    order = np.array([2, 0, 3, 1])
    model = recorded(conformity_score=score, random_state=0)
    expected = model.fit(X, y).predict_pvalue(X)[:, order]
    permuted = model.fit(X[:, order], np.argsort(order)[y])
    assert_allclose(permuted.predict_pvalue(X[:, order]), expected, rtol=1e-12)


# The classifiers


def test_a_single_split_is_a_frozen_classifier():
    X, y = make_data()
    cv = ShuffleSplit(1, test_size=0.5, random_state=0)
    ((train, test),) = cv.split(X)
    model = PredictionSetClassifier(GaussianNB(), cv=cv).fit(X, y)
    frozen = FrozenEstimator(GaussianNB().fit(X[train], y[train]))
    expected = PredictionSetClassifier(frozen).fit(X[test], y[test])
    assert_array_equal(model.predict_pvalue(X), expected.predict_pvalue(X))
    assert_array_equal(model.predict_proba(X), frozen.predict_proba(X))
    assert expected.estimators_ == [frozen]


def test_probabilities_are_averaged_over_the_folds():
    X, y = make_data()
    model = PredictionSetClassifier(GaussianNB(), cv=3).fit(X, y)
    folds = [GaussianNB().fit(X[t], y[t]) for t, _ in StratifiedKFold(3).split(X, y)]
    expected = np.mean([fold.predict_proba(X) for fold in folds], axis=0)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    assert_array_equal(model.predict(X), expected.argmax(axis=1))
    assert model.score(X, y) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize("rest", [0.0, 1.0])
def test_random_draws(rest):
    X, y = draw(np.random.default_rng(0), 300)
    X = harden(X, rest)
    model = recorded(conformity_score="aps", random_state=0).fit(X, y)
    expected = model.predict_pvalue(X)
    assert_array_equal(model.predict_pvalue(X), expected)
    assert_array_equal(model.predict_pvalue(X[:9]), expected[:9])
    assert_array_equal(clone(model).fit(X, y).predict_pvalue(X), expected)
    assert (
        clone(model).set_params(random_state=1).fit(X, y).predict_pvalue(X) != expected
    ).any()
    # The draws of held-out samples are not used again.
    first = np.random.RandomState(0).uniform(size=(300, 5))[:, 0]
    again = recorded(conformity_score="aps", random_state=Draws(first, first))
    assert (again.fit(X, y).predict_pvalue(X) != expected).any()
    for random_state in (None, np.random.RandomState(0)):
        model = recorded(conformity_score="aps", random_state=random_state).fit(X, y)
        assert (model.predict_pvalue(X) != model.predict_pvalue(X)).any()


def test_parameters_of_the_score_are_those_of_fit():
    X, y = draw(np.random.default_rng(0), 300)
    model = recorded(conformity_score="raps", random_state=0).fit(X, y)
    expected = model.predict_pvalue(X)
    model.set_params(conformity_score="lac", lambd=9, per_class=True, random_state=1)
    assert_array_equal(model.predict_pvalue(X), expected)


# Weights and metadata


@pytest.mark.parametrize("per_class", [False, True])
def test_weights_are_repetitions(per_class):
    X, y = draw(np.random.default_rng(0), 200)
    weight = np.arange(200) % 3
    model = recorded(per_class=per_class).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_array_equal(model.predict_pvalue(X), repeated.predict_pvalue(X))
    plain = clone(model).fit(X, y)
    assert (plain.predict_pvalue(X) != model.predict_pvalue(X)).any()


@pytest.mark.parametrize("per_class", [False, True])
@all_scores
def test_weights_of_new_samples_by_the_definition(score, per_class):
    """Equation 6 of Tibshirani, Foygel Barber, Candès and Ramdas (2019), with loops."""
    rng = np.random.default_rng(0)
    (X, y), (X_new, _) = draw(rng, 60), draw(rng, 20)
    weight, new_weight = rng.exponential(size=60), rng.exponential(size=20)
    params = {"conformity_score": score, "per_class": per_class}
    model = recorded(**params, k_reg=1, random_state=Draws(0.5, 0.5))
    found = model.fit(X, y, weight).predict_pvalue(X_new, new_weight)

    def score_of(proba, k):
        """Return the score of a class, without ties, for draws of 0.5."""
        if score == "lac":
            return 1 - proba[k]
        penalty = 0.01 * max(0, np.sum(proba >= proba[k]) - 1) * (score == "raps")
        return proba[proba > proba[k]].sum() + 0.5 * proba[k] + penalty

    held_out = [score_of(*pair) for pair in zip(X, y, strict=True)]
    for i, k in product(range(20), range(4)):
        above, total = new_weight[i], new_weight[i]
        for each, label, w in zip(held_out, y, weight, strict=True):
            if label == k or not per_class:
                total += w
                above += w * (each >= score_of(X_new[i], k))
        assert found[i, k] == pytest.approx(above / total, rel=1e-9)


def test_the_scale_of_the_weights_cancels():
    """Also of those that sum to one, as ratios do after a normalisation."""
    rng = np.random.default_rng(0)
    (X, y), (X_new, _) = draw(rng, 60), draw(rng, 20)
    weight, new_weight = rng.exponential(size=60), rng.exponential(size=20)
    expected = recorded().fit(X, y, weight).predict_set(X_new, new_weight)
    scale = 1 / weight.sum()
    model = recorded().fit(X, y, scale * weight)
    assert_array_equal(model.predict_set(X_new, scale * new_weight), expected)
    message = r"All classes are in every set: .* 9 times the .* got 1 times\. Pass"
    with pytest.warns(UserWarning, match=message):
        assert model.predict_set(X_new).all()


def test_a_large_weight_fills_a_set():
    X, y = draw(np.random.default_rng(0), 300)
    model, weight = recorded().fit(X, y), np.ones(300)
    weight[7] = 60
    message = r"All classes are in 1 of 300 sets: .* 9 times .* got 5 times"
    with pytest.warns(UserWarning, match=message):
        y_set = model.predict_set(X, weight)
    expected = model.predict_set(X)
    expected[7] = True
    assert_array_equal(y_set, expected)
    # A class without held-out samples is in every set, also for a weight of zero.
    with pytest.warns(UserWarning, match="of each class, got 0"):
        model = recorded(per_class=True).fit(X[y > 0], y[y > 0])
    assert model.predict_pvalue(X, np.arange(300))[0, 0] == 1
    expected = model.predict_pvalue(X, np.arange(300))[:1]
    assert_array_equal(model.predict_pvalue(X[:1], [0]), expected)
    # The first class is in all sets, the others in that of one sample.
    with pytest.warns(UserWarning, match="are in up to 300 of 300 sets"):
        model.predict_set(X, weight)
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.predict_set(X, -weight)


def test_metadata_are_routed():
    X, y = make_data()
    weight = np.where(y == 0, 5.0, 1.0)
    groups = np.arange(200) // 50
    with config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = PredictionSetClassifier(inner, cv=GroupKFold(2))
        model.fit(X, y, sample_weight=weight, groups=groups)
    for fold, (train, _) in zip(
        model.estimators_, GroupKFold(2).split(X, y, groups), strict=True
    ):
        expected = GaussianNB().fit(X[train], y[train], sample_weight=weight[train])
        assert_array_equal(fold.predict_proba(X), expected.predict_proba(X))


# Where it is used


def test_string_labels_and_pandas():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=[*"abcd"]).sample(frac=1, random_state=0)
    target = pd.Series(NAMES[y], name="class").loc[frame.index]
    model = PredictionSetClassifier(GaussianNB(), cv=2).fit(frame, target)
    assert_array_equal(model.feature_names_in_, frame.columns)
    assert_array_equal(model.classes_, NAMES)
    expected = clone(model).fit(frame.to_numpy(), y[frame.index])
    assert_array_equal(model.predict_set(frame), expected.predict_set(frame.to_numpy()))
    assert_array_equal(model.predict(frame), NAMES[expected.predict(frame.to_numpy())])


def test_two_classes():
    X, y = make_data()
    model = PredictionSetClassifier(GaussianNB(), confidence_level=0.8)
    model.fit(X[:100], y[:100] > 1)
    assert model.predict_set(X[100:]).shape == (len(X) - 100, 2)
    assert coverage(model.predict_set(X[100:]), (y[100:] > 1).astype(int)) > 0.7


def test_pickle_and_search():
    X, y = make_data()
    tree = DecisionTreeClassifier(random_state=0)
    model = PredictionSetClassifier(tree, conformity_score="aps", cv=2)
    search = GridSearchCV(model, {"estimator__max_depth": [2, 9]}, cv=2)
    fitted = search.set_params(estimator__random_state=0).fit(X, y).best_estimator_
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_set(X), fitted.predict_set(X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"confidence_level": 1}, r"'confidence_level' parameter .*\(0.0, 1.0\).*"),
        ({"conformity_score": "hinge"}, "'conformity_score' parameter .*Got 'hinge'"),
        ({"lambd": -0.1}, "'lambd' parameter .*Got -0.1"),
        ({"k_reg": 1.5}, "'k_reg' parameter .*Got 1.5"),
        ({"per_class": "yes"}, "'per_class' parameter .*Got 'yes'"),
        ({"allow_empty": None}, "'allow_empty' parameter .*Got None"),
        ({"cv": "prefit"}, r"Pass a fitted classifier as FrozenEstimator"),
        (
            {"cv": RepeatedStratifiedKFold(n_splits=2, n_repeats=2)},
            "at most once for prediction sets, got 400 tests of 200 samples",
        ),
        ({"estimator": LinearSVC()}, "must have predict_proba, got LinearSVC"),
    ],
)
def test_bad_parameters(params, message):
    model = PredictionSetClassifier(GaussianNB()).set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(*make_data())


def test_bad_data():
    X, y = make_data()
    model = PredictionSetClassifier(GaussianNB())
    for method in ("predict", "predict_proba", "predict_pvalue", "predict_set"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    with pytest.raises(ValueError, match="1d array"):
        model.fit(X, np.eye(4)[y].astype(int))
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.fit(X, y, sample_weight=y - 1.0)
    with pytest.raises(ValueError, match="y must contain only the labels"):
        recorded().fit(*draw(np.random.default_rng(0), 9)[:1], np.arange(9))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"confidence_level": 90}, "'confidence_level' parameter .*Got 90"),
        ({"confidence_level": "high"}, "'confidence_level' parameter .*Got 'high'"),
        ({"allow_empty": "no"}, "'allow_empty' parameter .*Got 'no'"),
    ],
)
def test_bad_parameters_after_fit(params, message):
    X, y = draw(np.random.default_rng(0), 20)
    model = recorded().fit(X, y).set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.predict_set(X)
