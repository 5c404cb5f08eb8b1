"""Varied copies of the committed model repository: more GPUs, replicas on the CPU, another profile.

Nothing that is committed is ever edited. A copy differs from it in what follows from the variant alone:
names, GPUs and kinds of the ``diar_nn`` models, ``nn_models``, ``profile``, lanes, ``threads``, sizes, the
output dims of ``diar_nn``, the number of live recordings, and ``engines_dir``, which is relative to the
repository's folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diar.errors import SetupError
from diar.profile import Profile, load_profile
from diar.supervise.repository import read_models
from diar.tensors import EMBEDDINGS, LOGITS, PURE_EMBEDDINGS, SPEECH, nn_model

Files = Mapping[Path, bytes]  # by their path in the repository

MAX_STREAMS = "max_streams"
SEQUENCES_PER_STREAM = 8  # so that the model's limit comes before Triton's: refused STARTs stay sequences

_FIRST = nn_model(0)
_FLOAT_BYTES = 4
_MIB = 1 << 20
_CPU_CONFIG = Path("configs") / "cpu.pbtxt"
_CONFIG = Path("config.pbtxt")
_MARK = "# Written by scripts/add_gpus from "


@dataclass(frozen=True)
class Variant:
    """What a copy is for.

    models: number of ``diar_nn`` models. replicas: they share the CPU, instead of having a GPU each.
    profile: name, or path of a .toml file; None leaves that of the repository. streams: live recordings at
    once; None leaves the number as it is. lane: of both networks; None leaves those of the repository.
    """

    models: int = 1
    replicas: bool = False
    profile: str | None = None
    streams: int | None = None
    lane: str | None = None

    @property
    def folder(self) -> str:
        """Name of its folder under ``engines/build/repository``: a server does not change another's files."""
        profile = load_profile(self.profile).name if self.profile else "default"
        streams = f"_streams{self.streams}" if self.streams else ""
        lane = f"_{self.lane.replace(':', '_')}" if self.lane else ""
        return f"{profile}_{'replicas' if self.replicas else 'gpus'}{self.models}{streams}{lane}"


def engines_folder(source: Path) -> Path:
    """Where the networks of a repository are, ``engines/build``; SetupError (E_REPOSITORY)."""
    for model in read_models(source):
        if model.name == _FIRST and "engines_dir" in model.parameters:
            return (source / model.parameters["engines_dir"]).resolve()
    raise SetupError("E_REPOSITORY", f"{source}: expected a model {_FIRST} with a parameter engines_dir")


def variant_files(source: Path, variant: Variant, out: Path) -> Files:
    """The files of the copy of ``source`` that is to stand at ``out``.

    Raises SetupError: E_REPOSITORY, E_PROFILE.
    """
    engines_dir = os.path.relpath(engines_folder(source), out.resolve())
    models = {model.name: model.parameters for model in read_models(source)}
    named = variant.profile or models[_FIRST]["profile"]
    profile = load_profile(named)
    parameters = {
        "profile": str(Path(named).resolve()) if named.endswith(".toml") else named,
        "engines_dir": engines_dir,
        "nn_models": ",".join(nn_model(index) for index in range(variant.models)),
    }
    if variant.lane:
        parameters |= {"segmentation_lane": variant.lane, "embedding_lane": variant.lane}
    files: dict[Path, bytes] = {}
    for name in models:
        for file in _files_of(source / name):
            for index in range(variant.models if name == _FIRST else 1):
                copy = nn_model(index) if name == _FIRST else name
                content = file.read_bytes()
                if file.suffix == ".pbtxt":
                    origin = _chosen(file, variant)
                    config = _parse(origin)
                    _vary(config, parameters, profile, variant)
                    if name == _FIRST:
                        _vary_nets(config, index, profile, variant)
                    content = _text(config, origin.relative_to(source))
                files[copy / file.relative_to(source / name)] = content
    return files


def differences(files: Files, out: Path) -> list[str]:
    """What stands at ``out`` but should not, or should but does not; one line each, none if all is right."""
    found = {file.relative_to(out): file.read_bytes() for file in _files_of(out)} if out.is_dir() else {}
    lines = []
    for path in sorted({*files, *found}):
        if path not in found:
            lines.append(f"{out / path}: missing")
        elif path not in files:
            lines.append(f"{out / path}: not of this variant")
        elif found[path] != files[path]:
            lines.append(f"{out / path}: differs")
    return lines


def write_repository(files: Files, out: Path) -> bool:
    """Make ``out`` hold these files and no others; False if it does already.

    The folder is replaced as a whole. Raises SetupError: E_FILES if it cannot be written, or holds what was
    not written here.
    """
    if not differences(files, out):
        return False
    for path in out.iterdir() if out.is_dir() else ():
        config = path / _CONFIG
        if not config.is_file() or not config.read_text(encoding="utf-8").startswith(_MARK):
            raise SetupError("E_FILES", f"{path} was not written by add_gpus; expected {out} to be its own")
    draft = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        for path, content in files.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_bytes(content)
        if out.is_dir():
            shutil.rmtree(out)
        draft.rename(out)
    except OSError as err:
        raise SetupError("E_FILES", f"cannot write {out}: {err}") from err
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True


def block_memory(profile: Profile) -> int:
    """Bytes of a full block's tensors, in and out."""
    geometry = profile.geometry
    windows = geometry.windows_per_block
    rows = windows * geometry.local_speakers
    outputs = windows * geometry.frames * geometry.num_classes + rows * (2 * profile.embedding.dim + 1)
    return _FLOAT_BYTES * (geometry.span_samples() + outputs)


def nets_memory(profile: Profile) -> int:
    """``shm_default_bytes`` of a ``diar_nn``: one block and a quarter of it, in whole MiB (4 by default)."""
    return _round_up(block_memory(profile) * 5 // 4, _MIB)


def recording_memory(profile: Profile, models: int) -> int:
    """``shm_default_bytes`` of a caller of ``models`` models: twice its blocks in flight, in steps of 16 MiB.

    Two blocks are in flight for each model; their pieces are freed and filled again at other places.
    """
    return _round_up(2 * 2 * models * block_memory(profile), 16 * _MIB)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _files_of(folder: Path) -> Iterator[Path]:
    """The files below a folder, without what Python leaves there."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _chosen(file: Path, variant: Variant) -> Path:
    """The file to copy: of replicas the configuration for CPUs also in place of the one for GPUs."""
    cpu = file.parent / _CPU_CONFIG
    return cpu if variant.replicas and file.name == _CONFIG.name and cpu.is_file() else file


def _parse(file: Path) -> Any:
    try:
        return text_format.Parse(file.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    except (text_format.ParseError, OSError) as err:
        raise SetupError("E_REPOSITORY", f"cannot read {file}: {err}") from None


def _text(config: Any, origin: Path) -> bytes:
    text: str = text_format.MessageToString(config)
    return f"{_MARK}{origin.as_posix()}, which explains the values.\n{text}".encode()


def _vary(config: Any, parameters: Mapping[str, str], profile: Profile, variant: Variant) -> None:
    """Set those parameters that the model has; callers of ``diar_nn`` models need memory for their blocks."""
    for key, value in parameters.items():
        if key in config.parameters:
            config.parameters[key].string_value = value
    if "nn_models" in config.parameters:
        memory = config.parameters["shm_default_bytes"]
        needed = recording_memory(profile, variant.models)
        memory.string_value = str(max(needed, int(memory.string_value or 0)))
    if variant.streams and MAX_STREAMS in config.parameters:
        config.parameters[MAX_STREAMS].string_value = str(variant.streams)
        oldest = config.sequence_batching.oldest
        oldest.max_candidate_sequences = max(
            oldest.max_candidate_sequences, SEQUENCES_PER_STREAM * variant.streams
        )


def _vary_nets(config: Any, index: int, profile: Profile, variant: Variant) -> None:
    """Make a ``diar_nn_g0`` the one of GPU, or replica, ``index``."""
    config.name = nn_model(index)
    for group in config.instance_group:
        if group.gpus:
            group.gpus[:] = [index]
    if variant.replicas and variant.models > 1:
        cores = len(os.sched_getaffinity(0))
        config.parameters["threads"].string_value = str(max(1, cores // variant.models))
    config.parameters["shm_default_bytes"].string_value = str(nets_memory(profile))
    geometry = profile.geometry
    vectors = [-1, geometry.local_speakers, profile.embedding.dim]
    dims = {
        LOGITS: [-1, geometry.frames, geometry.num_classes],
        EMBEDDINGS: vectors,
        PURE_EMBEDDINGS: vectors,
        SPEECH: vectors[:2],
    }
    for output in config.output:
        output.dims[:] = dims.get(output.name, output.dims)
