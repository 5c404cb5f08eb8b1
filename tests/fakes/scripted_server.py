"""Our server on scripted networks, as models of a StandIn."""

from __future__ import annotations

import asyncio
import json

import numpy as np
from diar_client import Patience
from kserve_stand_in import Refusal, StandIn
from scripted import ScriptedRunner

from diar.options import Options
from diar.pipeline import diarize
from diar.serving.nn_model import block_outputs

MAX_RECORDING_S = 14_400
QUICK = Patience(retries=3, first_wait_s=0.01)
LOST = "inference request for sequence {} to model 'diarize_stream' must specify the START flag on the first"


def scripted_server(profile, num_nets=2):
    """A StandIn of our server: ``diarize``, ``diarize_events`` and ``diar_nn_g<i>``."""
    runner = ScriptedRunner(profile)
    recordings = Recordings(profile, runner)
    geometry = profile.geometry
    parameters = {"profile": {"string_value": profile.name}}
    limit = {"max_recording_s": {"string_value": str(MAX_RECORDING_S)}}
    nn_outputs = [
        {"name": "LOGITS", "dims": [-1, geometry.frames, geometry.num_classes]},
        {"name": "EMBEDDINGS", "dims": [-1, geometry.local_speakers, profile.embedding.dim]},
    ]

    def run_block(call):
        return block_outputs(runner.run(call.inputs["SPAN"]), profile)

    nets = [f"diar_nn_g{index}" for index in range(num_nets)]
    whole = {"parameters": parameters | limit, "output": [{"name": "RESULT", "dims": [1]}]}
    return StandIn(
        models={
            "diarize": recordings.whole,
            "diarize_events": recordings.events,
            "diarize_stream": Streams(recordings).answer,
            **dict.fromkeys(nets, run_block),
        },
        configs={
            "diarize": whole,
            **{net: {"parameters": parameters, "output": nn_outputs} for net in nets},
        },
    )


class Recordings:
    """``diarize`` and ``diarize_events``."""

    def __init__(self, profile, runner):
        self._profile = profile
        self._runner = runner

    def result(self, samples, parameters, progress=lambda done, total: None):
        async def run_span(span):
            return self._runner.run(span)

        options = Options.from_parameters(parameters)
        return asyncio.run(diarize(samples, self._profile, [run_span], options, progress))

    def whole(self, call):
        (samples,) = call.inputs.values()
        return outputs_of(self.result(samples, call.parameters))

    def events(self, call):
        (samples,) = call.inputs.values()
        seen = []
        result = self.result(samples, call.parameters, lambda *done: seen.append(done))
        for done, total in seen:
            yield event("progress", stage="blocks", done=done, total=total)
        yield event("progress", stage="clustering", done=total, total=total)
        keys = {"rttm": result.to_rttm(), "embeddings": result.embeddings.tolist()}
        yield event("result", **result.document(), **keys)


class Streams:
    """``diarize_stream``: all but the last second is committed, the rest is tentative; one speaker."""

    def __init__(self, recordings):
        self._recordings = recordings
        self._sequences = set()  # as Triton keeps them
        self._streams = {}  # id -> (token, samples, parameters, {samples then: up to where it was committed})

    def answer(self, call):
        parameters = dict(call.parameters)
        key = parameters.pop("sequence_id")
        start, end = parameters.pop("sequence_start"), parameters.pop("sequence_end")
        if start:
            self._sequences.add(key)
        elif key not in self._sequences:
            raise Refusal("INVALID_ARGUMENT", LOST.format(key))
        if end:
            self._sequences.discard(key)
        token, first = parameters.pop("stream_token"), parameters.pop("first_sample")
        if start and not first:
            parameters.pop("latency", None)
            parameters.pop("step", None)
            self._streams[key] = [token, np.zeros(0, np.int16), parameters, {}]
        elif key not in self._streams:
            raise Refusal("INVALID_ARGUMENT", f"E_STREAM_UNKNOWN|no stream {key} here")
        stream = self._streams[key]
        assert stream[0] == token
        assert first <= len(stream[1])
        known = len(stream[1]) - first
        for samples in call.inputs.values():
            stream[1] = np.concatenate([stream[1], samples[known:]])
        if end:
            del self._streams[key]
            return outputs_of(self._recordings.result(stream[1], stream[2]))
        position = len(stream[1])
        begin = max((end for known, end in stream[3].items() if known <= first), default=0)
        stream[3][position] = max(0, position - 16_000)
        return {
            "RESULT": text(live_document(begin, stream[3][position], position)),
            "EMBEDDINGS": np.zeros((0, 192), np.float32),
        }


def live_document(begin, committed, position):
    def turns(start, end):
        times = {"start": start / 16_000, "end": end / 16_000}
        return [{**times, "speaker": "SPEAKER_00", "confidence": 0.5}] if end > start else []

    return {
        "schema": 1,
        "position": position / 16_000,
        "final": False,
        "committed": turns(begin, committed),
        "tentative": turns(committed, position),
        "latency": (position - committed) / 16_000,
    }


def outputs_of(result):
    texts = {"RESULT": result.to_json(), "RTTM": result.to_rttm().encode()}
    outputs = {name: np.array([text], dtype=np.object_) for name, text in texts.items()}
    return {**outputs, "EMBEDDINGS": result.embeddings}


def event(kind, **keys):
    return {"EVENT": text({"event": kind, **keys})}


def text(document):
    return np.array([json.dumps(document).encode()], dtype=np.object_)
