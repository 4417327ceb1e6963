"""Time one forward and backward pass of every registered loss.

    python benchmarks/speed/bench_losses.py --batch-size 128 --n-classes 10 1000

Prints one row per loss: the median of `--repeats` timings in microseconds, and its
ratio to torch.nn.functional.cross_entropy. The timings of the losses are interleaved in
one process with one thread, which makes the ratios comparable across machines.
"""

import argparse
import statistics
from time import perf_counter

import torch
from torch.nn.functional import one_hot

from sklearn_calib.losses import CrossEntropyLoss, get_loss, get_loss_names

BASELINE = "torch cross_entropy"
PASSES = 10


def contestants():
    """Return the losses by name, torch's cross-entropy first."""
    names = [*get_loss_names(), *get_loss_names(multilabel=True)]
    losses = {name: get_loss(name)() for name in names}
    losses["crl"].start_history(50_000)
    smoothed = CrossEntropyLoss(label_smoothing=0.1)
    return {
        BASELINE: torch.nn.functional.cross_entropy,
        **losses,
        "cross_entropy, smoothed": smoothed,
    }


def time_once(loss, logits, target):
    """Return the seconds of one pass, as the mean of consecutive passes."""
    if getattr(loss, "is_multilabel", False):
        target = one_hot(target, logits.shape[1])
    start = perf_counter()
    options = {}
    if getattr(loss, "needs_indices", False):
        options["indices"] = torch.arange(len(target))
    for _ in range(PASSES):
        logits.grad = None
        loss(logits, target, **options).backward()
    return (perf_counter() - start) / PASSES


def measure(batch_size, n_classes, repeats):
    """Return the median seconds of every loss by name."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch_size, n_classes, generator=generator)
    logits.requires_grad_()
    target = torch.randint(n_classes, (batch_size,), generator=generator)
    times = {name: [] for name in contestants()}
    for _ in range(repeats):
        for name, loss in contestants().items():
            times[name].append(time_once(loss, logits, target))
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--n-classes", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--repeats", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for n_classes in args.n_classes:
        seconds = measure(args.batch_size, n_classes, args.repeats)
        print(f"# torch {torch.__version__}, {args.batch_size} x {n_classes}")
        for name, value in seconds.items():
            ratio = value / seconds[BASELINE]
            print(f"{name:<24}{1e6 * value:8.1f} us  x{ratio:.2f}")


if __name__ == "__main__":
    main()
