"""Windows and blocks cover every sample of every length; spans hold the right samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diar.spans import Geometry, plan_blocks, take_span


def small(window=10, hop=5, windows_per_block=3):
    return Geometry(window, hop, windows_per_block, 3, 2, 4, 3, 2)


@st.composite
def geometries(draw):
    window = draw(st.integers(1, 40))
    return small(window, draw(st.integers(1, window)), draw(st.integers(1, 5)))


@pytest.mark.parametrize(
    ("num_samples", "ends"),
    [
        pytest.param(0, [], id="no-samples"),
        pytest.param(1, [10], id="one-sample"),
        pytest.param(10, [10], id="one-window"),
        pytest.param(11, [15], id="a-sample-more"),
        pytest.param(20, [20], id="one-block"),
        pytest.param(21, [20, 25], id="a-sample-more-than-a-block"),
        pytest.param(35, [20, 35], id="two-blocks"),
        pytest.param(36, [20, 35, 40], id="a-sample-more-than-two-blocks"),
    ],
)
def test_blocks_end_where_the_recording_needs_it(num_samples, ends):
    assert [block.start + block.num_samples for block in plan_blocks(num_samples, small())] == ends


@given(geometries(), st.integers(1, 500))
def test_every_sample_lies_in_a_window_and_no_window_behind_the_end(geometry, num_samples):
    blocks = plan_blocks(num_samples, geometry)
    starts = [(block.first_window + i) * geometry.hop for block in blocks for i in range(block.num_windows)]
    covered = np.zeros(num_samples, bool)
    for start in starts:
        covered[start : start + geometry.window] = True
    assert covered.all()
    assert starts == [i * geometry.hop for i in range(geometry.num_windows(num_samples))]
    assert starts[-1] < num_samples
    assert len(starts) == 1 or starts[-2] + geometry.window < num_samples  # none of them is superfluous


@given(geometries(), st.integers(1, 500))
def test_blocks_are_consecutive_and_only_the_last_is_short(geometry, num_samples):
    blocks = plan_blocks(num_samples, geometry)
    size = geometry.windows_per_block
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert [block.first_window for block in blocks] == [i * size for i in range(len(blocks))]
    assert all(block.num_windows == size for block in blocks[:-1])
    assert 1 <= blocks[-1].num_windows <= size
    for block in blocks:
        assert block.start == block.first_window * geometry.hop
        assert geometry.windows_of_span(block.num_samples) == block.num_windows


@given(geometries(), st.integers(-50, 300))
def test_a_span_length_is_accepted_exactly_if_a_block_has_it(geometry, num_samples):
    lengths = {geometry.span_samples(n): n for n in range(1, geometry.windows_per_block + 1)}
    assert geometry.windows_of_span(num_samples) == lengths.get(num_samples)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 10_000))
def test_a_window_starts_on_the_nearest_frame_of_the_recording(hop, frame_step, window):
    geometry = Geometry(40, hop, 3, 3, frame_step, 4, 3, 2)
    distance = window * hop - geometry.first_frame(window) * frame_step
    assert abs(distance) <= frame_step / 2


@given(geometries(), st.lists(st.integers(-32_768, 32_767), min_size=1, max_size=200))
def test_spans_of_pcm_are_those_of_its_floats(geometry, values):
    pcm = np.array(values, np.int16)
    floats = (pcm / 32_768).astype(np.float32)
    for block in plan_blocks(len(pcm), geometry):
        span = take_span(pcm, block)
        assert span.dtype == np.float32
        assert len(span) == block.num_samples
        assert span.tobytes() == take_span(floats, block).tobytes()
        real = floats[block.start : block.start + block.num_samples]
        np.testing.assert_array_equal(span[: len(real)], real)
        assert not span[len(real) :].any()


def test_taking_a_span_leaves_the_recording_alone():
    pcm = np.arange(12, dtype=np.int16)
    (block,) = plan_blocks(len(pcm), small())
    take_span(pcm, block)[:] = 9.0
    np.testing.assert_array_equal(pcm, np.arange(12))
