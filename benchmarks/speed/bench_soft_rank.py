"""Time of the soft rank, forward and backward, compared with other implementations.

    python benchmarks/speed/bench_soft_rank.py --n 128 1024 16384

Prints one row per implementation: the median of `--repeats` timings in microseconds,
and its ratio to the limit, an argsort and an isotonic regression. Values are uniform in
[0, 1), in single precision. The timings are interleaved in one process with one thread,
which makes the ratios comparable across machines. torchsort and fast-soft-sort (from
its repository, with numba) are timed if they are installed.
"""

import argparse
import statistics
from importlib import import_module
from time import perf_counter

import numpy as np
import torch
from scipy.optimize import isotonic_regression

from sklearn_calib.losses import soft_rank

LIMIT = "argsort + isotonic_regression"
PEERS = {
    "torchsort": ("torchsort", "soft_rank"),
    "fast-soft-sort": ("fast_soft_sort.pytorch_ops", "soft_rank"),
}


def limit(epsilon):
    """Return a function of an array that does only the necessary steps."""

    def project(values):
        order = values.argsort()
        ranks = np.arange(1.0, len(values) + 1)
        isotonic_regression(values[order] / epsilon - ranks)

    return project


def forward_and_backward(rank):
    """Return a function of an array that ranks it and computes the gradient."""

    def both(values):
        tensor = torch.from_numpy(values).requires_grad_()
        ranks = rank(tensor)
        ranks.backward(torch.ones_like(ranks))

    return both


def contestants(epsilon):
    """Return the functions by name, and the missing packages with the reason."""
    ours = forward_and_backward(lambda v: soft_rank(v, epsilon=epsilon))
    found, missing = {LIMIT: limit(epsilon), "sklearn_calib": ours}, {}
    for name, (module, function) in PEERS.items():
        try:
            peer = getattr(import_module(module), function)
        except ImportError as error:
            missing[name] = error
            continue
        found[name] = forward_and_backward(
            lambda v, peer=peer: peer(v[None], regularization_strength=epsilon)
        )
    return found, missing


def measure(functions, n, repeats):
    """Return the median seconds of every function by name."""
    values = np.random.default_rng(0).random(n, dtype=np.float32)
    for function in functions.values():  # numba compiles in the first call
        function(values)
    times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = perf_counter()
            function(values)
            times[name].append(perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main():
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, nargs="+", default=[128, 1024, 16384])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.05, 1e-4, 1e-6])
    parser.add_argument("--repeats", type=int, default=300)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for epsilon in args.epsilon:
        functions, missing = contestants(epsilon)
        for n in args.n:
            print(f"# torch {torch.__version__}, n = {n}, epsilon = {epsilon:g}")
            seconds = measure(functions, n, args.repeats)
            for name, value in seconds.items():
                ratio = value / seconds[LIMIT]
                print(f"{name:<32}{1e6 * value:8.1f} us  x{ratio:.2f}")
    for name, error in missing.items():
        print(f"{name:<32}skipped: {error}")


if __name__ == "__main__":
    main()
