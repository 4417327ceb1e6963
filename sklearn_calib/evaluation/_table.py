"""Tables that are printed completely, in lines of limited width.

Import this module in functions only, because it imports pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


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
    """

    @property
    def _constructor(self) -> Callable[..., Any]:
        # A part of the table may lack a limit.
        return pd.DataFrame

    def formatted(self, digits: int = 3) -> pd.DataFrame:
        """Return a table of strings, such as "0.051 [0.015, 0.067]".

        Parameters
        ----------
        digits : int, default=3
            Number of decimals.

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

    def __repr__(self) -> str:
        return repr(self.formatted())

    def _repr_html_(self) -> str | None:
        return self.formatted()._repr_html_()


def format_interval(value: float, low: float, high: float, *, digits: int) -> str:
    """Return a value and its interval as text; an interval of nan is left out."""
    if np.isnan(low):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
