"""Export the networks as ONNX files with dynamic batches, each proved against PyTorch before it is kept.

Uses PyTorch's TorchScript-based exporter, which every release from 2.1 on has, and OpenVINO for the proof.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import openvino
import torch
from google.protobuf.message import DecodeError
from torch import Tensor, nn

from diar.artifacts import replacing
from diar.errors import SetupError
from diar.fbank import num_fbank_frames
from diar.lanes.lane import FULL_PRECISION
from diar.network_files import onnx_file, reference_file
from diar.networks.campplus import TRUNK_CHANNELS, load_campplus
from diar.networks.reference import NUM_BINS, fingerprint, reference_network
from diar.networks.segmentation import load_segmentation
from diar.profile import Profile, load_profile

_OPSET = 17
_REVISION = "1"  # raise it when the exported graphs change: files of another revision are written anew


@dataclass(frozen=True)
class Graph:
    """One ONNX file: its network, its only input and output, their dynamic axes, and how it is proved.

    origin: hex digest of the weights. load: makes the network, given the folder of weights.

    shapes: input shapes at which it must equal PyTorch to ``limit`` (largest absolute difference), on
    normal noise of deviation ``loudness``; the first one is also the exporter's example. The limits leave
    four to ten times the difference that correct FP32 runtimes showed.

    full_precision: kind of the node whose first result is named FULL_PRECISION, for lanes that compute in
    16 bits. A waveform does not survive BF16: 3 % of the frames changed class (15 % in a quiet recording),
    0.2 % where everything up to the first activation stayed in FP32.
    """

    file: str
    origin: str
    load: Callable[[Path], nn.Module]
    source: str
    target: str
    axes: dict[str, dict[int, str]]
    shapes: Sequence[tuple[int, ...]]
    loudness: float
    limit: float
    full_precision: str | None = None
    untrained: bool = False

    @property
    def stamp(self) -> dict[str, str]:
        """Metadata by which a file is known to be up to date."""
        stamp = {"diar.weights_sha256": self.origin, "diar.revision": _REVISION}
        return stamp | {"diar.untrained": "yes"} if self.untrained else stamp


def plan_graphs(profile: Profile) -> list[Graph]:
    """Segmentation, trunk and head of a profile; no segmentation where it is to be brought along."""
    makers = {"pyannet": [_pyannet], "reference": [_reference], "onnx": []}
    return [*(make(profile) for make in makers[profile.segmentation.network]), *_campplus(profile)]


def _pyannet(profile: Profile) -> Graph:
    weights, window = profile.segmentation.weights, profile.geometry.window
    assert weights is not None  # a profile of this network has them
    return Graph(
        file=onnx_file(profile, "segmentation", Path()).name,
        origin=weights.sha256,
        load=lambda folder: load_segmentation(folder / weights.file, weights.sha256),
        source="waveform",
        target="log_probabilities",
        axes={"waveform": {0: "n"}, "log_probabilities": {0: "n"}},
        shapes=[(2, window), (1, window), (5, window)],
        loudness=0.1,
        limit=1e-4,
        full_precision="LeakyRelu",
    )


def _reference(profile: Profile) -> Graph:
    network = reference_network(profile.geometry.num_classes)
    window = (num_fbank_frames(profile.geometry.window), NUM_BINS)
    return Graph(
        file=reference_file(profile, Path()).name,
        origin=fingerprint(network),
        load=lambda folder: network,
        source="fbank",
        target="log_probabilities",
        axes={"fbank": {0: "n"}, "log_probabilities": {0: "n"}},
        shapes=[(2, *window), (1, *window), (profile.geometry.windows_per_block, *window)],
        loudness=3.0,
        limit=1e-4,
        full_precision="LayerNormalization",
        untrained=True,
    )


def _campplus(profile: Profile) -> list[Graph]:
    weights = profile.embedding.weights
    # The least, around one and two context segments of 100 trunk frames, a window, a block.
    frames = [1, 2, 151, 199, 200, 201, 202, 401, 998, 4098]
    trunk = Graph(
        file=onnx_file(profile, "trunk", Path()).name,
        origin=weights.sha256,
        load=lambda folder: load_campplus(folder / weights.file, weights.sha256)[0],
        source="fbank",
        target="trunk",
        axes={"fbank": {0: "b", 1: "frames"}, "trunk": {0: "b", 2: "trunk_frames"}},
        shapes=[(2, 333, 80)] + [(1, count, 80) for count in frames],
        loudness=3.0,
        limit=2e-4,
    )
    head = Graph(
        file="campplus_head.onnx",
        origin=weights.sha256,
        load=lambda folder: load_campplus(folder / weights.file, weights.sha256)[1],
        source="statistics",
        target="embedding",
        axes={"statistics": {0: "m"}, "embedding": {0: "m"}},
        shapes=[(count, 2 * TRUNK_CHANNELS) for count in (2, 1, 96)],
        loudness=1.0,
        limit=5e-4,
    )
    return [trunk, head]


def export_onnx(profile: Profile, engines_dir: Path) -> list[str]:
    """Make sure that ``engines_dir/build/onnx`` holds the profile's networks; returns one line per file.

    A segmentation network that was brought along is not touched.

    Files stamped with the same weights and revision are left alone; each other one is replaced as a whole.
    Raises SetupError: E_WEIGHTS (missing or altered), E_EXPORT (a file is not the network), E_FILES.
    """
    folder = engines_dir / "build" / "onnx"
    lines = []
    for graph in plan_graphs(profile):
        path = folder / graph.file
        if is_up_to_date(path, graph):
            lines.append(f"{path}: already there")
            continue
        network = graph.load(engines_dir / "build" / "weights")
        try:
            with replacing(path) as draft:
                write(graph, network, draft)
                difference = prove(graph, network, draft)
        except OSError as err:
            raise SetupError("E_FILES", f"cannot write {path}: {err}") from err
        sizes = f"{len(graph.shapes)} input shapes"
        lines.append(f"{path}: max |delta| {difference:.1e} over {sizes} (limit {graph.limit:.0e})")
    return lines


def is_up_to_date(path: Path, graph: Graph) -> bool:
    """Whether ``path`` is a readable ONNX file that carries the graph's stamp."""
    if not path.is_file():
        return False
    try:
        stored = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    except DecodeError:
        return False
    return graph.stamp.items() <= stored.items()


def write(graph: Graph, network: nn.Module, path: Path) -> None:
    """Export ``network`` with its stamp."""
    example = torch.from_numpy(_noise(graph, graph.shapes[0]))
    export(network, example, path, graph.source, graph.target, graph.axes)
    model = onnx.load(path)
    if graph.full_precision:
        _rename_first_result(model, graph.full_precision, FULL_PRECISION)
    onnx.checker.check_model(model)
    onnx.helper.set_model_props(model, graph.stamp)
    onnx.save(model, path)


def export(
    network: nn.Module, example: Tensor, path: Path, source: str, target: str, axes: dict[str, dict[int, str]]
) -> None:
    """Write a network of one input and one output as ONNX; the remarks on tracing are not shown."""
    # Releases that have the newer exporter prefer it; those without it lack the argument.
    has_choice = "dynamo" in inspect.signature(torch.onnx.export).parameters
    exporter: dict[str, Any] = {"dynamo": False} if has_choice else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (example,),
            str(path),
            input_names=[source],
            output_names=[target],
            dynamic_axes=axes,
            opset_version=_OPSET,
            **exporter,
        )


def _rename_first_result(model: onnx.ModelProto, kind: str, name: str) -> None:
    """Call the result of the first node of one kind ``name``, also where it is used."""
    old = next(node for node in model.graph.node if node.op_type == kind).output[0]
    for node in model.graph.node:
        for values in (node.input, node.output):
            values[:] = [name if value == old else value for value in values]


def prove(graph: Graph, network: nn.Module, path: Path) -> float:
    """Largest absolute difference between the file in OpenVINO (FP32) and PyTorch over the graph's shapes.

    Raises SetupError E_EXPORT when it is over the graph's limit, or a shape differs.
    """
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    worst = 0.0
    for shape in graph.shapes:
        noise = _noise(graph, shape)
        with torch.inference_mode():
            expected = network(torch.from_numpy(noise)).numpy()
        actual = compiled({graph.source: noise})[graph.target]
        if actual.shape != expected.shape:
            what = f"{graph.file} gives {actual.shape} for {shape}"
            raise SetupError("E_EXPORT", f"{what}, expected {expected.shape}")
        difference = float(np.abs(actual - expected).max())
        if not difference <= graph.limit:  # NaN is no agreement either
            what = f"{graph.file} differs from PyTorch by {difference:.1e} at {shape}"
            raise SetupError("E_EXPORT", f"{what}, expected at most {graph.limit:.0e}")
        worst = max(worst, difference)
    return worst


def _noise(graph: Graph, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The graph's test input of one shape, the same in every run."""
    noise = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return noise * np.float32(graph.loudness)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="export_onnx", description=__doc__)
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        lines = export_onnx(load_profile(options.profile), options.engines_dir.resolve())
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
