"""Receiver, parent and donor: hand-made cases, then what must hold for any scores."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from methods.barter_random import RandomDonor, RandomPair, RandomReceiver
from methods.chance import numpy_generator
from methods.selection import ByScore, Candidates, Skipped, Transfer, select_transfer


def candidates(
    prune: list[list[float]],
    growth: list[list[float]],
    cooldown: list[list[bool]] | None = None,
    initial: list[int] | None = None,
    maximum: int = 9,
    min_width: int = 0,
) -> Candidates:
    return Candidates(
        prune_scores=[np.array(layer, float) for layer in prune],
        growth_scores=[np.array(layer, float) for layer in growth],
        in_cooldown=[
            np.array(layer, bool) for layer in (cooldown or [[False] * len(p) for p in prune])
        ],
        initial_widths=initial or [len(layer) for layer in prune],
        max_widths=[maximum] * len(prune),
        min_width=min_width,
    )


def test_by_hand() -> None:
    # Layer 1 has the largest mean growth; its best unit is 2; the weakest unit elsewhere is (2, 0).
    # Unit (1, 0) is weaker still, but in the receiver.
    chosen = select_transfer(
        candidates([[5, 4], [0, 9, 9], [1, 7]], [[1, 1], [2, 2, 5], [2, 2]]), ByScore()
    )
    assert chosen == Transfer(receiver=1, parent=2, donor_layer=2, donor_unit=0)


def test_growth_is_corrected_for_units_gained() -> None:
    # Layer 0 has the larger mean (4 to 3), but grew from 1 unit to 2: 4/2 < 3.
    scores = [[4.0, 4.0], [3.0, 3.0]]
    assert isinstance(
        chosen := select_transfer(candidates(scores, scores, initial=[1, 2]), ByScore()), Transfer
    )
    assert chosen.receiver == 1


def test_cooldown_protects_donors_not_parents() -> None:
    chosen = select_transfer(
        candidates([[1, 2], [3, 4]], [[1, 1], [9, 8]], cooldown=[[True, False], [True, True]]),
        ByScore(),
    )
    assert chosen == Transfer(receiver=1, parent=0, donor_layer=0, donor_unit=1)


def test_minimum_width() -> None:
    scores = [[9.0, 9.0], [1.0]]
    head = select_transfer(candidates(scores, scores), ByScore())
    assert head == Transfer(0, 0, 1, 0), "an attention layer may fall to zero heads"
    assert select_transfer(candidates(scores, scores, min_width=1), ByScore()) == Skipped(
        "no eligible donor"
    )


def test_empty_and_full_layers_do_not_receive() -> None:
    scores = [[], [5.0, 5.0], [1.0]]
    chosen = select_transfer(candidates(scores, scores, maximum=2), ByScore())
    assert chosen == Transfer(2, 0, 1, 0)
    assert select_transfer(candidates([[], [1.0]], [[], [1.0]], maximum=1), ByScore()) == Skipped(
        "no eligible receiver"
    )


def test_ties_go_to_the_lowest_index() -> None:
    flat = [[1.0, 1.0]] * 3
    assert select_transfer(candidates(flat, flat), ByScore()) == Transfer(0, 0, 1, 0)


layers = st.lists(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.booleans()), max_size=5),
    min_size=2,
    max_size=5,
)


@given(layers, st.integers(1, 6), st.integers(0, 1), st.integers(0, 3))
def test_any_transfer_is_allowed(
    units: list[list[tuple[float, float, bool]]], maximum: int, minimum: int, chooser: int
) -> None:
    rng = numpy_generator(0, "test")
    choose = [ByScore(), RandomReceiver(rng), RandomDonor(rng), RandomPair(rng)][chooser]
    case = candidates(
        *([[unit[i] for unit in layer] for layer in units] for i in range(3)),  # pyright: ignore
        initial=[2] * len(units),
        maximum=maximum,
        min_width=minimum,
    )
    chosen = select_transfer(case, choose)
    if isinstance(chosen, Skipped):
        return
    assert chosen.receiver != chosen.donor_layer
    assert 0 < case.width(chosen.receiver) < maximum
    assert 0 <= chosen.parent < case.width(chosen.receiver)
    assert case.width(chosen.donor_layer) - 1 >= minimum
    assert not case.in_cooldown[chosen.donor_layer][chosen.donor_unit]
    if chooser in (0, 1):
        free = [
            case.prune_scores[layer][unit]
            for layer in range(len(units))
            if layer != chosen.receiver and case.width(layer) > minimum
            for unit in np.flatnonzero(~case.in_cooldown[layer])
        ]
        assert case.prune_scores[chosen.donor_layer][chosen.donor_unit] == min(free)


def test_random_choices_are_uniform() -> None:
    # 3 eligible receivers, 2 units each; donors uniform over units, not over layers.
    prune = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    rng = numpy_generator(1, "test")
    seen: Counter[tuple[str, int]] = Counter()
    for _ in range(6000):
        chosen = select_transfer(candidates(prune, prune), RandomPair(rng))
        assert isinstance(chosen, Transfer)
        seen["receiver", chosen.receiver] += 1
        if chosen.receiver == 0:
            seen["parent", chosen.parent] += 1
            seen["donor layer", chosen.donor_layer] += 1
    for layer in range(3):
        assert abs(seen["receiver", layer] / 6000 - 1 / 3) < 0.03
    at_0 = seen["receiver", 0]
    assert abs(seen["parent", 0] / at_0 - 1 / 2) < 0.05
    assert abs(seen["donor layer", 1] / at_0 - 2 / 6) < 0.05
