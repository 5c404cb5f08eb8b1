"""Windows of a span: views of it, or of one fbank pass, equal to what each window alone would give."""

import pytest
import torch

from diar.fbank import Fbank
from diar.front_end import fbank_windows, waveform_windows
from diar.profile import FbankInput, load_profile

GEOMETRY = load_profile("span16").geometry


@pytest.fixture(scope="module")
def span():
    generator = torch.Generator().manual_seed(2)
    return torch.randn(GEOMETRY.span_samples(3), generator=generator) * 0.1


@pytest.fixture(scope="module")
def features(span):
    return Fbank()(span)


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def test_windows_of_a_waveform_are_views(span):
    windows = waveform_windows(span, GEOMETRY)
    assert windows.shape == (3, 256_000)
    assert storage(windows) == storage(span)
    assert torch.equal(windows[2], span[51_200:307_200])


def test_windows_of_an_fbank_are_views_of_one_pass(span, features):
    windows = fbank_windows(features, GEOMETRY, FbankInput(80, "kept"))
    assert windows.shape == (3, 1598, 80)
    assert storage(windows) == storage(features)
    for index, window in enumerate(waveform_windows(span, GEOMETRY)):
        torch.testing.assert_close(windows[index], Fbank()(window), rtol=0, atol=1e-4)


@pytest.mark.parametrize("num_windows", [1, 2, 8])
def test_there_are_as_many_windows_as_the_span_has(num_windows):
    features = Fbank()(torch.zeros(GEOMETRY.span_samples(num_windows)))
    assert len(fbank_windows(features, GEOMETRY, FbankInput(80, "kept"))) == num_windows


def test_each_window_loses_its_own_mean(features):
    windows = fbank_windows(features, GEOMETRY, FbankInput(80, "per_window"))
    kept = fbank_windows(features, GEOMETRY, FbankInput(80, "kept"))
    torch.testing.assert_close(windows.mean(dim=1), torch.zeros(3, 80), rtol=0, atol=1e-4)
    torch.testing.assert_close(windows[1], kept[1] - kept[1].mean(dim=0))
