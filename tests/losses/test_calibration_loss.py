"""Build a loss from a name and parameters, as estimators do."""

import pytest
from torch import nn

from sklearn_calib.losses import CalibrationLoss, FocalLoss, MDCALoss


@pytest.mark.parametrize("loss", ["focal", FocalLoss, FocalLoss(gamma=5.0)])
def test_build_replaces_parameters(loss):
    built = CalibrationLoss.build(loss, {"gamma": 2.0})
    assert repr(built) == repr(FocalLoss(gamma=2.0))


def test_build_copies_an_instance_of_torch():
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    built = CalibrationLoss.build(loss, {})
    assert built is not loss
    assert built.label_smoothing == 0.1


@pytest.mark.parametrize("loss", [1.0, dict])
def test_build_refuses_other_objects(loss):
    with pytest.raises(TypeError, match=r"loss must be a name.*'adafocal'"):
        CalibrationLoss.build(loss, {})
    with pytest.raises(ValueError, match="Did you mean 'focal'"):
        CalibrationLoss.build("fokal", {})


def test_parameters_of_the_base_are_listed_without_its_reduction():
    params = CalibrationLoss.list_params("mdca", {"base": "focal", "base__gamma": 9.0})
    expected = MDCALoss(base="focal", base__gamma=9.0).get_params()
    assert params == expected
    assert params["base__gamma"] == 9.0
    assert "base__reduction" not in params


def test_list_params_of_other_objects():
    assert CalibrationLoss.list_params(None, {"a": 1}) == {"a": 1}


def test_error_about_a_parameter_has_prefix_and_hint():
    message = r"'gama', got loss__gama\. Did you mean 'gamma'\?.*\]\. Search\.$"
    with pytest.raises(ValueError, match=message):
        CalibrationLoss.check_params(
            "focal", {"gama": 1.0}, prefix="loss__", hint=" Search."
        )


def test_error_about_a_base_parameter_has_both_prefixes():
    given = {"base": "focal", "base__gama": 1.0}
    with pytest.raises(ValueError, match=r"'focal' .*got loss__base__gama"):
        CalibrationLoss.check_params("mdca", given, prefix="loss__")
