"""Progress from diarize_events against the stand-in."""

import numpy as np
import pytest
from diar_client import DiarizationClient
from kserve_stand_in import Refusal
from scripted_server import QUICK

from diar.errors import (
    InvalidAudio,
)

CHANGING = ("sequence_start", "sequence_end", "first_sample")


def test_progress_comes_from_the_server(server, speech, profile):
    url, stop = server.serve_grpc()
    seen = []
    with DiarizationClient(url, timeout_s=30, patience=QUICK) as client:
        expected = client.diarize(speech, num_speakers=2, file_id="x")
        result = client.diarize(
            speech, num_speakers=2, file_id="x", mode="server", progress=lambda *done: seen.append(done)
        )
    stop()
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert server.calls[-1].model == "diarize_events"
    assert result.to_json() == expected.to_json()
    assert np.array_equal(result.embeddings, expected.embeddings)
    assert (result.num_samples, result.file_id) == (len(speech), "x")


def test_server_without_events_works_without_progress(server, url, speech):
    del server.models["diarize_events"]
    with DiarizationClient(url, timeout_s=30, patience=QUICK) as client:
        assert client.diarize(speech, progress=print).turns


def test_error_in_events_is_the_server_s(server, speech):
    def refuse(call):
        raise Refusal("INVALID_ARGUMENT", "E_AUDIO_TOO_LONG|got 5 h")
        yield

    server.models["diarize_events"] = refuse
    url, stop = server.serve_grpc()
    with DiarizationClient(url, patience=QUICK) as client, pytest.raises(InvalidAudio, match="got 5 h"):
        client.diarize(speech, progress=lambda done, total: None)
    stop()


def test_full_queue_of_events_is_tried_again(server, speech):
    answer, failures = server.models["diarize_events"], iter(["Exceeds maximum queue size"])

    def sometimes(call):
        if message := next(failures, None):
            raise Refusal("UNAVAILABLE", f"[request id: <id_unknown>] {message}")
        yield from answer(call)

    server.models["diarize_events"] = sometimes
    url, stop = server.serve_grpc()
    with DiarizationClient(url, patience=QUICK) as client:
        assert client.diarize(speech, progress=lambda done, total: None).turns
    stop()
