"""What a model repository says about itself, read from its config.pbtxt files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diar.errors import SetupError


@dataclass(frozen=True)
class Model:
    """One model as it will be loaded.

    instances: copies of it; each is a process of its own. inputs: names of its tensors. is_decoupled: it
    answers with any number of responses. has_sequences: requests to it belong together.
    """

    name: str
    instances: int
    parameters: dict[str, str]
    inputs: tuple[str, ...] = ()
    is_decoupled: bool = False
    has_sequences: bool = False

    def number(self, key: str) -> int:
        """An integer parameter; SetupError (E_REPOSITORY) if it is missing or none."""
        try:
            return int(self.parameters[key])
        except (KeyError, ValueError):
            got = self.parameters.get(key)
            raise SetupError(
                "E_REPOSITORY", f"{self.name}: parameter {key}: got {got!r}, expected an integer"
            ) from None


def read_models(repository: Path, config_name: str | None = None) -> list[Model]:
    """The models of ``repository``, by name.

    config_name: as tritonserver's ``--model-config-name``; ``<model>/configs/<config_name>.pbtxt`` is read
    where there is one, else config.pbtxt. Raises SetupError (E_REPOSITORY).
    """
    files = sorted(repository.glob("*/config.pbtxt"))
    if not files:
        raise SetupError("E_REPOSITORY", f"no model repository at {repository}")
    return [_read_model(_chosen(file, config_name)) for file in files]


def _chosen(file: Path, config_name: str | None) -> Path:
    named = file.parent / "configs" / f"{config_name}.pbtxt"
    return named if config_name and named.is_file() else file


def _read_model(file: Path) -> Model:
    try:
        config = text_format.Parse(file.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    except (text_format.ParseError, OSError) as err:
        raise SetupError("E_REPOSITORY", f"cannot read {file}: {err}") from None
    return Model(
        name=config.name,
        instances=sum(group.count * max(1, len(group.gpus)) for group in config.instance_group),
        parameters={key: value.string_value for key, value in config.parameters.items()},
        inputs=tuple(tensor.name for tensor in config.input),
        is_decoupled=config.model_transaction_policy.decoupled,
        has_sequences=config.HasField("sequence_batching"),
    )
