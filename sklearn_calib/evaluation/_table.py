"""Tables that are printed completely, in lines of limited width.

Import this module in functions only, because it imports pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from sklearn_calib._validation.arrays import column_names
from sklearn_calib._validation.clusters import encode_clusters, is_one_of_several
from sklearn_calib._validation.declarations import Interval, validate_params
from sklearn_calib._validation.groups import group_members
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array, Weights

# Second level of the columns of a metric in a comparison.
CELL = ["value", "low", "high"]
# With the standard deviation over several classifiers, such as seeds.
CELL_OF_RUNS = ["value", "std", "low", "high"]


class CompleteTable(pd.DataFrame):
    """DataFrame that is printed with all columns, in lines of at most 80 characters.

    pandas replaces columns by "..." if they do not fit into the terminal. Here they
    continue below. The width is the option `display.width` of pandas.
    """

    @property
    def _constructor(self) -> Callable[..., Any]:
        return CompleteTable

    def __repr__(self) -> str:
        with pd.option_context("display.max_columns", None):
            return super().__repr__()


class ComparisonTable(pd.DataFrame):
    """DataFrame of `compare`, which is printed with one column for each metric.

    The first level of the columns is the metric, the second "value", "low" and "high",
    with "std" after "value" if there are several classifiers in a row. Tables without
    all of these columns, such as selections, are printed as usual.
    """

    @property
    def _constructor(self) -> Callable[..., Any]:
        return ComparisonTable

    @validate_params({"digits": [Interval(Integral, 0, 15, closed="both")]})
    def formatted(self, digits: int = 3) -> pd.DataFrame:
        """Return a table of strings, such as "0.051 [0.015, 0.067]".

        The mean and the standard deviation of several classifiers are written as
        "0.051 ± 0.004 [0.015, 0.067]".

        Parameters
        ----------
        digits : int, default=3
            Number of decimals, at most 15.

        Returns
        -------
        table : DataFrame of shape (n_estimators, n_metrics)
            One column for each metric, with the value, the standard deviation and the
            interval. Those that are NaN are left out.
        """
        names = self.columns.unique(0)
        cells = {
            name: [
                format_cell(**cell, digits=digits)
                for cell in self[name].to_dict("records")
            ]
            for name in names
        }
        return CompleteTable(cells, index=self.index, columns=names)

    def _is_whole(self) -> bool:
        """Return whether each metric has its value and both limits."""
        if self.columns.nlevels != 2:
            return False
        second = [*self.columns.get_level_values(1)]
        n_metrics = second.count("value")
        return second in (n_metrics * CELL, n_metrics * CELL_OF_RUNS)

    def _shown(self) -> pd.DataFrame:
        """Return the table as it is printed."""
        return self.formatted() if self._is_whole() else CompleteTable(self)

    def __repr__(self) -> str:
        return repr(self._shown())

    def _repr_html_(self) -> str | None:
        return self._shown()._repr_html_()


def format_cell(
    value: float, low: float, high: float, std: float = np.nan, *, digits: int
) -> str:
    """Return a value, its spread and its interval as text, without those of NaN."""
    text = f"{value:.{digits}f}"
    if not np.isnan(std):
        text += f" ± {std:.{digits}f}"
    if not np.isnan(low):
        text += f" [{low:.{digits}f}, {high:.{digits}f}]"
    return text


def report_by_group(
    report: Callable[..., pd.DataFrame],
    groups: Any,
    weight: Weights,
    clusters: Any,
    *arrays: Array,
) -> pd.DataFrame:
    """Return the report of each group and of all samples, as one table.

    `report` receives the rows of the arrays, of the weights and of the clusters, and
    `has_interval=False` for a group that is one of several clusters.
    """
    n_samples = len(arrays[0])
    if clusters is not None:
        clusters = encode_clusters(clusters, n_samples)

    def of_rows(rows: Any) -> pd.DataFrame:
        part = None if weight is None else weight[rows]
        data = [array[rows] for array in arrays]
        # The weights of a group must not all be zero.
        part = check_sample_weight(part, data[0])
        cluster = None if clusters is None else clusters[rows]
        has_interval = not is_one_of_several(clusters, rows, weight)
        return report(*data, part, cluster, has_interval=has_interval)

    if groups is None:
        return of_rows(slice(None))
    members = group_members(groups, n_samples)
    overall: Any = "overall"
    first = next(iter(members))
    if isinstance(first, tuple):
        overall = overall, *[""] * (len(first) - 1)
    members[overall] = slice(None)
    tables = [of_rows(rows) for rows in members.values()]
    names = column_names(groups)
    table = pd.concat(tables)[tables[-1].columns]
    table.index = pd.MultiIndex.from_tuples(
        [
            (*(key if isinstance(key, tuple) else (key,)), row)
            for key, rows in zip(members, tables, strict=True)
            for row in rows.index
        ],
        names=[*names, None] if len({*names}) == len(names) > 0 else None,
    )
    return table
