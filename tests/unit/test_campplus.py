"""The embedding network without its weights: sizes, and means that every runtime computes alike."""

import pytest
import torch
from torch.nn import functional as F

from diar.networks.campplus import (
    HEAD_REACH,
    TRUNK_CHANNELS,
    CamppHead,
    CamppTrunk,
    ConvolutionalHead,
    Segments,
    trunk_frames,
)


@pytest.mark.parametrize("frames", [1, 2, 99, 100, 101, 199, 200, 201, 250, 1_000])
def test_segment_means_equal_a_rounded_up_average_pool(frames):
    x = torch.randn(2, 3, frames, generator=torch.Generator().manual_seed(frames))
    segments = Segments.of(x)
    means = segments.means(x)
    torch.testing.assert_close(means, F.avg_pool1d(x, 100, stride=100, ceil_mode=True))
    torch.testing.assert_close(segments.mean(means), x.mean(dim=-1, keepdim=True))
    assert torch.equal(segments.repeat(means), means.repeat_interleave(100, dim=-1)[..., :frames])


@pytest.mark.parametrize("frames", [1, 2, 3, 998])
def test_trunk_and_head_have_the_sizes_they_say(frames):
    trunk, head = CamppTrunk().eval(), CamppHead().eval()
    with torch.inference_mode():
        features = trunk(torch.zeros(2, frames, 80))
        assert features.shape == (2, TRUNK_CHANNELS, trunk_frames(frames))
        assert head(torch.zeros(5, 2 * TRUNK_CHANNELS)).shape == (5, 192)
    assert trunk.channels == TRUNK_CHANNELS


def test_the_convolutional_head_looks_no_further_than_it_says():
    head, fbank = ConvolutionalHead(32).eval(), torch.zeros(2, 80, 64)
    fbank[1, :, 32] = 100.0
    with torch.inference_mode():
        silence, changed = head(fbank)
    touched = (silence != changed).any(dim=0).nonzero().flatten().tolist()
    assert touched == list(range(32 - HEAD_REACH, 32 + HEAD_REACH + 1))


def test_no_value_is_read_on_the_host():
    assert CamppTrunk().eval().to("meta")(torch.empty(1, 998, 80, device="meta")).shape == (1, 512, 499)
