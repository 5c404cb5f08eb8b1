"""What must change nothing: a count that is asked for and would have been found, order, company."""

import asyncio

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import PlantedNets

from diar import clustering, evidence
from diar.clustering import LocalSpeakers
from diar.evidence import Evidence, merge_clusters
from diar.options import Options
from diar.pipeline import Recording, diarize
from diar.powerset import class_members
from diar.spans import plan_blocks, take_span

S = 16_000
DIM = 192


@pytest.fixture(scope="session", params=["span", "two_tier"])
def either(request, profile, two_tier):
    """The profile of each variant, for what depends on which embeddings a block has."""
    return profile if request.param == "span" else two_tier


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@st.composite
def meetings(draw):
    """Rows and classes of one to three voices a window, from clear to hopeless, from seconds to fractions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_voices, num_windows = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    alike = draw(st.sampled_from([0.0, 0.5, 1.0]))
    noise = draw(st.sampled_from([0.3, 0.8, 1.5]))
    most_s = draw(st.sampled_from([1.3, 3.0, 9.0]))
    voices = unit(unit(rng.normal(size=(num_voices, DIM))) + alike * unit(np.ones(DIM)))
    window, slot, voice = [], [], []
    for index in range(num_windows):
        heard = rng.permutation(num_voices)[: rng.integers(0, 4)]
        window += [index] * len(heard)
        slot += range(len(heard))
        voice += heard.tolist()
    vectors = voices[voice] + noise * unit(rng.normal(size=(len(voice), DIM)))
    seconds = rng.uniform(0.2, most_s, len(voice))
    return window, slot, vectors, seconds, num_windows


def rows_of(meeting, geometry):
    """The rows, and the classes of windows in whose thirds the local speakers take turns."""
    window, slot, vectors, seconds, num_windows = meeting
    thirds = np.repeat([1, 2, 3], 197)[: geometry.frames].astype(np.uint8)
    classes = np.zeros((num_windows, geometry.frames), np.uint8)
    for at, place in zip(window, slot, strict=True):
        classes[at, thirds == place + 1] = place + 1
    empty = np.zeros(0, np.intp)
    return (
        LocalSpeakers(
            np.array(window, np.intp),
            np.array(slot, np.intp),
            vectors.astype(np.float32).reshape(-1, DIM),
            seconds.astype(np.float32),
            empty,
            np.zeros((0, DIM), np.float32),
        ),
        classes,
    )


def found_freely(find):
    """The result of ``find``; and before each merge how many clusters count, and if it joins two such."""
    merges = []

    class Watched(evidence._Merger):
        def merge(self, i, j):
            counted = self.counted()
            merges.append((int(counted.sum()), bool(counted[i] and counted[j])))
            super().merge(i, j)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "_Merger", Watched)
        return find(), merges


def fell_below(merges, count):
    """The exception of docs/clustering.md: the count was under ``count`` for a while, and rose again."""
    return any(taken and counted <= count for counted, taken in merges)


@settings(max_examples=150)
@given(meeting=meetings())
def test_the_count_found_freely_gives_the_same_partition_when_asked_for(meeting, profile):
    rows, classes = rows_of(meeting, profile.geometry)
    free, merges = found_freely(lambda: clustering.cluster(rows, classes, profile, (1, None)))
    count = len(free.centroids)
    if count == 0:
        return
    asked = clustering.cluster(rows, classes, profile, (count, count))
    if not fell_below(merges, count):
        np.testing.assert_array_equal(asked.assignment, free.assignment)
        np.testing.assert_array_equal(asked.centroids, free.centroids)
    assert len(asked.centroids) == count


@settings(max_examples=60)
@given(meeting=meetings())
def test_where_every_row_counts_there_is_no_exception(meeting, profile):
    constants = msgspec.structs.replace(profile.clustering, min_cluster_s=0.0, min_cluster_share=0.0)
    every_row = msgspec.structs.replace(profile, clustering=constants)
    rows, classes = rows_of(meeting, profile.geometry)
    free, merges = found_freely(lambda: clustering.cluster(rows, classes, every_row, (1, None)))
    count = len(free.centroids)
    assert not fell_below(merges, count)
    if count:
        asked = clustering.cluster(rows, classes, every_row, (count, count))
        np.testing.assert_array_equal(asked.assignment, free.assignment)


def test_the_exception_two_short_clusters_become_a_speaker_after_two_long_ones_became_one(profile):
    constants = msgspec.structs.replace(
        profile.clustering, kappa=1.6, c_s=1.0, b=0.9, vmax=11.0, min_cluster_s=0.4
    )
    vectors = unit(np.array([[1, 0.4, 0, 0], [1, -0.4, 0, 0], [0, 0, 1, 0.4], [0, 0, 1, -0.4]]))
    speech, share = np.array([5.0, 5.0, 3.0, 3.0]), np.full(4, 0.1)  # 0.5 s count, 0.3 s do not
    groups = window = np.arange(4)

    def partition(bounds):
        found = Evidence.of_groups(vectors, speech, window, groups, share, constants)
        cluster, speakers = merge_clusters(found, constants, bounds)
        return cluster.tolist(), speakers.tolist()

    assert partition((1, None)) == ([0, 0, 2, 2], [0, 2])
    assert partition((2, 2)) == ([0, 1, 2, 3], [0, 1])


def planted_recording(profile, seed, num_voices=3):
    """Nets that hear a recording of their own, and its samples."""
    rng = np.random.default_rng(seed)
    turns = [
        (t * 9 * S, (t * 9 + 8) * S, int(rng.integers(num_voices))) for t in range(int(rng.integers(3, 15)))
    ]
    nets = PlantedNets(profile, turns, noise=0.6)
    return nets, nets.samples(turns[-1][1])


def answers(results):
    return [(r.to_json(), r.to_rttm(), r.embeddings.tobytes()) for r in results]


@settings(max_examples=10)
@given(seed=st.integers(0, 99), order=st.randoms(use_true_random=False))
def test_the_order_in_which_blocks_arrive_changes_nothing(seed, order, either):
    nets, samples = planted_recording(either, seed)
    blocks = plan_blocks(len(samples), either.geometry)
    results = [(block, nets.answer(take_span(samples, block))) for block in blocks]
    expected, shuffled = Recording(either), Recording(either)
    for block, result in results:
        expected.add(block, result)
    order.shuffle(results)
    for block, result in results:
        shuffled.add(block, result)
    one, two = (recording.finish(len(samples), Options()) for recording in (expected, shuffled))
    assert answers([one]) == answers([two])


@settings(max_examples=5)
@given(seeds=st.lists(st.integers(0, 99), min_size=2, max_size=3))
def test_other_recordings_at_the_same_time_change_nothing(seeds, either):
    recordings = [planted_recording(either, seed) for seed in seeds]
    waits = iter(np.random.default_rng(seeds).integers(0, 5, 10_000).tolist())

    async def alone(nets, samples):
        return await diarize(samples, either, [nets.run])

    async def together():
        turn = asyncio.Lock()  # one network for all of them, that answers late

        def slot(nets):
            async def run(span):
                for _ in range(next(waits)):
                    await asyncio.sleep(0)
                async with turn:
                    return await nets.run(span)

            return run

        return await asyncio.gather(
            *(diarize(samples, either, [slot(nets), slot(nets)]) for nets, samples in recordings)
        )

    expected = [asyncio.run(alone(nets, samples)) for nets, samples in recordings]
    assert answers(asyncio.run(together())) == answers(expected)


def cut_otherwise(profile, windows_per_block):
    """The profile with blocks of another length, and pure embeddings, if it has any, in every window."""
    geometry = msgspec.structs.replace(profile.geometry, windows_per_block=windows_per_block)
    return msgspec.structs.replace(
        profile,
        geometry=geometry,
        checks=msgspec.structs.replace(profile.checks, span=geometry.span_samples()),
        embedding=msgspec.structs.replace(profile.embedding, pure_every=1),
    )


@settings(max_examples=10)
@given(seed=st.integers(0, 99), windows_per_block=st.integers(1, 40))
def test_where_blocks_begin_changes_nothing(seed, windows_per_block, either):
    found = []
    for cut in (cut_otherwise(either, 32), cut_otherwise(either, windows_per_block)):
        nets, samples = planted_recording(cut, seed)
        found.append(asyncio.run(diarize(samples, cut, [nets.run])))
    assert answers(found[:1]) == answers(found[1:])


@settings(max_examples=10)
@given(seed=st.integers(0, 99))
def test_the_places_of_local_speakers_change_nothing(seed, either):
    nets, samples = planted_recording(either, seed)
    members, rng = class_members(either.geometry), np.random.default_rng(seed)
    place = {tuple(row): klass for klass, row in enumerate(members.tolist())}
    straight, mixed = Recording(either), Recording(either)
    for block in plan_blocks(len(samples), either.geometry):
        result = nets.answer(take_span(samples, block))
        straight.add(block, result)
        for window in range(block.num_windows):
            order = rng.permutation(either.geometry.local_speakers)
            for array in (result.embeddings, result.speech, result.pure_embeddings):
                array[window] = array[window, order]
            classes = [place[tuple(row)] for row in members[:, np.argsort(order)].tolist()]
            result.logits[window] = result.logits[window][:, classes]
        mixed.add(block, result)
    one, two = (recording.finish(len(samples), Options()) for recording in (straight, mixed))
    plain = [[(turn.start, turn.end, turn.speaker) for turn in result.turns] for result in (one, two)]
    assert plain[0] == plain[1]
    np.testing.assert_allclose(one.embeddings, two.embeddings, atol=1e-6)
