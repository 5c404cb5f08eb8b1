"""What samples must be like before anything is computed from them."""

import numpy as np
import pytest

from diar.audio import MAX_PEAK, check_samples
from diar.errors import InvalidAudio


def with_value(value):
    samples = np.zeros(1_000, np.float32)
    samples[700] = value
    return samples


@pytest.mark.parametrize(
    ("samples", "word", "text"),
    [
        pytest.param(np.zeros(0, np.float32), "E_AUDIO_EMPTY", "got 0 samples", id="none"),
        pytest.param(np.zeros(0, np.int16), "E_AUDIO_EMPTY", "got 0 samples", id="none-in-pcm"),
        pytest.param(np.zeros((9, 1), np.float32), "E_AUDIO_SHAPE", r"\(9, 1\)", id="two-axes"),
        pytest.param(np.float32(0), "E_AUDIO_SHAPE", r"\(\)", id="no-axis"),
        pytest.param(np.zeros(9), "E_AUDIO_DTYPE", "float64", id="float64"),
        pytest.param(np.zeros(9, np.int32), "E_AUDIO_DTYPE", "int32", id="int32"),
        pytest.param(np.zeros(9, ">i2"), "E_AUDIO_DTYPE", ">i2|int16", id="other-byte-order"),
        pytest.param(with_value(np.nan), "E_AUDIO_NONFINITE", "NaN or infinity", id="nan"),
        pytest.param(with_value(np.inf), "E_AUDIO_NONFINITE", "NaN or infinity", id="infinity"),
        pytest.param(with_value(-np.inf), "E_AUDIO_NONFINITE", "NaN or infinity", id="minus-infinity"),
        pytest.param(with_value(-8.01), "E_AUDIO_RANGE", "peak of 8.01", id="below-the-range"),
        pytest.param(with_value(32_767), "E_AUDIO_RANGE", "peak of 32767", id="scaled-as-pcm"),
    ],
)
def test_samples_that_are_none_are_refused_by_name(samples, word, text):
    with pytest.raises(InvalidAudio, match=text) as caught:
        check_samples(samples, what="SPAN")
    assert caught.value.word == word
    assert caught.value.text.startswith("SPAN: got")


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(np.zeros(1, np.float32), id="one-sample"),
        pytest.param(np.full(9, -32_768, np.int16), id="loudest-pcm"),
        pytest.param(np.full(9, -MAX_PEAK, np.float32), id="overshoot"),
        pytest.param(np.zeros(18, np.float32)[::2], id="strided"),
    ],
)
def test_samples_are_accepted(samples):
    check_samples(samples)
