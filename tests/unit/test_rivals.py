"""The FFN's rivals compute what they are said to; the table says what is missing, and why."""

import pytest
import torch
from torch import nn

from tests.speed import rivals
from tests.speed.rivals import Case, CsrFfn, DenseFfn, MaskedFfn, NotAvailableError, compact

CASE = Case(width=8, channels=20, rows=12, device=torch.device("cpu"))
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


def run(ffn: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Output, and gradient of the input."""
    rows, gradient = rivals._inputs(CASE, ffn)
    rivals.one_pass(ffn, rows, gradient)
    assert rows.grad is not None
    return ffn(rows).detach(), rows.grad


def test_the_case_is_the_workloads_own() -> None:
    shape = rivals.get_workload("vit-tiny-imagenet").shape
    assert Case.of(shape, 16, CASE.device) == Case(192, 384, 16 * 65, CASE.device)


def test_a_mask_has_as_many_entries_as_the_density_says() -> None:
    ffn = MaskedFfn(CASE, 0.3)
    assert [int(mask.sum()) for mask in ffn.masks] == [48, 48]
    assert int(ffn.fc1.weight.count_nonzero()) == 48
    run(ffn)
    assert ffn.fc2.weight.grad is not None
    assert int(ffn.fc2.weight.grad.count_nonzero()) == 48


def test_sparse_and_masked_compute_the_same() -> None:
    torch.manual_seed(0)
    sparse = CsrFfn(CASE, 0.3)
    masked = MaskedFfn(CASE, 0.3)
    with torch.no_grad():
        for mine, theirs in ((masked.fc1, sparse.fc1), (masked.fc2, sparse.fc2)):
            mine.weight.copy_(theirs.weight.to_dense())
            mine.bias.copy_(theirs.bias)
    masked.masks = [masked.fc1.weight != 0, masked.fc2.weight != 0]
    for mine, theirs in zip(run(masked), run(sparse), strict=True):
        torch.testing.assert_close(mine, theirs)
    gradient = sparse.fc1.weight.grad
    assert gradient.layout == torch.sparse_csr, "only stored entries have gradients"
    torch.testing.assert_close(gradient.to_dense(), masked.fc1.weight.grad)


def test_compact_is_dense_with_fewer_channels() -> None:
    ffn = compact(CASE, 0.3)
    assert isinstance(ffn, DenseFfn)
    assert ffn.fc1.weight.shape == (6, 8)
    assert ffn.fc2.weight.shape == (8, 6)


@pytest.mark.parametrize(
    ("build", "density", "reason"),
    [
        (rivals.semi_structured, 0.5, "2:4 needs a CUDA GPU"),
        (lambda c, d: rivals._package("no_such_package"), 0.5, "no_such_package is not installed"),
    ],
)
def test_what_is_missing_says_why(build: rivals.Callable, density: float, reason: str) -> None:
    with pytest.raises(NotAvailableError, match=reason):
        build(CASE, density)


def test_every_rival_is_in_the_table_with_ratios_or_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rivals, "STEPS", 1)
    found = rivals.ratios(CASE, rounds=2)
    assert found.keys() == {(name, d) for name in rivals.RIVALS for d in rivals.DENSITIES}
    for name in ("compact dense", "masked dense", "torch.sparse CSR"):
        for density in rivals.DENSITIES:
            assert len(found[name, density]) == 2
    assert found["2:4 (over dense in half precision)", 0.1] == "2:4 needs a CUDA GPU"


def test_a_rival_that_breaks_is_a_cell_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Case, density: float) -> nn.Module:
        raise RuntimeError("no kernel\nfor this")

    monkeypatch.setattr(rivals, "RIVALS", {"broken": broken})
    found = rivals.ratios(CASE, rounds=1)
    assert found["broken", 0.1] == "RuntimeError: no kernel for this"


def test_cells_by_hand() -> None:
    assert rivals._cell([2.0] * 5) == "2.00 [2.00, 2.00]"
    assert rivals._cell([float(n) for n in range(1, 42)]) == "21.00 [2.00, 40.00]"
    assert rivals._cell([0.5]) == "0.50 [0.50, 0.50]"
    assert rivals._cell("too old") == "*not available*: too old"


def test_the_table_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "RIVALS", {"one": compact})
    found = {("one", 0.1): [0.5], ("one", 0.3): "gone", ("one", 0.5): [1.5]}
    assert rivals.table(found) == (
        "| FFN, time over dense | 0.1 | 0.3 | 0.5 |\n|---|---:|---:|---:|\n"
        "| one | 0.50 [0.50, 0.50] | *not available*: gone | 1.50 [1.50, 1.50] |"
    )
