"""Reading weights files: nothing is unpickled but tensors and plain values, and a wrong file is named."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from diar.artifacts import file_sha256
from diar.errors import SetupError

_ADVICE = "run scripts/fetch_weights"


def read_checkpoint(path: Path, sha256: str | None = None) -> dict[str, Any]:
    """The dictionary stored in a PyTorch checkpoint, on the CPU.

    ``sha256``: hex digest the file must have; None reads it unchecked.

    Raises SetupError ``E_WEIGHTS`` when the file is missing, is not the expected one or does not load.
    """
    if not path.is_file():
        raise SetupError("E_WEIGHTS", f"expected the weights file {path}, found none; {_ADVICE}")
    try:
        if sha256 is not None and (actual := file_sha256(path)) != sha256:
            raise SetupError("E_WEIGHTS", f"{path} has sha256 {actual}, expected {sha256}; {_ADVICE}")
        with warnings.catch_warnings():  # torch 2.1 warns of what it does itself
            warnings.filterwarnings("ignore", "TypedStorage is deprecated")
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, OSError, EOFError, ValueError, LookupError) as err:
        reason = str(err).partition("\n")[0]
        raise SetupError("E_WEIGHTS", f"{path} is not a readable checkpoint ({reason}); {_ADVICE}") from err
    if not isinstance(stored, dict):
        kind = type(stored).__name__
        raise SetupError("E_WEIGHTS", f"{path} holds a {kind}, expected a dictionary; {_ADVICE}")
    return stored


def load_strictly(network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Fill ``network`` with ``weights``: every key must be used, every parameter filled.

    Raises SetupError ``E_WEIGHTS`` naming ``path`` and the keys or shapes that disagree.
    """
    try:
        network.load_state_dict(dict(weights), strict=True)
    except RuntimeError as err:
        reason = " ".join(str(err).split())
        raise SetupError("E_WEIGHTS", f"{path} does not fit {type(network).__name__}: {reason}") from err
