"""What every test may ask for: recorded numbers, shared data and a quiet machine."""

import gc
import json
import multiprocessing
import os
import re
import runpy
import sys
import tracemalloc
from collections.abc import Collection
from contextlib import suppress
from functools import cache, partial
from itertools import chain, product
from math import inf, nan
from pathlib import Path
from reprlib import Repr

import pytest

# Before numpy or torch are loaded: one thread, so that the suite may run in several
# processes and sums come out alike, and figures that are drawn without a screen.
# The process that starts the others needs neither: functions import them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Where a test sets more threads, they sleep instead of spin while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# What collection makes is kept: there is no garbage to find.
gc.disable()

HERE = Path(__file__).parent
DATA_VARIABLE = "SKLEARN_CALIB_DATA"
DATA = Path(os.environ.get(DATA_VARIABLE, HERE.parent.parent / "shared" / "data"))


def pytest_collectstart():
    load_profile()


@cache
def load_profile():
    """Let hypothesis search as long as the environment says.

    No deadline and no chance: a slow or an unlucky machine must not turn a test red.
    """
    from hypothesis import settings

    settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
    settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
    settings.register_profile("thorough", deadline=None, max_examples=1000)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """Make one test of the cases of ``parametrize``, unless they are selected by name.

    See `pytest_pyfunc_call` for the reason. The cases remain tests if they are slow or
    have a mark, or if the test has a fixture that is made for each case.
    """
    marks = [m for m in metafunc.definition.own_markers if m.name == "parametrize"]
    if runs_selected_cases(metafunc.config) or not can_be_joined(metafunc, marks):
        return
    for mark in marks:
        metafunc.definition.own_markers.remove(mark)
        names, values = mark.args
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",")]
        marked = [value for value in values if marks_of(value)]
        rows = [row_of(v, len(names)) for v in values if not marks_of(v)]
        ids = [pytest.HIDDEN_PARAM, *([None] * len(marked))]
        metafunc.parametrize(names, [joined(names, rows), *marked], ids=ids)


def runs_selected_cases(config):
    """Return whether tests are selected by name, with ``-k`` or a node id.

    Each case is then a test with an id of its own.
    """
    return bool(config.option.keyword) or any("::" in arg for arg in config.args)


# Fixtures that are made for each test and not for each case: contexts that do not
# depend on what is run in them. What `monkeypatch` sets is undone between the cases,
# `tmp_path` is a folder for each case, and figures are closed.
CONTEXTS = {
    *("capfd", "close_figures", "dispatch", "elsewhere", "few_threads"),
    *("monkeypatch", "no_collection", "no_gathering", "nothing_kept", "on_device"),
    *("routing", "threads", "tmp_path", "undrawn"),
}


def can_be_joined(metafunc, marks):
    """Return whether the cases are quick and share their fixtures.

    If a case has a mark other than ``slow``, there must be no other parameters.
    """
    fixtures = metafunc._arg2fixturedefs.items()
    anew = {name for name, made in fixtures if made[-1].scope == "function"}
    if metafunc.definition.get_closest_marker("slow") or anew - CONTEXTS:
        return False
    return all(
        len(mark.args) == 2
        and isinstance(mark.args[1], Collection)
        and mark.kwargs.keys() <= {"ids"}
        and not all(map(marks_of, mark.args[1]))
        and (len(marks) == 1 or all(map(is_slow_at_most, mark.args[1])))
        for mark in marks
    )


def marks_of(value):
    """Return the names of the marks of a case."""
    return {m.name for m in value.marks} if isinstance(value, ParameterSet) else set()


def is_slow_at_most(value):
    return marks_of(value) <= {"slow"}


ParameterSet = type(pytest.param())


def row_of(value, n_names):
    """Return the values of a case, one for each name."""
    if isinstance(value, ParameterSet):
        return value.values
    return (value,) if n_names == 1 else tuple(value)


def joined(names, rows):
    """Return a value for each name, which stands for those of all rows."""
    return [pytest.mark.parametrize(names, rows).mark] * len(names)


def pytest_make_parametrize_id(val):
    """Return the name of a function or class, or the text of an object, for ``-k``."""
    if isinstance(val, str):
        return None  # as usual
    text = val.__name__ if hasattr(val, "__name__") else SHORT.repr(val)
    return re.sub(r" at 0x\w+", "", text)


SHORT = Repr()
SHORT.maxother = SHORT.maxstring = 200


def pytest_configure(config):
    config.hold = hold
    if "MUTANT_UNDER_TEST" in os.environ:
        # mutmut selects the tests that reach a mutant. Of tests that share a fit, only
        # the first one does, so that all tests of its file are run.
        config.args = sorted({arg.partition("::")[0] for arg in config.args})


def pytest_collection_modifyitems(items):
    """Start with slow tests, so that no process is left with one at the end.

    Those of pages and recipes, the longest, are the last in the order of the files.
    Tests that start processes follow one another: the first one in each process of
    pytest waits until the modules that all of them need are loaded.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    quick.sort(key=lambda item: "processes" not in item.fixturenames)
    items[:] = slow[::-1] + quick


def pytest_collection_finish():
    """Spare the garbage collector the modules, and collect less often.

    It takes a tenth of the time of the tests otherwise.
    """
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
    gc.enable()


def pytest_sessionfinish(session):
    """Exclude the objects of a worker from Python's garbage collection at its end.

    It takes seconds, and exceptions raised in it would not be reported.
    """
    if hasattr(session.config, "workerinput"):
        gc.freeze()


def hold(metafunc, name, members, settings=()):
    """Run a test for all members of a topic, and a slow one for further settings."""
    slow = pytest.mark.slow
    if runs_selected_cases(metafunc.config):
        marked = [pytest.param(setting, marks=slow) for setting in settings]
        metafunc.parametrize(name, [*members, *marked])
        return
    rows = [row_of(member, 1) for member in members]
    tests = [pytest.param(*joined([name], rows), id=pytest.HIDDEN_PARAM)]
    if settings:
        rows = [row_of(setting, 1) for setting in settings]
        tests.append(pytest.param(*joined([name], rows), marks=slow, id="settings"))
    metafunc.parametrize(name, tests)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Let what draws without ``random_state`` not depend on the order of the tests."""
    import numpy as np
    import torch

    np.random.seed(0)  # noqa: NPY002, as scikit-learn draws from it
    # Seeding devices that are not used yet would take a hundred times as long.
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test for each of the cases that it joins, and name those that fail.

    Pytest and its workers take about 2 ms to prepare and report a test, as long as most
    cases run. Subtests are reported one by one as well, and cannot be selected.
    """
    given = {
        name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames
    }
    marks = {id(v): v for v in given.values() if isinstance(v, pytest.Mark)}.values()
    if not marks:
        return None
    cases = [
        dict(chain.from_iterable(zip(m.args[0], row, strict=True) for m, row in rows))
        for rows in product(*([(mark, row) for row in mark.args[1]] for mark in marks))
    ]
    assert cases, "no case is left"
    failed, skipped = [], []
    for number, case in enumerate(cases):
        if "tmp_path" in given:
            case["tmp_path"] = given["tmp_path"] / str(number)
            case["tmp_path"].mkdir()
        try:
            pyfuncitem.obj(**{**given, **case})
        except pytest.skip.Exception as reason:
            skipped.append(reason)
        except Exception as error:
            failed.append((error, case))
        if "monkeypatch" in given:
            given["monkeypatch"].undo()
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    if failed:
        error = failed[0][0]
        shown = "".join(f"\n  {case}" for _, case in failed[:20])
        error.add_note(f"In {len(failed)} of {len(cases)} cases, such as{shown}")
        raise error
    if len(skipped) == len(cases):
        raise skipped[0]
    return True


# What metrics and displays refuse: labels, probabilities, options and the message.
HALVES = [[0.5, 0.5], [0.25, 0.75]]
BAD_INPUT = {
    "NaN": (
        [0, 1],
        [[0.5, 0.5], [nan, 0.5]],
        {},
        "y_proba must be finite, got NaN",
    ),
    "infinity": ([0, 1], [[0.5, 0.5], [inf, 0.5]], {}, "y_proba must be finite"),
    "logits": (
        *([0, 1], [[0.5, 0.5], [-4.0, 5.0]], {}),
        r"must lie in \[0, 1\], got values in \[-4, 5\].*not logits",
    ),
    "sums": (
        *([0, 1], [[0.5, 0.5], [0.5, 0.25]], {}),
        "rows that sum to one.*got a row that sums to 0.75",
    ),
    "more than rounding": (
        *([0, 1], [[0.5, 0.5], [1.0004, -0.0004]], {}),
        r"must lie in \[0, 1\], got values in \[-0.0004, 1.0004\]",
    ),
    "1-d NaN": ([0, 1], [0.5, nan], {}, "y_proba must"),
    "1-d logits": ([0, 1], [0.5, 1.5], {}, "y_proba must"),
    "length": (
        *([0, 1, 0], HALVES, {}),
        "one label for each row of y_proba, got 3 labels and 2 rows",
    ),
    "other label": (
        *([0, 7], HALVES, {"labels": [0, 1]}),
        r"only the labels \[0, 1\], got also \[7\]",
    ),
    "columns": (
        *([0, 1], HALVES, {"labels": [0, 1, 2]}),
        "labels must contain 2 distinct labels",
    ),
    "missing label": (
        [0.0, nan],
        HALVES,
        {},
        "y_true must not contain missing values",
    ),
    "no labels": (None, HALVES, {}, "'y_true' parameter"),
    "negative weight": (
        *([0, 1], HALVES, {"sample_weight": [1, -1]}),
        "sample_weight must be non-negative",
    ),
    "weight of NaN": (
        *([0, 1], HALVES, {"sample_weight": [1, nan]}),
        "sample_weight contains NaN",
    ),
    "one weight": ([0, 1], HALVES, {"sample_weight": [1]}, "sample_weight.shape"),
}


@cache
def _read_reference(name):
    return json.loads((HERE / "reference" / f"{name}.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def reference():
    """Return the numbers recorded in ``tests/reference/<name>.json`` as a dict."""
    return _read_reference


@pytest.fixture(scope="session")
def shared_data():
    """Open a file of the shared data by its path, or skip where there is none."""
    import numpy as np

    def load(path):
        if not (DATA / path).exists():
            pytest.skip(
                f"needs the shared data: {path} is not in {DATA}, "
                f"set {DATA_VARIABLE} to the folder that holds it"
            )
        return np.load(DATA / path, allow_pickle=False)

    return load


@pytest.fixture(scope="session")
def processes():
    """Return the context that starts processes, which do not import torch again.

    Where they cannot be forked, as on a machine with CUDA, they do.
    """
    import torch

    methods = multiprocessing.get_all_start_methods()
    can_fork = "forkserver" in methods and not torch.cuda.is_available()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    modules = ["sklearn_calib.estimators._neural.classifier", "torch._dynamo", "pandas"]
    context.set_forkserver_preload(modules)
    # The first process waits for these modules.
    warm_up = context.Process(target=abs, args=(0,))
    warm_up.start()
    warm_up.join()
    return context


@pytest.fixture(scope="session")
def start(processes):
    """Return a function that runs a script in a new process, which a test may kill.

    The script finds its arguments in ``ARGUMENTS``.
    """

    def run(script, *arguments):
        given = {"ARGUMENTS": [str(each) for each in arguments]}
        process = processes.Process(
            target=runpy.run_path, args=(str(script), given, "a process of its own")
        )
        process.start()
        return process

    return run


@pytest.fixture(scope="session")
def end():
    """Return a function for the exit code of a process, once it has ended."""

    def wait(process):
        process.join()
        return process.exitcode

    return wait


@pytest.fixture(scope="session")
def not_refused():
    """Return a function for the bad input that a metric or a display does not refuse.

    Each row that its parameters allow is to raise a ValueError with the message.
    """

    def find(call, parameters):
        faults = {}
        for case, (y_true, y_proba, options, message) in BAD_INPUT.items():
            if not options.keys() <= parameters:
                continue
            try:
                faults[case] = f"returns {call(y_true, y_proba, **options)}"
            except ValueError as error:
                if not re.search(message, str(error)):
                    faults[case] = f"{error!r} does not match {message!r}"
        return faults

    return find


@pytest.fixture(scope="session")
def peak_memory():
    """Return a function for the most bytes that numpy and Python hold during a call."""

    def measure(call):
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


@pytest.fixture(scope="session")
def operators_of_onnx():
    """Let torch collect the operators of ONNX once; each time, it takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ImportError, AttributeError):  # of other versions of torch
            from torch.onnx._internal.exporter._registration import ONNXRegistry

            once = staticmethod(cache(ONNXRegistry.from_torchlib))
            patch.setattr(ONNXRegistry, "from_torchlib", once)
        yield


@pytest.fixture
def dispatch():
    """Enable array API dispatch of scikit-learn."""
    from sklearn import config_context

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SCIPY_ARRAY_API", "1")
            with config_context(array_api_dispatch=True):
                yield
    except ImportError as missing:
        pytest.skip(f"scikit-learn cannot dispatch here: {missing}")


@pytest.fixture
def on_device(dispatch):  # noqa: ARG001 - of another fixture
    """Return a function that copies values to a device which numpy cannot read."""
    strict = pytest.importorskip("array_api_strict")
    return partial(strict.asarray, device=strict.Device("device1"))


@pytest.fixture
def elsewhere(dispatch):  # noqa: ARG001 - of another fixture
    """Treat arrays on the CPU as arrays on another device."""
    with pytest.MonkeyPatch.context() as patch:
        name = "sklearn_calib._validation.arrays.is_cpu_tensor"
        patch.setattr(name, lambda _: False)
        yield


@pytest.fixture
def nothing_kept():
    """Compute features again in each pass, as for more samples."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("_numerics.sample_blocks", "_solvers.temperature_fit"):
            patch.setattr(f"sklearn_calib.{module}.KEPT_SIZE", 0)
        yield
