"""The counter of host synchronisations sees what it is meant to see."""

import torch

from tests.support.reads import CountReads


def test_what_waits_is_counted() -> None:
    values, mask = torch.arange(4.0), torch.tensor([True, False, True, False])
    with CountReads() as reads:
        values[mask]
        values[mask] = 0.0
        mask.nonzero()
        values.sum().item()
        values.mul_(mask)
        values[torch.tensor([1, 2])]
    assert reads.seen == ["boolean indexing"] * 2 + ["nonzero", "_local_scalar_dense"]
