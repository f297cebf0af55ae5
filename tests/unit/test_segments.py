"""Segments of a schedule: hand-counted schedules, and shares that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.timing.segments import (
    FINAL,
    UPDATE,
    Segment,
    mean_step,
    mean_step_ms,
    segments,
    update_cost_ms,
)


def at(updates: set[int], collecting: range = range(0), dense: set[int] = frozenset()):  # type: ignore
    """Flags by step."""

    def flags(step: int) -> tuple[str, ...]:
        return (
            ("collecting",) * (step in collecting)
            + (UPDATE,) * (step in updates)
            + ("dense_gradient",) * (step in dense)
        )

    return flags


def by_name(found: tuple[Segment, ...]) -> dict[str, Segment]:
    return {part.name: part for part in found}


def test_without_updates_there_is_one_segment() -> None:
    (only,) = segments(at(set()), 100, widths_change=False)
    assert (only.name, only.starts, only.length, only.share) == ("ordinary", (1,), 100, 1.0)


def test_masked_method() -> None:
    """Updates at 20, 40 and 60 of 100, with their dense gradients: windows stand for ordinary
    steps."""
    found = by_name(segments(at({20, 40, 60}, dense={20, 40, 60}), 100, widths_change=False))
    assert found.keys() == {"ordinary", UPDATE}
    assert found["ordinary"].share == 1.0
    assert (found["ordinary"].starts, found["ordinary"].length) == ((61,), 40)
    window = found[UPDATE]
    assert (window.starts, window.length, window.share) == ((20, 40, 60), 4, 0.03)
    assert window.base == ("ordinary",) * 4


def test_compact_method_is_timed_at_both_widths() -> None:
    """Collecting up to step 50, transfers at 10 and 50 of 100."""
    found = by_name(segments(at({10, 50}, range(1, 51)), 100, widths_change=True))
    assert found.keys() == {"collecting", "collecting" + FINAL, "ordinary" + FINAL, UPDATE}
    # Steps 1 to 10 before the first transfer has an effect, half of those between, half of them.
    assert found["collecting"].share == pytest.approx((10 + 20) / 100)
    assert found["collecting" + FINAL].share == pytest.approx(20 / 100)
    assert found["ordinary" + FINAL].share == pytest.approx(50 / 100)
    assert (found["collecting"].starts, found["collecting"].length) == ((11,), 39)
    assert found["ordinary" + FINAL].final_widths
    assert found[UPDATE].starts == (10, 50)


def test_windows_hold_one_update_each() -> None:
    found = by_name(segments(at({10, 12, 30, 31}), 100, widths_change=False))
    assert (found[UPDATE].starts, found[UPDATE].length) == ((12, 31), 4)
    close = by_name(segments(at(set(range(2, 101, 2))), 100, widths_change=False))
    assert (close[UPDATE].length, len(close[UPDATE].starts)) == (2, 8)


def test_every_step_an_update_is_refused() -> None:
    with pytest.raises(UsageError, match="every step of this schedule is an update"):
        segments(at(set(range(1, 9))), 8, widths_change=False)


def test_mean_and_cost_by_hand() -> None:
    parts = segments(at({20, 40}), 50, widths_change=False)
    means = {"ordinary": 10.0, UPDATE: 46.0}  # four steps of 10 ms, and 6 ms for the update
    assert update_cost_ms(by_name(parts)[UPDATE], means) == pytest.approx(6.0)
    assert mean_step_ms(parts, means) == pytest.approx(10 + 6 * 2 / 50)
    assert mean_step(parts, {"ordinary": 10.0, UPDATE: 16.0}) == pytest.approx(10 + 6 * 2 / 50)


@given(
    updates=st.sets(st.integers(1, 60), max_size=20),
    last=st.integers(0, 60),
    dense=st.sets(st.integers(1, 60)),
    change=st.booleans(),
)
def test_shares_add_up_and_starts_fit(
    updates: set[int], last: int, dense: set[int], change: bool
) -> None:
    flags = at(updates, range(1, last + 1), dense)
    found = segments(flags, 60, change)
    plain = [part for part in found if not part.is_window]
    assert sum(part.share for part in plain) == pytest.approx(1.0)
    for part in plain:
        (start,) = part.starts
        kinds = {flags(step) for step in range(start, start + part.length)}
        assert len(kinds) == 1
        assert UPDATE not in kinds.pop()
    for part in found:
        if part.is_window:
            assert part.share * 60 == pytest.approx(len(updates))
            assert set(part.base) <= {p.name for p in plain}
            for start in part.starts:
                steps = range(start, start + part.length)
                assert [UPDATE in flags(step) for step in steps] == [True] + [False] * (
                    part.length - 1
                )
