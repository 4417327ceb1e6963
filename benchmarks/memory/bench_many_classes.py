"""Time and memory of each loss, metric and calibrator against the number of classes.

    OMP_NUM_THREADS=1 python benchmarks/memory/bench_many_classes.py
    OMP_NUM_THREADS=1 python benchmarks/memory/bench_many_classes.py --names aurc_loss

The data are 1000 overconfident logits in single precision, which take 4 MiB for 1,000
classes and 80 MiB for 21,000. A loss gets a batch of 128 of them, and its gradient is
included. Prints the CPU seconds of one call and its extra memory in MiB for each number
of classes, measured in a fresh process as in `bench_memory.py`, and the exponent of the
growth of the time from the first number of classes to the last: 1 for linear growth.
A call that takes longer than `--limit` seconds of wall time is stopped, and its row
ends with ">". Calls that are refused print their error.
"""

import argparse
import math
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from bench_memory import MIB, cases, make_data, measure, metric_names

from sklearn_calib.calibrators import get_calibrator_names
from sklearn_calib.losses import get_loss_names

sys.path.insert(0, str(Path(__file__).parents[1] / "speed"))
BATCH = 128
CLASSES = [1000, 21_000]


def loss_call(name, multilabel, _, logits, labels):
    """Return a call of a loss and of its gradient."""
    import torch
    from bench_losses import contestants

    torch.set_num_threads(1)
    logits = torch.tensor(logits[:BATCH], requires_grad=True)
    labels, loss = torch.tensor(labels[:BATCH]), contestants()[name]
    if multilabel:
        labels = torch.nn.functional.one_hot(labels, logits.shape[1])
    options = {}
    if loss.needs_indices:
        options["indices"] = torch.arange(len(labels))
    return lambda: loss(logits, labels, **options).backward()


def all_cases(names):
    """Yield the title and the arguments of each call, of losses first."""
    for multilabel in (False, True):
        for name in get_loss_names(multilabel=multilabel):
            if name in names or not names:
                yield name, (loss_call, name, multilabel, True)
    others = {*metric_names(), *get_calibrator_names()}
    if others := others.intersection(names or others):
        yield from cases(sorted(others), True)


def row(case, folders, classes, limit):
    """Return a row of the table, without its title."""
    text, times = "", []
    for folder in folders:
        extra, outcome = measure(folder, case, limit)
        if not isinstance(outcome, float):
            return f"{text}  {outcome or '>'}"
        times.append(outcome)
        text += f"{outcome:10.3f} s{extra / MIB:8.1f} MiB"
    growth = math.log(times[-1] / times[0]) / math.log(classes[-1] / classes[0])
    return f"{text}{growth:8.1f}"


def main():
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    parser.add_argument("--names", nargs="+", default=[], help="default: all")
    parser.add_argument("--limit", type=int, default=60, help="seconds for each call")
    args = parser.parse_args()
    if not Path("/proc/self/status").exists():
        sys.exit("skipped: resident anonymous memory is read from /proc of Linux")
    with ExitStack() as stack:
        folders = []
        for n_classes in args.classes:
            name = stack.enter_context(tempfile.TemporaryDirectory())
            make_data(Path(name), args.samples, n_classes, np.float32)
            folders.append(Path(name))
        print(f"{args.samples} samples of {args.classes} classes, and the exponent")
        for title, case in all_cases(args.names):
            print(f"{title:52}", end="", flush=True)
            print(row(case, folders, args.classes, args.limit), flush=True)


if __name__ == "__main__":
    main()
