"""The class of a loss takes the docstring and the call from its function."""

import inspect

import pytest
import torch

from sklearn_calib.losses import CalibrationLoss, FocalLoss, focal_loss
from sklearn_calib.losses._base.loss import complete_docstring

FUNCTION = """Loss of a batch.

The details.

Parameters
----------
logits : Tensor
    Numbers.
alpha, beta : float
    Not in the class.
gamma : float
    A number,

    or two [1]_.
**base_params : dict
    The rest.

Returns
-------
loss : Tensor

References
----------
.. [1] A paper.

Examples
--------
>>> 1
1
"""

CLASS = """The module.

Attributes
----------
state : Tensor
    A buffer.

Examples
--------
>>> 2
2"""

COMPLETED = """Loss of a batch.

The module.

Parameters
----------
gamma : float
    A number,

    or two [1]_.
**base_params : dict
    The rest.

Attributes
----------
state : Tensor
    A buffer.

References
----------
.. [1] A paper.

Examples
--------
>>> 2
2"""


def test_summary_parameters_and_references_are_those_of_the_function():
    assert complete_docstring(CLASS, FUNCTION, ["gamma", "base_params"]) == COMPLETED


def test_own_parameters_are_kept():
    own = CLASS.replace("Attributes", "Parameters")
    assert complete_docstring(own, FUNCTION, ["state"]) == own


def test_no_reference_is_needed():
    function = FUNCTION.replace("References\n----------\n.. [1] A paper.\n\n", "")
    expected = COMPLETED.replace("References\n----------\n.. [1] A paper.\n\n", "")
    assert complete_docstring(CLASS, function, ["gamma", "base_params"]) == expected


def test_a_subclass_keeps_its_docstring_and_its_call():
    class Mine(FocalLoss):
        """My loss."""

        def forward(self, logits, target):
            return 2 * super().forward(logits, target)

    batch = torch.eye(2), torch.tensor([0, 0])
    assert Mine.__doc__ == "My loss."
    assert Mine(gamma=1.0)(*batch) == 2 * focal_loss(*batch, gamma=1.0)


def test_forward_takes_weights():
    """Estimators check this before they pass weights."""
    assert "sample_weight" in inspect.signature(FocalLoss().forward).parameters


def test_a_loss_without_forward():
    class Empty(CalibrationLoss):
        pass

    with pytest.raises(NotImplementedError, match="must have a method forward"):
        Empty()(torch.eye(2), torch.tensor([0, 1]))
