"""The contract of a segmentation network that is brought along, tried on the ONNX file itself.

One input, float32: (n, samples) or (n, fbank frames, bins). One output, float32: (n, frames, classes)
log-probabilities of the powerset classes. n is free, and what a window is answered depends on it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import onnx
import openvino
import torch
from google.protobuf.message import DecodeError

from diar.errors import SetupError
from diar.fbank import Fbank
from diar.front_end import fbank_windows, waveform_windows
from diar.lanes.shapes import input_shapes
from diar.lanes.tensorrt_module import load_module
from diar.plans import Flavour
from diar.profile import Profile
from diar.tools.engine_builder import parse_onnx

SUM_LIMIT = 1e-3  # how far the probabilities of a frame may be from 1 in all
SAME_LIMIT = 1e-3  # how far a log-probability may change with what else is in the batch
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. passed: None if it could not be."""

    what: str
    got: str
    expected: str
    passed: bool | None

    def __str__(self) -> str:
        """One line.

        >>> print(Finding("inputs", "2", "1", False))
        BAD  inputs: got 2, expected 1
        >>> print(Finding("tensorrt", "no tensorrt here", "", None))
        ?    tensorrt: not checked, no tensorrt here
        """
        if self.passed is None:
            return f"?    {self.what}: not checked, {self.got}"
        return f"{'ok ' if self.passed else 'BAD'}  {self.what}: got {self.got}, expected {self.expected}"


def single_file(model: Path, target: Path) -> Path:
    """Write ``model``, with weights that stand in files beside it, as one file; returns ``target``.

    Raises SetupError (E_ONNX) for a file that is missing, no ONNX file, an invalid one, or over 2 GB in all.
    """
    try:
        graph = onnx.load(model)
        onnx.save(graph, target)
        onnx.checker.check_model(str(target))
    except (OSError, DecodeError, ValueError, onnx.checker.ValidationError) as err:
        reason = next(iter(str(err).strip().splitlines()), type(err).__name__)
        raise SetupError("E_ONNX", f"{model} is not a valid ONNX file: {reason}") from err
    return target


def check_file(file: Path, profile: Profile, *, gpus: bool) -> list[Finding]:
    """Everything that is to be known of a file before it is installed. gpus: TensorRT has to take it, too."""
    findings = list(_check_tensors(onnx.load(file, load_external_data=False), profile))
    if all(finding.passed for finding in findings):
        try:
            run = _Runner(file)
        except RuntimeError as err:
            reason = str(err).strip().splitlines()[-1]
            findings.append(Finding("OpenVINO", f"an error: {reason}", "a network that loads", False))
        else:
            findings += _check_answers(run, profile)
    return findings + [_check_parser(file, flavour) for flavour in get_args(Flavour) if gpus]


class _Runner:
    """The file in OpenVINO, FP32, as its lane runs it."""

    def __init__(self, file: Path) -> None:
        compiled = openvino.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self._request = compiled.create_infer_request()

    def __call__(self, windows: Floats) -> Floats:
        """Run the network on some windows at once; RuntimeError where it cannot."""
        return np.array(self._request.infer([windows])[0])


def _check_tensors(model: onnx.ModelProto, profile: Profile) -> Iterator[Finding]:
    geometry = profile.geometry
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    window = input_shapes(profile, "segmentation").least[1:]
    for what, values, dims in [
        ("input", inputs, window),
        ("output", list(model.graph.output), (geometry.frames, geometry.num_classes)),
    ]:
        expected = f"one, float32 (n, {', '.join(map(str, dims))}) with n free"
        got = "; ".join(_describe(value) for value in values) or "none"
        yield Finding(what, got, expected, len(values) == 1 and _fits(values[0], dims))


def _describe(value: onnx.ValueInfoProto) -> str:
    kind = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    dims = ", ".join("free" if size is None else str(size) for size in _sizes(value))
    return f"{value.name}, {'float32' if name == 'float' else name} ({dims})"


def _sizes(value: onnx.ValueInfoProto) -> list[int | None]:
    """The dimensions as the file says them, None where they are free."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]


def _fits(value: onnx.ValueInfoProto, dims: tuple[int, ...]) -> bool:
    """Whether the first dimension is free and each other one is free or as it must be."""
    first, *others = _sizes(value) or [0]
    return (
        value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        and first is None
        and len(others) == len(dims)
        and all(size in (None, right) for size, right in zip(others, dims, strict=True))
    )


def _check_answers(run: _Runner, profile: Profile) -> Iterator[Finding]:
    geometry = profile.geometry
    most = geometry.windows_per_block
    inputs = {name: front_end(signal, profile) for name, signal in _signals(profile).items()}
    answers = {}
    for name, windows in inputs.items():
        expected = f"({most}, {geometry.frames}, {geometry.num_classes})"
        try:
            answers[name] = run(windows)
        except RuntimeError as err:
            reason = str(err).strip().splitlines()[-1]
            yield Finding(f"{name} input", f"an error: {reason}", f"an answer of {expected}", False)
            return
        got = str(answers[name].shape)
        yield Finding(f"{name} input, shape", got, expected, got == expected)
        if got != expected:
            return
        finite = np.isfinite(answers[name]).mean()
        yield Finding(f"{name} input, values", f"{100 * finite:.4g} % finite", "100 %", bool(finite == 1))
    sums = np.exp(np.stack(list(answers.values())).astype(np.float64)).sum(axis=-1)
    yield Finding(
        "log-probabilities",
        f"probabilities that sum to {sums.min():.4g} … {sums.max():.4g}",
        f"1 within {SUM_LIMIT:g}",
        bool(np.abs(sums - 1).max() <= SUM_LIMIT),
    )
    together = answers["random"]
    for what, other in [
        ("each window alone", np.concatenate([run(window[None]) for window in inputs["random"]])),
        ("the windows beside others", run(np.concatenate([inputs["random"][:1], inputs["loud"][1:]]))[:1]),
        ("the same windows again", run(inputs["random"])),
    ]:
        difference = float(np.abs(together[: len(other)] - other).max())
        right = difference <= SAME_LIMIT
        yield Finding(what, f"log-probabilities up to {difference:.1e} apart", f"{SAME_LIMIT:g}", right)


def _signals(profile: Profile) -> dict[str, Floats]:
    """A full block of noise, of digital silence, and of noise clipped at full scale."""
    noise = np.random.default_rng(0).standard_normal(profile.geometry.span_samples()).astype(np.float32)
    loud = np.clip(noise * 10, -1, 1)
    return {"random": noise * np.float32(0.1), "silent": np.zeros_like(noise), "loud": loud}


def front_end(span: Floats, profile: Profile) -> Floats:
    """The windows of a span as the profile's segmentation network is given them, contiguous."""
    samples, fbank = torch.from_numpy(span), profile.segmentation.fbank
    if fbank:
        windows = fbank_windows(Fbank()(samples), profile.geometry, fbank)
    else:
        windows = waveform_windows(samples, profile.geometry)
    return np.ascontiguousarray(windows.numpy())


def _check_parser(file: Path, flavour: Flavour) -> Finding:
    """Whether a flavour of TensorRT, if it is here, knows all operators."""
    what = f"parser of {flavour}"
    try:
        module = load_module(flavour)
    except SetupError as err:
        return Finding(what, err.text, "", None)
    try:
        parse_onnx(file, flavour, module)
    except SetupError as err:
        if err.word == "E_BUILD":
            return Finding(what, err.text, "", None)
        return Finding(what, err.text.replace(f"{file}: ", ""), "every operator to be known", False)
    return Finding(what, f"every operator known to {module.__version__}", "every operator to be known", True)
