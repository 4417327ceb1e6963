"""Compare the speed of the working tree with that of `main`, or of another commit.

    python benchmarks/speed/compare_with_main.py
    python benchmarks/speed/compare_with_main.py --base v0.1.0 --new HEAD~2 --minutes 4
    python benchmarks/speed/compare_with_main.py --names soft_rank fit --limit 1.05

Each commit is checked out into a worktree of its own, which one process imports the
package from. The two processes have one thread, and measure each case in turn, for as
many rounds as the minutes allow. Prints for each case the least milliseconds of a call
in both, and their ratio. The milliseconds are CPU time, so that other programs on the
machine matter little. Ratios above `--limit` are marked, and the exit code is then 1.
Cases that one of the commits does not have are left out.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# A case is called again and again for so long in each round.
SECONDS = 0.04
LOSSES = ["cross_entropy", "focal", "mdca", "mmce", "regularized_aurc", "adafocal"]
METRICS = [
    "expected_calibration_error",
    "classwise_calibration_error",
    "smooth_expected_calibration_error",
    "refinement_error",
    "aurc_loss",
]
CALIBRATORS = ["temperature", "vector", "dirichlet", "beta", "isotonic", "spline"]


def soft_rank_case(n):
    """Return a call that ranks values and computes the gradient."""
    import torch

    from sklearn_calib.losses import soft_rank

    generator = torch.Generator().manual_seed(0)
    values = torch.rand(n, generator=generator).requires_grad_()
    return lambda: soft_rank(values, epsilon=0.05).sum().backward()


def fit_case(n_samples, **params):
    """Return a call that fits a small network for one epoch."""
    from sklearn_calib import NeuralClassifier

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 20), dtype=np.float32)
    y = X[:, :3].argmax(axis=1)
    net = NeuralClassifier(max_epochs=1, random_state=0, **params)
    return lambda: net.fit(X, y)


def loss_case(name):
    """Return a call of a loss, forward and backward."""
    import torch

    from sklearn_calib.losses import get_loss

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(128, 10, generator=generator).requires_grad_()
    target = torch.randint(10, (128,), generator=generator)
    loss = get_loss(name)()
    return lambda: loss(logits, target).backward()


def scores(n_samples, n_classes):
    """Return logits that are twice as large as those of the labels, and the labels."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((n_samples, n_classes))
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def metric_case(name):
    """Return a call of a metric."""
    from scipy.special import softmax

    from sklearn_calib import metrics

    logits, y = scores(5000, 10)
    return partial(getattr(metrics, name), y, softmax(logits, axis=1))


def calibrator_case(name):
    """Return a call that fits a calibrator and predicts."""
    from sklearn_calib.calibrators import get_calibrator

    logits, y = scores(2000, 4)
    calibrator = get_calibrator(name)(from_logits=True)
    return lambda: calibrator.fit(logits, y).predict_proba(logits)


def evaluation_case(function):
    """Return a call of a function with intervals, for the metrics of its default."""
    from scipy.special import softmax

    from sklearn_calib import deployment, evaluation

    logits, y = scores(2000, 4)
    proba, few = softmax(logits, axis=1), {"n_resamples": 20, "random_state": 0}
    if function == "compare":
        return lambda: evaluation.compare({"one": proba}, None, y, **few)
    return lambda: deployment.estimate_performance(proba, **few)


CASES = {
    "soft_rank, n = 128": partial(soft_rank_case, 128),
    "soft_rank, n = 16384": partial(soft_rank_case, 16384),
    "fixed part of fit": partial(fit_case, 60),  # and one mini-batch
    "epoch": partial(fit_case, 1280),
    "epoch, validated": partial(fit_case, 1280, validation_fraction=0.1, loss="focal"),
    **{f"loss {name}": partial(loss_case, name) for name in LOSSES},
    **{name: partial(metric_case, name) for name in METRICS},
    **{f"calibrator {name}": partial(calibrator_case, name) for name in CALIBRATORS},
    "compare": partial(evaluation_case, "compare"),
    "estimate_performance": partial(evaluation_case, "estimate_performance"),
}


def least_seconds(call):
    """Return the least CPU seconds of a call, of those that fit into `SECONDS`."""
    least, end = math.inf, time.process_time() + SECONDS
    while time.process_time() < end:
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return least


def work(tree):
    """Measure the cases that are named on the standard input, one on each line."""
    import torch

    import sklearn_calib

    if not Path(sklearn_calib.__file__).is_relative_to(tree):
        raise RuntimeError(f"{sklearn_calib.__file__} is not in {tree}.")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # What the package prints must not be taken for an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    calls = {}
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in calls:
                calls[name] = CASES[name]()
                calls[name]()
            answer = least_seconds(calls[name])
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=answers, flush=True)


@contextmanager
def worktree(ref):
    """Check a commit out into a folder; None is the working tree itself."""
    if ref is None:
        yield ROOT
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", tree, ref], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)


@contextmanager
def worker(tree):
    """Start the process of a tree; return a function that measures a case by name."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(tree)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **threads, "PYTHONPATH": str(tree)},
    ) as process:  # fmt: skip

        def measure(name):
            print(name, file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield measure
        process.stdin.close()


def compare(measures, names, minutes):
    """Return for each case the least seconds of both, or the error of one."""
    found = {name: [math.inf, math.inf] for name in names}
    end, n_rounds = time.monotonic() + 60 * minutes, 0
    while not n_rounds or time.monotonic() < end:
        for name, pair in found.items():
            if any(isinstance(each, str) for each in pair):
                continue
            # Neither of the two is always the first.
            for side in (0, 1) if n_rounds % 2 else (1, 0):
                seconds = measures[side](name)
                failed = isinstance(seconds, str)
                pair[side] = seconds if failed else min(pair[side], seconds)
        n_rounds += 1
    print(f"# {n_rounds} rounds")
    return found


def show(found, limit):
    """Print a row for each case, and return the cases above the limit."""
    print(f"{'milliseconds':<36}{'base':>10}{'new':>10}{'ratio':>8}")
    slower = []
    for name, pair in found.items():
        errors = [each for each in pair if isinstance(each, str)]
        if errors:
            print(f"{name:<36}left out: {errors[0][:80]}")
            continue
        ratio = pair[1] / pair[0]
        slower += [name] if ratio > limit else []
        mark = "  SLOWER" if ratio > limit else ""
        print(f"{name:<36}{1e3 * pair[0]:10.3f}{1e3 * pair[1]:10.3f}{ratio:8.2f}{mark}")
    return slower


def main():
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="main", help="commit to compare with")
    parser.add_argument("--new", help="commit; by default the working tree")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("--names", nargs="+", default=[""], help="parts of the names")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker)
        return
    names = [name for name in CASES if any(part in name for part in args.names)]
    with ExitStack() as stack:
        trees = [stack.enter_context(worktree(ref)) for ref in (args.base, args.new)]
        measures = [stack.enter_context(worker(tree)) for tree in trees]
        slower = show(compare(measures, names, args.minutes), args.limit)
    if slower:
        sys.exit(f"Slower than {args.base}: {', '.join(slower)}")


if __name__ == "__main__":
    main()
