"""What backward makes again: the same bits, fewer bytes by exactly what is no longer kept."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.accounting import account_step
from bench.execution import Execution
from bench.measure.clock import make_clock
from bench.recompute import ForgetfulLinear, recompute_in
from bench.session import Session, build_session
from bench.study_file import study_spec
from methods.barter import Barter
from methods.recomputed import Recomputed, kept, mark
from tests.support.training import attach, batch, small_cct, small_vit

CPU = torch.device("cpu")
WAYS = ("norm", "gelu", "norm,gelu")
BATCH = 8


def session(
    method: str = "dense", workload: str = "vit-digits", recompute: str = "none", **other: Any
) -> Session:
    given = {
        "methods": method,
        "workload": workload,
        "steps": 6,
        "batch_size": BATCH,
        "seeds": "0",
        "density": "0.3",
    }
    (run,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(replace(run, execution=Execution(recompute=recompute, **other)), CPU)


def outcome(of: Session) -> list[Tensor]:
    """Losses, then weights, then what the method knows (scores, masks)."""
    clock, losses = make_clock(CPU), []
    for step in range(1, of.spec.total_steps + 1):
        losses.append(of.train_step(step, of.batch(step), clock)[0])
    return [*losses, *of.model.parameters(), *of.method.state_tensors()]


@pytest.mark.parametrize("workload", ["vit-digits", "cct-digits"])
@pytest.mark.parametrize("method", ["dense", "barter", "rigl", "s2vite"])
@pytest.mark.parametrize("autocast", ["none", "bf16"])
def test_training_is_the_same_bit_by_bit(workload: str, method: str, autocast: str) -> None:
    usual = outcome(session(method, workload, autocast=autocast))
    other = outcome(session(method, workload, "norm,gelu", autocast=autocast))
    assert all(map(torch.equal, usual, other))
    assert len(usual) == len(other)


@pytest.mark.parametrize("recompute", WAYS)
@pytest.mark.parametrize("build", [small_vit, small_cct])
def test_gradients_and_scores_are_the_same_over_transfers(build: Any, recompute: str) -> None:
    usual, other = (attach(Barter(), build(), total_steps=40) for _ in range(2))
    recompute_in(other.model, frozenset(recompute.split(",")))
    transfers = 0
    for step in range(1, 41):
        for trained in (usual, other):
            images, targets = batch(step)
            nn.functional.cross_entropy(trained.model(images), targets).backward()
        for mine, theirs in zip(usual.model.parameters(), other.model.parameters(), strict=True):
            assert mine.grad is not None
            assert theirs.grad is not None
            assert torch.equal(mine.grad, theirs.grad)
        events = []
        for trained in (usual, other):
            trained.method.after_backward(step)
            trained.optimizer.step()
            events.append(trained.method.update_topology(step).events)
            trained.method.after_step(step)
            trained.optimizer.zero_grad(set_to_none=True)
        assert events[0] == events[1]
        transfers += sum(event.executed for event in events[0])
        scores = (trained.method.state_tensors() for trained in (usual, other))
        assert all(map(torch.equal, *scores))
    assert transfers


TOKENS = {"vit-digits": 17, "cct-digits": 64}
WIDTH, LAYERS, FLOAT = 64, 4, 4


def kept_bytes(of: Session, what: str) -> int:
    """Of all layers' norm outputs (two each) or GELU outputs; each a multiple of 512."""
    tokens = BATCH * TOKENS[of.spec.workload]
    norms = LAYERS * 2 * tokens * WIDTH * FLOAT
    gelus = sum(of.method.topology().channels_per_layer) * tokens * FLOAT
    return ("norm" in what) * norms + ("gelu" in what) * gelus


@pytest.mark.parametrize("method", ["static", "barter"])
@pytest.mark.parametrize("recompute", WAYS)
def test_the_peak_is_lower_by_what_is_not_kept(method: str, recompute: str) -> None:
    """Of a CCT: its peak stands at the end of the forward pass, in the final norm and pooling.
    Scores are collected at these steps; they keep nothing that backward would not."""
    usual, other = session(method, "cct-digits"), session(method, "cct-digits", recompute)
    saved = kept_bytes(other, recompute)
    before, after = account_step(usual, 1), account_step(other, 1)
    assert after.peak_allocated_bytes == before.peak_allocated_bytes - saved
    assert after.peak_parts["activations"] == before.peak_parts["activations"] - saved
    assert after.macs == before.macs


def test_the_peak_of_a_small_vit_moves_to_its_optimizer() -> None:
    """Adam's first step allocates both moments beside parameters and gradients."""
    usual, other = session("static"), session("static", recompute="norm")
    before, after = account_step(usual, 1), account_step(other, 1)
    saved = kept_bytes(other, "norm")
    assert saved == 8 * BATCH * 17 * WIDTH * FLOAT
    assert before.peak_allocated_bytes - after.peak_allocated_bytes == saved
    least = account_step(session("static", recompute="norm,gelu"), 1)
    assert least.peak_parts["optimizer_state"] > 2 * least.peak_parts["parameters"]
    assert least.peak_allocated_bytes < after.peak_allocated_bytes


def test_half_precision_keeps_no_copy_either() -> None:
    """Under autocast a product keeps its own copy of a norm's output, at half the bytes."""
    usual, other = (
        account_step(session("static", "cct-digits", r, autocast="bf16"), 1)
        for r in ("none", "norm")
    )
    saved = kept_bytes(session("static", "cct-digits"), "norm") // 2
    assert usual.peak_allocated_bytes - other.peak_allocated_bytes >= saved


def test_every_block_is_reached_and_the_rest_is_as_it_was() -> None:
    model = small_vit()
    recompute_in(model, frozenset({"norm", "gelu"}))
    reached = {name for name, m in model.named_modules() if isinstance(m, ForgetfulLinear)}
    assert reached == {
        f"blocks.{i}.{m}" for i in range(4) for m in ("attn.qkv", "mlp.fc1", "mlp.fc2")
    }
    untouched = small_vit()
    recompute_in(untouched, frozenset())
    assert not any(isinstance(m, ForgetfulLinear) for m in untouched.modules())


def test_another_activation_is_refused() -> None:
    model = small_vit()
    model.get_submodule("blocks.0.mlp").act = nn.ReLU()
    with pytest.raises(ValueError, match="ReLU is not a GELU"):
        recompute_in(model, frozenset({"gelu"}))


def test_an_exported_model_computes_as_the_trained_one() -> None:
    of = session("barter", recompute="norm,gelu")
    outcome(of)
    exported = of.method.export(of.model).eval()
    images, _ = of.batch(1)
    with torch.no_grad():
        expected = of.model.eval()(images)
        assert torch.equal(exported(images), expected)
    loss = exported(images).sum()
    loss.backward()
    assert all(p.grad is None for p in of.model.parameters()), "a copy reaches only itself"


def test_what_several_read_is_made_once_and_then_let_go() -> None:
    made: list[Tensor] = []

    def make() -> Tensor:
        made.append(torch.ones(2))
        return made[-1]

    tensor = torch.zeros(2)
    mark(tensor, Recomputed(make))
    readers = kept(tensor), kept(tensor)
    assert readers[0]() is readers[1]() is made[0]
    assert len(made) == 1
    assert readers[0]() is made[1], "a second backward pass: nothing was held in between"


def test_what_backward_keeps_is_handed_out_without_its_history() -> None:
    activation = torch.ones(2, requires_grad=True) * 2
    given = kept(activation)()
    assert not given.requires_grad
    assert given.data_ptr() == activation.data_ptr()


def test_a_graph_can_be_walked_twice() -> None:
    usual, other = small_vit(), small_vit()
    recompute_in(other, frozenset({"norm", "gelu"}))
    images, targets = batch(1)
    for model in (usual, other):
        loss = nn.functional.cross_entropy(model(images), targets)
        loss.backward(retain_graph=True)
        loss.backward()
    for mine, theirs in zip(usual.parameters(), other.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.equal(mine.grad, theirs.grad)
