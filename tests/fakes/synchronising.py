"""Records what would make a CPU wait for its GPU, on tensors that are on the CPU all along."""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_DISPATCHED = {  # these answer with a number, or with a shape that depends on values
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "equal",
    "unique_dim",
    "_unique2",
    "repeat_interleave",
}
_METHODS = {"cpu", "numpy", "tolist", "item", "__array__"}


class _Operations(TorchDispatchMode):
    """What reaches the device; a mask as an index counts: its size must be known."""

    def __init__(self, calls):
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if name in _DISPATCHED or masks:
            self._calls.append(f"aten.{name}")
        return func(*args, **(kwargs or {}))


class _Methods(TorchFunctionMode):
    """What does not even reach the device while the tensors are on the CPU."""

    def __init__(self, calls):
        super().__init__()
        self._calls = calls

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        to_cpu = name == "to" and any(str(value) == "cpu" for value in (*args[1:], *(kwargs or {}).values()))
        if name in _METHODS or to_cpu:
            self._calls.append(f"Tensor.{name}")
        return func(*args, **(kwargs or {}))


@contextmanager
def synchronising_calls():
    """Gives the list of the calls inside, in order."""
    calls: list[str] = []
    with _Methods(calls), _Operations(calls):
        yield calls
