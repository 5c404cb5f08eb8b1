"""The segmentation network without its weights: sizes, and filters that do what the paper says."""

import pytest
import torch

from diar.networks.segmentation import PyanNet, sinc_filters


def learnt_filters(low_hz, band_hz):
    """Filters with the given edges (after the minima of 50 Hz are added), as a checkpoint stores them."""
    times = 2 * torch.pi * torch.arange(-125.0, 0.0).unsqueeze(0) / 16_000
    window = torch.hamming_window(251, periodic=False)[:125]
    edges = [torch.tensor([[value]]) for value in (low_hz - 50.0, band_hz - 50.0)]
    return sinc_filters(*edges, window, times, 16_000)


@pytest.mark.parametrize(("low_hz", "band_hz"), [(300.0, 400.0), (1_000.0, 2_000.0)])
def test_a_sinc_filter_passes_its_band_only(low_hz, band_hz):
    even, odd = learnt_filters(low_hz, band_hz).squeeze(1)
    assert torch.equal(even, even.flip(0))
    assert torch.equal(odd, -odd.flip(0))
    hertz = torch.fft.rfftfreq(16_000, d=1 / 16_000)
    margin = 150.0  # of the window's main lobe
    inside = (hertz > low_hz + margin) & (hertz < low_hz + band_hz - margin)
    outside = (hertz < low_hz - margin) | (hertz > low_hz + band_hz + margin)
    for kernel in (even, odd):
        gain = torch.fft.rfft(kernel, n=16_000).abs()
        assert gain[outside].max() < 0.05 * gain[inside].min()


@pytest.mark.parametrize(("samples", "frames"), [(160_000, 589), (80_000, 293)])
def test_windows_become_log_probabilities_per_frame(samples, frames):
    network = PyanNet(7).eval()
    with torch.inference_mode():
        scores = network(torch.randn(2, samples, generator=torch.Generator().manual_seed(4)))
    assert scores.shape == (2, frames, 7)
    torch.testing.assert_close(scores.exp().sum(dim=-1), torch.ones(2, frames))


def test_silence_is_finite():
    with torch.inference_mode():
        assert PyanNet(7).eval()(torch.zeros(1, 160_000)).isfinite().all()
