"""Coverage of `SelectiveClassifier(max_risk=...)` with other sequences of tests.

    python benchmarks/guarantees/bench_test_sequences.py --output sequences_output.csv

A sequence gives some of the numbers of most confident samples a part of the level
`delta` = 0.05, before the labels are seen. From each of them, the numbers above it are
tested one by one until a test does not reject. A sequence that reaches the next start
passes its level on. The sequences are

    halves            delta / 2 for all samples, delta / 4 for one half, and so on
    quarter           delta for one quarter
    quarter or more   delta for one quarter, or the smallest number that may have an
                      error, if that is larger
    with all          delta / 2 for that number, and delta / 2 for all samples
    four starts       delta / 4 each for all samples, one half, one quarter, and the
                      smallest number that may have an error; if a quarter is smaller,
                      that number has delta / 2 (default)

Error rates depend on the rank u of the confidence, from 0 to 1. "linear" ones are
2 e u and "steep" ones 4 e u^3, where e is the overall error rate; "constant" ones are
e. Prints, for each sequence, the mean coverage (0 without a threshold), how often there
is no threshold, and how often the risk at the threshold exceeds the limit. Rows that
are in the output file already are not measured again.
"""

import argparse
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

from sklearn_calib.estimators._selective.risks import resolve_risks
from sklearn_calib.estimators._selective.thresholds import _levels

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import add_missing

DELTA = 0.05
FIELDS = ["sequence", "errors", "rate", "limit", "n_samples", "coverage", "none"]
FIELDS += ["exceeded", "best", "repeats"]
GRID = np.arange(1, 20_001) / 20_000
ERRORS = {
    "linear": lambda u, rate: 2 * rate * u,
    "steep": lambda u, rate: np.minimum(4 * rate * u**3, 0.9),
    "constant": lambda u, rate: rate + 0 * u,
}
CASES = [("linear", rate) for rate in (0.02, 0.05, 0.1, 0.2)]
CASES += [("steep", rate) for rate in (0.05, 0.1, 0.2, 0.3)]
CASES += [("constant", rate) for rate in (0.02, 0.04, 0.07)]


def halves(n_samples, _):
    """Return the parts of the level by number of samples."""
    fractions = 0.5 ** np.arange(int(n_samples).bit_length())
    levels = DELTA * fractions / 2
    levels[-1] *= 2
    starts = np.ceil(n_samples * fractions).astype(int)
    return {start: levels[starts == start].sum() for start in starts}


def from_quarter(n_samples, _):
    return {-(-n_samples // 4): DELTA}


def from_quarter_or_more(n_samples, limit, level=DELTA):
    numbers = np.arange(1, n_samples)
    is_enough = (numbers >= n_samples / 4) & (binom.cdf(1, numbers, limit) <= level)
    return {1 + np.append(is_enough, True).argmax(): level}


def with_all(n_samples, limit):
    (first,) = from_quarter_or_more(n_samples, limit, DELTA / 2)
    return (
        {first: DELTA / 2, n_samples: DELTA / 2}
        if first < n_samples
        else {first: DELTA}
    )


def four_starts(n_samples, limit):
    """Return the default, as it is implemented."""
    (risk,) = resolve_risks(limit, None, np.arange(2))
    numbers = np.arange(1.0, n_samples + 1)
    levels = _levels(numbers, [(risk, [None, numbers])], DELTA)
    return {1 + index: level for index, level in levels.items()}


SEQUENCES = {
    "halves": halves,
    "quarter": from_quarter,
    "quarter or more": from_quarter_or_more,
    "with all": with_all,
    "four starts": four_starts,
}


@lru_cache(maxsize=1)
def draw(errors, rate, limit, n_samples, repeats, seed):
    """Return the ranks of draws, in order, and the p-value of each number of them."""
    rng = np.random.default_rng(seed)
    ranks = np.sort(rng.uniform(size=(repeats, n_samples)), axis=1)
    wrong = rng.uniform(size=ranks.shape) < ERRORS[errors](ranks, rate)
    numbers = np.arange(1, n_samples + 1)
    return ranks, binom.cdf(wrong.cumsum(axis=1), numbers, limit)


def last_rejected(pvalue, levels):
    """Return the largest number of samples of each draw that is rejected, or 0."""
    found, level = np.zeros(len(pvalue), dtype=int), np.zeros(len(pvalue))
    starts = sorted(levels)
    for start, end in zip(starts, [*starts[1:], pvalue.shape[1] + 1], strict=True):
        level += levels[start]
        failed = np.pad(
            pvalue[:, start - 1 : end - 1] > level[:, None],
            [(0, 0), (0, 1)],
            constant_values=True,
        )
        n_rejected = failed.argmax(axis=1)
        found = np.where(n_rejected > 0, start + n_rejected - 1, found)
        level[n_rejected < end - start] = 0.0
    return found


def measure(sequence, errors, rate, limit, n_samples, repeats, seed):
    """Return the coverage, and how often there is no threshold, or a wrong one."""
    ranks, pvalue = draw(errors, rate, limit, n_samples, repeats, seed)
    found = last_rejected(pvalue, SEQUENCES[sequence](n_samples, limit))
    coverage = np.where(found > 0, ranks[np.arange(repeats), found - 1], 0.0)
    risk = np.cumsum(ERRORS[errors](GRID, rate)) / np.arange(1, len(GRID) + 1)
    exceeded = (found > 0) & (np.interp(coverage, GRID, risk) > limit)
    best = GRID[risk <= limit].max(initial=0)
    numbers = coverage.mean(), (found == 0).mean(), exceeded.mean(), best
    return *(f"{each:.4f}" for each in numbers), repeats


def main():
    """Write the rows, and print their means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes, limits = [100, 300, 1000, 3000, 10_000], [0.02, 0.05, 0.1, 0.2]
    parser.add_argument("--n-samples", type=int, nargs="+", default=sizes)
    parser.add_argument("--limits", type=float, nargs="+", default=limits)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    keys = [
        (sequence, *case, limit, n_samples)
        for n_samples, limit, case, sequence in product(
            args.n_samples, args.limits, CASES, SEQUENCES
        )
    ]
    add_missing(
        args.output, FIELDS, keys, lambda *key: measure(*key, args.repeats, args.seed)
    )
    table = pd.read_csv(args.output)
    reachable = table[table.best > 0.02]
    for column in ("n_samples", "errors"):
        for value in ("coverage", "none"):
            print(f"\n{value}")
            frame = reachable.pivot_table(value, "sequence", column, sort=False)
            print(frame.round(3).to_string())
    print(f"\nlargest fraction exceeded\n{table.groupby('sequence').exceeded.max()}")


if __name__ == "__main__":
    main()
