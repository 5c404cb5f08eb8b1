"""Build TensorRT plans of a profile's networks, for a GPU model or a compute capability.

The flavour "tensorrt" builds on the GPU that it will serve; "tensorrt_rtx" builds for a compute capability on
any machine, without a GPU. Plans and MANIFEST.json land in engines/build; engines/README.md says more.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import get_args

import msgspec
import onnx
from google.protobuf.message import DecodeError

from diar.artifacts import file_sha256, replacing
from diar.errors import SetupError
from diar.lanes.shapes import plan_shapes
from diar.lanes.tensorrt_api import TensorRt
from diar.lanes.tensorrt_module import load_module
from diar.network_files import Network, making_command, onnx_file
from diar.plans import (
    Flavour,
    Host,
    Plan,
    Precision,
    Shapes,
    compare,
    enter_plan,
    onnx_of_precision,
    plan_name,
    read_manifest,
)
from diar.profile import Profile, load_profile
from diar.tools.engine_builder import Order, build_plan
from diar.tools.engine_target import Target, choose_target, local_gpu
from diar.tools.half_precision import to_half
from diar.tools.half_proof import prove_half

Progress = Callable[[str], None]
_MIB = 1 << 20


def build_engine(
    profile: Profile,
    network: Network,
    folder: Path,
    target: Target,
    workspace_mib: int,
    progress: Progress = lambda line: None,
) -> str:
    """Build one plan into ``folder`` (engines/build) and enter it into the manifest; returns one line.

    A plan that is there and agrees with its manifest entry and its ONNX file is left alone.

    Raises SetupError: E_TENSORRT, E_ONNX, E_BUILD… (see ``build_plan``), E_FILES (it cannot be written;
    nothing is left half written).
    """
    module = load_module(target.flavour)
    fp32 = onnx_file(profile, network, folder)
    if not fp32.is_file():
        raise SetupError("E_ONNX", f"no file {fp32}; {making_command(profile, network)} makes it")
    path = folder / plan_name(
        fp32.stem, target.precision, target.capability, target.flavour, module.__version__
    )
    shapes = plan_shapes(profile, network)
    try:
        file = prepare_onnx(fp32, target.precision, shapes, progress)
        plan = Plan(
            file=path.name,
            sha256="",
            onnx=file.relative_to(folder).as_posix(),
            onnx_sha256=file_sha256(file),
            network=fp32.stem,
            profile=profile.name,
            precision=target.precision,
            flavour=target.flavour,
            version=module.__version__,
            capability=target.capability,
            gpu=target.gpu,
            shapes=shapes,
            built="",
            build_s=0.0,
        )
        if _is_there(plan, folder):
            return f"{path}: already there"
        progress(f"{path.name}: building from {file}")
        begin = time.monotonic()
        size = _write_plan(plan, file, path, module, workspace_mib, progress)
        seconds = round(time.monotonic() - begin, 1)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        enter_plan(
            folder, msgspec.structs.replace(plan, sha256=file_sha256(path), built=now, build_s=seconds)
        )
    except OSError as err:
        raise SetupError("E_FILES", f"cannot write {path}: {err}") from err
    return f"{path}: {size / 1e6:.1f} MB in {seconds} s, for inputs of {shapes}"


def prepare_onnx(fp32: Path, precision: Precision, shapes: Shapes, progress: Progress) -> Path:
    """The ONNX file of ``precision``; the FP16 one is made, and proved, anew when the FP32 one has changed.

    Raises SetupError: E_BUILD_PRECISION (it is not the same network), E_ONNX (the FP32 file is none that can
    be run); OSError if it cannot be written.
    """
    path = onnx_of_precision(fp32, precision)
    if path == fp32:
        return path
    try:
        model = onnx.load(fp32)
    except DecodeError as err:
        raise SetupError("E_ONNX", f"{fp32} is no ONNX file; scripts/export_onnx makes it anew") from err
    half = to_half(model)
    content = half.SerializeToString(deterministic=True)
    if not path.is_file() or path.read_bytes() != content:
        difference = prove_half(half, model, shapes)
        progress(f"{path.name}: within {difference:.2%} of FP32")
        with replacing(path) as draft:
            draft.write_bytes(content)
    return path


def _is_there(plan: Plan, folder: Path) -> bool:
    host = Host(plan.gpu, plan.capability)
    return any(
        compare(other, folder, plan.shapes, plan.profile, host, plan.version) is None
        for other in read_manifest(folder)
        if (other.file, other.onnx_sha256, other.gpu) == (plan.file, plan.onnx_sha256, plan.gpu)
    )


def _write_plan(
    plan: Plan, file: Path, path: Path, module: TensorRt, workspace_mib: int, progress: Progress
) -> int:
    """Build ``plan`` and write it to ``path``; returns its size in bytes."""
    cache = None
    if plan.flavour == "tensorrt":  # TensorRT for RTX times nothing
        cache = path.with_name(f"timing.{plan.capability}.{plan.flavour}{plan.version}.cache")
    order = Order(file, plan.shapes, plan.flavour, plan.capability, workspace_mib * _MIB, cache)
    serialised = build_plan(order, module, lambda line: progress(f"{path.name}: {line}"))
    with replacing(path) as draft:
        draft.write_bytes(serialised)
    return len(serialised)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="build_engines", description=__doc__)
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--gpu", default="local", help="local, a model (L4, A100 …) or a capability (sm89)")
    parser.add_argument("--flavour", choices=get_args(Flavour), help="default: as engines/gpus.toml says")
    parser.add_argument("--precision", choices=get_args(Precision), help="default: as engines/gpus.toml says")
    parser.add_argument("--network", choices=get_args(Network), help="default: both")
    parser.add_argument("--workspace-mib", type=int, default=2048, help="per kernel; default: %(default)s")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.CRITICAL)  # what TensorRT has to say stands in our own errors
    networks: Sequence[Network] = [options.network] if options.network else get_args(Network)

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        profile = load_profile(options.profile)
        target = choose_target(options.gpu, options.flavour, options.precision, local_gpu())
        folder = options.engines_dir.resolve() / "build"
        for network in networks:
            print(build_engine(profile, network, folder, target, options.workspace_mib, tell), flush=True)
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
