"""Tables that are printed completely, in lines of limited width.

Import this module in functions only, because it imports pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from sklearn_calib._validation.declarations import Interval, validate_params

# Second level of the columns of a metric in a comparison.
CELL = ["value", "low", "high"]


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

    The first level of the columns is the metric, the second "value", "low" and "high".
    Tables without all of these columns, such as selections, are printed as usual.
    """

    @property
    def _constructor(self) -> Callable[..., Any]:
        return ComparisonTable

    @validate_params({"digits": [Interval(Integral, 0, 15, closed="both")]})
    def formatted(self, digits: int = 3) -> pd.DataFrame:
        """Return a table of strings, such as "0.051 [0.015, 0.067]".

        Parameters
        ----------
        digits : int, default=3
            Number of decimals, at most 15.

        Returns
        -------
        table : DataFrame of shape (n_estimators, n_metrics)
            One column for each metric, with the value and its interval. Values without
            an interval are shown alone.
        """
        names = self.columns.unique(0)
        cells = {
            name: [format_interval(*cell, digits=digits) for cell in self[name].values]
            for name in names
        }
        return CompleteTable(cells, index=self.index, columns=names)

    def _is_whole(self) -> bool:
        """Return whether each metric has its value and both limits."""
        levels, n_metrics = self.columns.nlevels, self.shape[1] // 3
        return levels == 2 and [*self.columns.get_level_values(1)] == n_metrics * CELL

    def _shown(self) -> pd.DataFrame:
        """Return the table as it is printed."""
        return self.formatted() if self._is_whole() else CompleteTable(self)

    def __repr__(self) -> str:
        return repr(self._shown())

    def _repr_html_(self) -> str | None:
        return self._shown()._repr_html_()


def format_interval(value: float, low: float, high: float, *, digits: int) -> str:
    """Return a value and its interval as text; an interval of NaN is left out."""
    if np.isnan(low):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
