"""The same samples give the same RESULT bytes, whichever way they go and whatever runs beside them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from live import each_recording

from diar.block import BlockRunner
from diar.pipeline import diarize
from diar.profile import load_profile

ROOT = Path(__file__).parents[2]
FEW = ["ami_EN2002a", "falcon_test", "pyannote_sample"]
EACH = each_recording(FEW)


@pytest.fixture(scope="module")
def in_process():
    """The pipeline on a BlockRunner, without any server: samples -> RESULT's bytes."""
    profile = load_profile("pyannote_campplus")
    runner = BlockRunner(profile, ROOT / "engines" / "build")

    async def run(span):
        return runner.run(span)

    yield lambda samples: asyncio.run(diarize(samples, profile, [run])).to_json()
    runner.close()


@pytest.fixture(scope="module")
def answers(grpc, dev):
    """RESULT over gRPC of each recording, asked once."""
    known = {}

    def answer(name):
        if name not in known:
            known[name] = grpc.diarize(dev[name])
        return known[name]

    return answer


@pytest.mark.parametrize("name", EACH)
def test_server_and_pipeline_in_process_agree(answers, in_process, dev, name):
    assert answers(name) == in_process(dev[name])


@pytest.mark.parametrize("name", EACH)
def test_http_and_grpc_agree(http, answers, dev, name):
    assert http.diarize(dev[name]) == answers(name)


@pytest.mark.parametrize("name", FEW)
def test_floats_and_pcm_agree(grpc, answers, dev, name):
    assert grpc.diarize(dev[name].astype(np.float32) / 32768) == answers(name)


def test_ten_repeats_agree(grpc, dev):
    assert len({grpc.diarize(dev["falcon_test"][:200_000]) for _ in range(10)}) == 1


def test_eight_at_once_of_mixed_lengths_agree(grpc, answers, dev):
    jobs = [(dev[name], answers(name)) for name in FEW]
    cuts = [dev["pyannote_sample"][:length] for length in (8_000, 160_000, 200_001)]
    jobs += [(samples, grpc.diarize(samples)) for samples in cuts]
    jobs += jobs[1:3]
    with ThreadPoolExecutor(len(jobs)) as pool:
        results = list(pool.map(lambda job: grpc.diarize(job[0]), jobs))
    assert len(jobs) == 8
    assert results == [expected for _, expected in jobs]
