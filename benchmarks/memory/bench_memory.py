"""Extra memory of calibrators, metrics and networks, as multiples of their data.

    OMP_NUM_THREADS=1 python benchmarks/memory/bench_memory.py --samples 200000
    OMP_NUM_THREADS=1 python benchmarks/memory/bench_memory.py --names beta vector

Each call runs in a fresh process. The memory is the largest resident anonymous memory
(`RssAnon` of Linux) during the call minus that before it, sampled every millisecond by
another process, and divided by the size of the logits or probabilities. `fit in chunks`
gets copies of a hundredth of the rows each from `batches`, and runs without garbage
collection, which could delete chunks that are kept by mistake. The result of
`predict_proba` is included, so that 1 is the least. `predict_proba` of a calibrator is
called after a fit to 3000 samples. The network is one linear layer, and its data are
the logits. Prints the ratio and the CPU seconds of each call. A call that takes longer
than `--limit` seconds is stopped, and its ratio until then is marked with ">".
"""

import argparse
import gc
import inspect
import multiprocessing
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from sklearn_calib import metrics
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names

N_FITTED = 3000
N_CHUNKS = 100
MIB = 2**20
# The cost of these grows with the square of the number of samples.
QUADRATIC = {
    "kde_calibration_error",
    "kernel_calibration_error",
    "kernel_calibration_test",
}
LARGEST = 5000
# Options without which a metric cannot be called, or that change the computation.
OPTIONS = {
    "classwise_calibration_error": [{}, {"strategy": "isotonic"}],
    "coverage_at_risk": [{"max_risk": 0.05}],
    "ece_interval": [{"n_resamples": 20}],
    "expected_calibration_error": [{}, {"strategy": "quantile"}],
    "hosmer_lemeshow_test": [{"n_resamples": 20}],
    "proper_calibration_error": [{}, {"loss": "brier", "recalibration": "isotonic"}],
    "refinement_error": [{}, {"loss": "brier", "recalibration": "bins"}],
    "net_benefit_score": [{"threshold": 0.2}],
    "risk_at_coverage": [{"coverage": 0.9}],
    "spiegelhalter_test": [{}, {"mode": "top_label"}],
    "tcal_test": [{"n_resamples": 20}],
}
NETWORK = ["fit", "predict", "predict_proba"]


def make_data(folder, n_samples, n_classes, dtype):
    """Save overconfident logits, their probabilities and labels."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((n_samples, n_classes), dtype=np.float32)
    noise = rng.gumbel(size=logits.shape)
    proba = np.exp(logits.astype(np.float64))
    proba /= proba.sum(axis=1, keepdims=True)
    np.save(folder / "logits.npy", logits.astype(dtype))
    np.save(folder / "proba.npy", proba.astype(dtype))
    np.save(folder / "labels.npy", (logits / 1.8 + noise).argmax(axis=1))


def calibrator_call(name, method, from_logits, scores, labels):
    """Return the call of a method of a calibrator."""
    calibrator = get_calibrator(name)(from_logits=from_logits)
    classes = np.arange(scores.shape[1])
    if method == "fit":
        return partial(calibrator.fit, scores, labels, labels=classes)
    if method == "fit in chunks":
        gc.disable()
        batches = partial(copies, scores, labels)
        return partial(calibrator.fit, batches=batches, labels=classes)
    calibrator.fit(scores[:N_FITTED], labels[:N_FITTED], labels=classes)
    return partial(calibrator.predict_proba, scores)


def copies(scores, labels):
    """Yield copies of the chunks."""
    step = -(-len(scores) // N_CHUNKS)
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        yield scores[rows].copy(), labels[rows].copy()


def metric_call(name, options, _, scores, labels):
    """Return the call of a metric."""
    metric, classes = getattr(metrics, name), np.arange(scores.shape[1])
    if "groups" in inspect.signature(metric).parameters:
        options = {**options, "groups": labels}
    return partial(metric, labels, scores, labels=classes, **options)


def network_call(_, method, __, scores, labels):
    """Return the call of a method of a network with one linear layer."""
    import torch

    from sklearn_calib import NeuralClassifier

    sizes = {"module__in_features": scores.shape[1]}
    sizes["module__out_features"] = len(np.unique(labels))
    net = NeuralClassifier(
        torch.nn.Linear, **sizes, max_epochs=1, batch_size=1024, random_state=0
    )
    if method == "fit":
        return partial(net.fit, scores, labels)
    first = np.sort(np.unique(labels, return_index=True)[1])
    few = np.union1d(first, np.arange(N_FITTED))
    net.fit(scores[few], labels[few])
    return partial(getattr(net, method), scores)


def metric_names():
    """Return the names of the metrics of predicted probabilities."""
    for name in metrics.__all__:
        metric = getattr(metrics, name)
        if inspect.isfunction(metric):
            first = [*inspect.signature(metric).parameters][:2]
            if first == ["y_true", "y_proba"]:
                yield name


def cases(names, from_logits):
    """Yield the title and the arguments of each call."""
    known = {*get_calibrator_names(), *metric_names(), "NeuralClassifier"}
    if unknown := {*names} - known:
        sys.exit(f"unknown names {sorted(unknown)}, known are {sorted(known)}")
    wanted = known if not names else {*names}
    kind = "logits" if from_logits else "probabilities"
    for name in filter(wanted.__contains__, get_calibrator_names()):
        for method in ("fit", "fit in chunks", "predict_proba"):
            call = calibrator_call, name, method, from_logits
            yield f"{name}.{method}, {kind}", call
    for name in filter(wanted.__contains__, metric_names()):
        for options in OPTIONS.get(name, [{}]):
            words = [str(value) for value in options.values()]
            yield ", ".join([name, *words]), (metric_call, name, options, False)
    for method in NETWORK if "NeuralClassifier" in wanted else []:
        yield (
            f"NeuralClassifier.{method}",
            (network_call, "NeuralClassifier", method, True),
        )


def run(folder, make_call, name, option, from_logits, pipe):
    """Prepare a call, wait until its memory is watched, and run it."""
    warnings.simplefilter("ignore")
    scores = np.load(folder / ("logits.npy" if from_logits else "proba.npy"))
    call = make_call(name, option, from_logits, scores, np.load(folder / "labels.npy"))
    pipe.send("ready")
    pipe.recv()
    start = time.process_time()
    try:
        # The result is kept until it was counted.
        result = call()
        pipe.send(time.process_time() - start)
        pipe.recv()
        del result
    except (MemoryError, ValueError) as error:
        pipe.send(error)


def anonymous(pid):
    """Return the resident anonymous memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    return 0


def measure(folder, case, limit):
    """Return the extra memory of a call in bytes, and its seconds or its error."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = folder, *case, theirs
    process = context.Process(target=run, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        peak = before = anonymous(process.pid)
        ours.send("go")
        end = time.monotonic() + limit
        while not ours.poll(0.001) and time.monotonic() < end:
            peak = max(peak, anonymous(process.pid))
        peak = max(peak, anonymous(process.pid))
        outcome = ours.recv() if ours.poll() else None
    except EOFError:
        return 0, "the process died"
    finally:
        process.kill()
        process.join()
    return peak - before, outcome


def report(title, case, folder, size, limit):
    """Measure and print one call."""
    extra, outcome = measure(folder, case, limit)
    mark = ">" if outcome is None else " "
    seconds = f"{outcome:9.2f} s" if isinstance(outcome, float) else f"{limit:7} s"
    text = f"{mark}{extra / size:7.2f}{mark}{seconds}"
    if isinstance(outcome, Exception | str):
        text = f"   {outcome}"[:60]
    print(f"{title:56}{text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--proba", action="store_true", help="calibrate probabilities")
    parser.add_argument("--names", nargs="+", default=[], help="calibrators, metrics")
    parser.add_argument("--limit", type=int, default=60, help="seconds for each call")
    args = parser.parse_args()
    if not Path("/proc/self/status").exists():
        sys.exit("skipped: resident anonymous memory is read from /proc of Linux")
    size = args.samples * args.classes * np.dtype(args.dtype).itemsize
    print(f"# {args.samples} x {args.classes}, {args.dtype}: {size / MIB:.0f} MiB")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder, args.samples, args.classes, args.dtype)
        for title, case in cases(args.names, not args.proba):
            if case[1] in QUADRATIC and args.samples > LARGEST:
                print(f"{title:56}skipped above {LARGEST} samples: quadratic time")
                continue
            report(title, case, folder, size, args.limit)


if __name__ == "__main__":
    main()
