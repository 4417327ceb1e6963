"""How often intervals hold the value of the population, and what they cost.

    python benchmarks/bench_intervals.py --metrics ece,ks --n-samples 200,1000

Predictions p of the positive class are uniform in [0.02, 1] and come true with the
probability p ("calibrated"), p - 0.03 ("small"), p - 0.15 ("large"), or p - 0.1 above
0.6 and p elsewhere ("half"). Each row is the share of the intervals that hold the value
of the population, and its standard error, for one metric, method, model and size, at
each level. The value of the population is that of a grid of predictions,
each with both labels, weighted by how probable they are.

With --time the intervals of the expected calibration error of 10,000 x 10 probabilities
with 1000 draws are timed beside the floor, bins of counts as weights in numpy, and
beside calibstats where it is installed: seconds and the ratio to the floor.
"""

import argparse
import time
from functools import partial

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss

from sklearn_calib import metrics as m

TRUTHS = {
    "calibrated": lambda p: p,
    "small": lambda p: np.clip(p - 0.03, 0, 1),
    "large": lambda p: np.clip(p - 0.15, 0, 1),
    "half": lambda p: np.where(p > 0.6, p - 0.1, p),
}
ERRORS = {
    "ece": m.expected_calibration_error,
    "ece_quantile": partial(m.expected_calibration_error, strategy="quantile"),
    "ece_l2": partial(m.expected_calibration_error, norm="l2"),
    "ece_debiased": partial(m.expected_calibration_error, reduce_bias=True),
    "mce_quantile": partial(m.maximum_calibration_error, strategy="quantile"),
    "mce": m.maximum_calibration_error,
    "classwise": m.classwise_calibration_error,
    "classwise_l2": partial(m.classwise_calibration_error, norm="l2"),
    "ece_isotonic": partial(m.expected_calibration_error, strategy="isotonic"),
    "ks": m.ks_calibration_error,
    "smece": m.smooth_expected_calibration_error,
    "smce": m.smooth_calibration_error,
    "kde": partial(m.kde_calibration_error, bandwidth=0.02),
    "kde_l2": partial(m.kde_calibration_error, bandwidth=0.02, norm="l2"),
    "proper_log": m.proper_calibration_error,
    "proper_brier": partial(
        m.proper_calibration_error, loss="brier", recalibration="isotonic"
    ),
    "gap": partial(m.post_processing_gap, loss="squared"),
}
OTHERS = {
    "aurc": m.aurc_loss,
    "excess_aurc": m.excess_aurc_loss,
    "risk_at_80": partial(m.risk_at_coverage, coverage=0.8),
    "coverage_at_20": partial(m.coverage_at_risk, max_risk=0.2),
    "failure_auroc": m.failure_auroc_score,
    "refinement": m.refinement_error,
    "root_brier": m.root_brier_score_loss,
    "brier": brier_score_loss,
    "log_loss": log_loss,
}


def draw(rng, truth, n_samples):
    proba = rng.uniform(0.02, 1, size=n_samples)
    return (rng.uniform(size=n_samples) < truth(proba)).astype(int), proba


def population_value(metric, truth, n_grid=3000):
    """Weights are large, for kernels leave a sample out and losses regard counts."""
    proba = np.linspace(0.02, 1, 2 * n_grid + 1)[1::2]
    weight = 1000 * np.concatenate([1 - truth(proba), truth(proba)])
    labels = np.repeat([0, 1], n_grid)
    return metric(labels, np.tile(proba, 2), sample_weight=weight)


def coverage(metric, method, truth, n_samples, args):
    """Return the share of intervals that hold the value, of each level."""
    value = population_value(metric, truth)
    held = np.zeros(len(args.levels))
    for seed in range(args.seed, args.seed + args.repeats):
        data = draw(np.random.default_rng(seed), truth, n_samples)
        for index, level in enumerate(args.levels):
            low, high = m.bootstrap_interval(
                metric,
                *data,
                method=method,
                confidence_level=level,
                n_resamples=args.n_resamples,
                random_state=seed,
            )
            held[index] += low - 1e-9 <= value <= high + 1e-9
    return held / args.repeats


def show_coverage(args):
    print(f"# {args.repeats} samples, {args.n_resamples} draws each")
    chosen = args.metrics.split(",") if args.metrics else [*ERRORS, *OTHERS]
    for name in chosen:
        metric = (ERRORS | OTHERS)[name]
        methods = ["debiased"] if name in ERRORS else args.methods.split(",")
        for method in methods:
            for truth in args.truths.split(","):
                for n_samples in map(int, args.n_samples.split(",")):
                    shares = coverage(metric, method, TRUTHS[truth], n_samples, args)
                    errors = np.sqrt(shares * (1 - shares) / args.repeats)
                    cells = (
                        f"{level}: {share:.3f} ({error:.3f})"
                        for level, share, error in zip(
                            args.levels, shares, errors, strict=True
                        )
                    )
                    print(
                        f"{name:15}{method:11}{truth:11}{n_samples:6}  ",
                        *cells,
                        flush=True,
                    )


def floor(confidence, hit, n_resamples=1000, n_bins=15):
    """The error of counts as weights, without checks."""
    rng = np.random.default_rng(0)
    index = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gap = confidence - hit
    errors = np.empty(n_resamples)
    for one in range(n_resamples):
        drawn = rng.integers(len(gap), size=len(gap))
        sums = np.bincount(index[drawn], gap[drawn], n_bins)
        errors[one] = np.abs(sums).sum() / len(gap)
    return np.quantile(errors, [0.025, 0.975])


def show_times(n_samples=10_000, n_classes=10):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    labels = (rng.random((n_samples, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    confidence, hit = proba.max(axis=1), proba.argmax(axis=1) == labels
    ours = partial(m.bootstrap_interval, y_true=labels, y_proba=proba)
    runs = {
        "floor": lambda: floor(confidence, hit),
        "ece": lambda: ours(m.expected_calibration_error),
        "classwise": lambda: ours(m.classwise_calibration_error),
    }
    try:
        from calibstats import bootstrap_ci, ece
    except ImportError:
        pass
    else:
        runs["calibstats"] = lambda: bootstrap_ci(proba, labels, ece, n_boot=1000)
    seconds = dict.fromkeys(runs, np.inf)
    for _ in range(3):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    for name, second in seconds.items():
        print(f"{name:12}{second:9.4f} s  x{second / seconds['floor']:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metrics", default="")
    parser.add_argument("--methods", default="bca,basic,percentile")
    parser.add_argument("--truths", default="calibrated,small,large,half")
    parser.add_argument("--n-samples", default="200,1000,5000")
    parser.add_argument("--levels", type=float, nargs="+", default=[0.9, 0.95])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--n-resamples", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first sample")
    parser.add_argument("--time", action="store_true")
    args = parser.parse_args()
    if args.time:
        show_times()
    else:
        show_coverage(args)
