"""The whole path around planted networks: turns, order of blocks, failures, progress, bytes."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from planted import PlantedNets

from diar.errors import InternalError, InvalidAudio, NetsUnavailable
from diar.options import Options
from diar.pipeline import Recording, diarize
from diar.spans import plan_blocks, take_span

S = 16_000
FRAME = 270
CONVERSATION = [  # the second speaks first; the first two overlap; the third speaks at the very end
    (2 * S, 20 * S, 7),
    (15 * S, 40 * S, 3),
    (45 * S, 52 * S, 7),
    (52 * S + 4_000, 60 * S, 3),
    (62 * S, 75 * S, 5),
]
LENGTH = 75 * S  # 66 windows in 3 blocks
SPEAKERS = {7: "SPEAKER_00", 3: "SPEAKER_01", 5: "SPEAKER_02"}


@pytest.fixture(scope="module")
def nets(profile):
    return PlantedNets(profile, CONVERSATION)


def run(nets, num_samples=LENGTH, slots=None, options=None, **more):
    samples = nets.samples(num_samples)
    return asyncio.run(diarize(samples, nets.profile, slots or [nets.run], options, **more))


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


def late(nets, delays):
    """A slot that answers its n-th block after delays[n] turns of the event loop."""
    waits = iter(delays)

    async def slot(span):
        for _ in range(next(waits, 0)):
            await asyncio.sleep(0)
        return await nets.run(span)

    return slot


@pytest.mark.parametrize(
    "delays", [[[]], [[9], []], [[], [9, 9]], [[5], [1], [3], [0], [7]]], ids=["one", "two", "other", "five"]
)
def test_the_same_bytes_however_many_slots_and_in_whatever_order(profile, delays):
    nets = PlantedNets(profile, [(t * 20 * S, (t * 20 + 19) * S, t % 3) for t in range(9)], noise=0.5)
    expected = run(nets, 180 * S)
    result = run(nets, 180 * S, [late(nets, list(waits)) for waits in delays])
    assert result.to_json() == expected.to_json()
    assert result.to_rttm() == expected.to_rttm()
    assert result.embeddings.tobytes() == expected.embeddings.tobytes()


def test_pcm_and_its_floats_give_the_same_bytes(nets):
    pcm = nets.samples(LENGTH)
    floats = pcm.astype(np.float32) / 32_768
    one, two = (asyncio.run(diarize(samples, nets.profile, [nets.run])) for samples in (pcm, floats))
    assert one.to_json() == two.to_json()


def test_a_slot_runs_one_block_at_a_time(nets):
    running, most = 0, 0

    async def slot(span):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await nets.run(span)

    run(nets, slots=[slot, slot])
    assert most == 2


def test_progress_counts_every_block(nets):
    seen = []
    run(nets, slots=[nets.run, late(nets, [3])], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_stages_are_named_in_their_order(nets):
    stages = []

    @contextmanager
    def stage(name):
        stages.append(name)
        yield
        stages.append(f"/{name}")

    run(nets, stage=stage)
    assert stages == ["blocks", "/blocks", "clustering", "/clustering", "stitching", "/stitching"]


def test_a_failing_slot_ends_the_others_and_is_reported(nets):
    ended = []

    async def fails(span):
        await asyncio.sleep(0)
        raise NetsUnavailable("E_NETS_UNAVAILABLE", "gone")

    async def hangs(span):
        try:
            await asyncio.sleep(5)
        finally:
            ended.append("cancelled")

    async def hangs_on(span):
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what was begun is waited for
            ended.append("finished")
            raise

    with pytest.raises(NetsUnavailable, match="gone"):
        run(nets, slots=[hangs, fails, hangs_on])
    assert ended == ["cancelled", "finished"]


def test_nothing_runs_on_after_a_cancellation(nets):
    ended = []

    async def hangs(span):
        try:
            await asyncio.sleep(5)
        finally:
            ended.append(len(span))

    async def cancel_soon():
        task = asyncio.ensure_future(diarize(nets.samples(LENGTH), nets.profile, [hangs, hangs]))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_soon())
    assert ended == [656_000, 656_000]


def test_no_block_is_run_after_a_failure(nets):
    calls = []

    async def fails(span):
        calls.append(len(span))
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(nets, slots=[fails])
    assert calls == [656_000]


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


@pytest.mark.parametrize(
    ("name", "field", "cut"),
    [
        ("LOGITS", "logits", np.s_[:, :, :6]),
        ("LOGITS", "logits", np.s_[:1]),
        ("EMBEDDINGS", "embeddings", np.s_[:, :, :128]),
        ("SPEECH", "speech", np.s_[:, :2]),
        ("PURE_EMBEDDINGS", "pure_embeddings", np.s_[:2]),
    ],
)
def test_another_shape_is_named_with_the_expected_one(nets, name, field, cut):
    async def slot(span):
        result = await nets.run(span)
        return replace(result, **{field: getattr(result, field)[cut]})

    with pytest.raises(InternalError, match=rf"E_INTERNAL_SHAPE\|{name}: got \(.*\), expected \(32, "):
        run(nets, slots=[slot])


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_recording_with_a_missing_block_is_not_finished(nets, missing):
    recording, samples = Recording(nets.profile), nets.samples(LENGTH)
    for block in plan_blocks(LENGTH, nets.profile.geometry):
        if block.index != missing:
            recording.add(block, nets.answer(take_span(samples, block)))
    with pytest.raises(InternalError, match="E_INTERNAL_BLOCKS"):
        recording.finish(LENGTH, Options())


@pytest.mark.parametrize("num_samples", [0, 1, LENGTH])
def test_a_recording_without_blocks_is_not_finished(profile, num_samples):
    with pytest.raises(InternalError, match="E_INTERNAL_BLOCKS"):
        Recording(profile).finish(num_samples, Options())


def test_blocks_of_a_shorter_recording_do_not_do_for_a_longer_one(nets):
    recording = Recording(nets.profile)
    (block,) = plan_blocks(30 * S, nets.profile.geometry)
    recording.add(block, nets.answer(take_span(nets.samples(30 * S), block)))
    with pytest.raises(InternalError, match=r"E_INTERNAL_BLOCKS\|blocks \[0\] do not cover 496000 samples"):
        recording.finish(31 * S, Options())


def test_a_block_that_is_added_again_counts_once(nets):
    recording, samples = Recording(nets.profile), nets.samples(LENGTH)
    blocks = plan_blocks(LENGTH, nets.profile.geometry)
    for block in [*blocks, blocks[1]]:
        recording.add(block, nets.answer(take_span(samples, block)))
    assert recording.finish(LENGTH, Options()).to_json() == run(nets).to_json()


def test_lanes_that_differ_between_blocks_are_both_named(nets):
    lanes = iter([("exact", "exact"), ("openvino:fp32", "exact"), ("exact", "exact")])

    async def slot(span):
        return replace(await nets.run(span), lanes=next(lanes))

    assert run(nets, slots=[slot]).lanes == {"segmentation": "exact+openvino:fp32", "embedding": "exact"}


def test_pure_embeddings_in_windows_that_have_none_are_refused(nets):
    block = plan_blocks(LENGTH, nets.profile.geometry)[0]
    answer = nets.answer(take_span(nets.samples(LENGTH), block))
    answer.pure_embeddings[1] = 1.0
    with pytest.raises(InternalError, match=r"E_INTERNAL_PURE\|.*\[1\]"):
        Recording(nets.profile).add(block, answer)
