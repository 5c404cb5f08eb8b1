"""The whole path around planted networks: turns, counts, limits, bytes."""

import asyncio
from contextlib import contextmanager

import numpy as np
import pytest
from planted import CONVERSATION, LENGTH, PlantedNets, S, run

from diar.errors import InvalidAudio
from diar.options import Options
from diar.pipeline import diarize

FRAME = 270
SPEAKERS = {7: "SPEAKER_00", 3: "SPEAKER_01", 5: "SPEAKER_02"}


@pytest.fixture(scope="module")
def nets(profile):
    return PlantedNets(profile, CONVERSATION)


def assert_planted(turns, planted):
    assert [(turn.speaker) for turn in turns] == [SPEAKERS[voice] for _, _, voice in planted]
    for turn, (start, end, _) in zip(turns, planted, strict=True):
        assert abs(turn.start - start) <= FRAME
        assert abs(turn.end - end) <= FRAME


def test_planted_turns_come_back_to_a_frame(nets):
    result = run(nets)
    assert_planted(result.turns, CONVERSATION)
    assert result.turns[-1].end == LENGTH
    assert result.num_samples == LENGTH
    assert (result.note, result.requested) == ("", None)
    assert result.lanes == {"segmentation": "planted", "embedding": "planted"}
    assert all(turn.confidence > 0.99 for turn in result.turns)


def test_noisy_embeddings_give_the_same_turns(profile, nets):
    noisy = run(PlantedNets(profile, CONVERSATION, noise=0.7))
    assert [(t.start, t.end, t.speaker) for t in noisy.turns] == [
        (t.start, t.end, t.speaker) for t in run(nets).turns
    ]


def test_row_i_of_the_embeddings_is_speaker_i(nets):
    result = run(nets)
    assert [speaker.label for speaker in result.speakers] == list(SPEAKERS.values())
    np.testing.assert_allclose(result.embeddings, np.eye(192)[list(SPEAKERS)], atol=1e-6)
    assert result.embeddings.dtype == np.float32


def test_exclusive_turns_leave_one_of_two_speakers(nets):
    result = run(nets)
    for one, two in zip(result.exclusive_turns, result.exclusive_turns[1:], strict=False):
        assert one.end <= two.start
    inside = [turn for turn in result.exclusive_turns if turn.end > 15 * S and turn.start < 20 * S]
    assert sum(min(t.end, 20 * S) - max(t.start, 15 * S) for t in inside) == pytest.approx(5 * S, abs=FRAME)


@pytest.mark.parametrize(
    ("num_samples", "planted"),
    [
        pytest.param(1, [], id="one-sample"),
        pytest.param(S // 2, [(0, S // 2, 7)], id="half-a-second"),
        pytest.param(159_999, [(S, 9 * S, 7)], id="a-sample-short-of-a-window"),
        pytest.param(160_000, [(S, 9 * S, 7)], id="one-window"),
        pytest.param(160_001, [(S, 9 * S, 7)], id="a-sample-more-than-a-window"),
        pytest.param(655_999, [(30 * S, 655_999, 7)], id="a-sample-short-of-a-block"),
        pytest.param(656_000, [(30 * S, 656_000, 7)], id="one-block"),
        pytest.param(656_001, [(30 * S, 656_001, 7)], id="a-sample-more-than-a-block"),
        pytest.param(60 * S, [(0, S // 2, 7)], id="the-first-half-second-of-a-minute"),
        pytest.param(60 * S, [(58 * S, 60 * S, 7)], id="the-last-two-seconds-of-a-minute"),
        pytest.param(200 * S, [(99 * S, 101 * S, 7), (110 * S, 190 * S, 3)], id="six-blocks"),
    ],
)
def test_any_length_is_diarized(profile, num_samples, planted):
    result = run(PlantedNets(profile, planted), num_samples)
    assert_planted(result.turns, planted)
    assert all(turn.end <= num_samples for turn in result.turns)


def test_no_speech_is_an_empty_result(profile):
    result = run(PlantedNets(profile, []))
    assert (result.turns, result.exclusive_turns, result.speakers) == ((), (), ())
    assert result.embeddings.shape == (0, 192)
    assert (result.to_rttm(), result.note) == ("", "")


@pytest.mark.parametrize(
    ("num_samples", "planted"),
    [
        pytest.param(4 * S, [(0, 2 * S, 7), (2 * S, 4 * S, 3)], id="two-seconds-each"),
        pytest.param(9 * S, [(0, 4 * S, 7), (5 * S, 9 * S, 3)], id="four-seconds-each"),
        pytest.param(60 * S, [(0, 2 * S, 7), (4 * S, 60 * S, 3)], id="two-seconds-at-the-beginning"),
        pytest.param(60 * S, [(0, 57 * S, 7), (58 * S, 60 * S, 3)], id="two-seconds-at-the-end"),
        pytest.param(
            120 * S, [(0, 60 * S, 7), (62 * S, 64 * S, 3), (66 * S, 120 * S, 7)], id="two-seconds-between"
        ),
    ],
)
def test_a_speaker_of_a_few_seconds_is_found(profile, num_samples, planted):
    assert_planted(run(PlantedNets(profile, planted), num_samples).turns, planted)


@pytest.mark.parametrize(
    ("options", "speakers", "note"),
    [
        pytest.param({"num_speakers": 3}, 3, "", id="as-found"),
        pytest.param({"num_speakers": 2}, 2, "", id="fewer"),
        pytest.param({"max_speakers": 1}, 1, "", id="one"),
        pytest.param({"max_speakers": 9}, 3, "", id="at-most-nine"),
        pytest.param({"min_speakers": 2}, 3, "", id="at-least-two"),
        pytest.param({"num_speakers": 100}, None, "of 100 speakers: only", id="too-many"),
    ],
)
def test_counts_asked_for_are_met_or_explained(nets, options, speakers, note):
    result = run(nets, options=Options(**options))
    assert speakers in (None, len(result.speakers))
    assert note in result.note
    assert bool(note) == bool(result.note)
    assert len(result.embeddings) == len(result.speakers)


def test_speakers_asked_for_of_silence_are_explained(profile):
    result = run(PlantedNets(profile, []), options=Options(num_speakers=2))
    assert result.note == "found 0 of 2 speakers: there is no speech"


def test_pcm_and_its_floats_give_the_same_bytes(nets):
    pcm = nets.samples(LENGTH)
    floats = pcm.astype(np.float32) / 32_768
    one, two = (asyncio.run(diarize(samples, nets.profile, [nets.run])) for samples in (pcm, floats))
    assert one.to_json() == two.to_json()


def test_stages_are_named_in_their_order(nets):
    stages = []

    @contextmanager
    def stage(name):
        stages.append(name)
        yield
        stages.append(f"/{name}")

    run(nets, stage=stage)
    assert stages == ["blocks", "/blocks", "clustering", "/clustering", "stitching", "/stitching"]


@pytest.mark.parametrize(
    ("samples", "word"),
    [
        (np.zeros(0, np.float32), "E_AUDIO_EMPTY"),
        (np.full(9, np.nan, np.float32), "E_AUDIO_NONFINITE"),
        (np.zeros((2, 9), np.int16), "E_AUDIO_SHAPE"),
    ],
)
def test_bad_samples_are_refused_before_any_block_runs(profile, samples, word):
    async def slot(span):
        pytest.fail("a block was run")

    with pytest.raises(InvalidAudio) as caught:
        asyncio.run(diarize(samples, profile, [slot]))
    assert caught.value.word == word
