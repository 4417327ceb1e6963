"""The state of `CalibrationMonitor`: how it is extended, merged and saved."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any, Self

import numpy as np

from sklearn_calib._state.mergeable import Accumulator
from sklearn_calib._state.schema import FINITE, NON_NEGATIVE, Number, Numbers, Spec
from sklearn_calib._validation.types import Floats
from sklearn_calib.deployment._deployment_batches import (
    N_BLOCKS,
    bet,
    join_blocks,
    log_value,
    replay,
)
from sklearn_calib.deployment._evidence import RESOLUTION, Alternatives, Sums

# Relative rounding errors of sums in files.
ROUNDING = 1e-9


# The same for every batch.
_alternatives = lru_cache(maxsize=8)(Alternatives)


class MonitorState(Accumulator):
    """The sums of batches, and the wealth of bets against calibration."""

    alpha: float
    mode: str
    n_bins: int
    tolerance: float
    blocks_: list[Sums]
    log_e_values_: list[float]
    log_wealth_: Floats
    largest_log_e_value_: float
    alarm_at_: int | None = None

    def _alternatives(self) -> Alternatives:
        n_classes = len(self.labels)
        return _alternatives(self.mode, n_classes, self.n_bins, self.tolerance)

    @property
    def n_batches_(self) -> int:
        """Number of batches."""
        return int(sum(block.counts[0] for block in getattr(self, "blocks_", [])))

    @property
    def n_samples_(self) -> int:
        """Number of samples."""
        return int(sum(block.counts[1] for block in getattr(self, "blocks_", [])))

    def _has_seen(self) -> bool:
        return hasattr(self, "blocks_")

    def _append(self, new: Sums) -> Self:
        """Bet on a batch, and add its sums to the history."""
        alternatives = self._alternatives()
        if not self._has_seen():
            self._start([], [], np.full(len(alternatives.log_prior), -np.inf))
        start = self.n_batches_
        log_prior = alternatives.log_prior
        self.log_wealth_ = bet(self.log_wealth_, new.log_ratios, start, log_prior)
        value = log_value(self.log_wealth_, start + 1)
        self.blocks_.append(new)
        self.log_e_values_.append(value)
        join_blocks(self.blocks_, self.log_e_values_)
        self.largest_log_e_value_ = max(value, self.largest_log_e_value_)
        if self.alarm_at_ is None and value >= self._threshold():
            self.alarm_at_ = start
        return self

    def _threshold(self) -> float:
        return -float(np.log(self.alpha))

    def _start(
        self, blocks: list[Sums], values: list[float], log_wealth: Floats
    ) -> None:
        """Set the state to that after blocks of batches."""
        self._settings_seen = self._settings()
        self.blocks_, self.log_e_values_, self.log_wealth_ = blocks, values, log_wealth
        self.largest_log_e_value_ = max(values, default=-np.inf)
        ends = np.cumsum([block.counts[0] for block in blocks])
        alarms = ends[np.array(values) >= self._threshold()]
        self.alarm_at_ = int(alarms[0]) - 1 if len(alarms) else None

    def _merge(self, other: Self) -> None:
        if not self._has_seen():
            self.__dict__.update(copy.deepcopy(other.__dict__))
            return
        self._check_unchanged()
        mine, its = self.n_batches_, other.n_batches_
        if mine != its:
            raise ValueError(
                f"other must have the same number of batches, {mine}, got {its}. "
                "Update all monitors equally often, with empty lists if there are no "
                "samples."
            )
        blocks = [
            one.add(two)._replace(counts=one.counts + two.counts * [0, 1])
            for one, two in zip(self.blocks_, other.blocks_, strict=True)
        ]
        wealth, values = replay(blocks, self._alternatives().log_prior)
        self._start(blocks, values.tolist(), wealth)

    @property
    def _state_schema(self) -> dict[str, Spec]:
        alternatives = self._alternatives()
        n_alternatives = len(alternatives.log_prior)
        n_problems = alternatives.n_problems
        return {
            "counts_": Numbers("n_blocks", 2, range=NON_NEGATIVE),
            "totals_": Numbers("n_blocks", 4, range=NON_NEGATIVE),
            "bins_": Numbers(
                "n_blocks", 3, n_problems, self.n_bins, range=NON_NEGATIVE
            ),
            "log_ratios_": Numbers("n_blocks", n_alternatives),
            "log_e_values_": Numbers("n_blocks"),
            "log_wealth_": Numbers(n_alternatives),
            "largest_log_e_value_": Number(FINITE),
            "alarm_at_": Number(NON_NEGATIVE, is_optional=True),
        }

    def _get_state(self) -> dict[str, Any]:
        empty, own = self._alternatives().empty(), vars(self)
        blocks = own.get("blocks_", [])
        state: dict[str, Any] = {
            f"{name}_": np.array([getattr(b, name) for b in blocks], float).reshape(
                -1, *part.shape
            )
            for name, part in empty._asdict().items()
        }
        state["log_e_values_"] = np.array(own.get("log_e_values_", []), float)
        state["log_wealth_"] = own.get("log_wealth_", empty.log_ratios)
        state["largest_log_e_value_"] = own.get("largest_log_e_value_", 0.0)
        if self.alarm_at_ is not None:
            state["alarm_at_"] = float(self.alarm_at_)
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        blocks = Sums(*(state[f"{name}_"] for name in Sums._fields))
        _check_sums(blocks)
        if not len(blocks.counts):
            return
        values, wealth = state["log_e_values_"].tolist(), state["log_wealth_"]
        self._start([Sums(*row) for row in zip(*blocks, strict=True)], values, wealth)
        largest, alarm_at = state["largest_log_e_value_"], state.get("alarm_at_", -1.0)
        is_alarm = largest >= self._threshold()
        if largest < self.largest_log_e_value_:
            raise ValueError("largest_log_e_value_ must be at least log_e_values_.")
        if is_alarm != (0 <= alarm_at < blocks.counts[:, 0].sum()) or alarm_at % 1:
            raise ValueError(
                "alarm_at_ must be the index of a batch if there is an alarm, got "
                f"{alarm_at}."
            )
        self.largest_log_e_value_ = largest
        self.alarm_at_ = int(alarm_at) if is_alarm else None


def _check_sums(blocks: Sums) -> None:
    """Raise ValueError unless the sums are those of batches, for each block."""
    batches, samples = blocks.counts.T
    sizes, n_blocks = np.unique(batches, return_counts=True)
    mantissa, exponent = np.frexp(sizes)
    is_power = ((mantissa == 0.5) & (exponent >= 1) & (exponent < 50)).all()
    if not is_power or (np.diff(batches) > 0).any() or (n_blocks > N_BLOCKS).any():
        raise ValueError("counts_ must be those of blocks of batches, of sorted sizes.")
    weight, *others, variance = blocks.totals.T
    slack = 1 + ROUNDING
    in_range = (weight <= slack * samples) & (4 * variance <= slack * weight)
    if not (in_range & (np.array(others) <= slack * weight)).all():
        raise ValueError("totals_ must be sums over the samples in counts_.")
    whole = blocks.bins[:, 0]
    if (blocks.bins[:, 1:] > slack * whole[:, None]).any() or (
        np.abs(whole.sum(axis=2) - weight[:, None]) > ROUNDING * weight[:, None]
    ).any():
        raise ValueError("bins_ must be sums over the samples in totals_.")
    largest = -np.log(RESOLUTION) * samples
    if (np.abs(blocks.log_ratios) > slack * largest[:, None]).any():
        raise ValueError("log_ratios_ must be sums over the samples in counts_.")
