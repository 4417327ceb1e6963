"""Run the tests of another package on an adapter, and compare what fails with a list.

The list has the names of the tests that show a difference, by reason. A name without
parameters stands for all cases of a test, and that of a class for all of its tests.
"""

import inspect
import os
from collections import Counter

import pytest


class Outcomes:
    """Plugin of pytest that collects the outcomes of the tests."""

    def __init__(self, word):
        self.failed, self.n_passed, self.word = [], 0, word

    def pytest_collection_modifyitems(self, items):
        items[:] = [i for i in items if self.word in inspect.getsource(i.function)]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)
        self.n_passed += report.passed and report.when == "call"


def run(root, files, word=""):
    """Return the outcomes of the tests whose source has a word, in files of a folder.

    The configuration there is not read: it may measure coverage.
    """
    outcomes = Outcomes(word)
    options = ["-q", "-c", os.devnull, "--rootdir", str(root), "--tb=line"]
    options += ["-p", "no:cacheprovider", "-p", "no:warnings"]
    pytest.main(options + [str(root / file) for file in files], plugins=[outcomes])
    return outcomes


def reason_of(test, differences):
    """Return the reason why a test fails, and its name there, or None for both."""
    *_, owner, case = test.split("::")
    for name in (owner, case, case.partition("[")[0]):
        for reason, names in differences.items():
            if name in names.split():
                return reason, name
    return None, None


def report(outcomes, differences):
    """Print the failed tests by reason; return whether all are expected to fail."""
    found = {test: reason_of(test, differences) for test in outcomes.failed}
    counts = Counter(reason for reason, _ in found.values())
    print(f"\n{outcomes.n_passed} tests pass, {len(found)} fail:\n")
    for reason in differences:
        print(f"{counts[reason]:>5}  {reason}")
    unknown = [test for test, (reason, _) in found.items() if reason is None]
    for test in unknown:
        print(f"\nfails without a reason: {test}")
    expected = {name for names in differences.values() for name in names.split()}
    passed = expected - {name for _, name in found.values()}
    for name in sorted(passed):
        print(f"\npasses, so remove its reason: {name}")
    return bool(outcomes.n_passed) and not (unknown or passed)
