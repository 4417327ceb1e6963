"""Compare a loss with the numbers that the authors' own code returned.

A module that names a file of tests/reference in ``REFERENCE`` has its test of the
fixture ``recorded`` run once per recorded case, all but those that ``NOT_FOLLOWED``
gives a reason for.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

REFERENCE_DIR = Path(__file__).parent.parent / "reference"


def pytest_generate_tests(metafunc):
    if "recorded" not in metafunc.fixturenames:
        return
    path = REFERENCE_DIR / f"{metafunc.module.REFERENCE}.json"
    cases = {case["id"]: case for case in json.loads(path.read_text())["expected"]}
    for name in metafunc.module.NOT_FOLLOWED:
        del cases[name]
    metafunc.parametrize("recorded", cases.values(), ids=cases.keys())


@pytest.fixture
def assert_recorded(recorded, reference, request):
    """Return a function that holds a loss against the recorded value and gradient."""
    data = reference(request.module.REFERENCE)

    def check(loss, *, merge=lambda grad: grad):
        batch, values = data["inputs"][recorded["input"]], recorded["values"]
        logits = torch.tensor(batch["logits"], dtype=torch.float64, requires_grad=True)
        value = loss(logits, torch.tensor(batch["labels"]))
        value.backward()
        np.testing.assert_allclose(value.item(), values["loss"], **data["tolerance"])

        grad = logits.grad.numpy()
        expected = np.array(values.get("grad", values.get("grad_head")), dtype=float)
        # The authors' gradient is nan where p_t is 1 and gamma below 1; the true one
        # is 0 to any precision there.
        expected = np.nan_to_num(expected, nan=0.0)
        np.testing.assert_allclose(
            merge(grad[: len(expected)]), merge(expected), **data["tolerance"]
        )
        if "grad_abs_sum" in values:
            np.testing.assert_allclose(
                np.abs(grad).sum(), values["grad_abs_sum"], **data["tolerance"]
            )

    return check
