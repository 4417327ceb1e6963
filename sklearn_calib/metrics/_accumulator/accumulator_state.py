"""State of `CalibrationAccumulator`: sums that are added, merged and saved."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from sklearn_calib._state.mergeable import Accumulator
from sklearn_calib._state.schema import (
    NON_NEGATIVE,
    POSITIVE,
    GroupNames,
    ListOf,
    Number,
    Numbers,
    Object,
    Spec,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import MODES
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.types import Floats, Options
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid, check_cells
from sklearn_calib.metrics._binned_sums.sample_sums import Sums

# Values by which sums may exceed their bounds by rounding errors, relative to the sum
# of the weights.
ROUNDING = 1e-6


class AccumulatorState(Accumulator):
    """Sums of an accumulator, empty before the first chunk."""

    n_bins: int
    strategy: str
    mode: Any
    cells_: dict[str, Cells]
    totals_: Floats
    factor_: float
    groups_: dict[Any, Self]

    def _merge(self, other: Self) -> None:
        self._add(other._sums())
        for name, group in other.groups_.items():
            self._add_to_group(name, group._sums())

    def _sums(self) -> Sums:
        """Return the sums of all samples."""
        return Sums(self.cells_, self.totals_, self.factor_)

    def _add_to_group(self, name: Any, new: Sums) -> None:
        """Add sums to the accumulator of a group."""
        if name not in self.groups_:
            self.groups_[name] = type(self)(**self.get_params())
        self.groups_[name]._add(new)

    def _has_seen(self) -> bool:
        return hasattr(self, "cells_")

    def _settings(self) -> Options:
        return {**super()._settings(), "mode": self._modes()}

    def _modes(self) -> list[str]:
        """Return the modes as a list."""
        modes = [self.mode] if isinstance(self.mode, str) else list(self.mode)
        if not modes or any(
            each not in [*MODES] or modes.count(each) > 1 for each in modes
        ):
            raise ValueError(
                f"mode must be one or several of {sorted(MODES)}, got "
                f"{shown(self.mode)}."
            )
        return modes

    def _n_rows(self, mode: str) -> int:
        """Return the number of classes that are evaluated separately."""
        return len(self.labels) if mode == "classwise" else 1

    def _grid(self, mode: str) -> Grid:
        """Return the cells of a mode; raise ValueError if they are too many."""
        is_fine = mode != "classwise" or self.strategy == "quantile"
        grid = Grid(self.n_bins, self.strategy, is_fine)
        check_cells(grid, self._n_rows(mode))
        return grid

    def _add(self, new: Sums) -> Self:
        """Add sums whose weights are multiplied by a factor to the stored sums."""
        cells, totals, factor = new
        if self._has_seen():
            self._check_unchanged()
            common = min(self.factor_, factor)
            mine, its = common / self.factor_, common / factor
            cells = {
                mode: self.cells_[mode].scaled(mine).add(each.scaled(its))
                for mode, each in cells.items()
            }
            totals, factor = mine * self.totals_ + its * totals, common
        else:
            self._settings_seen, self.groups_ = self._settings(), {}
        self.cells_, self.totals_, self.factor_ = cells, totals, factor
        return self

    @property
    def _state_schema(self) -> dict[str, Spec]:
        schema: dict[str, Spec] = {"totals_": Numbers(5), "factor_": Number(POSITIVE)}
        for mode in self._modes():
            size = f"n_{mode}"
            schema[f"{mode}_place_"] = Numbers(
                size, range=NON_NEGATIVE, increasing=True
            )
            schema[f"{mode}_sums_"] = Numbers("n_sums", size)
        schema["group_names_"] = GroupNames()
        schema["groups_"] = ListOf(Object(), "n_groups", is_optional=True)
        return schema

    def _get_state(self) -> dict[str, Any]:
        empty = Cells(np.empty(0, int), np.empty((3, 0)))
        cells = getattr(self, "cells_", dict.fromkeys(self._modes(), empty))
        most = max(len(each.sums) for each in cells.values())
        state = {
            "totals_": getattr(self, "totals_", np.zeros(5)),
            "factor_": getattr(self, "factor_", 1.0),
        }
        for mode, each in cells.items():
            state[f"{mode}_place_"] = each.place.astype(np.float64)
            state[f"{mode}_sums_"] = each.sums if most == 3 else each.with_squares()
        if groups := getattr(self, "groups_", {}):
            state["group_names_"] = names = as_labels([*groups], "groups")
            if names.ndim > 1:
                raise ValueError(
                    "groups must be a single column to save the accumulator, got the "
                    f"name {next(iter(groups))}. Join the columns to one."
                )
            state["groups_"] = [*groups.values()]
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        total, *others = totals = state["totals_"]
        most = (1 + ROUNDING) * np.array([total, total, 2 * total, np.inf])
        if not ((np.array(others) >= 0) & (others <= most)).all():
            raise ValueError("totals_ must be non-negative, and means at most 1, 1, 2.")
        cells = {}
        for mode in self._modes():
            place, sums = state[f"{mode}_place_"], state[f"{mode}_sums_"]
            n_rows, n_cells = self._n_rows(mode), self._grid(mode).n_cells
            _check_place(place, n_rows * n_cells)
            _check_sums(sums)
            cells[mode] = Cells(place.astype(np.intp), sums)
            for row in cells[mode].rows(n_rows, n_cells):
                if abs(row.sums[0].sum() - total) > ROUNDING * total:
                    raise ValueError(f"{mode}_sums_ must sum to the total weight.")
        if total > 0:
            self._settings_seen = self._settings()
            self.cells_, self.totals_, self.factor_ = cells, totals, state["factor_"]
            names = state.get("group_names_", np.empty(0)).tolist()
            groups = state.get("groups_", [])
            if len(names) != len(groups):
                raise ValueError(
                    "groups_ must contain an accumulator for each of group_names_, got "
                    f"{len(groups)} and {len(names)}."
                )
            self.groups_ = dict(zip(names, groups, strict=True))
            if any(
                not isinstance(each, type(self)) or each._settings() != self._settings()
                for each in self.groups_.values()
            ):
                raise ValueError("groups_ must be accumulators with equal parameters.")


def _check_place(place: Floats, n_cells: int) -> None:
    """Raise ValueError unless cells are increasing integers below a number."""
    is_whole = (place < n_cells).all() and (place == np.floor(place)).all()
    if not is_whole or (np.diff(place) <= 0).any():
        raise ValueError(f"place must be distinct integers less than {n_cells}.")


def _check_sums(sums: Floats) -> None:
    """Raise ValueError unless the sums are those of weights and of parts of them."""
    if len(sums) not in (3, 5):
        raise ValueError(f"sums must have three or five rows, got {len(sums)}.")
    weight, gap, correct = sums[:3]
    slack = ROUNDING * weight
    in_range = (np.abs(gap) <= weight + slack) & (np.abs(correct) <= weight + slack)
    if not (in_range & (weight > 0) & (correct >= -slack)).all():
        raise ValueError("sums must be those of weights, gaps and correctness.")
    # One sample has the largest sum of squares, and 1e18 samples the smallest.
    with np.errstate(over="ignore"):
        largest = weight**2 * (1 + ROUNDING)
    in_range = (sums[3:] <= largest) & (sums[3:] >= 0)
    if not in_range.all() or (len(sums) == 5 and (sums[3] < 1e-18 * largest).any()):
        raise ValueError("sums of squares must be those of the weights.")
