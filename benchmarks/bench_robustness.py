"""Try hostile input on every public name, and count what comes of it.

    python benchmarks/bench_robustness.py --tries 25000

Values of the wrong type, shape, range or size in every argument, alone and several at
once, problems that hypothesis draws, fits that could run away, laws of objects, and
comparisons with 50 digits: `hostile/tries.py` says how many of each. The tries are the
same in each run. One row per topic counts the outcomes:

- right: a finite result, equal to that of the same numbers in another form;
- clear error: a ValueError or TypeError that names the parameter, or scikit-learn's;
- raw: any other exception, a warning of numpy, or text printed by a library;
- silent: input that is not valid was accepted, or the result is wrong;
- refused though valid, not finite, hang: what they say.

The last five are faults; they are listed by what they have in common, and if there is
one, the exit status is 1.
"""

import argparse
import sys
from collections import Counter, defaultdict
from time import perf_counter

from hostile.judge import CATEGORIES
from hostile.tries import campaign
from hostile.workers import run


def summary(name, changes, outcome):
    """Return what alike faults have in common: the category, the values, the place."""
    values = ", ".join(
        f"{argument}={value}" if isinstance(value, str) else f"{argument} drawn"
        for argument, value in changes.items()
    )
    law = name.partition(": ")[2]
    return outcome.category, law or values


def report(outcomes, n_shown):
    """Print the counts by topic, and faults that are alike once."""
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
    """Parse the command line, try, print; the status says whether there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=25_000)
    parser.add_argument("--seconds", type=float, default=20, help="until a try hangs")
    parser.add_argument("--only", default="", help="names that begin so, as losses.")
    parser.add_argument("--shown", type=int, default=60, help="faults that are listed")
    args = parser.parse_args()
    start = perf_counter()
    tries = [each for each in campaign(args.tries) if each[0].startswith(args.only)]
    outcomes = list(run(tries, seconds=args.seconds))
    n_faults = report(outcomes, args.shown)
    print(f"\n{len(tries)} tries in {perf_counter() - start:.0f} s, {n_faults} faults")
    return n_faults > 0


if __name__ == "__main__":
    sys.exit(main())
