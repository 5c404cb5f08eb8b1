import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from diar_client.decode import decode_file, decode_stream

from diar.errors import InvalidAudio, InvalidOption

ODD = Path(__file__).parents[3] / "shared" / "data" / "odd"
FLOAT, PCM = 3, 1


def wav(samples, rate=16_000, *, kind=PCM, data_size=None):
    """A WAVE file of (sample, channel) int16 or float. data_size: what its header says, if not the truth."""
    samples = samples.reshape(len(samples), -1)
    data = samples.tobytes()
    width, channels = samples.dtype.itemsize, samples.shape[1]
    fmt = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * width, channels * width, 8 * width)
    size = len(data) if data_size is None else data_size
    return (
        b"RIFF" + struct.pack("<I", (36 + size) & 0xFFFFFFFF) + b"WAVE"
        + b"fmt " + struct.pack("<I", len(fmt)) + fmt
        + b"data" + struct.pack("<I", size) + data
    )  # fmt: skip


def tone(seconds, rate=16_000, hz=440.0, amplitude=0.25):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)


def int16(samples):
    return np.rint(samples * 32767).astype(np.int16)


def decode(content, channel=None):
    return decode_stream(io.BytesIO(content), "test.wav", channel=channel)


def encode(path, codec, seconds, rate=48_000, *, layout="stereo", video=False):
    """Write a file of one tone with libav's encoder; the container comes from the file's extension."""
    with av.open(str(path), "w") as container:
        if video:
            picture = container.add_stream("mpeg4", rate=5)
            picture.width = picture.height = 32
            picture.pix_fmt = "yuv420p"
        stream = container.add_stream(codec, rate=rate)
        stream.layout = layout
        channels = 2 if layout == "stereo" else 1
        samples = np.tile(int16(tone(seconds, rate))[:, None], channels).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout=layout)
        frame.sample_rate = rate
        convert = av.AudioResampler(stream.format, layout, rate, frame_size=stream.frame_size or None)
        if video:
            for index in range(round(5 * seconds)):
                still = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
                still.pts = index
                container.mux(picture.encode(still))
            container.mux(picture.encode(None))
        for part in [*convert.resample(frame), *convert.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))


ODD_FILES = {
    # name: (seconds, words of the notes)
    "antiphase_stereo.wav": (5.0, ["cancel"]),
    "clipped.wav": (10.0, []),
    "data_size_zero.wav": (10.0, []),
    "dc_offset.wav": (5.0, []),
    "fw_jfk_44k_24bit_stereo.flac": (11.0, []),
    "fw_stereo_diarization.wav": (5.0, []),
    "garbage_inside.mp3": (2.56, []),
    "lhotse_stereo.mp3": (1.0, []),
    "lhotse_stereo.opus": (48_260 / 48_000, []),
    "lhotse_stereo.sph": (1.0, []),
    "mfa_24bit.wav": (411_481 / 16_000, []),
    "one_sample.wav": (1 / 16_000, []),
    "over_range_float.wav": (5.0, []),
    "pydub.m4a": (425_984 / 44_100, []),
    "pydub_8bit.wav": (320_303 / 32_000, []),
    "pydub_wrong_extension.aac": (425_984 / 44_100, []),
    "sample_48k_stereo_24.wav": (5.0, []),
    "sample_8k_ulaw.wav": (10.0, []),
    "silero_test.opus": (387_072 / 48_000, []),
    "six_channels.wav": (2.0, []),
    "stream_size_ffffffff.wav": (10.0, []),
    "ten_ms.wav": (0.01, []),
    "trunc.flac": (6.912, ["damaged", "truncated: 6.912 s of the 15.000 s"]),
    "trunc_mid_data.wav": (159_965 / 16_000, ["truncated: 9.998 s of the 30.000 s"]),
    "very_quiet.wav": (10.0, []),
    "white_noise.wav": (10.0, []),
}
ODD_REFUSED = {
    "azure_missing_header.wav": "E_AUDIO_FORMAT",
    "nan_inf_float.wav": "E_AUDIO_NONFINITE",
    "pydub_empty_header_only.wav": "E_AUDIO_EMPTY",
    "text_named.mp3": "E_AUDIO_FORMAT",
    "trunc.mp3": "E_AUDIO_FORMAT",  # it ends inside the picture of its tag
    "trunc_header.wav": "E_AUDIO_FORMAT",
    "zero_bytes.mp3": "E_AUDIO_EMPTY",
    "zero_samples.wav": "E_AUDIO_EMPTY",
}
needs_odd = pytest.mark.skipif(not ODD.is_dir(), reason=f"no data at {ODD}")


@needs_odd
def test_every_odd_file_has_its_expectation():
    assert {path.name for path in ODD.iterdir()} == ODD_FILES.keys() | ODD_REFUSED.keys()


@needs_odd
@pytest.mark.parametrize("name", ODD_FILES)
def test_odd_file_is_decoded(name):
    seconds, words = ODD_FILES[name]
    decoded = decode_file(ODD / name)
    assert abs(len(decoded.samples) - seconds * 16_000) <= 1
    assert len(decoded.notes) == len(words)
    assert all(word in note for word, note in zip(words, decoded.notes, strict=True))


@needs_odd
@pytest.mark.parametrize("name", ODD_REFUSED)
def test_odd_file_is_refused_in_one_line_that_names_it(name):
    with pytest.raises(InvalidAudio) as failure:
        decode_file(ODD / name)
    assert failure.value.word == ODD_REFUSED[name]
    assert name in failure.value.text
    assert "\n" not in failure.value.text


@pytest.mark.parametrize("length", [1, 7, 16_000, 16_001, 50_000])
def test_int16_at_16_khz_passes_unchanged(length):
    samples = np.random.default_rng(length).integers(-32768, 32768, length, dtype=np.int16)
    decoded = decode(wav(samples))
    assert np.array_equal(decoded.samples, samples)
    assert decoded.notes == ()


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000])
@pytest.mark.parametrize("length", [1, 10, 441, 48_017])
def test_resampled_length_is_exact(rate, length):
    samples = decode(wav(int16(tone(length / rate, rate)), rate)).samples
    assert len(samples) == -(-length * 16_000 // rate)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_resampled_tone_keeps_its_place_and_level(rate):
    samples = decode(wav(int16(tone(3, rate)), rate)).samples
    error = samples[200:-200] / 32768 - tone(3)[200:-200]
    assert np.abs(error).max() < 1e-3


def test_channels_are_averaged():
    left, right = int16(tone(0.5)), int16(tone(0.5, hz=150))
    samples = decode(wav(np.stack([left, right], axis=1))).samples
    assert np.abs(samples - (left.astype(float) + right) / 2).max() <= 0.5


@pytest.mark.parametrize("channel", [0, 1, 5])
def test_chosen_channel_is_taken(channel):
    content = np.stack([int16(tone(0.1, hz=100 * (index + 1))) for index in range(6)], axis=1)
    assert np.array_equal(decode(wav(content), channel).samples, content[:, channel])


@pytest.mark.parametrize("channel", [-1, 2])
def test_channel_that_is_not_there_is_refused_with_their_number(channel):
    with pytest.raises(InvalidOption, match=rf"got {channel}, test.wav has 2 \(0 to 1\)"):
        decode(wav(np.zeros((100, 2), np.int16)), channel)


def test_antiphase_channels_give_the_loudest_one_and_a_note():
    samples = int16(tone(1))
    decoded = decode(wav(np.stack([samples, -samples], axis=1)))
    assert np.array_equal(decoded.samples, samples)
    assert decoded.notes == ("its channels cancel each other: took channel 0 instead of their average",)


@pytest.mark.parametrize("other", [np.zeros, lambda n: np.random.default_rng(0).normal(0, 0.1, n)])
def test_ordinary_channels_are_not_taken_for_antiphase(other):
    content = np.stack([int16(tone(1)), int16(other(16_000))], axis=1)
    assert decode(wav(content)).notes == ()


def test_silent_channels_are_not_taken_for_antiphase():
    assert decode(wav(np.zeros((1000, 2), np.int16))).notes == ()


def test_float_samples_above_full_scale_clip():
    samples = np.array([0.0, 0.5, 1.0, 1.5, -1.5, 1e30, -1e30], np.float32)
    decoded = decode(wav(samples, kind=FLOAT))
    assert decoded.samples.tolist() == [0, 16384, 32767, 32767, -32768, 32767, -32768]
    assert "up to 1e+30" in decoded.notes[0]


def test_channels_of_any_finite_size_are_averaged():
    samples = np.full((1000, 2), 3e38, np.float32)
    samples[::2] *= -1
    assert set(decode(wav(samples, kind=FLOAT)).samples.tolist()) == {-32768, 32767}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_sample_that_is_not_finite_is_refused_with_its_place(dtype, bad):
    samples = np.zeros((40_000, 2), dtype)
    samples[24_000, 1] = bad
    with pytest.raises(InvalidAudio, match=r"at 1.5000 s \(sample 24000 of channel 1\)") as failure:
        decode(wav(samples, kind=FLOAT))
    assert failure.value.word == "E_AUDIO_NONFINITE"


def test_double_beyond_float32_is_refused():
    with pytest.raises(InvalidAudio, match="E_AUDIO_NONFINITE"):
        decode(wav(np.array([0.0, 1e300]), kind=FLOAT))


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0xFFFFFFFF - 36])
def test_placeholder_sizes_of_a_stream_are_no_truncation(size):
    decoded = decode(wav(int16(tone(1)), data_size=size))
    assert (len(decoded.samples), decoded.notes) == (16_000, ())


def test_truncated_wav_is_decoded_with_a_note():
    decoded = decode(wav(int16(tone(1)), data_size=64_000))
    assert len(decoded.samples) == 16_000
    assert decoded.notes == ("truncated: 1.000 s of the 2.000 s that its header promises",)


@pytest.mark.parametrize("rate", [1, 999])
def test_absurd_sample_rate_is_refused(rate):
    with pytest.raises(InvalidAudio, match=f"got {rate} Hz, expected 1000 to 1000000 Hz"):
        decode(wav(np.zeros(100, np.int16), rate))


@pytest.mark.parametrize(
    ("name", "codec", "padding_s"),
    [
        pytest.param("a.flac", "flac", 0, id="flac"),
        pytest.param("a.mp3", "libmp3lame", 0.06, id="mp3"),
        pytest.param("a.m4a", "aac", 0.06, id="m4a"),
        pytest.param("a.opus", "libopus", 0.06, id="opus"),
        pytest.param("a.webm", "libopus", 0.06, id="webm"),
        pytest.param("a.aiff", "pcm_s16be", 0, id="aiff"),
        pytest.param("a.avi", "libmp3lame", 0.06, id="avi"),
    ],
)
def test_common_formats_are_decoded_to_their_length(tmp_path, name, codec, padding_s):
    encode(tmp_path / name, codec, 2.0)
    decoded = decode_file(tmp_path / name)
    assert abs(len(decoded.samples) / 16_000 - 2.0) <= padding_s + 1 / 16_000
    assert decoded.notes == ()
    middle = decoded.samples[8_000:24_000] / 32768
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.25 / np.sqrt(2), rel=0.05)


def test_video_gives_its_first_audio_stream(tmp_path):
    encode(tmp_path / "a.mp4", "aac", 1.0, video=True)
    assert abs(len(decode_file(tmp_path / "a.mp4").samples) / 16_000 - 1.0) < 0.06


@pytest.mark.parametrize(("name", "codec"), [("a.m4a", "aac"), ("a.opus", "libopus")])
@pytest.mark.parametrize("channel", [0, 6, 7])
def test_eight_planes_are_read_and_no_more(tmp_path, name, codec, channel):
    tones = np.stack([tone(1, 48_000, hz=200 + 100 * index) for index in range(8)], axis=1)
    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream(codec, rate=48_000)
        stream.layout = "7.1"
        frame = av.AudioFrame.from_ndarray(int16(tones).reshape(1, -1), format="s16", layout="7.1")
        frame.sample_rate = 48_000
        convert = av.AudioResampler(stream.format, "7.1", 48_000, frame_size=stream.frame_size)
        for part in [*convert.resample(frame), *convert.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    samples = decode_file(tmp_path / name, channel=channel).samples[:16_000]
    assert np.abs(np.fft.rfft(samples)).argmax() == 200 + 100 * channel


def test_wrong_extension_does_not_matter(tmp_path):
    encode(tmp_path / "a.flac", "flac", 0.5)
    (tmp_path / "a.flac").rename(tmp_path / "a.mp3")
    assert len(decode_file(tmp_path / "a.mp3").samples) == 8_000


@pytest.mark.parametrize("name", ["a b.wav", "http:x.wav", "-.wav", "%d.wav", "é.wav", "concat:a|b.wav"])
def test_name_is_only_a_name(tmp_path, name):
    (tmp_path / name).write_bytes(wav(int16(tone(0.1))))
    assert len(decode_file(tmp_path / name).samples) == 1_600


def test_picture_has_no_audio_stream(tmp_path):
    with av.open(str(tmp_path / "a.png"), "w") as container:
        stream = container.add_stream("png", rate=1)
        stream.width = stream.height = 16
        stream.pix_fmt = "rgb24"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8))))
        container.mux(stream.encode(None))
    with pytest.raises(InvalidAudio, match=r"E_AUDIO_STREAM\|.*a.png: it holds no audio stream"):
        decode_file(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("nowhere.wav", "No such file", id="absent"),
        pytest.param(".", "Is a directory", id="folder"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path, name, reason):
    with pytest.raises(InvalidAudio, match=rf"E_AUDIO_FILE\|.*: {reason}"):
        decode_file(tmp_path / name)
