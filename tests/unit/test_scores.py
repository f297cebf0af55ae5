"""Scores observed in real backward passes."""

import gc
import weakref
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn.functional import cross_entropy

from methods.pool import UnitPool
from methods.scores import GROWTH, PRUNE, ScoreCollector, unit_scores
from methods.units import find_layers
from tests.support.training import batch, small_cct, small_vit


def test_by_hand() -> None:
    # Two samples, two tokens, two channels. a * g per sample and channel 0: (1, -3) and (2, 2).
    activation = torch.tensor([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 1.0], [1.0, 1.0]]])
    gradient = torch.tensor([[[1.0, 0.0], [-3.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]])
    prune, growth = unit_scores(activation, gradient, unit_size=1)
    # d: (|1 - 3| + |2 + 2|) / 2 = 3. s: (1 + 3 + 2 + 2) / (2 * 2) = 2.
    assert prune.tolist() == [3.0, 1.0]
    assert growth.tolist() == [2.0, 0.5]
    # Both as the features of one head. d: (|-2 + 1| + |4 - 1|) / 2. s: (8 + 2) / (2 * 4).
    prune, growth = unit_scores(activation, gradient, unit_size=2)
    assert (prune.tolist(), growth.tolist()) == ([2.0], [1.25])


@pytest.fixture(params=["vit", "cct"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    return small_vit() if request.param == "vit" else small_cct()


def collectors(model: nn.Module) -> list[ScoreCollector]:
    made = [ScoreCollector(layers) for layers in find_layers(model)]
    for collector in made:
        collector.open()
    return made


def backward(model: nn.Module, images: Tensor, targets: Tensor, factor: float = 1.0) -> None:
    (factor * cross_entropy(model(images), targets)).backward()


def take(collector: ScoreCollector, **options: Any) -> Tensor:
    scores = collector.take(**options)
    assert scores is not None
    return scores


def test_observed_equals_definition(model: nn.Module) -> None:
    images, targets = batch(1)
    kept: dict[str, Tensor] = {}
    head_layers, channel_layers = find_layers(model)
    for layer in head_layers + channel_layers:

        def keep(_module: nn.Module, inputs: tuple[Tensor], name: str = layer.name) -> None:
            inputs[0].retain_grad()
            kept[name] = inputs[0]

        layer.module.get_submodule(layer.consumer).register_forward_pre_hook(keep)
    heads, channels = collectors(model)
    backward(model, images, targets)
    for collector, layers in ((heads, head_layers), (channels, channel_layers)):
        scores = take(collector)
        start = 0
        for layer in layers:
            activation = kept[layer.name].detach()
            gradient = kept[layer.name].grad
            assert gradient is not None
            for unit in range(layer.width):
                features = slice(unit * layer.unit_size, (unit + 1) * layer.unit_size)
                product = (activation * gradient)[..., features]
                signed = product.flatten(1).sum(1).abs().mean()
                torch.testing.assert_close(scores[PRUNE, start + unit], signed)
                torch.testing.assert_close(scores[GROWTH, start + unit], product.abs().mean())
            start += layer.width
        assert start == scores.shape[1]


def test_micro_batches_give_the_whole_minibatchs_score(model: nn.Module) -> None:
    images, targets = batch(1, size=12)
    observed = collectors(model)
    backward(model, images, targets)
    whole = [take(collector) for collector in observed]
    for chunk in range(3):
        part = slice(4 * chunk, 4 * chunk + 4)
        backward(model, images[part], targets[part], factor=1 / 3)
    for collector, expected in zip(observed, whole, strict=True):
        torch.testing.assert_close(take(collector), expected, rtol=1e-10, atol=1e-14)


def test_layers_that_only_some_samples_reach() -> None:
    """Stochastic depth may skip a layer in one micro-batch and not in another."""
    observed = collectors(small_vit())[1]
    ones = torch.ones(3, 2, 20, dtype=torch.float64)
    observed.add(0, [ones], ones)  # three samples, layers 0 and 2
    observed.add(2, [ones], -ones)
    observed.add(2, [ones[:1]], 4 * ones[:1])  # one more, layers 2 and 3
    observed.add(3, [ones[:1]], ones[:1])
    scores = take(observed).unflatten(1, (4, 20))
    # Of layer 2: three samples of |1 + 1| and one of |4 + 4|; of four samples in all.
    assert scores[PRUNE, :, 7].tolist() == [3 * 2 / 4, 0, (3 * 2 + 8) / 4, 2 / 4]
    assert scores[GROWTH, :, 7].tolist() == [3 / 4, 0, (3 + 4) / 4, 1 / 4]
    assert observed.take() is None


def test_gradient_scaler_does_not_matter(model: nn.Module) -> None:
    images, targets = batch(1)
    observed = collectors(model)
    backward(model, images, targets)
    plain = [take(collector) for collector in observed]
    backward(model, images, targets, factor=1024.0)
    by_number = [collector.take(loss_scale=1024.0) for collector in observed]
    backward(model, images, targets, factor=1024.0)
    by_tensor = [collector.take(loss_scale=torch.tensor(1024.0)) for collector in observed]
    for expected, *scaled in zip(plain, by_number, by_tensor, strict=True):
        for scores in scaled:
            torch.testing.assert_close(scores, expected, rtol=1e-10, atol=1e-14)


def test_overflow_under_a_scaler_leaves_no_trace() -> None:
    pool = UnitPool("head", [1, 1], [2, 2], 0, beta=0.5, like=torch.zeros(0))
    pool.observe(torch.tensor([[4.0, 2.0], [1.0, 1.0]]), scaled=True)
    before = pool.scores.clone()
    pool.observe(torch.tensor([[float("inf"), 2.0], [1.0, 1.0]]), scaled=True)
    assert torch.equal(pool.scores, before)
    assert before.tolist() == [[2.0, 1.0], [0.5, 0.5]]


def test_evaluation_is_not_observed(model: nn.Module) -> None:
    observed = collectors(model)
    with torch.no_grad():
        model(batch(1)[0])
    assert [collector.take() for collector in observed] == [None, None]


def test_closed_collectors_leave_no_hook(model: nn.Module) -> None:
    for collector in collectors(model):
        collector.close()
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_bfloat16_activations_are_scored_in_float32() -> None:
    model = small_vit().float()
    (_, channels) = collectors(model)
    images, targets = batch(1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy(model(images.float()), targets)
    loss.backward()
    scores = take(channels)
    assert scores.dtype == torch.float32
    assert bool((scores > 0).all())


class _LiveActivations:
    """Counts fc2 inputs that are alive when the first block's gradient arrives: the last moment
    at which backward itself still needs any of them."""

    def __init__(self, model: nn.Module) -> None:
        self.alive_at_end = -1
        self._references: list[weakref.ref] = []
        for block in model.blocks:  # pyright: ignore
            block.mlp.fc2.register_forward_pre_hook(self._remember)
        model.blocks[0].register_full_backward_hook(self._count)  # pyright: ignore

    def _remember(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._references.append(weakref.ref(inputs[0].untyped_storage()))

    def _count(self, *_args: object) -> None:
        gc.collect()
        self.alive_at_end = sum(reference() is not None for reference in self._references)


def test_no_activation_lives_longer_than_backward_needs_it() -> None:
    images, targets = batch(1)
    alive = {}
    for observing in (False, True):
        model = small_vit()
        if observing:
            collectors(model)
        live = _LiveActivations(model)
        backward(model, images, targets)
        alive[observing] = live.alive_at_end
    assert alive[True] == alive[False] == 0


def _rank(rank: int, port: int, results: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = small_vit()
    (heads, _) = collectors(model)
    images, targets = batch(1, size=8)
    part = slice(4 * rank, 4 * rank + 4)
    # Each rank's loss is the mean of its own samples, as under DistributedDataParallel.
    backward(model, images[part], targets[part])
    results[rank] = take(heads, process_group=dist.group.WORLD).tolist()
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ranks_agree_on_the_global_minibatchs_score() -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with mp.Manager() as manager:
        results = manager.dict()
        start_processes(_rank, (port, results), nprocs=2, start_method="fork")
        by_rank = [torch.tensor(results[rank], dtype=torch.float64) for rank in range(2)]
    model = small_vit()
    (heads, _) = collectors(model)
    backward(model, *batch(1, size=8))
    assert torch.equal(by_rank[0], by_rank[1])
    torch.testing.assert_close(by_rank[0], take(heads), rtol=1e-10, atol=1e-14)
