"""Statistics pooling under masks, against the textbook formulas in float64."""

import pytest
import torch

from diar.networks.campplus import pool_statistics

CHANNELS, FRAMES = 6, 500


@pytest.fixture
def trunk():
    generator = torch.Generator().manual_seed(1)
    scale = torch.logspace(-2, 2, CHANNELS).unsqueeze(1)
    return torch.randn(CHANNELS, FRAMES, generator=generator).relu() * scale


def textbook(trunk, frames):
    chosen = trunk.double()[:, frames]
    deviation = chosen.std(dim=1) if chosen.shape[1] > 1 else torch.zeros(len(trunk), dtype=torch.float64)
    return torch.cat([chosen.mean(dim=1), deviation]).float()


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(slice(None), id="all"),
        pytest.param(slice(100, 300), id="a-stretch"),
        pytest.param(slice(0, 500, 7), id="scattered"),
        pytest.param(slice(40, 42), id="two-frames"),
        pytest.param(slice(40, 41), id="one-frame-has-no-deviation"),
    ],
)
def test_pooling_equals_the_statistics_of_the_frames_under_the_mask(trunk, frames):
    mask = torch.zeros(1, FRAMES)
    mask[0, frames] = 1.0
    torch.testing.assert_close(pool_statistics(trunk, mask)[0], textbook(trunk, frames), rtol=2e-5, atol=1e-5)


def test_no_frame_gives_a_row_of_zeros(trunk):
    masks = torch.stack([torch.zeros(FRAMES), torch.ones(FRAMES)])
    pooled = pool_statistics(trunk, masks)
    assert not pooled[0].any()
    assert pooled[1].any()


def test_a_row_does_not_depend_on_its_neighbours(trunk):
    masks = (torch.rand(96, FRAMES, generator=torch.Generator().manual_seed(2)) < 0.3).float()
    together = pool_statistics(trunk, masks)
    for row in (0, 50, 95):
        torch.testing.assert_close(together[row], pool_statistics(trunk, masks[row : row + 1])[0])


def test_a_large_offset_costs_little_precision(trunk):
    shifted = trunk + 100.0
    expected = textbook(shifted, slice(200, 400))
    mask = torch.zeros(1, FRAMES)
    mask[0, 200:400] = 1.0
    torch.testing.assert_close(pool_statistics(shifted, mask)[0], expected, rtol=1e-4, atol=1e-4)


def test_equal_fractional_weights_count_as_ones(trunk):
    ones = torch.ones(1, FRAMES)
    torch.testing.assert_close(pool_statistics(trunk, 0.25 * ones), pool_statistics(trunk, ones))


def test_leading_axes_are_batches(trunk):
    trunks, masks = torch.stack([trunk, 2 * trunk]), torch.ones(2, 3, FRAMES)
    pooled = pool_statistics(trunks, masks)
    assert pooled.shape == (2, 3, 2 * CHANNELS)
    torch.testing.assert_close(pooled[1, 2], pool_statistics(2 * trunk, masks[0])[2])


def test_no_value_is_read_on_the_host():
    pooled = pool_statistics(torch.empty(512, 2049, device="meta"), torch.empty(96, 2049, device="meta"))
    assert pooled.shape == (96, 1024)
