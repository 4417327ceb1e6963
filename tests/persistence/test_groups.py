"""Calibrators of groups in files."""

import numpy as np
import pandas as pd
import pytest

from sklearn_calib.calibrators import PerGroupCalibrator, PlattScaling
from sklearn_calib.persistence import from_dict, load, save, to_dict


def fit(groups, **params):
    rng = np.random.default_rng(0)
    proba = rng.uniform(0.02, 0.98, size=len(groups))
    y = np.where(rng.uniform(size=len(groups)) < proba**2, "yes", "no")
    model = PerGroupCalibrator(PlattScaling(), **params)
    return model.fit(proba, y, groups=groups), proba


CODES = np.arange(300) % 6
FRAME = pd.DataFrame(
    {
        "sex": np.array(["f", "m", None], dtype=object)[CODES % 3],
        "code": CODES // 3,
    }
)


@pytest.mark.parametrize("groups", [CODES, CODES.astype(str), CODES % 2 == 0, FRAME])
@pytest.mark.parametrize("lambd", ["empirical_bayes", 3])
def test_probabilities_are_equal_bit_for_bit(tmp_path, groups, lambd):
    model, proba = fit(groups, lambd=lambd)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    expected = model.predict_proba(proba, groups=groups)
    found = again.predict_proba(proba, groups=groups)
    np.testing.assert_array_equal(found, expected)
    assert to_dict(again) == to_dict(model)
    assert again.groups_ == model.groups_
    assert vars(again).keys() == vars(model).keys()
    assert again.n_errors_ == model.n_errors_
    assert repr(again) == repr(model)


def test_values_that_files_cannot_contain():
    model, _ = fit(pd.cut(pd.Series(CODES), 3))
    with pytest.raises(ValueError, match=r"values_\[0\] must be .* got Interval"):
        to_dict(model)


def test_one_group_in_a_file():
    model, proba = fit(np.zeros(300))
    again = from_dict(to_dict(model))
    found = again.predict_proba(proba, groups=np.zeros(300))
    expected = model.predict_proba(proba, groups=np.zeros(300))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_codes_": [0, 1, 9]}, r"group_codes_ must be at most \[3\]"),
        ({"group_codes_": [0, 1, -1]}, "group_codes_ must be a number >= 0"),
        ({"values_": ["a", "a", "b"]}, "distinct names of groups"),
    ],
)
def test_crafted_groups(change, message):
    document = to_dict(fit(np.array(list("abc") * 100))[0])
    state = document["object"]["state"]
    for name, values in change.items():
        entry = state[name] if name == "group_codes_" else state[name][0]
        entry["values"] = values
    with pytest.raises(ValueError, match=message):
        from_dict(document)


def test_crafted_calibrators():
    document = to_dict(fit(CODES)[0])
    state = document["object"]["state"]
    other = PlattScaling().fit([0.2, 0.7, 0.3, 0.8] * 9, [0, 1, 1, 0] * 9)
    state["calibrator_"] = to_dict(other)["object"]
    with pytest.raises(ValueError, match=r"calibrator_\.classes_ must be"):
        from_dict(document)
    state["calibrator_"] = to_dict(fit(CODES)[0])["object"]
    with pytest.raises(ValueError, match="calibrator_ must be a Calibrator, got Per"):
        from_dict(document)


def test_values_that_cannot_be_saved():
    groups = pd.cut(CODES, 3)
    wanted = (
        r"values_\[0\] must be an array of numbers, booleans or strings to be saved"
    )
    with pytest.raises(ValueError, match=wanted):
        to_dict(fit(groups)[0])
