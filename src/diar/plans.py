"""TensorRT plans: what they are called, what MANIFEST.json says of them, and which of them may run here.

A plan runs only on the TensorRT build it was made with, and on the GPU model (``tensorrt``) or the compute
capability (``tensorrt_rtx``) it was made for. So nothing is guessed from a file's name: a plan that is not in
the manifest, or disagrees with it or with what runs, is refused with both sides and the command that
rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from diar.artifacts import file_sha256, replacing
from diar.errors import SetupError

Flavour = Literal["tensorrt", "tensorrt_rtx"]
Precision = Literal["fp32", "fp16"]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Dims = tuple[int, ...]

MANIFEST = "MANIFEST.json"
# In this order a plan is compared with what runs: the later the disagreement, the nearer the plan.
_WORDS = ("E_PLAN_GPU", "E_PLAN_VERSION", "E_PLAN_SHAPES", "E_PLAN_ONNX", "E_PLAN_FILE")


class Shapes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Input shapes that a plan takes: from ``least`` to ``most`` in each dimension, fastest at ``best``."""

    least: Dims
    best: Dims
    most: Dims

    def covers(self, other: Shapes) -> bool:
        """Whether every shape of ``other`` is one of these.

        >>> Shapes((1, 8), (4, 8), (4, 8)).covers(Shapes((1, 8), (2, 8), (2, 8)))
        True
        >>> Shapes((1, 8), (4, 8), (4, 8)).covers(Shapes((1, 8), (5, 8), (5, 8)))
        False
        """
        if len(self.least) != len(other.least):
            return False
        lower = all(mine <= theirs for mine, theirs in zip(self.least, other.least, strict=True))
        return lower and all(mine >= theirs for mine, theirs in zip(self.most, other.most, strict=True))

    def __str__(self) -> str:
        """As messages show it: ``[1, 8] to [4, 8]``."""
        return f"{list(self.least)} to {list(self.most)}"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One plan in the manifest.

    file, onnx: relative to the folder of the manifest. network: name of its FP32 ONNX file without suffix.
    profile: it was built for; others may use it where ONNX file and shapes agree. version: of the TensorRT
    build. capability: ``sm89``. gpu: model name, empty where any GPU of that capability will do. built: UTC.
    """

    file: str
    sha256: Sha256
    onnx: str
    onnx_sha256: Sha256
    network: str
    profile: str
    precision: Precision
    flavour: Flavour
    version: str
    capability: Annotated[str, msgspec.Meta(pattern="^sm[0-9]+$")]
    gpu: str
    shapes: Shapes
    built: str
    build_s: float


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    plans: list[Plan]


class Host(NamedTuple):
    """The GPU that a lane is to run on: model name and compute capability, ``sm89``."""

    gpu: str
    capability: str


def plan_name(network: str, precision: Precision, capability: str, flavour: Flavour, version: str) -> str:
    """File name of a plan.

    >>> plan_name("pyannet", "fp16", "sm89", "tensorrt_rtx", "1.7.1.116")
    'pyannet.fp16.sm89.tensorrt_rtx1.7.1.116.plan'
    """
    return f"{network}.{precision}.{capability}.{flavour}{version}.plan"


def onnx_of_precision(onnx: Path, precision: Precision) -> Path:
    """The ONNX file that plans of a precision are built from.

    >>> onnx_of_precision(Path("onnx/pyannet.onnx"), "fp16").as_posix()
    'onnx/pyannet.fp16.onnx'
    """
    return onnx if precision == "fp32" else onnx.with_suffix(f".{precision}.onnx")


def read_manifest(folder: Path) -> list[Plan]:
    """The plans of ``folder``'s manifest, none if there is no manifest; SetupError (E_PLAN_MANIFEST)."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Manifest).plans
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as err:
        raise SetupError("E_PLAN_MANIFEST", f"cannot read {path}: {err}; remove it and rebuild") from err


def enter_plan(folder: Path, plan: Plan) -> None:
    """Write ``plan`` into ``folder``'s manifest, in place of an entry for the same file.

    Raises SetupError (E_PLAN_MANIFEST) for a manifest that cannot be read, OSError if it cannot be written.
    """
    plans = [other for other in read_manifest(folder) if other.file != plan.file]
    manifest = _Manifest(1, sorted([*plans, plan], key=lambda entry: entry.file))
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    with replacing(folder / MANIFEST) as draft:
        draft.write_bytes(text + b"\n")


def find_plan(
    folder: Path,
    onnx: Path,
    shapes: Shapes,
    profile: str,
    precision: Precision | None,
    host: Host,
    version_of: Callable[[Flavour], str | None],
) -> Plan:
    """The plan of a network that agrees with all that runs here: FP16 before FP32, ``tensorrt`` before RTX.

    onnx: the network's FP32 file. shapes: that it will be given. precision: None takes either. version_of:
    the installed build of a flavour, None if there is none.

    Raises SetupError naming both sides and the command that rebuilds the plan: E_PLAN_MISSING, E_PLAN_GPU,
    E_PLAN_VERSION, E_PLAN_SHAPES, E_PLAN_ONNX, E_PLAN_FILE (of the plan that comes nearest), E_PLAN_MANIFEST.
    """
    plans = [plan for plan in read_manifest(folder) if plan.network == onnx.stem]
    plans = [plan for plan in plans if precision in (None, plan.precision)]
    if not plans:
        which = f"{precision or 'fp16 or fp32'} plan of {onnx.stem}"
        command = rebuild_command(profile, None, precision)
        raise SetupError("E_PLAN_MISSING", f"no {which} in {folder / MANIFEST}; build it with {command}")
    nearest: SetupError | None = None
    for plan in sorted(plans, key=lambda plan: (plan.precision, plan.flavour)):  # fp16, tensorrt first
        disagreement = compare(plan, folder, shapes, profile, host, version_of(plan.flavour))
        if disagreement is None:
            return plan
        if nearest is None or _WORDS.index(disagreement.word) > _WORDS.index(nearest.word):
            nearest = disagreement
    assert nearest is not None  # there was at least one plan
    raise nearest


def compare(
    plan: Plan, folder: Path, shapes: Shapes, profile: str, host: Host, version: str | None
) -> SetupError | None:
    """The first value in which ``plan`` disagrees with what runs; None if it may run here."""

    def found(word: str, text: str) -> SetupError:
        command = rebuild_command(profile, plan.flavour, plan.precision)
        return SetupError(word, f"plan {plan.file} {text}; rebuild it with {command}")

    if plan.capability != host.capability:
        return found("E_PLAN_GPU", f"is for {plan.capability}, this GPU is {host.capability} ({host.gpu})")
    if plan.gpu and plan.gpu != host.gpu:
        return found("E_PLAN_GPU", f"is for the model {plan.gpu!r}, this GPU is {host.gpu!r}")
    if plan.version != version:
        here = f"{plan.flavour} {version}" if version else f"no {plan.flavour}"
        return found("E_PLAN_VERSION", f"was built with {plan.flavour} {plan.version}, here is {here}")
    if not plan.shapes.covers(shapes):
        return found("E_PLAN_SHAPES", f"takes inputs of {plan.shapes}, profile {profile} needs {shapes}")
    for word, name, expected in [
        ("E_PLAN_ONNX", plan.onnx, plan.onnx_sha256),
        ("E_PLAN_FILE", plan.file, plan.sha256),
    ]:
        try:
            actual = file_sha256(folder / name)
        except OSError as err:
            return found(word, f"needs {name}, which cannot be read ({err.strerror})")
        if actual != expected:
            return found(word, f"needs {name} with sha256 {expected}, found {actual}")
    return None


def rebuild_command(profile: str, flavour: Flavour | None, precision: Precision | None) -> str:
    """What a person types on the machine with the GPU to get a plan that runs there."""
    words: Iterable[str | None] = [
        f"scripts/build_engines --profile {profile} --gpu local",
        flavour and f"--flavour {flavour}",
        precision and f"--precision {precision}",
    ]
    return " ".join(word for word in words if word)
