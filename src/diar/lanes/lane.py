"""What a lane is: one way to run one network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

# Name of the tensor, in an exported graph, up to which lanes of 16 bits compute in FP32 all the same.
FULL_PRECISION = "full_precision"


class Lane(Protocol):
    """Runs one network.

    name: as RESULT and the metrics show it, for example ``openvino:fp32``. rows_at_once: so many rows are run
    at a time, beside whoever started them, and are best started so; 0 for a lane that does nothing beside.
    """

    name: str
    rows_at_once: int = 0

    def run(self, inputs: Tensor) -> Tensor:
        """Run the network on ``inputs``, on the current stream if they are on a GPU.

        The outputs depend on the inputs alone, not on what was run before or beside them.
        """

    def start(self, inputs: Tensor) -> Callable[[], Tensor]:
        """Begin to run the network; what is returned waits for the outputs.

        Lanes that do nothing beside the caller run it at once: on a GPU nobody waits for it all the same.
        """
        outputs = self.run(inputs)
        return lambda: outputs

    def close(self) -> None:
        """Give back what the lane holds; it is not used again."""
