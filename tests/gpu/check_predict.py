"""Predicted beside measured peaks of memory, on a real CUDA GPU; not part of the test suite.

    python tests/gpu/check_predict.py [BATCH]

The published ViT, dense and compact, every backend of attention, float32 and bf16: the peak of the
allocator, without what cuBLAS keeps, against the prediction made on the CPU. Prints one line per
case. Exit code 0 if all agree within a thousandth or a MiB, 1 if one does not, 2 without a GPU.
Takes about two minutes and 3 GiB of GPU memory at the default batch of 256.
"""

import gc
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from bench.measure.clock import make_clock
from bench.measure.memory import AllocatorPeak
from bench.predict.prediction import Prediction, predict, reach
from bench.run_spec import RunSpec
from bench.session import Session, build_session
from bench.study_file import study_spec

MIB = 2**20
CASES = (
    *(("none", "auto"), ("none", "math"), ("none", "efficient")),
    *(("bf16", "auto"), ("bf16", "math"), ("bf16", "efficient"), ("bf16", "cudnn")),
)


def runs(batch_size: int) -> list[RunSpec]:
    found = []
    for autocast, attention in CASES:
        asked = {
            "workload": "vit-tiny-imagenet",
            "methods": "dense,static,rigl",
            "density": "0.1,0.5",
            "seeds": "0",
            "batch_size": batch_size,
            "device": "cuda",
            "autocast": autocast,
            "attention": attention,
        }
        found += study_spec(None, asked, to_run=False).runs()
    return [replace(run, total_steps=20) for run in found]


def kept_workspace(device: torch.device) -> int:
    """Bytes that cuBLAS keeps on this stream; other sizes of products may make it keep more."""
    before = torch.cuda.memory_allocated(device)
    torch.mm(torch.ones(64, 64, device=device), torch.ones(64, 64, device=device))
    torch.cuda.synchronize(device)
    return torch.cuda.memory_allocated(device) - before


def measured(session: Session, step: int) -> int:
    """Peak allocated bytes of the step, with the data set at rest taken off."""
    reach(session, step)
    batch, peak = session.batch(step), AllocatorPeak(session.device)
    peak.reset()
    session.train_step(step, batch, make_clock(session.device))
    return peak.read()[0]


def main() -> int:
    if not torch.cuda.is_available():
        print("no CUDA GPU")
        return 2
    device = torch.device("cuda", 0)
    batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    workspace = kept_workspace(device)
    print(f"{torch.cuda.get_device_name(device)}, cuBLAS keeps {workspace / MIB:.2f} MiB")
    failed = 0
    for run in runs(batch_size):
        for found in predict(run):
            assert isinstance(found, Prediction), found
            gc.collect()
            start = torch.cuda.memory_allocated(device)
            session = build_session(run, device)
            at_rest = sum(t.nbytes for t in session.batch(1))  # a second batch of the pool
            real = measured(session, found.kind.step) - start - at_rest
            del session
            said = found.account.peak_allocated_bytes
            ok = abs(real - said) <= max(said / 1000, MIB)
            failed += not ok
            print(
                f"{'ok ' if ok else 'NOT'} {run.title}, {found.kind.name}: predicted"
                f" {said / MIB:.2f} MiB, measured {real / MIB:.2f}"
                f" ({100 * (said / real - 1):+.2f} %)"
            )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
