"""What a server serves: its profile and its ``diar_nn`` models, learnt from the model configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from diar.errors import NetsUnavailable
from diar.profile import Profile, load_profile, profile_names
from diar.tensors import EMBEDDINGS, LOGITS, nn_model
from diar_client.connection import Connection
from diar_client.failures import ServerRefused, no_answer_in_time
from diar_client.retry import Deadline, Patience, persist

_T = TypeVar("_T")

PROBED_AT_ONCE = 16  # diar_nn models asked for together; more are looked for while any of them is there


@dataclass(frozen=True)
class Served:
    """What a model serves. max_recording_s: the longest recording it takes; None if it does not say."""

    profile: Profile
    max_recording_s: float | None


async def ask(
    connection: Connection, question: Callable[[], Awaitable[_T]], deadline: Deadline, patience: Patience
) -> _T:
    """The answer to a question about the server, asked again while it is away or loads its models anew.

    Raises ServerRefused in the place of NetsUnavailable, and what ``persist`` raises.
    """

    async def attempt(left_s: float | None) -> _T:
        try:
            return await asyncio.wait_for(question(), left_s)
        except asyncio.TimeoutError:
            raise no_answer_in_time(connection.url) from None

    try:
        return await persist(attempt, deadline, patience, connection.url)
    except NetsUnavailable as err:
        raise ServerRefused("E_SERVER_MODEL", err.text) from None


async def learn(connection: Connection, model: str) -> Served:
    """What ``model`` serves.

    Raises NetsUnavailable if the server has no such model now, ServerRefused if it serves a profile or a
    geometry unknown here.
    """
    config = await connection.model_config(model)
    parameters = {key: value.get("string_value") for key, value in config.get("parameters", {}).items()}
    name = parameters.get("profile")
    if name not in profile_names():
        known = ", ".join(profile_names())
        raise ServerRefused(
            "E_SERVER_PROFILE",
            f"{connection.url}: {model} serves profile {name!r}, this client knows: {known}",
        )
    profile = load_profile(name)
    _check_dims(connection.url, model, config, profile)
    limit = parameters.get("max_recording_s")
    return Served(profile, float(limit) if limit else None)


async def find_nn_models(connection: Connection) -> list[str]:
    """The ``diar_nn_g<i>`` that are ready, at least one; NetsUnavailable if there is none."""
    models: list[str] = []
    for first in count(0, PROBED_AT_ONCE):
        names = [nn_model(index) for index in range(first, first + PROBED_AT_ONCE)]
        ready = await asyncio.gather(*(connection.is_ready(name) for name in names))
        if not any(ready):
            break
        models += [name for name, is_ready in zip(names, ready, strict=True) if is_ready]
    if not models:
        raise NetsUnavailable("E_NETS_MODEL", f"{connection.url}: no model {nn_model(0)} is ready")
    return models


def _check_dims(url: str, model: str, config: Mapping[str, Any], profile: Profile) -> None:
    """Compare the output dims of a ``diar_nn`` model with the profile's."""
    geometry = profile.geometry
    dims = {output["name"]: [int(dim) for dim in output["dims"]] for output in config.get("output", [])}
    expected = {EMBEDDINGS: [-1, geometry.local_speakers, profile.embedding.dim]}
    expected[LOGITS] = [-1, geometry.frames, geometry.num_classes]
    if LOGITS not in dims:  # a model for whole recordings
        return
    for name, shape in expected.items():
        if dims.get(name) != shape:
            raise ServerRefused(
                "E_SERVER_PROFILE",
                f"{url}: {model} serves {name} of {dims.get(name)}, profile {profile.name} here has {shape}",
            )
