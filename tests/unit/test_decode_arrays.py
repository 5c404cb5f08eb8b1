import numpy as np
import pytest
from diar_client.decode import as_samples

from diar.errors import InvalidAudio


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        pytest.param(np.zeros(3, np.float32), np.float32, id="float32"),
        pytest.param(np.zeros(3, np.float64), np.float32, id="float64"),
        pytest.param(np.zeros(3, np.int16), np.int16, id="int16"),
        pytest.param(np.zeros(3, ">i2"), np.int16, id="big-endian"),
        pytest.param([0.0, 0.5, -0.5], np.float32, id="list"),
    ],
)
def test_array_is_taken_as_it_is(array, dtype):
    samples = as_samples(array)
    assert samples.dtype == dtype
    assert samples.dtype.isnative
    assert np.array_equal(samples, array)


@pytest.mark.parametrize(
    ("array", "word"),
    [
        pytest.param(np.zeros(0, np.float32), "E_AUDIO_EMPTY", id="empty"),
        pytest.param(np.zeros((5, 2), np.float32), "E_AUDIO_SHAPE", id="stereo"),
        pytest.param(np.float32(1), "E_AUDIO_SHAPE", id="scalar"),
        pytest.param(np.zeros(3, np.int32), "E_AUDIO_DTYPE", id="int32"),
        pytest.param(np.zeros(3, complex), "E_AUDIO_DTYPE", id="complex"),
        pytest.param(np.array([0.0, np.nan]), "E_AUDIO_NONFINITE", id="nan"),
        pytest.param(np.array([0.0, 1e300]), "E_AUDIO_NONFINITE", id="beyond-float32"),
        pytest.param(np.array([0.0, 12_000.0]), "E_AUDIO_RANGE", id="int16-as-float"),
    ],
)
def test_array_of_another_kind_is_refused(array, word):
    with pytest.raises(InvalidAudio) as failure:
        as_samples(array)
    assert failure.value.word == word
