"""Coverage and level for repeated measurements of the same patients, with `clusters`.

    python benchmarks/guarantees/bench_clusters.py \
        --output benchmarks/guarantees/clusters.csv

The score x of a sample is the sum of a normal variable of its patient, with variance 1,
and one of its own, with variance 1/4. The outcome is 1 with probability
Phi(sqrt(2) x + u), where the normal effect u of the patient is not known to the model,
so its probability given x is Phi(x). The predicted probability is Phi(x) ("calibrated")
or Phi(1.5 x) ("overconfident"). The designs are 150 patients with 8 samples each, and
50 patients with 1 to 15 samples ("uneven").

Rows with the quantity "coverage" contain how often 95 % intervals contain the value of
the population, which is that of a grid of scores with both labels; for the bands of
"bins" (`ReliabilityDisplay` with five bins) and of "decision curve", averaged over bins
and thresholds. Rows with "level"
contain how often tests at the significance level 0.05 reject a true null hypothesis:
for `recalibration_test`, calibration; for `difference_test`, equal metrics of two
models that add different normal errors of the patients to x. `rate` is with
`clusters`, `rate_without` without, both with the standard error `error`, from `--runs`
data sets. Rows in the output file are not computed again.
"""

import argparse
import itertools
import sys
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.metrics import log_loss

from sklearn_calib import displays, metrics as m
from sklearn_calib.displays._base.from_cv_results import UNDRAWN

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from helpers.resumable import add_missing

FIELDS = ["quantity", "of", "model", "design", "rate", "rate_without", "error", "value"]
DESIGNS = {
    "150 x 8": lambda _: np.full(150, 8),
    "50 uneven": lambda rng: rng.integers(1, 16, size=50),
}
FACTORS = {"calibrated": 1, "overconfident": 1.5}
METRICS = {
    "log loss": log_loss,
    "ece": m.expected_calibration_error,
    "ece, l2": partial(m.expected_calibration_error, norm="l2"),
    "mce, quantile": partial(m.maximum_calibration_error, strategy="quantile"),
    "ks": m.ks_calibration_error,
}
BANDS = {
    "bins": (displays.ReliabilityDisplay, {"n_bins": 5}, "prob_true"),
    "decision curve": (
        displays.DecisionCurveDisplay,
        {"thresholds": np.arange(1, 10) / 10},
        "net_benefit",
    ),
}
RECALIBRATION = ["slope", "intercept", "in_the_large"]
DIFFERENCES = {"log loss": log_loss, "ece": m.expected_calibration_error}
DRAWS = {"n_resamples": 199}


def draw(rng, design, factor, error=0.0):
    """Return labels, probabilities of as many models as `error`, and patients."""
    sizes = DESIGNS[design](rng)
    patients = np.repeat(np.arange(len(sizes)), sizes)
    score = rng.normal(size=len(sizes))[patients] + rng.normal(size=len(patients)) / 2
    effect = rng.normal(size=len(sizes))[patients]
    y_true = rng.random(len(score)) < norm.cdf(np.sqrt(2) * score + effect)
    errors = [error * rng.normal(size=len(sizes))[patients] for _ in range(2)]
    return (
        y_true.astype(int),
        [norm.cdf(factor * (score + each)) for each in errors],
        patients,
    )


@cache
def population(model):
    """Return labels, probabilities and weights of a grid of scores."""
    score = np.sqrt(1.25) * norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    chance = norm.cdf(score)
    proba = np.tile(norm.cdf(FACTORS[model] * score), 2)
    return np.repeat([0, 1], len(score)), proba, np.concatenate([1 - chance, chance])


def population_value(of, model):
    *data, weight = population(model)
    if of in BANDS:
        shown = band_of(of, *data, sample_weight=weight, interval=None)
        return getattr(shown, BANDS[of][2])
    if of in RECALIBRATION:
        return getattr(m.calibration_slope(*data, sample_weight=weight), of)
    return METRICS[of](*data, sample_weight=1000 * weight)


def band_of(of, y_true, y_proba, **options):
    """Return the display without drawing it."""
    cls, given, _ = BANDS[of]
    options |= {"mode": "positive", "ax": UNDRAWN, **given}
    return cls.from_predictions(y_true, y_proba, **options)


def interval(of, *data, **options):
    if of in BANDS:
        return band_of(of, *data, **options, **DRAWS).band
    if of in RECALIBRATION:
        options.pop("random_state")
        return getattr(m.calibration_slope(*data, **options), f"{of}_interval")
    return m.bootstrap_interval(METRICS[of], *data, **options, **DRAWS)


def measure(quantity, of, model, design, runs):
    """Return the rates with and without clusters, their error, and the value."""
    value = population_value(of, model) if quantity == "coverage" else ""
    found = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        error = 0.5 if of in DIFFERENCES and quantity == "level" else 0
        y_true, (proba, other), patients = draw(rng, design, FACTORS[model], error)
        row = []
        for options in ({"clusters": patients}, {}):
            options["random_state"] = run
            if quantity == "coverage":
                low, high = interval(of, y_true, proba, **options)
                low, high = np.atleast_1d(low), np.atleast_1d(high)
                seen = ~np.isnan(low)
                row.append(((low <= value) & (value <= high))[seen].mean())
            elif of in DIFFERENCES:
                data = DIFFERENCES[of], y_true, proba, other
                row.append(m.difference_test(*data, **options, **DRAWS).pvalue <= 0.05)
            else:
                test = m.recalibration_test(y_true, proba, **options)
                row.append(test.pvalue <= 0.05)
        found.append(row)
    rate, without = np.mean(found, axis=0)
    error = np.sqrt(max(rate * (1 - rate), 0.01) / runs)
    shown = "" if np.size(value) > 1 or value == "" else f"{round(value, 4) + 0:.4f}"
    return f"{rate:.3f}", f"{without:.3f}", f"{error:.4f}", shown


def rows():
    """Yield the keys of all rows."""
    for design in DESIGNS:
        yield "level", "recalibration", "calibrated", design
        for of in DIFFERENCES:
            yield "level", of, "overconfident", design
    for of, model, design in itertools.product(
        [*RECALIBRATION, *BANDS, *METRICS], FACTORS, DESIGNS
    ):
        yield "coverage", of, model, design


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=1000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    add_missing(args.output, FIELDS, rows(), partial(measure, runs=args.runs))


if __name__ == "__main__":
    main()
