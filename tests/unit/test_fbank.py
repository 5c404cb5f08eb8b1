"""The filterbank against Kaldi's own code and torchaudio's, on signals made here."""

import importlib
import math

import numpy as np
import pytest
import torch

from diar import fbank as fbank_module
from diar.fbank import ENERGY_FLOOR, KALDI_FLOOR, Fbank, num_fbank_frames


def noise(num_samples, loudness=0.1):
    return torch.randn(num_samples, generator=torch.Generator().manual_seed(3)) * loudness


def tones(num_samples):
    time = torch.arange(num_samples) / 16_000
    return 0.3 * torch.sin(2 * torch.pi * 220 * time) + 0.1 * torch.sin(2 * torch.pi * 3_100 * time)


SIGNALS = [
    pytest.param(noise(16_000), id="noise"),
    pytest.param(noise(16_000, 0.001), id="faint-noise"),
    pytest.param(tones(16_000) + noise(16_000, 0.001), id="tones"),
    pytest.param(noise(16_000) + 0.5, id="offset"),
    pytest.param(noise(400), id="one-frame"),
    pytest.param(noise(719), id="a-sample-short-of-three-frames"),
]


def kaldi(samples, energy_floor):
    knf = pytest.importorskip("kaldi_native_fbank")
    options = knf.FbankOptions()
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = 80
    extractor = knf.OnlineFbank(options)
    extractor.accept_waveform(16_000, (samples * 32_768).tolist())
    extractor.input_finished()
    frames = np.stack([extractor.get_frame(i) for i in range(extractor.num_frames_ready)])
    return np.maximum(frames, math.log(energy_floor))


@pytest.mark.parametrize("energy_floor", [ENERGY_FLOOR, KALDI_FLOOR])
@pytest.mark.parametrize("samples", SIGNALS)
def test_fbank_equals_kaldi(samples, energy_floor):
    fbank = Fbank(energy_floor=energy_floor)(samples).numpy()
    expected = kaldi(samples, energy_floor)
    assert fbank.shape == expected.shape == (num_fbank_frames(len(samples)), 80)
    assert np.abs(fbank - expected).max() <= 1e-3


@pytest.mark.parametrize("num_samples", [400, 16_000, 655_999])
def test_pieces_change_nothing(monkeypatch, num_samples):
    pieces = Fbank()(noise(num_samples))
    monkeypatch.setattr(fbank_module, "_FRAMES_AT_ONCE", 10_000)
    assert torch.equal(Fbank()(noise(num_samples)), pieces)


@pytest.mark.parametrize("samples", SIGNALS)
def test_fbank_equals_torchaudio(samples):
    try:
        oracle = importlib.import_module("torchaudio.compliance.kaldi")
    except (ImportError, OSError) as err:  # OSError: installed, but made for another torch
        pytest.skip(f"torchaudio does not import: {err}")
    expected = oracle.fbank(samples.unsqueeze(0), num_mel_bins=80, dither=0.0, sample_frequency=16_000)
    shift = 2 * math.log(32_768)  # torchaudio is given samples in [-1, 1], as by the original front end
    assert (Fbank()(samples) - shift - expected).abs().max() <= 1e-3


def test_silence_is_at_the_floor_and_finite():
    fbank = Fbank()(torch.zeros(1_000))
    assert torch.equal(fbank, torch.full((4, 80), math.log(ENERGY_FLOOR)))


def test_frames_of_a_span_are_those_of_its_windows():
    samples = noise(48_000)
    fbank, window = Fbank(), slice(16_000, 32_000)
    torch.testing.assert_close(fbank(samples)[100 : 100 + num_fbank_frames(16_000)], fbank(samples[window]))


def test_too_short_for_a_frame_gives_none():
    assert Fbank()(torch.zeros(399)).shape == (0, 80)
    assert Fbank()(torch.zeros(3, 399)).shape == (3, 0, 80)


def test_leading_axes_are_batches():
    samples = torch.stack([noise(1_000), tones(1_000)])
    torch.testing.assert_close(Fbank()(samples)[1], Fbank()(samples[1]))


def test_no_value_is_read_on_the_host():
    fbank = Fbank(device="meta")(torch.empty(656_000, device="meta"))
    assert fbank.shape == (4_098, 80)
