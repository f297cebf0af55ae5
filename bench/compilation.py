"""The transformer blocks of a model, compiled one by one, for widths that change.

Blocks alike share their graphs (stochastic depth, whose rate is another in each, makes them
differ). What a method may change, the parameters of units and the number of heads, is declared
dynamic from the start: a resize finds its graph. Except at width 1, which torch always compiles
for itself; and where a method's hooks come, new operators do need a graph.
"""

from typing import Any

import torch
from torch import Tensor, nn

from methods.units import find_layers

_MOST_GRAPHS = 100_000
_WIDTHS = (
    r".*\['(qkv|proj|fc1|fc2)'\].*",
    r".*\.(num_heads|attn_dim)$",
    # A linear map that scores are read from is compiled for itself: the hook breaks the graph.
    r"L\['input'\]$",
    r"L\['self'\]\._parameters\['(weight|bias)'\]$",
)
"""Names, as torch's compiler gives them, of what a width is read from: regular expressions."""


class CompiledBlocks:
    """A model whose blocks are compiled while it is called through this, and only then: whoever
    calls or copies the model itself finds it as it was.

    Args:
        backend: of torch.compile.
    """

    def __init__(self, model: nn.Module, backend: str = "inductor") -> None:
        _configure()
        self._model = model
        heads, _ = find_layers(model)
        blocks = [model.get_submodule(layer.name.rpartition(".")[0]) for layer in heads]
        self._compiled: list[tuple[nn.Module, Any]] = [
            (block, torch.compile(block.forward, backend=backend)) for block in blocks
        ]

    def __call__(self, images: Tensor) -> Tensor:
        """Images [B, 3, H, W] to logits [B, classes]."""
        # In the instance's dictionary it hides the method of the class.
        for block, compiled in self._compiled:
            block.__dict__["forward"] = compiled
        try:
            return self._model(images)
        finally:
            for block, _ in self._compiled:
                del block.__dict__["forward"]


def _configure() -> None:
    """torch takes a module for one whose hooks and parameters never change, and silently runs it
    uncompiled after eight graphs. Methods that collect scores have hooks that come and go. It
    compiles in this process: a pool of others would compute beside timed steps."""
    from torch._dynamo import config  # only here: these take a second to load
    from torch._inductor import config as inductor_config
    from torch.compiler import config as compiler_config
    from torch.fx.experimental import _config as shape_config

    inductor_config.compile_threads = 1
    config.skip_nnmodule_hook_guards = False
    config.recompile_limit = config.accumulated_recompile_limit = _MOST_GRAPHS
    config.fail_on_recompile_limit_hit = True
    config.allow_unspec_int_on_nn_module = True
    compiler_config.dynamic_sources = ",".join(_WIDTHS)
    # Two widths that happen to be equal are none the less two.
    shape_config.use_duck_shape = False
