"""Ten hours through block mode and through a live stream, on networks that cost nothing.

Prints its table; scripts/scale prints the same for the real networks.
"""

import wave

import numpy as np
import pytest
from live import ROOT
from scripted_repository import scripted_repository

from diar.tools.scale import parse_arguments, scale
from diar.tools.scale_figures import markdown

pytestmark = pytest.mark.slow
HOUR = 3600
LENGTHS_S = (HOUR, 3 * HOUR, 10 * HOUR + 0.0101875)  # the last one ends 163 samples into a frame
RECORDING_S = 2011  # repeated; no multiple of a block


@pytest.fixture(scope="module")
def rows(weights, tmp_path_factory):
    """(mode, seconds) -> figures."""
    folder = tmp_path_factory.mktemp("long")
    classes = np.random.default_rng(0).integers(0, 4, RECORDING_S)
    for length_s in LENGTHS_S:  # somebody speaks at the end
        classes[int(length_s) % RECORDING_S - 15 :][:16] = 1
    with wave.open(str(folder / "meeting.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.repeat(classes * 3277, 16_000).astype(np.int16).tobytes())
    repository = scripted_repository(folder, only=("diarize", "diarize_stream"))
    document = scale(
        parse_arguments(
            [
                *("--audio", str(folder / "meeting.wav"), "--modes", "blocks,stream"),
                *("--lengths", ",".join(map(str, LENGTHS_S)), "--serve", str(ROOT / "scripts" / "serve")),
                *("--engines-dir", str(ROOT / "engines")),
                *("--", "--cpu", "--model-repository", str(repository)),
            ]
        )
    )
    print(f"\n{markdown(document)}")
    return {(row["mode"], row["length_s"]): row for row in document["rows"]}


@pytest.mark.parametrize("length_s", LENGTHS_S)
def test_stream_ends_with_the_bytes_of_block_mode(rows, length_s):
    assert rows["stream", length_s]["result_sha256"] == rows["blocks", length_s]["result_sha256"]


@pytest.mark.parametrize("length_s", LENGTHS_S)
def test_result_ends_with_the_recording(rows, length_s):
    assert rows["blocks", length_s]["last_sample"] == round(length_s * 16_000)
    assert abs(rows["stream", length_s]["last_sample"] - length_s * 16_000) <= 8  # RESULT has milliseconds


@pytest.mark.parametrize("length_s", LENGTHS_S)
def test_client_holds_at_most_1500_mb(rows, length_s):
    assert rows["blocks", length_s]["client_peak_rss_mb"] <= 1500
    assert rows["stream", length_s]["client_peak_rss_mb"] <= 200


@pytest.mark.parametrize("length_s", LENGTHS_S)
def test_server_grows_by_at_most_200_mb_in_block_mode(rows, length_s):
    row = rows["blocks", length_s]
    assert row["server_peak_pss_mb"] - row["server_base_pss_mb"] <= 200


@pytest.mark.parametrize("length_s", LENGTHS_S)
def test_stream_holds_at_most_12_mb_an_hour_and_what_its_end_takes(rows, length_s):
    row = rows["stream", length_s]
    hours = length_s / HOUR
    assert row["server_peak_pss_mb"] - row["server_base_pss_mb"] <= 12 * hours + 50 + 20 * hours


def test_time_grows_no_worse_than_length(rows):
    for mode in ("blocks", "stream"):
        one, ten = rows[mode, LENGTHS_S[0]], rows[mode, LENGTHS_S[-1]]
        assert ten["stages_s"]["blocks"] <= 13 * one["stages_s"]["blocks"] + 5
