"""What a model's config.pbtxt says: ``parameters``, read strictly, and where it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from diar.errors import SetupError
from diar.spans import Count

_S = TypeVar("_S", bound=msgspec.Struct)


class NetsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of ``diar_nn_g<i>``.

    engines_dir: relative to the repository folder. threads: of its networks on a CPU, 0 for all cores.
    shm_*: bytes of shared memory; scripts/serve hands them to the server, the model has no use for them.
    """

    profile: str
    engines_dir: str
    segmentation_lane: str
    embedding_lane: str
    threads: int
    shm_default_bytes: Count
    shm_growth_bytes: Count


class RecordingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the models that take whole recordings.

    nn_models: names of ``diar_nn`` models, with commas between them. blocks_in_flight: per ``diar_nn`` and
    recording. max_recording_s: longest recording accepted. max_request_s: the longest that one may take, from
    its turn on. max_block_s: a block that takes longer has been lost, and goes to another ``diar_nn``.
    """

    profile: str
    nn_models: str
    blocks_in_flight: Count
    max_recording_s: Count
    max_request_s: Count
    max_block_s: Count
    shm_default_bytes: Count
    shm_growth_bytes: Count

    @property
    def nn_model_names(self) -> list[str]:
        """``nn_models`` as a list."""
        return split_names(self.nn_models)


class FileSettings(RecordingSettings, frozen=True, forbid_unknown_fields=True):
    """Parameters of the model that takes files.

    max_file_bytes: largest file accepted. max_decode_s, max_decode_bytes: what decoding it may take.
    """

    max_file_bytes: Count
    max_decode_s: Count
    max_decode_bytes: Count


class StreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the model that takes live recordings.

    nn_models, blocks_in_flight: as above, but for all streams together. max_request_s, max_block_s: as above,
    the former for an END. max_streams: streams at once. max_stream_s, max_chunk_s: longest recording and
    longest piece of one accepted. idle_s: a stream that sends nothing for so long is given up.
    """

    profile: str
    nn_models: str
    blocks_in_flight: Count
    max_request_s: Count
    max_block_s: Count
    max_streams: Count
    max_stream_s: Count
    max_chunk_s: Count
    idle_s: Count
    shm_default_bytes: Count
    shm_growth_bytes: Count

    @property
    def nn_model_names(self) -> list[str]:
        """``nn_models`` as a list."""
        return split_names(self.nn_models)


def split_names(names: str) -> list[str]:
    """Names with commas between them as a list."""
    return [name.strip() for name in names.split(",")]


@dataclass(frozen=True)
class Instance:
    """Which instance of which model this is, from the arguments that Triton gives to ``initialize``.

    name: the instance's own. repository: the folder that holds the model's folder. device: ``cpu`` or
    ``cuda:<i>``.
    """

    name: str
    parameters: Mapping[str, str]
    repository: Path
    device: str

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, str]) -> Instance:
        """Read what Triton gives to ``initialize``."""
        config: dict[str, Any] = json.loads(arguments["model_config"])
        is_gpu = arguments["model_instance_kind"] == "GPU"
        return cls(
            name=arguments["model_instance_name"],
            parameters={key: value["string_value"] for key, value in config.get("parameters", {}).items()},
            repository=Path(arguments["model_repository"]).parent,
            device=f"cuda:{arguments['model_instance_device_id']}" if is_gpu else "cpu",
        )

    def settings(self, kind: type[_S]) -> _S:
        """The parameters as ``kind``; SetupError (E_SETTINGS) names one that is unknown, missing or bad."""
        try:
            return msgspec.convert(self.parameters, kind, strict=False)
        except msgspec.ValidationError as err:
            known = ", ".join(kind.__struct_fields__)
            raise SetupError("E_SETTINGS", f"config.pbtxt parameters: {err}; known: {known}") from None
