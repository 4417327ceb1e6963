"""Monitoring: false alarms, delay, change point and advice of `CalibrationMonitor`.

    python benchmarks/guarantees/bench_monitoring.py results

The tests look after every sample. The experiments are:

- `level`: 2,000 streams of 100,000 samples for each of five kinds of calibrated
  predictions, drawn from 4,096 random rows, with log-odds or logits that are normal.
  They are simulated together, with formulas of this file. Reported are the fractions of
  streams with a false alarm at level 0.05, and the same for two naive tests: that of
  Spiegelhalter and that of the mean probability, at each look from the 30th on;
- `public`: the e-values of `CalibrationMonitor` for the first streams, one sample at a
  time, compared with those of `level`: 20 streams of each kind for 2,000 samples, and
  one of each kind for all;
- `delay`: ten classes at accuracy 0.8, whose predictions are those of inverse
  temperature 1.5 after 0, 1,000 or 10,000 calibrated samples: the number of samples
  until the alarm, for 500 streams, up to 3,000 samples;
- `advice`: change point and advice of 100 streams in batches of 100 samples, calibrated
  for 20 batches, at the batch of the alarm and 10 batches later. The causes are
  `priors` (binary: odds divided by 4; otherwise uniform random frequencies),
  `temperature` (1.5), `underconfident` (1 / 1.5), `curve` (log-odds of the event
  changed by 1.5 times the sine of twice the log-odds), and `above` (the true logits are
  those predicted times 0.35 if the confidence is above 0.75);
- `repair`: ECE of 5,000 samples after each of these changes, without a repair, and
  after a temperature and a spline that are fitted to 1,000 other samples, the mean over
  20 streams;
- `judged`: for each of these changes, five batches after the alarm: the advice without
  and with the samples since the change point, and the ECE of 5,000 samples before and
  after each of the two repairs, fitted to the same samples; 30 streams.

Each result is a row of `results/monitoring.csv`; existing rows are not computed again.
`--streams` and `--samples` set smaller numbers for `level`. Uses one thread.
"""

import argparse
import json
import sys
import time
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, logit, softmax
from threadpoolctl import threadpool_limits

from sklearn_calib.calibrators import (
    LogOddsSplineCalibration,
    TemperatureScaling,
    TopLabelCalibrator,
)
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.deployment._repairs import predict_repaired
from sklearn_calib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import open_results

FIELDS = ["experiment", "setting", "part", "result"]
N_BINS, POOL = 15, 4096
SLOPES = np.exp([-1, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1])
SHIFTS = np.array([-2, -1, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1, 2])
# Number of classes, scale of the logits, and their mean (binary).
KINDS = {
    "binary": (2, 1.0, 0.0),
    "binary, rare": (2, 1.0, -4.0),
    "ten classes, flat": (10, 1.0, 0.0),
    "ten classes, accuracy 0.8": (10, 5.256, 0.0),
    "ten classes, sharp": (10, 25.0, 0.0),
}
SMALL = 2.0**-23
POWERS = {"temperature": 1.5, "underconfident": 1 / 1.5}
CAUSES = ["priors", "temperature", "underconfident", "curve", "above"]


def draw_proba(rng, n, kind):
    """Return predicted probabilities of a kind."""
    n_classes, scale, mean = KINDS[kind]
    logits = scale * rng.normal(size=(n, n_classes))
    if n_classes == 2:
        logits[:, 0], logits[:, 1] = 0, logits[:, 1] + mean
    return softmax(logits, axis=1)


def draw_labels(rng, proba):
    """Return labels with these probabilities."""
    drawn = rng.random((len(proba), 1)) > proba.cumsum(axis=1)
    return drawn.sum(axis=1).clip(max=proba.shape[1] - 1)


def logarithms(proba):
    return np.log(np.maximum(proba, 1e-300))


def mode_of(kind):
    return "positive" if KINDS[kind][0] == 2 else "top_label"


class Streams:
    """E-values of many streams at once, from a table of the likelihood ratios.

    The wealth in an alternative is `excess` plus its prior weight times the weight of
    all batches so far, which changes only when the alternative is used.
    """

    def __init__(self, proba, n_streams, is_binary):
        self.p = proba[:, 1] if is_binary else proba.max(axis=1)
        self.label = np.ones(len(proba), int) if is_binary else proba.argmax(axis=1)
        self.bin = np.searchsorted(np.arange(1, N_BINS) / N_BINS, self.p)
        powers = proba ** SLOPES[:, None, None]
        power = powers[:, np.arange(len(proba)), self.label]
        least = SMALL ** SLOPES[:, None]
        slopes = power.clip(least)
        slopes = slopes / (slopes + (powers.sum(axis=2) - power).clip(least))
        odds = logit(self.p.clip(SMALL, 1 - SMALL))
        q = np.concatenate([slopes, expit(odds + SHIFTS[:, None])])
        q = q.clip(SMALL, 1 - SMALL)
        low, high = (self.p - SMALL).clip(0), (self.p + SMALL).clip(max=1)
        near = q.clip(low, high)
        self.ratio = np.stack([(1 - q) / (1 - near), q / near]).transpose(2, 0, 1)
        groups = [1, 1, N_BINS] + ([] if is_binary else [proba.shape[1]])
        sizes = [len(SLOPES)] + [len(SHIFTS)] * (len(groups) - 1)
        pairs = list(zip(groups, sizes, strict=True))
        self.excess = [np.zeros((n_streams, n, size)) for n, size in pairs]
        self.prior = [1 / len(groups) / n / size for n, size in pairs]
        self.value = np.ones(n_streams)
        self.rows = np.arange(n_streams)

    def look(self, index, occurs, t):
        """Add one sample to each stream, and return the e-values."""
        ratio = self.ratio[index, occurs]
        weight = 1 - 1 / np.log2(t + 3)
        slopes, shifts = ratio[:, : len(SLOPES)], ratio[:, len(SLOPES) :]
        places = [0, 0, self.bin[index], self.label[index]]
        for k, (excess, prior) in enumerate(zip(self.excess, self.prior, strict=True)):
            place = (self.rows, places[k])
            old = excess[place]
            new = (slopes if k == 0 else shifts) * (old + prior * weight)
            new -= prior * weight
            self.value += (new - old).sum(axis=1)
            excess[place] = new
        return self.value


def level(kind, n_streams, n_samples, n_public=0):
    """Return fractions of false alarms, and the samples and values of some streams."""
    rng = np.random.default_rng([*KINDS].index(kind))
    proba = draw_proba(rng, POOL, kind)
    streams = Streams(proba, n_streams, KINDS[kind][0] == 2)
    p = streams.p
    slope, spread = 1 - 2 * p, p * (1 - p)
    terms = np.stack([slope * slope * spread, spread])
    alarmed = np.zeros((3, n_streams), bool)
    sums, variance = np.zeros((2, n_streams)), np.zeros((2, n_streams))
    kept = []
    for t in range(n_samples):
        if t % 1000 == 0:
            drawn = rng.integers(POOL, size=(1000, n_streams))
            happened = (rng.random((1000, n_streams)) < p[drawn]).astype(int)
        index, occurs = drawn[t % 1000], happened[t % 1000]
        value = streams.look(index, occurs, t)
        gap = occurs - p[index]
        sums += [slope[index] * gap, gap]
        variance += terms[:, index]
        alarmed[0] |= value >= 20
        if t >= 29:
            alarmed[1:] |= sums**2 > 1.959964**2 * variance
        if n_public:
            first = slice(n_public)
            kept.append((index[first], occurs[first], value[first].copy()))
    names = ["monitor", "spiegelhalter", "mean"]
    found = dict(zip(names, alarmed.mean(axis=1).round(4).tolist(), strict=True))
    return found, proba, kept


def public(kind, n_streams, n_samples):
    """Return the largest relative difference of the public path's e-values."""
    _, proba, kept = level(kind, 2000 if n_streams > 1 else 1, n_samples, n_streams)
    n_classes = proba.shape[1]
    largest = 0.0
    for stream in range(n_streams):
        monitor = CalibrationMonitor(labels=range(n_classes), mode=mode_of(kind))
        for index, occurs, value in kept:
            row = proba[index[stream]]
            label = 1 if n_classes == 2 else row.argmax()
            y = label if occurs[stream] else (label + 1) % n_classes
            monitor.update([y], row[None])
            difference = abs(monitor.e_value_ / value[stream] - 1)
            largest = max(largest, difference)
    return {"streams": n_streams, "looks": n_samples, "difference": largest}


def delay(n_calibrated, n_streams):
    """Return quantiles of the samples between the change and the alarm."""
    kind, n_after = "ten classes, accuracy 0.8", 3000
    rng = np.random.default_rng(n_calibrated)
    true = draw_proba(rng, POOL, kind)
    sharper = softmax(1.5 * np.log(np.maximum(true, 1e-300)), axis=1)
    streams = Streams(np.concatenate([true, sharper]), n_streams, is_binary=False)
    at = np.full(n_streams, np.inf)
    for t in range(n_calibrated + n_after):
        index = rng.integers(POOL, size=n_streams)
        occurs = (rng.random(n_streams) < streams.p[index]).astype(int)
        value = streams.look(index + POOL * (t >= n_calibrated), occurs, t)
        at = np.where(np.isinf(at) & (value >= 20), t + 1 - n_calibrated, at)
    found = at[at > 0]
    deciles = {f"q{q}": np.quantile(found, q / 100, method="higher") for q in (50, 90)}
    deciles["within 2000"] = np.mean(found <= 2000).round(4)
    return {**deciles, "false alarms": int((at <= 0).sum()), "streams": n_streams}


def draw_batch(rng, n, kind, cause, odds):
    """Return labels and predictions of a batch after a change."""
    proba = draw_proba(rng, 40 * n if cause == "priors" else n, kind)
    y = draw_labels(rng, proba)
    if cause == "priors":
        chosen = np.flatnonzero(rng.random(len(y)) < odds[y])[:n]
        return y[chosen], proba[chosen]
    if cause in POWERS:
        return y, softmax(POWERS[cause] * logarithms(proba), axis=1)
    if cause == "above":
        true = softmax(0.35 * logarithms(proba), axis=1)
        is_above = proba.max(axis=1, keepdims=True) > 0.75
        return draw_labels(rng, np.where(is_above, true, proba)), proba
    if cause == "curve":
        label = np.ones(n, int) if proba.shape[1] == 2 else proba.argmax(axis=1)
        p = proba[np.arange(n), label]
        z = logit(p.clip(1e-9, 1 - 1e-9))
        occurs = rng.random(n) < expit(z + 1.5 * np.sin(2 * z))
        others = np.where(np.arange(proba.shape[1]) == label[:, None], 0, proba)
        others /= others.sum(axis=1, keepdims=True)
        return np.where(occurs, label, draw_labels(rng, others)), proba
    return y, proba


def advice(kind, mode, cause, later, n_streams):
    """Return the advice and the error of the change point, in batches."""
    n_classes, advised, errors, waited = KINDS[kind][0], Counter(), [], []
    for stream in range(n_streams):
        rng = np.random.default_rng([stream, n_classes])
        odds = rng.dirichlet(np.ones(n_classes))
        odds = np.array([1, 0.25]) if n_classes == 2 else odds / odds.max()
        monitor = CalibrationMonitor(labels=range(n_classes), mode=mode)
        for batch in range(220):
            change = cause if batch >= 20 else None
            monitor.update(*draw_batch(rng, 100, kind, change, odds))
            if monitor.is_alarm_ and batch >= monitor.alarm_at_ + later:
                break
        if monitor.is_alarm_ and monitor.alarm_at_ < 20:
            advised["false alarm"] += 1
            continue
        found = monitor.diagnose()
        advised[found.advice] += 1
        if monitor.is_alarm_:
            errors.append(abs(found.change_point - 20))
            waited.append(monitor.alarm_at_ - 19)
    error = {f"error q{q}": float(np.quantile(errors, q / 100)) for q in (50, 90)}
    return {**advised, **error, "batches to alarm": float(np.median(waited))}


def repair(kind, cause, n_streams):
    """Return the mean ECE before and after two repairs."""
    n_classes, found = KINDS[kind][0], []
    spline = LogOddsSplineCalibration()
    if n_classes > 2:
        spline = TopLabelCalibrator(spline)
    for stream in range(n_streams):
        rng = np.random.default_rng(stream)
        odds = rng.dirichlet(np.ones(n_classes))
        odds = np.array([1, 0.25]) if n_classes == 2 else odds / odds.max()
        y_fit, p_fit = draw_batch(rng, 1000, kind, cause, odds)
        y, proba = draw_batch(rng, 5000, kind, cause, odds)
        options = {"labels": range(n_classes), "mode": mode_of(kind)}
        errors = [expected_calibration_error(y, proba, **options)]
        for calibrator in (TemperatureScaling(), spline):
            calibrator.fit(p_fit, y_fit, labels=np.arange(n_classes))
            repaired = calibrator.predict_proba(proba)
            errors.append(expected_calibration_error(y, repaired, **options))
        found.append(errors)
    names = ["before", "temperature", "spline"]
    return dict(zip(names, np.mean(found, axis=0).round(4).tolist(), strict=True))


def judged(kind, cause, n_streams):
    """Return the advice without and with labels, and the mean ECE after it."""
    n_classes, mode = KINDS[kind][0], mode_of(kind)
    counts, errors = {"plain": Counter(), "judged": Counter()}, []
    for stream in range(n_streams):
        rng = np.random.default_rng([stream, n_classes])
        odds = rng.dirichlet(np.ones(n_classes))
        odds = np.array([1, 0.25]) if n_classes == 2 else odds / odds.max()
        monitor, batches = CalibrationMonitor(labels=range(n_classes), mode=mode), []
        for batch in range(220):
            change = cause if batch >= 20 else None
            batches.append(draw_batch(rng, 100, kind, change, odds))
            monitor.update(*batches[-1])
            if monitor.is_alarm_ and batch >= monitor.alarm_at_ + 5:
                break
        if not monitor.is_alarm_ or monitor.alarm_at_ < 20:
            continue
        since = batches[monitor.diagnose().change_point :]
        y, proba = map(np.concatenate, zip(*since, strict=True))
        y_new, new = draw_batch(rng, 5000, kind, cause, odds)
        row = [new]
        for name, data in (("plain", ()), ("judged", (y, proba))):
            advised = monitor.diagnose(*data).advice
            counts[name][advised] += 1
            row.append(predict_repaired(advised, mode, proba, y, new))
        options = {"labels": range(n_classes), "mode": mode}
        errors.append([expected_calibration_error(y_new, p, **options) for p in row])
    means = np.mean(errors, axis=0).round(4).tolist()
    errors = dict(zip(("before", "ECE plain", "ECE judged"), means, strict=True))
    return {**counts, **errors}


def tasks(n_streams, n_samples):
    """Yield experiment, setting, part and a function without arguments."""
    for kind in KINDS:
        yield "level", kind, "", lambda k=kind: level(k, n_streams, n_samples)[0]
    for kind in KINDS:
        for part in ((20, min(2000, n_samples)), (1, n_samples)):
            name = f"{part[0]} x {part[1]}"
            yield "public", kind, name, lambda k=kind, part=part: public(k, *part)
    for n_calibrated in (0, 1000, 10_000):
        yield "delay", n_calibrated, "", lambda n=n_calibrated: delay(n, 500)
    problems = [("binary", "positive")]
    problems += [
        ("ten classes, accuracy 0.8", mode) for mode in ("top_label", "classwise")
    ]
    for kind, mode in problems:
        for cause, later in product(CAUSES, (0, 10)):
            run = partial(advice, kind, mode, cause, later, 100)
            yield "advice", f"{kind}, {mode}: {cause}", later, run
    for kind, cause in product(("binary", "ten classes, accuracy 0.8"), CAUSES):
        yield "repair", kind, cause, partial(repair, kind, cause, 20)
        yield "judged", kind, cause, partial(judged, kind, cause, 30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--only", help="one of the experiments")
    args = parser.parse_args()
    path = args.folder / "monitoring.csv"
    with threadpool_limits(1), open_results(path, FIELDS, 3) as (keys, append):
        for *task, run in tasks(args.streams, args.samples):
            if tuple(map(str, task)) in keys or args.only not in (None, task[0]):
                continue
            start = time.process_time()
            result = run()
            result["seconds"] = round(time.process_time() - start, 1)
            append([*task, json.dumps(result)])
            print(*task, json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
