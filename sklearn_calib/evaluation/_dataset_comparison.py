"""Comparison of classifiers over several data sets, with paired tests."""

from __future__ import annotations

import warnings
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import validate_params
from sklearn_calib._validation.types import Floats

if TYPE_CHECKING:
    import pandas as pd

# Equal values may differ by rounding, and ties would be lost.
DECIMALS = 12


@validate_params({"tables": [dict], "reference": [str, None]})
def compare_datasets(
    tables: dict[Any, pd.DataFrame], *, reference: str | None = None
) -> pd.DataFrame:
    r"""Compare classifiers over several data sets, by mean ranks and paired tests.

    Parameters
    ----------
    tables : dict of DataFrame
        The table of :func:`compare` of each data set, with the same rows and metrics.

    reference : str, default=None
        Name of the row with which the others are compared. By default, there are no
        differences and tests.

    Returns
    -------
    summary : DataFrame of shape (n_estimators, 2 * n_metrics) or (..., 4 * n_metrics)
        One row for each classifier. The columns have two levels: the metric, and

        - "mean": mean over the data sets;
        - "rank": mean rank over the data sets, where 1 is the best, and classifiers
          with equal values have the average of their ranks;
        - "difference": mean difference to the reference;
        - "p_value": p-value of the Wilcoxon signed-rank test of these differences, with
          Holm's correction for the number of classifiers, separately for each metric.

        For LaTeX, use the method of pandas ``summary.to_latex(float_format="%.3f",
        escape=True)``. ``pd.concat(tables)`` contains the values of each data set.

    Raises
    ------
    ValueError
        If there are not two or more tables of :func:`compare`, a value is missing or
        NaN, it is not known whether higher values of a metric are better, or
        `reference` is not one of at least two rows.

    Warns
    -----
    UserWarning
        If there are so few data sets that no p-value can be 0.05 or less.

    See Also
    --------
    sklearn_calib.metrics.difference_test : Test of two classifiers on one data set.

    Notes
    -----
    The data sets are the independent observations of the tests, so they should not be
    folds of the same data [1]_. Differences of zero count half for each sign, as in
    [1]_, section 3.1.3. For :math:`k` comparisons, the p-values
    :math:`p_1 \le \dots \le p_k` are corrected to :math:`\max_{j \le i} \min(1,
    (k - j + 1) p_j)` [2]_. With :math:`n` data sets, none is below :math:`2^{1 - n}`,
    so that at least six are needed for 0.05, and more for several comparisons.

    References
    ----------
    .. [1] J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets",
       JMLR 2006.

    .. [2] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure",
       Scandinavian Journal of Statistics 6, 1979.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_calib.evaluation import compare, compare_datasets
    >>> metrics, tables = ["neg_brier_score"], {}
    >>> for seed in range(6):
    ...     X, y = make_classification(200, random_state=seed)
    ...     tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    ...     rows = {"bayes": GaussianNB(), "tree": tree}
    ...     for classifier in rows.values():
    ...         _ = classifier.fit(X[::2], y[::2])
    ...     data = X[1::2], y[1::2]
    ...     tables[seed] = compare(rows, *data, metrics=metrics, n_resamples=0)
    >>> compare_datasets(tables, reference="bayes")["brier_score"].round(3)
            mean  rank  difference  p_value
    bayes  0.081   1.0       0.000      NaN
    tree   0.120   2.0       0.039    0.031
    """
    import pandas as pd

    from sklearn_calib.evaluation._table import CompleteTable

    _check_tables(tables)
    cells = pd.concat(
        {name: table.xs("value", axis=1, level=1) for name, table in tables.items()}
    )
    rows, metrics = [*cells.index.unique(-1)], [*cells]
    cells = cells.unstack()  # one row for each data set
    absent = cells.isna()
    if absent.any(axis=None):
        raise ValueError(
            "tables must contain a value of each metric for each classifier, got none "
            f"or NaN in {shown([*cells.index[absent.any(axis=1)]])} for "
            f"{shown([*cells.columns[absent.any()]])}. Leave out these tables, or this "
            "metric or classifier."
        )
    if reference is not None:
        _check_reference(reference, rows, len(cells))
    summary: dict[tuple[Any, str], Floats] = {}
    for metric in metrics:
        values = cells[metric][rows].to_numpy()  # (n_datasets, n_estimators)
        sign = -1 if _is_score(metric, tables) else 1
        ranks = rankdata((sign * values).round(DECIMALS), axis=1)
        summary[metric, "mean"] = values.mean(axis=0)
        summary[metric, "rank"] = ranks.mean(axis=0)
        if reference is not None:
            is_other = np.array([row != reference for row in rows])
            difference = (values - values[:, ~is_other]).round(DECIMALS)
            # For each comparison by itself, because SciPy's method depends on ties.
            tests = [wilcoxon(d, zero_method="zsplit") for d in difference.T[is_other]]
            p_values = np.full(len(rows), np.nan)
            p_values[is_other] = _correct_by_holm(np.array([t.pvalue for t in tests]))
            summary[metric, "difference"] = difference.mean(axis=0)
            summary[metric, "p_value"] = p_values
    return CompleteTable(summary, index=rows)


def _correct_by_holm(p_values: Floats) -> Floats:
    """Return p-values with Holm's correction for their number."""
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(order), 0, -1)
    return np.maximum.accumulate(steps).clip(max=1)[np.argsort(order)]


def _check_tables(tables: dict[Any, Any]) -> None:
    """Raise ValueError unless there are several tables of `compare`."""
    if len(tables) < 2:
        raise ValueError(
            f"tables must contain at least two data sets, got {len(tables)}. For one, "
            "use compare or metrics.difference_test."
        )
    for name, table in tables.items():
        attrs = getattr(table, "attrs", {})
        if "greater_is_better" not in attrs or table.columns.nlevels != 2:
            raise ValueError(
                "tables must contain the results of compare, got "
                f"{type(table).__name__} for {name!r}. Pass {{name: compare(...)}}."
            )


def _is_score(metric: Any, tables: dict[Any, Any]) -> bool:
    """Return whether higher is better; raise ValueError if it is not known."""
    directions = [
        table.attrs["greater_is_better"].get(metric) for table in tables.values()
    ]
    if None in directions or len({*directions}) > 1:
        raise ValueError(
            "tables must contain metrics for which it is known whether higher is "
            f"better, got {metric!r}. In compare, use make_scorer(metric, "
            'response_method="predict_proba", greater_is_better=False), or True.'
        )
    return True in directions


def _check_reference(reference: str, rows: list[Any], n_datasets: int) -> None:
    """Raise ValueError if it is not a row, and warn if no p-value can be small."""
    n_others = len(rows) - 1
    if reference not in rows or not n_others:
        raise ValueError(
            f"reference must be one of at least two rows, got {reference!r} and the "
            f"rows {shown(rows)}. Pass the name of a classifier."
        )
    n_needed = 1 + ceil(log2(n_others / 0.05))
    if n_datasets < n_needed:
        warnings.warn(
            f"tables should contain at least {n_needed} data sets for {n_others} "
            f"comparisons, got {n_datasets}: no p-value can be 0.05 or less. Pass more "
            "data sets, or reference=None.",
            UserWarning,
        )
