"""Sixteen classes end to end: planted turns of up to four speakers at once come back to a frame."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from planted import PlantedNets

from diar.options import Options
from diar.pipeline import diarize
from diar.profile import load_profile
from diar.stream_options import StreamOptions
from diar.streaming import StreamingDiarization

S = 16_000
PROFILE = load_profile("span16")
FRAME = PROFILE.geometry.frame_step
CROWD = [  # two of them overlap, then all four talk at once, the fifth comes when the others are gone
    (2 * S, 12 * S, 9),
    (10 * S + 77, 20 * S, 4),
    (18 * S, 28 * S, 6),
    (27 * S, 36 * S, 2),
    (40 * S, 50 * S, 9),
    (42 * S + 123, 50 * S, 4),
    (44 * S, 50 * S + 8_000, 6),
    (46 * S, 54 * S, 2),
    (72 * S, 80 * S, 11),
]
SPEAKERS = {9: "SPEAKER_00", 4: "SPEAKER_01", 6: "SPEAKER_02", 2: "SPEAKER_03", 11: "SPEAKER_04"}


def run(turns, num_samples, noise=0.0):
    nets = PlantedNets(PROFILE, turns, noise)
    return asyncio.run(diarize(nets.samples(num_samples), PROFILE, [nets.run, nets.run]))


def assert_planted(result, planted):
    found = {}
    for turn in result.turns:
        found.setdefault(turn.speaker, []).append((turn.start, turn.end))
    expected = {}
    for start, end, voice in planted:
        expected.setdefault(SPEAKERS[voice], []).append((start, end))
    assert found.keys() == expected.keys()
    for speaker, spans in expected.items():
        np.testing.assert_allclose(found[speaker], spans, atol=FRAME, rtol=0)


@pytest.mark.parametrize("noise", [0.0, 0.7], ids=["clear-voices", "noisy-voices"])
def test_turns_of_up_to_four_at_once_come_back_to_a_frame(noise):
    result = run(CROWD, 83 * S, noise)
    assert_planted(result, CROWD)
    assert result.profile == "span16"
    moments = np.array([(turn.start, turn.end) for turn in result.turns])
    inside = (moments[:, 0] < 48 * S) & (moments[:, 1] > 48 * S)
    assert inside.sum() == 4


def test_exclusive_turns_have_one_speaker_at_a_time():
    turns = run(CROWD, 83 * S).exclusive_turns
    assert all(one.end <= two.start for one, two in pairwise(turns))


@pytest.mark.parametrize(
    ("num_samples", "planted"),
    [
        pytest.param(1, [], id="one-sample"),
        pytest.param(256_000, [(S, 15 * S, 9)], id="one-window"),
        pytest.param(256_001, [(S, 15 * S, 9)], id="a-sample-more-than-a-window"),
        pytest.param(435_200, [(20 * S, 435_200, 9)], id="one-block"),
        pytest.param(435_201, [(20 * S, 435_201, 9)], id="a-sample-more-than-a-block"),
    ],
)
def test_any_length_is_diarized(num_samples, planted):
    assert_planted(run(planted, num_samples), planted)


@pytest.mark.parametrize("live", [False, True], ids=["end-alone", "live-view"])
def test_a_stream_ends_with_the_same_bytes(live):
    nets = PlantedNets(PROFILE, CROWD)
    samples = nets.samples(83 * S)

    async def stream():
        options = StreamOptions(live=live, options=Options())
        stream = StreamingDiarization(PROFILE, nets.run, nets.run, options)
        for piece in np.array_split(samples, 23):
            await stream.take(piece)
            if live:
                await stream.look()
        return await stream.finish()

    assert asyncio.run(stream()).to_json() == run(CROWD, 83 * S).to_json()
