"""The exact lane: PyTorch, FP32, the reference that everything else is measured against."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diar.lanes.lane import Lane

WINDOWS_AT_ONCE = 8  # rows of a batch that run together; bounds memory, depends on nothing else


class ExactLane(Lane):
    """Runs a PyTorch module in FP32 without TF32, with deterministic algorithms.

    module: in evaluation mode; moved to ``device``.
    """

    name = "exact"

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        self._module = module.to(device)

    def run(self, inputs: Tensor) -> Tensor:
        """Run the module on (row, …), at most WINDOWS_AT_ONCE rows at a time."""
        outputs = [self._module(part) for part in torch.split(inputs, WINDOWS_AT_ONCE)]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def close(self) -> None:
        """Drop the module and its memory."""
        del self._module
