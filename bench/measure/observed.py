"""What was seen of a GPU while something was timed: summaries that can be added up. No torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from bench.measure.telemetry import ENERGY, VARYING, Reading, Status, slowing_reasons
from bench.reason_codes import (
    CLOCK_BELOW_TOP,
    CLOCK_SHARE,
    FOREIGN_GPU_PROCESS,
    GPU_PROCESSES_NOT_VISIBLE,
    THROTTLED,
)

TIMED = "timed"
"""Moment of the telemetry rows made here."""


@dataclass(frozen=True)
class Summary:
    """One field over several readings; one of them at first."""

    unit: str
    status: Status
    """`measured` if any reading was; else that of the last one."""
    readings: int
    """Those measured."""
    missing: int
    """Those not measured."""
    low: float
    high: float
    total: float
    bits: int
    """Of a bitmask: all that were ever set."""

    @classmethod
    def of(cls, reading: Reading) -> "Summary":
        if reading.value is None:
            return cls(reading.unit, reading.status, 0, 1, float("inf"), float("-inf"), 0.0, 0)
        bits = int(reading.value) if reading.unit == "bitmask" else 0
        value = reading.value
        return cls(reading.unit, reading.status, 1, 0, value, value, value, bits)

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(
            self.unit,
            "measured" if "measured" in (self.status, other.status) else other.status,
            self.readings + other.readings,
            self.missing + other.missing,
            min(self.low, other.low),
            max(self.high, other.high),
            self.total + other.total,
            self.bits | other.bits,
        )

    @property
    def mean(self) -> float | None:
        return self.total / self.readings if self.readings else None


@dataclass(frozen=True)
class Observed:
    """Fields of one or many readings. Plain data: add those of several blocks or processes."""

    fields: dict[str, Summary] = field(default_factory=dict)

    @classmethod
    def of(cls, readings: Iterable[Reading]) -> "Observed":
        return cls({reading.field: Summary.of(reading) for reading in readings})

    def __add__(self, other: "Observed") -> "Observed":
        names = self.fields | other.fields
        pairs = ((name, self.fields.get(name), other.fields.get(name)) for name in names)
        return Observed({n: a + b if a and b else a or b for n, a, b in pairs})  # pyright: ignore

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> "Observed":
        """Back from `rows`, as far as they tell: enough for all figures and codes made of it."""
        fields: dict[str, dict[str | None, Mapping[str, Any]]] = {}
        for row in rows:
            fields.setdefault(row["field"], {})[row["statistic"]] = row
        return cls({name: _restored(statistics) for name, statistics in fields.items()})

    @classmethod
    def together(cls, several: Iterable["Observed"]) -> "Observed":
        return reduce(add, several, cls())

    @property
    def energy_j(self) -> float | None:
        """Joules of the whole card over all timed regions; None unless all of it was counted."""
        energy = self.fields.get("energy")
        return energy.total if energy and energy.readings and not energy.missing else None

    @property
    def top_sm_clock_mhz(self) -> float | None:
        clock = self.fields.get("sm_clock")
        return clock.high if clock and clock.readings else None

    def codes(self, top_sm_clock_mhz: float | None = None) -> list[str]:
        """Why figures that were measured on a GPU meanwhile deserve caution.

        Throttled: any of the reasons named by `telemetry.slowing_reasons` was active in any
        reading. Clock below top: the mean over readings is more than CLOCK_SHARE below the highest.

        Args:
            top_sm_clock_mhz: of the same run, where it was higher at another time.
        """
        codes = []
        reasons, clock = self.fields.get("throttle_reasons"), self.fields.get("sm_clock")
        if reasons and slowing_reasons(reasons.bits):
            codes.append(THROTTLED)
        if clock and clock.mean is not None:
            top = max(clock.high, top_sm_clock_mhz or 0.0)
            if clock.mean < (1 - CLOCK_SHARE) * top:
                codes.append(CLOCK_BELOW_TOP)
        own, foreign = self.fields.get("own_processes"), self.fields.get("foreign_processes")
        if not own or own.high <= 0:
            codes.append(GPU_PROCESSES_NOT_VISIBLE)
        if foreign and foreign.high > 0:
            codes.append(FOREIGN_GPU_PROCESS)
        return codes

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the telemetry table: smallest, mean and largest of every field; all bits that
        were set; energy spent. A field that was never measured has one row without value."""
        rows = []
        for name, unit, _ in (*VARYING, ENERGY):
            seen = self.fields.get(name) or Summary.of(Reading(name, unit, None, "absent"))
            for statistic, value in _statistics(name, seen, self.energy_j):
                row = {"moment": TIMED, "statistic": statistic, "readings": seen.readings}
                status = "unsupported" if seen.readings and value is None else seen.status
                rows.append(row | {"field": name, "unit": unit, "value": value, "status": status})
        return rows


def _statistics(
    name: str, seen: Summary, energy_j: float | None
) -> list[tuple[str | None, float | None]]:
    if name == ENERGY[0]:
        return [("difference", energy_j)]
    if not seen.readings:
        return [(None, None)]
    if seen.unit == "bitmask":
        return [("union", float(seen.bits))]
    return [("min", seen.low), ("mean", seen.mean), ("max", seen.high)]


def _restored(statistics: Mapping[str | None, Mapping[str, Any]]) -> Summary:
    """One field again, from its rows by statistic."""
    values = {name: row["value"] for name, row in statistics.items()}
    row = next(iter(statistics.values()))
    unit, status, readings = row["unit"], row["status"], row["readings"]
    if row["value"] is None:  # nothing was measured, or of energy not all
        return Summary(unit, status, readings, 1, float("inf"), float("-inf"), 0.0, 0)
    if "union" in values:
        bits = int(values["union"])
        return Summary(unit, status, readings, 0, bits, bits, bits * readings, bits)
    if "difference" in values:
        spent = values["difference"]
        return Summary(unit, status, readings, 0, spent, spent, spent, 0)
    low, high, total = values["min"], values["max"], values["mean"] * readings
    return Summary(unit, status, readings, 0, low, high, total, 0)
