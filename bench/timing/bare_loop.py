"""A bare PyTorch training loop that the CI gate measures everything against.

FROZEN. It imports nothing of the project and must not change with it: a slow-down of shared code
would otherwise slow the reference too, and be invisible. It does the arithmetic of the dense ViT
for the digits. Whoever has to change it makes every stored baseline worthless: raise `VERSION`,
and store new ones.
"""

import time

import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

VERSION = 1
BATCH_SIZE, IMAGE_SIZE, CLASSES = 64, 32, 10
LEARNING_RATE, WEIGHT_DECAY, LABEL_SMOOTHING = 1e-3, 0.05, 0.1


class BareLoop:
    """The dense model on two fixed batches of noise, with fused Adam and decoupled decay."""

    def __init__(self, device: torch.device) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.model = VisionTransformer(
                img_size=IMAGE_SIZE,
                patch_size=8,
                num_classes=CLASSES,
                embed_dim=64,
                depth=4,
                num_heads=8,
                mlp_ratio=2,
            ).to(device)
            size = (BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE)
            self.batches = [
                (torch.randn(size).to(device), torch.randint(CLASSES, (BATCH_SIZE,)).to(device))
                for _ in range(2)
            ]
        self.parameters: list[torch.Tensor] = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=LEARNING_RATE, fused=True)
        self.device = device
        self.steps = 0

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Made anew for every step, outside the clock, as from a loader."""
        images, targets = self.batches[self.steps % 2]
        self.steps += 1
        return images.clone(), targets

    def step(self, images: torch.Tensor, targets: torch.Tensor) -> None:
        loss = cross_entropy(self.model(images), targets, label_smoothing=LABEL_SMOOTHING)
        loss.backward()
        with torch.no_grad():
            factor = 1 - LEARNING_RATE * WEIGHT_DECAY
            torch._foreach_mul_(self.parameters, factor)  # pyright: ignore[reportPrivateImportUsage]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def time_ms(self, steps: int) -> list[float]:
        """Milliseconds of each of so many steps."""
        if self.device.type == "cuda":
            return self._time_events_ms(steps)
        times = []
        for _ in range(steps):
            batch = self.batch()
            start = time.perf_counter_ns()
            self.step(*batch)
            times.append((time.perf_counter_ns() - start) / 1e6)
        return times

    def _time_events_ms(self, steps: int) -> list[float]:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * steps)]
        for start, end in zip(marks[::2], marks[1::2], strict=True):
            batch = self.batch()
            start.record()
            self.step(*batch)
            end.record()
        torch.cuda.synchronize(self.device)
        return [start.elapsed_time(end) for start, end in zip(marks[::2], marks[1::2], strict=True)]
