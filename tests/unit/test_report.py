"""Reports: what is in the page and in the picture. tests/browser looks at the page."""

import base64
import hashlib
import io
import json
import re
import struct
import wave
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from diar_client.decode import AudioWarning, decode_stream
from diar_client.report import to_html, to_png
from diar_client.report.forms import link_to
from diar_client.report.page import SCRIPTS, asset
from diar_client.report.palette import COLOURS
from diar_client.report.sound import MAX_PEAKS, encode, find_peaks, keep_sound
from diar_client.report.statistics import count
from hypothesis import given
from hypothesis import strategies as st

from diar.errors import Cancelled, InvalidAudio, SetupError
from diar.result import Diarization, Speaker
from diar.turns import Turn

SECOND = 16_000
HOSTILE = "</script><!--<script>\"'&amp;\\u003c\u2028{{data}}\u202e.wav"
ROOT = Path(__file__).parents[2]


def diarization(turns=(), num_samples=10 * SECOND, file_id=HOSTILE, note=""):
    names = list(dict.fromkeys(turn.speaker for turn in turns))
    return Diarization(
        num_samples=num_samples,
        profile="pyannote_campplus",
        lanes={},
        requested=None,
        note=note,
        turns=tuple(turns),
        exclusive_turns=tuple(turns[:1]),
        speakers=tuple(Speaker(name, SECOND, 0.5) for name in names),
        embeddings=np.zeros((len(names), 192), np.float32),
        file_id=file_id,
    )


@pytest.fixture(scope="module")
def result():
    other = HOSTILE.upper()
    turns = [Turn(0, 5 * SECOND, HOSTILE, 0.9), Turn(4 * SECOND, 6 * SECOND, other, 0.3)]
    return diarization(turns, note="<b>fewer</b> speakers than asked for")


@pytest.fixture(scope="module")
def sound():
    return (3000 * np.sin(np.arange(10 * SECOND) / 9)).astype(np.int16)


class Page(HTMLParser):
    """What a browser would find. scripts: (attributes, text); texts: id -> text; attributes: all of them."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.texts, self.attributes, self._open = [], {}, [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]
        self._open.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append((dict(attributes), ""))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._open[-1] if self._open else ("", {})
        key = attributes.get("id", tag)
        self.texts[key] = self.texts.get(key, "") + data
        if tag == "script":
            self.scripts[-1] = (attributes, self.scripts[-1][1] + data)


def test_names_are_text_wherever_they_stand(result, sound):
    page = Page(to_html(result, sound))
    kinds = [attributes.get("type", "") for attributes, _ in page.scripts]
    assert kinds == ["application/json", "text/plain", "", ""]
    assert page.texts["title"].startswith(f"{HOSTILE} – who spoke when")
    assert page.texts["result"].encode() == result.to_json()
    data = json.loads(page.texts["data"])
    assert (data["fileId"], data["labels"]) == (HOSTILE, [HOSTILE, HOSTILE.upper()])
    values = [value for tag, name, value in page.attributes if (tag, name) == ("input", "value")]
    assert values == [HOSTILE, HOSTILE.upper()]
    assert [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"] == []


def test_policy_names_the_scripts_and_no_host(result, sound):
    page = Page(to_html(result, sound))
    policy = next(value for tag, name, value in page.attributes if (tag, name) == ("meta", "content"))
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    code = [text for attributes, text in page.scripts if "type" not in attributes]
    assert hashes == [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_page_refers_to_nothing_outside(result, sound):
    page = Page(to_html(result, sound))
    assert [row for row in page.attributes if row[1] in ("src", "href", "srcset", "action")] == []
    code = "".join(text for _, text in page.scripts)
    assert set(re.findall(r"https?://[^\s\"']+", code)) == {"http://www.w3.org/1999/xhtml"}


def test_same_result_gives_the_same_page(result, sound):
    assert to_html(result, sound) == to_html(result, sound)


def test_wavesurfer_is_the_pinned_file_with_its_licence(result):
    table = dict(re.findall(r"^\| (\w+) \| (\S+) \|$", asset("ORIGIN.md"), re.MULTILINE))
    code = (files("diar_client.report") / "assets" / "wavesurfer.min.js").read_bytes()
    assert hashlib.sha256(code).hexdigest() == table["sha256"]
    assert table["integrity"].startswith("sha512-")
    assert asset("wavesurfer.LICENSE").startswith("BSD 3-Clause License")
    assert "*/" not in asset("wavesurfer.LICENSE")
    assert asset("wavesurfer.LICENSE") in to_html(result)


@pytest.mark.parametrize("name", [*(f"{name}.js" for name in SCRIPTS), "wavesurfer.min.js"])
def test_scripts_can_stand_inside_a_page(name):
    assert not re.search(r"</script|<!--|<script", asset(name), re.IGNORECASE)


def test_every_asset_is_in_the_installed_package():
    folder = ROOT / "client" / "diar_client" / "report" / "assets"
    used = {"page.html", "page.css", "wavesurfer.min.js", "wavesurfer.LICENSE", "ORIGIN.md"}
    assert {path.name for path in folder.iterdir()} == used | {f"{name}.js" for name in SCRIPTS}
    assert '"diar_client.report" = ["assets/*"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_sound_is_embedded_up_to_the_limit_and_linked_above(result, sound):
    embedded = Page(to_html(result, sound, embed_mb=0.03, link="./a.wav"))
    assert json.loads(embedded.texts["data"])["sound"] == "embedded"
    decoded = decode_stream(io.BytesIO(base64.b64decode(embedded.texts["sound"])), "page")
    assert len(decoded.samples) == len(sound)
    linked = Page(to_html(result, sound, embed_mb=0.029, link="./a.wav"))
    data = json.loads(linked.texts["data"])
    assert (data["sound"], data["link"]) == ("linked", "./a.wav")
    assert "sound" not in linked.texts
    assert len(base64.b64decode(data["peaks"])) == 1000


def test_sound_of_another_recording_is_refused(result, sound):
    with pytest.raises(InvalidAudio, match=r"got 5\.000 s of sound, expected that of the result, 10\.000 s"):
        to_html(result, sound[: 5 * SECOND])
    with pytest.raises(InvalidAudio, match=r"got 5\.000 s"):
        to_png(result, sound[: 5 * SECOND])


def test_file_that_is_read_in_part_is_warned_about_where_it_is_asked_for(result, sound, tmp_path):
    path = tmp_path / "cut.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SECOND, 0, "NONE", ""))
        file.writeframes(np.concatenate([sound, sound]).tobytes())
    path.write_bytes(path.read_bytes()[: -2 * len(sound)])
    with pytest.warns(AudioWarning) as caught:
        to_html(result, path)
    assert [Path(each.filename).name for each in caught] == ["test_report.py"]


@pytest.mark.parametrize("num_samples", [1, 159, 161, 100_001])
@pytest.mark.parametrize("kind", [np.int16, np.float32])
def test_encoded_sound_has_every_sample(num_samples, kind):
    samples = np.linspace(-1, 1, num_samples)
    samples = (samples * 32767).astype(np.int16) if kind is np.int16 else samples.astype(np.float32)
    decoded = decode_stream(io.BytesIO(encode(samples, lambda: None)), "sound")
    assert abs(len(decoded.samples) - num_samples) <= 320  # a frame of the codec


def test_encoding_can_be_given_up(sound):
    def stop():
        raise Cancelled("E_CANCELLED", "interrupted")

    with pytest.raises(Cancelled):
        keep_sound(sound, 30.0, stop)


def test_peaks_are_bounded_and_end_with_the_recording():
    long = np.zeros(36_000 * 1600, np.int16)
    long[-1] = -32768
    peaks = find_peaks(long)
    assert MAX_PEAKS * 0.99 < len(peaks) <= MAX_PEAKS
    assert (peaks[-1], peaks[:-1].max()) == (255, 0)
    assert find_peaks(np.zeros(5, np.int16)).tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.sampled_from("ABC"), st.floats(0, 1))))
def test_statistics_are_those_counted_sample_by_sample(rows):
    turns = [Turn(start, start + length, name, sure) for start, length, name, sure in rows]
    statistics = count(turns, "ABC", 70)
    active = np.zeros(70, int)
    for turn in turns:
        active[turn.start : turn.end] += 1
    assert (statistics.speech, statistics.overlap) == ((active > 0).sum(), (active > 1).sum())
    total = active.sum()
    for speaker in statistics.speakers:
        own = [turn for turn in turns if turn.speaker == speaker.label]
        speech = sum(turn.end - turn.start for turn in own)
        assert (speaker.speech, speaker.turns) == (speech, len(own))
        assert speaker.share == pytest.approx(speech / total if total else 0)
        assert 0 <= speaker.confidence <= 1 + 1e-9


@pytest.mark.parametrize("page", ["#ffffff", "#191c22"])
@pytest.mark.parametrize("colour", COLOURS)
def test_colours_can_be_seen_on_light_and_dark(colour, page):
    lighter, darker = sorted((luminance(colour), luminance(page)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3


def luminance(colour):
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(
    ("recording", "page", "link"),
    [
        pytest.param("a.wav", "a.html", "./a.wav", id="beside"),
        pytest.param("in/a.wav", "out/deep/a.html", "../../in/a.wav", id="elsewhere"),
        pytest.param("javascript:a.wav", "a.html", "./javascript%3Aa.wav", id="no-scheme"),
        pytest.param('#a?%20é".wav', "a.html", "./%23a%3F%2520%C3%A9%22.wav", id="quoted"),
        pytest.param("-", "a.html", None, id="standard-input"),
    ],
)
def test_links_are_relative_and_quoted(recording, page, link):
    assert link_to(recording, Path(page)) == link


def test_page_on_standard_output_links_absolutely():
    assert link_to("a b.wav", None) == (Path.cwd() / "a%20b.wav").as_uri().replace("%2520", "%20")


@pytest.mark.parametrize("audio", [True, False], ids=["waveform", "turns-only"])
def test_picture_is_as_wide_as_asked_for(result, sound, audio):
    png = to_png(result, sound if audio else None, width_in=6, dpi=100)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", png[16:20]) == (600,)


@pytest.mark.parametrize(
    "name", ["$x_{", "a\nb", "李 雷", "x" * 300], ids=["formula", "lines", "cjk", "long"]
)
def test_picture_takes_any_name(name):
    assert to_png(replace(diarization([Turn(0, 9, name)]), file_id=name))


def test_picture_of_nothing_is_a_picture():
    assert to_png(diarization([]))
    assert to_png(diarization([], num_samples=1), np.zeros(1, np.int16))


def test_missing_matplotlib_is_said_with_the_extra(result, monkeypatch):
    monkeypatch.setattr("diar_client.report.picture.importlib.util.find_spec", lambda name: None)
    with pytest.raises(SetupError, match=re.escape("pip install 'diar-triton[report]'")):
        to_png(result)
