"""A block's way to its device and back: one copy each way, through memory that is taken once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from diar.spans import Geometry

Array = npt.NDArray[np.float32]


class Transfer:
    """Carries a span to the device, and the results of its block back.

    dim: of an embedding. staged: through pinned memory of our own, which a GPU reads and writes beside its
    computations; by default on GPUs only, on a CPU nothing is copied. The memory is used again by the next
    block: one block at a time.
    """

    def __init__(
        self, device: torch.device, geometry: Geometry, dim: int, staged: bool | None = None
    ) -> None:
        self._device = device
        self._staged = device.type == "cuda" if staged is None else staged
        if self._staged:
            speakers = geometry.local_speakers
            row = geometry.frames * geometry.num_classes + speakers * (2 * dim + 1)
            self._out = self._memory(geometry.span_samples())
            self._back = self._memory(geometry.windows_per_block * row)

    def send(self, span: Array) -> Tensor:
        """The span on the device, (samples,); the copy is on its way when this returns."""
        if not self._staged:
            return torch.from_numpy(np.require(span, requirements=["C", "W"]))  # or torch warns
        staged = self._out[: len(span)]
        staged.numpy()[:] = span
        return staged.to(self._device, non_blocking=True, copy=True)

    def fetch(self, results: Sequence[Tensor], synchronise: Callable[[], None]) -> list[Array]:
        """The results, float32, as arrays of their own. synchronise: waits for the device."""
        if not self._staged:
            return [np.asarray(result.numpy()) for result in results]
        flat = torch.cat([result.reshape(-1) for result in results])
        staged = self._back[: len(flat)]
        staged.copy_(flat, non_blocking=True)
        synchronise()
        parts = np.split(staged.numpy().copy(), np.cumsum([result.numel() for result in results])[:-1])
        return [part.reshape(result.shape) for part, result in zip(parts, results, strict=True)]

    def _memory(self, size: int) -> Tensor:
        return torch.empty(size, pin_memory=self._device.type == "cuda")
