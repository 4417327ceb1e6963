"""What displays draw, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sklearn_calib._validation.types import Array, Ints

if TYPE_CHECKING:
    import pandas as pd


class Framed:
    """Mixin that adds `frame` to a display.

    A display defines `_columns`, and `_values` if some of its points are not drawn.
    """

    # Columns that are nan for points that are not drawn.
    _values: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return what the display draws as a table.

        Returns
        -------
        table : DataFrame
            One row for each point or bar drawn. The columns are the parameters of the
            constructor that contain one number for each of them. "low" and "high" are
            the ends of the interval, and "bin_low" and "bin_high" the edges of the bin.
            `ClasswiseReliabilityDisplay` has the column "class", and
            `GroupReliabilityDisplay` the column "group". Displays of a training have
            the columns "epoch" and "bin", with all bins.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas as pd

        table = pd.DataFrame(self._columns())
        return table.dropna(subset=list(self._values), how="all", ignore_index=True)

    def _columns(self) -> dict[str, Array]:
        """Return the columns of the table, all of the same length."""
        raise NotImplementedError


def band_columns(band: Array | None) -> dict[str, Array]:
    """Return the columns of a band (2, n), if there is one."""
    return {} if band is None else {"low": band[0], "high": band[1]}


def columns_by_epoch(epochs: Ints, **tables: Array) -> dict[str, Array]:
    """Return the columns of tables (n_epochs, n_bins), one row for each cell."""
    n_bins = next(iter(tables.values())).shape[1]
    index = {
        "epoch": np.repeat(epochs, n_bins),
        "bin": np.tile(np.arange(n_bins), len(epochs)),
    }
    return index | {name: table.ravel() for name, table in tables.items()}
