"""What was seen beside a run, put into its records: telemetry, energy, reasons for caution."""

from collections.abc import Mapping, Sequence

from bench.measure.observed import Observed
from bench.measure.telemetry import Reading
from bench.reason_codes import FOREIGN_CORES, FOREIGN_CPU_LOAD
from bench.run_rows import Row


def telemetry_rows(
    readings: Mapping[str, Sequence[Reading]], observed: Observed
) -> list[dict[str, object]]:
    """Single readings by moment, then the statistics of the timed region."""
    single = [
        {"moment": moment, **vars(reading)}
        for moment, sample in readings.items()
        for reading in sample
    ]
    return single + observed.rows()


def per_step(observed: Observed, steps: int) -> float | None:
    """Joules of the whole GPU per timed step; warm-up steps are among them."""
    return observed.energy_j / steps if observed.energy_j is not None and steps else None


def machine_codes(
    device: str,
    observed: Observed,
    foreign_cores: float | None,
    top_sm_clock_mhz: float | None = None,
) -> list[str]:
    """Why the machine makes the figures doubtful.

    Args:
        device: kind that the steps ran on. Only a GPU's neighbours and clocks matter to it; host
            load matters to a CPU.
        foreign_cores: that other programs used meanwhile; None if unknown.
        top_sm_clock_mhz: of the same run, where it was higher at another time.
    """
    if device == "cuda":
        return observed.codes(top_sm_clock_mhz)
    busy = device == "cpu" and foreign_cores is not None and foreign_cores > FOREIGN_CORES
    return [FOREIGN_CPU_LOAD] * busy


def add_to(run: Row, codes: Sequence[str]) -> None:
    """Codes that the row does not have yet."""
    run["reason_codes"] = list(dict.fromkeys([*run["reason_codes"], *codes]))
