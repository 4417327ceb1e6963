"""The tries of a campaign: one value at a time, several, problems, laws, 50 digits.

A try is (name, changes, verdict). It is a subject with its hostile arguments, each the
name of a value in its table or the value itself, or a law without changes.
"""

import random
from functools import cache

from hostile import drawn, exact, laws, separable
from hostile.judge import attempt
from hostile.subjects import subjects
from hostile.values import VALID


@cache
def rules():
    """Return the tries without arguments: laws, and comparisons with 50 digits."""
    return {**laws.laws(), **exact.comparisons()}


def single():
    """Return all tries with one hostile value."""
    return [
        (subject.name, {argument: key}, verdict)
        for subject in subjects().values()
        for argument, key, verdict in subject.tries()
    ]


def one_of_each():
    """Return a try for each argument, such that every value is used."""
    chosen, counts = [], {}
    for subject in subjects().values():
        for argument, table in subject.tables.items():
            keys = list(table)
            if keys:
                turn = counts[argument] = counts.get(argument, -1) + 1
                key = keys[turn % len(keys)]
                verdict = subject.settled.get((argument, key), table[key].verdict)
                chosen.append((subject.name, {argument: key}, verdict))
    return chosen


def degenerate():
    """Return tries of every calibrator on problems for which fits may not converge."""
    return [
        (subject.name, {"X": X, "X_new": X, "y": y}, VALID)
        for subject in subjects().values()
        if subject.name.startswith("calibrators.")
        and subject.setting in ("three", "logits")
        # The problems have other numbers of samples than the groups.
        and "groups" not in subject.arguments
        for X, y, are_logits in separable.problems().values()
        if are_logits == (subject.setting == "logits")
    ]


def lawful():
    """Return a try for each law of each object."""
    return [(name, {}, VALID) for name in rules()]


def campaign(n_tries):
    """Return about this number of tries, always the same, in mixed order.

    All laws are tried. Two thirds of the rest are single values; the others are fits
    that may not converge, combinations and drawn problems.
    """
    fixed = lawful()
    rest = max(0, n_tries - len(fixed))
    chance = random.Random(0)
    runaway = degenerate()
    parts = [
        (single(), 0.65 * rest),
        (runaway, 0.15 * rest),
        (drawn.combinations(int(0.1 * rest)), 0.1 * rest),
        (drawn.problems(int(0.1 * rest)), 0.1 * rest),
    ]
    for part, size in parts:
        fixed += chance.sample(part, min(len(part), round(size)))
    chance.shuffle(fixed)
    return fixed


def perform(each):
    """Return the outcome of a try."""
    name, changes, verdict = each
    if name in rules():
        return attempt(rules()[name], verdict)
    subject = subjects()[name]

    def call():
        return subject.call(**subject.arguments_with(changes))

    def expected():
        return subject.expected(changes)

    return attempt(call, verdict, names=subject.names, expected=expected)
