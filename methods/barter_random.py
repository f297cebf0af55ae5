"""BARTER with randomised selection (specification, section 8). All else is BARTER's."""

from collections.abc import Sequence

import numpy as np

from methods.barter import AbstractBarter
from methods.chance import numpy_generator
from methods.selection import ByScore, Candidates, Chooser, Units


class RandomReceiver(ByScore):
    """Receiver uniform over eligible layers, parent uniform over its units; donor by score."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def receiver(self, candidates: Candidates, eligible: Sequence[int]) -> int:
        return eligible[int(self.rng.integers(len(eligible)))]

    def parent(self, candidates: Candidates, receiver: int) -> int:
        return int(self.rng.integers(candidates.width(receiver)))


class RandomDonor(ByScore):
    """Donor uniform over all eligible units outside the receiver; the rest by score."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def donor(self, candidates: Candidates, eligible: Units) -> int:
        return int(self.rng.integers(len(eligible)))


class RandomPair(RandomDonor, RandomReceiver):
    """Receiver, parent and donor all uniform."""


class _RandomBarter(AbstractBarter):
    chooser_type: type[RandomReceiver] | type[RandomDonor]

    def chooser(self, unit_type: str, step: int, attempt: int) -> Chooser:
        rng = numpy_generator(self.context.seed, "random choice", unit_type, step, attempt)
        return self.chooser_type(rng)


class BarterRandomReceiver(_RandomBarter):
    name = "barter-random-receiver"
    chooser_type = RandomReceiver


class BarterRandomDonor(_RandomBarter):
    name = "barter-random-donor"
    chooser_type = RandomDonor


class BarterRandomPair(_RandomBarter):
    name = "barter-random-pair"
    chooser_type = RandomPair
