"""A stream ends with what diarize gives for all of its samples, however they come."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import ScriptedRunner

from diar.errors import InvalidAudio, NetsUnavailable
from diar.options import Options
from diar.pipeline import BlockResult, Recording, diarize
from diar.spans import iter_blocks, plan_blocks
from diar.stream_options import StreamOptions
from diar.streaming import AudioTail, BlockFeed, StreamingDiarization

SECOND = 16_000
SPAN = 656_000  # of a full block
QUIET = StreamOptions(live=False)


def meeting(num_samples, seed=1):
    """Another class every second: (samples,) int16."""
    classes = np.random.default_rng(seed).integers(0, 4, num_samples // SECOND + 1)
    return np.repeat(classes * 3277, SECOND)[:num_samples].astype(np.int16)


class Nets:
    """Scripted networks; raises what is in ``failures``, one each call, before it works."""

    def __init__(self, profile, failures=()):
        self.runner = ScriptedRunner(profile)
        self.failures = list(failures)

    async def __call__(self, span):
        await asyncio.sleep(0)
        if self.failures and (error := self.failures.pop(0)) is not None:
            raise error
        return self.runner.run(span)


def whole(samples, profile, options=None):
    return asyncio.run(diarize(samples, profile, [Nets(profile)], options)).to_json()


async def feed(stream, pieces):
    for piece in pieces:
        await stream.take(piece)
        await passing_time()
    return await stream.finish()


async def passing_time():
    for _ in range(5):
        await asyncio.sleep(0)


def streamed(profile, pieces, options=QUIET, nets=None, windows=None):
    stream = StreamingDiarization(profile, nets or Nets(profile), windows or Nets(profile), options)
    return asyncio.run(feed(stream, pieces)).to_json()


@pytest.mark.parametrize(
    "num_samples", [1, 159_999, 160_001, SPAN - 1, SPAN, SPAN + 1, SPAN + 144_001, 2 * SPAN]
)
def test_end_gives_the_bytes_of_the_whole_recording(profile, num_samples):
    samples = meeting(num_samples)
    assert streamed(profile, np.array_split(samples, 7)) == whole(samples, profile)


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 3 * SPAN), max_size=12))
def test_pieces_of_any_length_give_the_same_bytes(profile, cuts):
    samples = meeting(2 * SPAN + 12_345)
    pieces = np.split(samples, sorted(min(cut, len(samples)) for cut in cuts))
    assert streamed(profile, pieces) == whole(samples, profile)


def test_floats_and_integers_may_alternate(profile):
    samples = meeting(SPAN + 5)
    first, second, third = np.array_split(samples, 3)
    pieces = [first, second.astype(np.float32) / 32768, third]
    assert streamed(profile, pieces) == whole(samples, profile)


def test_options_of_the_start_hold_for_the_end(profile):
    options = Options(max_speakers=2, file_id="x")
    samples = meeting(SPAN)
    found = streamed(profile, [samples], StreamOptions(live=False, options=options))
    assert found == whole(samples, profile, options)


def test_live_view_does_not_change_the_end(profile):
    samples = meeting(SPAN + 99_999)
    windows = Nets(profile)

    async def run():
        stream = StreamingDiarization(profile, Nets(profile), windows, StreamOptions())
        for piece in np.array_split(samples, 101):
            await stream.take(piece)
            await stream.look()
        return (await stream.finish()).to_json()

    assert asyncio.run(run()) == whole(samples, profile)
    assert len(windows.runner.calls) > 80


def test_blocks_of_the_feed_are_those_of_the_plan(geometry):
    for num_samples in (1, SPAN - 1, SPAN, SPAN + 1, 3 * SPAN + 17):
        feed = BlockFeed(geometry)
        blocks = [block for end in range(0, num_samples, 99_991) for block in feed.full_blocks(end)]
        blocks += feed.full_blocks(num_samples) + feed.last_block(num_samples)
        assert blocks == plan_blocks(num_samples, geometry)


def test_block_that_failed_is_run_again(profile):
    samples = meeting(3 * SPAN)
    nets = Nets(profile, [NetsUnavailable("E_NETS_UNAVAILABLE", "try again")])
    assert streamed(profile, np.array_split(samples, 40), nets=nets) == whole(samples, profile)


def test_without_networks_no_more_is_taken_than_a_block_can_wait_for(profile):
    down = [NetsUnavailable("E_NETS_UNAVAILABLE", "try again")] * 1000
    nets, samples = Nets(profile, down), meeting(6 * SPAN)

    async def run():
        stream = StreamingDiarization(profile, nets, nets, QUIET)
        with pytest.raises(NetsUnavailable):
            await feed(stream, np.array_split(samples, 100))
        taken = stream.num_samples
        nets.failures.clear()
        await stream.take(samples[taken:])
        return taken, (await stream.finish()).to_json()

    taken, result = asyncio.run(run())
    assert SPAN < taken <= 3 * SPAN
    assert result == whole(samples, profile)


def test_end_that_failed_can_be_asked_for_again(profile):
    samples = meeting(SPAN)
    nets = Nets(profile, [None, NetsUnavailable("E_NETS_UNAVAILABLE", "try again")])

    async def run():
        stream = StreamingDiarization(profile, nets, nets, QUIET)
        await stream.take(samples)
        await stream.take(samples[:7])
        with pytest.raises(NetsUnavailable):
            await stream.finish()
        await stream.take(samples[7:14])
        return (await stream.finish()).to_json()

    assert asyncio.run(run()) == whole(np.concatenate([samples, samples[:14]]), profile)


def test_view_falls_behind_without_networks_and_catches_up(profile):
    down = NetsUnavailable("E_NETS_UNAVAILABLE", "try again")
    windows = Nets(profile, [None] * 15 + [down] * 3)

    async def run():
        stream = StreamingDiarization(profile, Nets(profile), windows, StreamOptions(latency=0.5, step=0.5))
        updates = []
        for piece in np.array_split(np.full(30 * SECOND, 3277, np.int16), 30):
            await stream.take(piece)
            updates.append(await stream.look())
        return updates

    updates = asyncio.run(run())
    assert [update.committed for update in updates[15:18]] == [(), (), ()]
    assert len({update.committed_to for update in updates[14:18]}) == 1
    turns = [turn for update in updates for turn in update.committed]
    assert turns[0].start < 10 * SECOND  # the scripted networks hear nothing before the first whole window
    assert all(a.end == b.start for a, b in pairwise(turns))
    assert turns[-1].end == updates[-1].committed_to > 29 * SECOND


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        pytest.param(np.full(9, np.nan, np.float32), "E_AUDIO_NONFINITE", id="nan"),
        pytest.param(np.full(9, 30.0, np.float32), "E_AUDIO_RANGE", id="out-of-scale"),
        pytest.param(np.zeros(9, np.float64), "E_AUDIO_DTYPE", id="doubles"),
        pytest.param(np.zeros((2, 9), np.int16), "E_AUDIO_SHAPE", id="two-channels"),
        pytest.param(np.zeros(51 * SECOND, np.int16), "E_AUDIO_TOO_LONG", id="too-long"),
    ],
)
def test_bad_piece_is_refused_and_leaves_the_stream_as_it_was(profile, bad, word):
    samples = meeting(20 * SECOND)

    async def run():
        stream = StreamingDiarization(profile, Nets(profile), Nets(profile), QUIET, 60 * SECOND)
        await stream.take(samples[: 10 * SECOND])
        with pytest.raises(InvalidAudio, match=word):
            await stream.take(bad)
        await stream.take(samples[10 * SECOND :])
        return (await stream.finish()).to_json()

    assert asyncio.run(run()) == whole(samples, profile)


def test_stream_without_samples_has_no_end(profile):
    with pytest.raises(InvalidAudio, match="E_AUDIO_EMPTY"):
        streamed(profile, [np.zeros(0, np.int16)])


def test_audio_of_a_long_stream_is_not_kept(profile):
    async def run():
        stream = StreamingDiarization(profile, Nets(profile), Nets(profile), StreamOptions())
        for _ in range(40):
            await stream.take(np.zeros(30 * SECOND, np.int16))
            await stream.look()
        return stream._tail

    tail = asyncio.run(run())
    assert tail.end == 1200 * SECOND
    assert tail._buffer.nbytes <= 4 * 4 * 90 * SECOND  # 90 s are needed at most, a buffer grows by halves


def test_an_hour_of_two_speakers_at_a_time_takes_at_most_thirteen_megabytes(profile):
    geometry, recording = profile.geometry, Recording(profile)
    for block in iter_blocks(3600, geometry):
        n = block.num_windows
        logits = np.zeros((n, geometry.frames, geometry.num_classes), np.float32)
        logits[:, :, 4] = 1.0  # both of the first two local speakers
        vectors = np.ones((n, geometry.local_speakers, profile.embedding.dim), np.float32)
        pure = np.zeros_like(vectors)
        recording.add(block, BlockResult(logits, vectors, np.ones((n, 3), np.float32), pure, ("a", "a")))
    kept = [*recording._classes.values(), *recording._log_odds.values()]
    for rows in recording._rows.values():
        kept += vars(rows).values()
    assert 11e6 < sum(array.nbytes for array in kept) <= 13e6
    owners = [array if array.base is None else array.base for array in kept]
    assert sum({id(owner): owner.nbytes for owner in owners}.values()) <= 13e6  # no view of a block's arrays


def test_tail_gives_what_was_put_in():
    samples = np.random.default_rng(0).integers(-9, 9, 5000).astype(np.int16)
    tail, end = AudioTail(), 0
    for length in (1, 700, 0, 1299, 3000):
        tail.append(samples[end : end + length])
        end += length
        tail.forget(end - 400)
        assert (
            np.array_equal(tail.take(end - 300, end + 10)[:300] * 32768, samples[end - 300 : end])
            or end < 300
        )
    with pytest.raises(ValueError, match="expected a start of at least 4600"):
        tail.take(4599, 5000)
