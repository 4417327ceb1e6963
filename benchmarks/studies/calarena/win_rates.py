"""Win rates and post-hoc improvements, as CalArena defines them.

An experiment is a data set with the predictions of one model. Tables have a row for
each experiment and a column for each method; their values are Brier scores or log
losses. A method that failed in an experiment has no number there.
"""

import numpy as np
import pandas as pd


def win_shares(values, field=None):
    """Return the fraction of other methods that each method beats.

    A method beats another one in an experiment if its value is strictly smaller. One
    without a value neither beats another method nor is beaten.

    Parameters
    ----------
    values : DataFrame of shape (n_experiments, n_methods)
        Values of the methods.

    field : list of str, optional
        Methods to compare with; by default all. A method of the field is compared with
        the others, so that every rate is that of a method that enters the field alone.
    """
    field = np.array(values.columns if field is None else field)
    compared = values[field].to_numpy()
    shares = {
        name: (compared[:, field != name] > column.to_numpy()[:, None]).mean(axis=1)
        for name, column in values.items()
    }
    return pd.DataFrame(shares, index=values.index)


def improvement(values, base):
    """Return the median improvement over the uncalibrated predictions, in hundredths.

    The post-hoc improvement (PHI) of an experiment is the value before calibration
    minus the value after it.
    """
    return 100 * values.rsub(values[base], axis=0).median()


def intervals(shares, groups, n_draws=1000):
    """Return 95 % bootstrap intervals of the mean shares, resampling whole groups."""
    sums = shares.groupby(np.asarray(groups)).agg("sum").to_numpy()
    sizes = shares.groupby(np.asarray(groups)).size().to_numpy()
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), n_draws)
    means = drawn @ sums / (drawn @ sizes)[:, None]
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return pd.DataFrame({"low": low, "high": high}, index=shares.columns)
