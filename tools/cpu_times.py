"""CPU time of the tests, by module, test function, fixture, member and law.

    python tools/cpu_times.py -n 2
    python tools/cpu_times.py --collect-only -q --pairs pairs_output/pairs.txt

The arguments are those of pytest. As a plugin (``-p cpu_times``, with this folder on
``PYTHONPATH``), the file prints the same tables at the end of any run of pytest. Time
is that of the process and of its ended children, user and system, so that it depends
little on what else the machine does. Processes of a fork server, such as those that the
fixture ``processes`` starts, are not among these children. The time of a fixture is
also in the time of the test that asks for it first. A law is a test that runs for
several members: its row has the number of members and the time per member. With
``--pairs``, each pair of a test that is collected and one of its cases is written to a
file, so that two versions of the tests can be compared.
"""

import os
import subprocess
import sys
from collections import defaultdict
from functools import wraps
from itertools import product
from pathlib import Path
from reprlib import Repr

import pytest

LENGTH, WIDTH = 25, 60
# Text of a case, of which there may be a million characters.
LONGEST, SHORT = 500, Repr()
SHORT.maxother = SHORT.maxstring = LONGEST
KINDS = ("module", "function", "fixture", "member", "law")


def pytest_addoption(parser):
    group = parser.getgroup("CPU times")
    group.addoption("--pairs", help="file for the pairs of a test and a case")


def cpu_time():
    return sum(os.times()[:4])


def name_of(value):
    """Return the text of a case that does not depend on the process."""
    text = value if isinstance(value, str) else SHORT.repr(value)
    text = getattr(value, "__name__", text)[:LONGEST]
    return " ".join(text.split(" at 0x")[0].split())


def cases_of(item):
    """Return the names of the parameters and their values, in the order of ids."""
    spec = getattr(item, "callspec", None)
    given = dict(spec.params) if spec else {}
    return {n: v for n, v in given.items() if not is_mark(v)}


def pairs_of(item):
    """Yield the name of the test with each of its cases."""
    spec = getattr(item, "callspec", None)
    marks = {id(v): v for v in spec.params.values() if is_mark(v)} if spec else {}
    test = f"{item.nodeid.split('::')[0]}::{item.originalname}"
    for values in product(*(mark.args[1] for mark in marks.values())):
        case = cases_of(item)
        for mark, value in zip(marks.values(), values, strict=True):
            case |= dict(zip(mark.args[0], value, strict=True))
        yield f"{test}\t{label(dict(sorted(case.items())))}"


def pytest_collection_finish(session):
    if session.config.option.pairs and session.items:
        pairs = {pair for item in session.items for pair in pairs_of(item)}
        path = Path(session.config.option.pairs)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(sorted(pairs)) + "\n")


def is_mark(value):
    return isinstance(value, pytest.Mark)


def label(case):
    return ", ".join(f"{name}={name_of(value)}" for name, value in case.items())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before, item.cpu_cases, item.cpu_fixtures = cpu_time(), [], []
    try:
        return (yield)
    finally:
        item.cpu_total = cpu_time() - before


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    before = cpu_time()
    try:
        return (yield)
    finally:
        item = request._pyfuncitem if hasattr(request, "_pyfuncitem") else None
        spent = cpu_time() - before
        if getattr(item, "cpu_fixtures", None) is not None and spent > 0:
            item.cpu_fixtures.append((fixturedef.argname, spent))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Time each call of the test function: one for each case that it joins."""
    test, fixed = pyfuncitem.obj, cases_of(pyfuncitem)
    marks = {n for n, v in pyfuncitem.funcargs.items() if is_mark(v)}

    @wraps(test)
    def timed(*args, **values):
        before = cpu_time()
        try:
            return test(*args, **values)
        finally:
            spent = cpu_time() - before
            case = fixed | {n: v for n, v in values.items() if n in marks}
            pyfuncitem.cpu_cases.append((label(case), spent))

    pyfuncitem.obj = timed
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        report.user_properties.append(
            ("cpu", (item.function.__name__, item.cpu_cases, item.cpu_fixtures))
        )
    return report


class Times:
    """Sums of CPU seconds over the reports, in the process that prints them."""

    def __init__(self):
        self.sums = {kind: defaultdict(lambda: [0.0, 0]) for kind in KINDS}

    def add(self, kind, name, seconds):
        entry = self.sums[kind][name]
        entry[0] += seconds
        entry[1] += 1

    def read(self, report):
        for key, value in report.user_properties:
            if key != "cpu":
                continue
            function, cases, fixtures = value
            module = report.nodeid.split("::")[0]
            spent = sum(seconds for _, seconds in cases)
            in_fixtures = sum(seconds for _, seconds in fixtures)
            self.add("module", module, spent + in_fixtures)
            name = f"{module}::{function}"
            for case, seconds in cases:
                self.add("function", name, seconds)
                if case:
                    self.add("law", name, seconds)
                    self.add("member", case.split("=", 1)[1].split("(")[0], seconds)
            for fixture, seconds in fixtures:
                self.add("fixture", fixture, seconds)

    def tables(self):
        """Yield the lines of the tables."""
        for kind, sums in self.sums.items():
            total = sum(seconds for seconds, _ in sums.values())
            yield f"{kind}: {total:.1f} s in {len(sums)} rows, the {LENGTH} largest"
            yield f"{'seconds':>9} {'calls':>7} {'ms each':>9}"
            largest = sorted(sums.items(), key=lambda row: -row[1][0])[:LENGTH]
            for name, (seconds, n_calls) in largest:
                each = 1000 * seconds / n_calls
                yield f"{seconds:9.2f} {n_calls:7d} {each:9.1f} {name[-2 * WIDTH :]}"


TIMES = Times()


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        TIMES.read(report)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("CPU times")
    for line in TIMES.tables():
        terminalreporter.write_line(line)


if __name__ == "__main__":
    tools = str(Path(__file__).parent)
    paths = [tools, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-p", "cpu_times", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=environment).returncode)
