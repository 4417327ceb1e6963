"""Hostile input to every public name ends in a result or in a clear error.

The tables and the judge are those of
``benchmarks/correctness/bench_robustness.py``; whatever is added to an ``__all__`` is
tried without a line here.
"""

import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "correctness"


@pytest.fixture(scope="module", autouse=True)
def _importable():
    """Let the tables import one another, as they do when the benchmark is run."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))
    for name in [name for name in sys.modules if name.partition(".")[0] == "hostile"]:
        sys.modules.pop(name)


def faults_of(tries, **options):
    """Return a line for each try that is a fault."""
    from hostile.workers import run

    return "\n".join(
        f"{outcome.category}: {name}, {changes}: {outcome.detail}"
        for (name, changes, _), outcome in run(tries, **options)
        if outcome.is_fault
    )


def test_each_argument_meets_a_value_and_each_value_a_name(processes):
    from hostile.tries import lawful, one_of_each

    tries = [*one_of_each(), *lawful()]
    faults = faults_of(tries, seconds=30, context=processes)
    assert not faults, faults


@pytest.mark.slow
def test_campaign(processes):
    """Twenty thousand tries, as in the benchmark."""
    from hostile.tries import campaign

    faults = faults_of(campaign(20_000), seconds=60, context=processes)
    assert not faults, faults


@pytest.mark.parametrize(
    ("result", "verdict", "category"),
    [
        (lambda: 0.5, "valid", "right"),
        (lambda: 0.5, "invalid", "silent"),
        (lambda: float("nan"), "valid", "not finite"),
        (lambda: float("nan"), "nan", "right"),
        (lambda: 0.5, "nan", "silent"),
        (lambda: 0.5, "same", "silent"),
        (lambda: 0.25, "same", "right"),
        (lambda: int("x"), "invalid", "raw"),
        (lambda: {}["x"], "invalid", "raw"),
        (lambda: refuse("n_bins must be positive, got 0."), "invalid", "clear error"),
        (lambda: refuse("n_bins must be positive, got 0."), "open", "clear error"),
        (
            lambda: refuse("n_bins must be positive, got 0."),
            "valid",
            "refused though valid",
        ),
        (lambda: refuse("it must be positive, got 0."), "invalid", "raw"),
    ],
)
def test_judge(result, verdict, category):
    from hostile.judge import attempt

    outcome = attempt(result, verdict, names={"n_bins"}, expected=lambda: 0.25)
    assert outcome.category == category


def refuse(message):
    raise ValueError(message)


class Endless:
    """What takes the reader forever to unpickle."""

    def __reduce__(self):
        return time.sleep, (1e6,)


@pytest.mark.slow
def test_what_does_not_return_is_stopped_and_the_rest_is_tried(processes):
    from hostile.workers import run

    tries = [("metrics.get_scorer_names[plain]", {}, "valid")] * 2
    tries.insert(1, ("metrics.get_scorer[plain]", {"scoring": Endless()}, "valid"))
    outcomes = run(tries, seconds=2, context=processes)
    categories = [outcome.category for _, outcome in outcomes]
    assert categories == ["right", "hang", "right"]


def test_an_argument_without_a_valid_value_is_asked_for():
    from hostile import subjects

    def newcomer(y_true, y_proba, *, unheard_of):
        return y_true, y_proba, unheard_of

    with pytest.raises(LookupError, match="wants an argument 'unheard_of'"):
        list(subjects.subjects_of("metrics.newcomer", newcomer))
