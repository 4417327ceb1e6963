"""Call every public name with hostile input, and count the outcomes.

    python benchmarks/correctness/bench_robustness.py --tries 25000

The tries are values of the wrong type, shape, range or size in one or several
arguments, problems drawn by hypothesis, fits that might not converge, laws of objects,
and comparisons with 50 digits. `hostile/tries.py` sets the number of each. Every run
makes the same tries. One row per topic counts the outcomes:

- right: a finite result, equal to that of the same numbers in another form;
- clear error: a ValueError or TypeError that names the parameter, or scikit-learn's;
- raw: any other exception, a numpy warning, or text printed by a library;
- silent: invalid input was accepted, or the result is wrong;
- refused though valid, not finite, hang: as named.

The last five are faults. They are grouped and listed, and the exit status is 1 if there
is one.
"""

import argparse
import sys
from collections import Counter, defaultdict
from time import perf_counter

from hostile.judge import CATEGORIES
from hostile.tries import campaign
from hostile.workers import run


def summary(name, changes, outcome):
    """Return what faults of a group have in common: category, values and place."""
    values = ", ".join(
        f"{argument}={value}" if isinstance(value, str) else f"{argument} drawn"
        for argument, value in changes.items()
    )
    law = name.partition(": ")[2]
    return outcome.category, law or values


def report(outcomes, n_shown):
    """Print the counts by topic, and each group of faults once."""
    counts, faults = defaultdict(Counter), defaultdict(list)
    for (name, changes, _), outcome in outcomes:
        counts[name.partition(".")[0]][outcome.category] += 1
        if outcome.is_fault:
            faults[summary(name, changes, outcome)].append((name, outcome.detail))
    counts["all"] = sum(counts.values(), Counter())
    print(f"{'':<13}" + "".join(f"{category:>22}" for category in CATEGORIES))
    for topic, row in counts.items():
        print(f"{topic:<13}" + "".join(f"{row[c]:>22}" for c in CATEGORIES))
    order = sorted(faults.items(), key=lambda item: -len(item[1]))
    for (category, values), found in order[:n_shown]:
        name, detail = found[0]
        print(f"\n{category}, {len(found)} times: {values}\n  {name}: {detail[:300]}")
    return sum(map(len, faults.values()))


def main():
    """Run the tries of the command line; return whether there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=25_000)
    parser.add_argument("--seconds", type=float, default=20, help="limit for a try")
    parser.add_argument("--only", default="", help="prefix of names, such as losses.")
    parser.add_argument("--shown", type=int, default=60, help="number of listed faults")
    args = parser.parse_args()
    start = perf_counter()
    tries = [each for each in campaign(args.tries) if each[0].startswith(args.only)]
    outcomes = list(run(tries, seconds=args.seconds))
    n_faults = report(outcomes, args.shown)
    print(f"\n{len(tries)} tries in {perf_counter() - start:.0f} s, {n_faults} faults")
    return n_faults > 0


if __name__ == "__main__":
    sys.exit(main())
