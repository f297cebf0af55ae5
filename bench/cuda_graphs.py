"""CUDA graphs as the backend of `bench.step_pieces`."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class CudaRecording:
    """One graph. After `release` it holds no memory, and its result is gone."""

    def __init__(self, graph: Any, result: Any) -> None:
        self.result = result
        self._graph = graph

    def replay(self) -> None:
        self._graph.replay()

    def release(self) -> None:
        self.result = None
        self._graph.reset()


class CudaGraphs:
    """Calls and records on a stream of its own, as autograd remembers on which stream a gradient
    is accumulated; replays on the stream of the caller. Graphs of one epoch share one pool."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool: Any = None

    def call(self, work: Callable[[], T]) -> T:
        present = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(present)
        with torch.cuda.stream(self._stream):
            result = work()
        present.wait_stream(self._stream)
        return result

    def record(self, work: Callable[[], Any]) -> CudaRecording:
        """Waits for the device. Other threads (telemetry, loaders) may go on meanwhile."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        ):
            result = work()
        return CudaRecording(graph, result)

    def release(self, recordings: list[CudaRecording]) -> None:
        """Waits for the device: a graph that is still being executed keeps its memory."""
        torch.cuda.synchronize(self._device)
        for recording in recordings:
            recording.release()
        self._pool = None
        torch.cuda.empty_cache()
