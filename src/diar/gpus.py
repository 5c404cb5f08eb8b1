"""The table of GPU models: which compute capability they have, and what to build for them."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

import msgspec

from diar.errors import SetupError
from diar.plans import Flavour, Precision


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of ``engines/gpus.toml``, which explains the fields."""

    capability: str
    models: list[str]
    flavour: Flavour
    precision: Precision


@lru_cache
def known_gpus() -> dict[str, Gpu]:
    """The table, by the short names that people type."""
    text = (resources.files("diar.engines") / "gpus.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, Gpu])


def find_gpu(name: str) -> Gpu:
    """The entry for a short name, a model name or a compute capability, whatever their case.

    A capability that the table lacks is taken as it is, with TensorRT for RTX and FP16.

    >>> find_gpu("l4").capability, find_gpu("Tesla T4").capability, find_gpu("sm120").flavour
    ('sm89', 'sm75', 'tensorrt_rtx')
    >>> find_gpu("sm121")
    Gpu(capability='sm121', models=[], flavour='tensorrt_rtx', precision='fp16')

    Raises SetupError (E_GPU) for any other name, with those that are known.
    """
    wanted = name.lower()
    for short, gpu in known_gpus().items():
        if wanted in (short.lower(), gpu.capability, *(model.lower() for model in gpu.models)):
            return gpu
    if re.fullmatch(r"sm[1-9][0-9]{1,2}", wanted):
        return Gpu(wanted, [], "tensorrt_rtx", "fp16")
    known = ", ".join(known_gpus())
    raise SetupError("E_GPU", f"unknown GPU {name!r}; expected local, {known} or a capability such as sm89")
