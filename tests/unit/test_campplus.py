"""The embedding network without its weights: sizes, and means that every runtime computes alike."""

import pytest
import torch
from torch.nn import functional as F

from diar.networks.campplus import TRUNK_CHANNELS, CamppHead, CamppTrunk, Segments, trunk_frames


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


def test_no_value_is_read_on_the_host():
    assert CamppTrunk().eval().to("meta")(torch.empty(1, 998, 80, device="meta")).shape == (1, 512, 499)
