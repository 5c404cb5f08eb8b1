"""Server mode: the whole recording goes to the server in one request."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from diar.options import Options
from diar.pipeline import Progress
from diar.result import Diarization
from diar.spans import Samples
from diar.tensors import AUDIO, DIARIZE, DIARIZE_EVENTS, EMBEDDINGS, EVENT, PCM, RESULT
from diar_client.connection import Connection, EventConnection, Parameters
from diar_client.failures import ServerRefused


async def diarize_whole(
    connection: Connection,
    samples: Samples,
    options: Options,
    timeout_s: float | None,
    progress: Progress | None = None,
) -> Diarization:
    """Diarize one recording by ``diarize``, or by ``diarize_events`` to report progress; without retries.

    progress: needs an EventConnection and a server with that model.
    """
    inputs = {PCM if samples.dtype == np.int16 else AUDIO: samples}
    parameters = request_parameters(options)
    try:
        if progress and isinstance(connection, EventConnection):
            result = await _with_events(connection, inputs, parameters, timeout_s, options.file_id, progress)
        else:
            outputs = await connection.infer(DIARIZE, inputs, (RESULT, EMBEDDINGS), parameters, timeout_s)
            result = Diarization.from_json(outputs[RESULT][0], outputs[EMBEDDINGS], options.file_id)
    except (ValueError, KeyError, TypeError) as err:
        raise ServerRefused("E_SERVER_RESULT", f"{connection.url}: its answer is none: {err}") from None
    return replace(result, num_samples=len(samples))  # the document has it to the millisecond only


async def can_report(connection: Connection) -> bool:
    """Whether the server tells how far it is with a recording."""
    return isinstance(connection, EventConnection) and await connection.is_ready(DIARIZE_EVENTS)


def request_parameters(options: Options) -> Parameters:
    """The wishes as request parameters; those that are the default are left out."""
    wishes = {
        "num_speakers": options.num_speakers,
        "min_speakers": options.min_speakers,
        "max_speakers": options.max_speakers,
        "file_id": options.file_id,
        "timings": options.timings or None,
    }
    return {name: wish for name, wish in wishes.items() if wish is not None}


async def _with_events(
    connection: EventConnection,
    inputs: dict[str, Any],
    parameters: Parameters,
    timeout_s: float | None,
    file_id: str,
    progress: Progress,
) -> Diarization:
    events = connection.infer_events(DIARIZE_EVENTS, inputs, EVENT, parameters, timeout_s)
    async with aclosing(events) as texts:
        async for text in texts:
            event = msgspec.json.decode(text)
            if event["event"] == "progress" and event["stage"] == "blocks":
                progress(event["done"], event["total"])
            elif event["event"] == "result":
                embeddings = np.array(event["embeddings"], np.float32).reshape(len(event["speakers"]), -1)
                return Diarization.from_json(text, embeddings, file_id)
    raise ServerRefused("E_SERVER_RESULT", f"{connection.url}: {DIARIZE_EVENTS} ended without a result")
