"""Networks that two processes train together equal those of a single process."""

import importlib.util
import pickle
import re
import socket
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("train_in_processes.py")
spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


@pytest.fixture(scope="module")
def results(tmp_path_factory, start, end):
    """Return the results of this process and another, which fail if they hang."""
    folder = tmp_path_factory.mktemp("processes")
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    with pytest.MonkeyPatch.context() as patch:
        # The name of the machine may have no address.
        patch.setenv("GLOO_SOCKET_IFNAME", loopback[0])
        other = start(SCRIPT, 1, 2, folder, loopback[0])
        try:
            script.main(0, 2, folder)
        finally:
            other.join(timeout=60)
            other.kill()
    assert end(other) == 0
    return [pickle.loads((folder / f"{r}.pickle").read_bytes()) for r in range(2)]


def numbers(value):
    """Return all numbers of a result, in order."""
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list):
        return np.concatenate([np.zeros(0), *map(numbers, value)])
    return np.ravel(value).astype(float)


def assert_close(result, expected, case):
    assert result.keys() == expected.keys()
    for name, values in expected.items():
        found, wanted = numbers(result[name]), numbers(values)
        np.testing.assert_allclose(
            found, wanted, rtol=0, atol=1e-10, err_msg=f"{case}: {name}"
        )


def test_all_processes_have_the_same_results(results):
    """The weights, the loss's state, the history and the predictions."""
    first, second = ({k: v for k, v in r.items() if k != "errors"} for r in results)
    for case, expected in first.items():
        np.testing.assert_array_equal(
            numbers(second[case]), numbers(expected), err_msg=case
        )


def test_results_equal_those_of_a_single_process(results):
    for case, params in script.CASES.items():
        assert_close(
            results[0][case], script.result(script.train(**params), **params), case
        )


def test_early_stopping_ends_before_the_last_epoch(results):
    """Otherwise the cases above would not test it."""
    for case in ("stops early", "own early stopping", "refit"):
        assert len(results[0][case]["history"]) < script.STOP["max_epochs"]


def test_mixin_for_accelerate_has_the_results_of_a_single_process(results):
    """It divides a DataLoader, gathers outputs and unwraps the network itself."""
    expected = script.result(script.train(**script.OF_MIXIN))
    assert len(expected["history"]) < script.STOP["max_epochs"]
    assert_close(results[0]["mixin"], expected, "mixin")


def test_training_resumes_from_the_checkpoint_of_the_first_process(results):
    assert_close(results[0]["resumed"], results[0]["focal"], "resumed")


def test_the_first_process_writes_the_files_of_best_weights(results, tmp_path):
    expected = script.result(script.train_with_files(tmp_path))
    assert_close(results[0]["best weights"], expected, "best weights")


def test_dropout_differs_between_the_parts(results):
    masks = np.array(results[0]["masks"])
    assert masks.shape == (8, 6)
    assert not np.array_equal(masks[:4], masks[4:])


@pytest.mark.parametrize(
    ("case", "match"),
    [
        ("seed", r"random_state must be an integer .* got None\. Set"),
        ("split", r"train_split.* draw from torch's global generator"),
        (
            "output",
            r"module must return .* one row for each sample, .* got \(\) of type",
        ),
        ("data", r"X, y, .* must be the same in all processes .* in \[1\]\. Load"),
    ],
)
def test_what_is_not_supported_raises_in_all_processes(results, case, match):
    for result in results:
        assert re.search(match, result["errors"][case])
