"""What ``scripts/build_engines --gpu`` means: a capability, perhaps a GPU model, a flavour, a precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from diar.errors import SetupError
from diar.gpus import Gpu, find_gpu
from diar.lanes.tensorrt import host_of
from diar.plans import Flavour, Host, Precision


@dataclass(frozen=True)
class Target:
    """What plans are built for. gpu: model name, empty for any GPU of the capability."""

    capability: str
    gpu: str
    flavour: Flavour
    precision: Precision


def local_gpu() -> Host | None:
    """This machine's first GPU."""
    return host_of(torch.device("cuda:0")) if torch.cuda.is_available() else None


def choose_target(
    name: str, flavour: Flavour | None, precision: Precision | None, local: Host | None
) -> Target:
    """The target of the command's options; what they leave open is as the table recommends.

    name: as typed, ``local`` for this machine's GPU. local: that GPU, None if there is none.

    Raises SetupError (E_GPU) for an unknown GPU, ``local`` without one, and the flavour ``tensorrt`` for a
    GPU that is not here: TensorRT times its kernels on the GPU that it builds for.
    """
    if name == "local":
        if local is None:
            raise SetupError("E_GPU", "no GPU on this machine; name one, as in --gpu sm89")
        gpu, is_here = _entry(local), True
    else:
        gpu = find_gpu(name)
        is_here = local is not None and (local.gpu in gpu.models or name.lower() == local.capability)
    flavour, precision = flavour or gpu.flavour, precision or gpu.precision
    if flavour == "tensorrt_rtx":
        return Target(gpu.capability, "", flavour, precision)
    if local is None or not is_here:
        here = f"{local.gpu} ({local.capability})" if local else "none"
        what = f"tensorrt builds for the GPU of this machine only: asked for {name}, here is {here}"
        raise SetupError("E_GPU", f"{what}; --flavour tensorrt_rtx builds on any machine")
    return Target(local.capability, local.gpu, flavour, precision)


def _entry(local: Host) -> Gpu:
    """The table's entry for this machine's GPU; for a model that it lacks, that of the capability."""
    try:
        return find_gpu(local.gpu)
    except SetupError:
        return find_gpu(local.capability)
