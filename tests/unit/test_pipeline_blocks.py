"""Blocks of a recording: slots that run them, their order, failures, what is missing or no answer."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from planted import CONVERSATION, LENGTH, PlantedNets, S, run

from diar.errors import InternalError, NetsUnavailable
from diar.options import Options
from diar.pipeline import Recording, diarize
from diar.profile import load_profile
from diar.spans import plan_blocks, take_span

FRAME = 270
SPEAKERS = {7: "SPEAKER_00", 3: "SPEAKER_01", 5: "SPEAKER_02"}


@pytest.fixture(scope="module")
def nets(profile):
    return PlantedNets(profile, CONVERSATION)


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


@pytest.mark.parametrize(
    ("name", "window", "expected"),
    [
        pytest.param("pyannote_campplus", 0, "none", id="span"),
        pytest.param("pyannote_campplus_two_tier", 1, r"in every 3\. at most", id="two_tier"),
    ],
)
def test_pure_embeddings_in_windows_that_have_none_are_refused(name, window, expected):
    nets = PlantedNets(load_profile(name), CONVERSATION)
    block = plan_blocks(LENGTH, nets.profile.geometry)[0]
    answer = nets.answer(take_span(nets.samples(LENGTH), block))
    answer.pure_embeddings[window] = 1.0
    with pytest.raises(InternalError, match=rf"E_INTERNAL_PURE\|.* \[{window}\], expected {expected}$"):
        Recording(nets.profile).add(block, answer)
