"""The report page as a person uses it."""

import time
import wave
from dataclasses import replace

import numpy as np
import pytest
from diar_client.report import to_html

from diar.turns import Turn

SECOND = 16_000
NOW = "document.getElementById('audio').currentTime"
DARK, LIGHT = "rgb(16, 18, 22)", "rgb(244, 245, 247)"


def renamed(result, names):
    """The result with other names, as Python would give it."""
    names = dict(zip([speaker.label for speaker in result.speakers], names, strict=True))
    return replace(
        result,
        turns=tuple(replace(turn, speaker=names[turn.speaker]) for turn in result.turns),
        exclusive_turns=tuple(replace(turn, speaker=names[turn.speaker]) for turn in result.exclusive_turns),
        speakers=tuple(replace(speaker, label=names[speaker.label]) for speaker in result.speakers),
    )


def test_clicks_on_every_track_and_row_seek(show, html):
    page = show(html)
    page.at("#wave", 6)
    assert page.place() == pytest.approx(6, abs=0.05)
    page.at(".track", 22)
    assert page.place() == pytest.approx(22, abs=0.05)
    page.at("#ruler", 12)
    assert page.place() == pytest.approx(12, abs=0.05)
    page.tab.locator(".turn").nth(3).click()
    assert page.place() == 15
    page.wait("document.querySelector('.turn.now .at').textContent === '0:15.0'")


def test_many_fast_seeks_end_where_the_last_one_went(show, html):
    page = show(html)
    box = page.tab.locator("#wave").bounding_box()
    page.tab.mouse.move(box["x"] + 5, box["y"] + 20)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20, steps=40)
    page.tab.mouse.up()
    assert page.place() == pytest.approx(27, abs=0.05)
    page.wait("document.getElementById('clock').textContent.startsWith('0:27.0')")


def test_keys_play_move_and_zoom(show, html):
    page = show(html)
    press = page.tab.keyboard.press
    press("Space")
    page.wait(f"{NOW} > 0.3")
    assert page.tab.get_attribute("#play", "aria-label") == "Pause"
    press("Space")
    assert page.tab.evaluate("document.getElementById('audio').paused")
    for key, place in [
        ("Home", 0),
        ("ArrowRight", 5),
        ("Shift+ArrowRight", 6),
        ("ArrowLeft", 1),
        ("ArrowDown", 4),
        ("ArrowDown", 10),
        ("ArrowUp", 4),
        ("1", 20),
        ("End", 30),
        ("2", 30),
        ("Home", 0),
        ("3", 10),
    ]:
        press(key)
        assert page.place() == pytest.approx(place, abs=0.02), key
    before = page.tab.locator("#overview").screenshot()
    press("+")
    page.wait(
        "document.getElementById('wave').firstChild.shadowRoot.querySelector('.wrapper').clientWidth > 1800"
    )
    assert page.tab.locator("#overview").screenshot() != before
    press("0")
    page.wait(
        "document.getElementById('wave').firstChild.shadowRoot.querySelector('.wrapper').clientWidth < 1200"
    )


def test_names_are_changed_everywhere_and_exported(show, html, result):
    page = show(html)
    names = ["Zoë  O'Neil", 'q"\\</script>', "李 雷"]
    for speaker, name in enumerate(names):
        page.rename(speaker, name)
    assert page.tab.locator(".called").all_text_contents() == ["Zoë O'Neil", *names[1:]]
    assert page.tab.locator(".turn bdi").all_text_contents()[:3] == ["Zoë O'Neil", *names[1:]]
    assert page.tab.locator("#only option").all_text_contents()[1:] == ["Zoë O'Neil", *names[1:]]
    wanted = renamed(result, ["Zoë O'Neil", *names[1:]])
    rttm, name = page.saved("#save-rttm")
    assert rttm.decode() == wanted.to_rttm()
    assert name.endswith(".rttm")
    assert page.saved("#save-json")[0] == wanted.to_json()


def test_result_is_exported_as_it_is_without_new_names(show, html, result):
    page = show(html)
    assert page.saved("#save-rttm")[0].decode() == result.to_rttm()
    assert page.saved("#save-json")[0] == result.to_json()


def test_exclusive_turns_are_exported_where_they_are_shown(show, result, sound):
    page = show(to_html(result, sound, exclusive=True))
    assert page.saved("#save-rttm")[0].decode() == result.to_rttm(exclusive=True)
    assert page.tab.locator(".turn").count() == len(result.exclusive_turns)
    assert not page.tab.locator("#overlap").is_visible()


def test_name_of_another_speaker_is_refused_and_none_gives_the_old_one_back(show, html, result):
    page = show(html)
    page.rename(0, "Bo B")
    page.rename(1, " Bo_B ")
    assert page.tab.locator(".called").nth(1).text_content() == result.speakers[1].label
    assert "wrong" in page.tab.locator(".name").nth(1).get_attribute("class")
    page.rename(0, "")
    assert page.tab.locator(".called").first.text_content() == "SPEAKER_00"


def test_names_are_there_again_after_a_reload(show, html):
    page = show(html)
    page.rename(1, "Ada")
    page.tab.reload()
    page.wait("document.querySelectorAll('.called')[1].textContent === 'Ada'")


def test_overlap_and_confidence_are_drawn(show, html):
    page = show(html)
    one, other = page.pixel(".track", 4.5, number=0), page.pixel(".track", 4.5, number=1)
    assert one[3] == 255
    assert other[3] > 200
    assert one[:3] != other[:3]
    assert page.pixel("#overlap", 4.5)[3] == 255
    assert page.pixel("#overlap", 2)[3] == page.pixel(".track", 18, number=0)[3] == 0
    unsure = page.pixel(".track", 12, number=2)
    assert 50 < unsure[3] < 80  # a quarter, for confidence 0
    assert page.pixel(".track", 4.5, number=2)[3] in range(20, 50)  # the others' overlap, as a tint


def test_zoom_shows_a_part_that_follows_the_playhead(show, html):
    page = show(html)
    page.at("#wave", 25)
    for _ in range(3):
        page.tab.click("#zoom-in")
    page.at("#wave", 1, of_s=2)
    assert page.place() == pytest.approx(25, abs=1.5)
    page.tab.click("#next")
    page.tab.keyboard.press("Home")
    page.wait("document.querySelector('.playhead').style.visibility === ''")
    page.tab.click("#zoom-fit")
    page.at("#wave", 15)
    assert page.place() == pytest.approx(15, abs=0.05)


def test_turns_of_one_speaker_can_be_listed(show, html, result):
    page = show(html)
    page.tab.select_option("#only", "0")
    assert page.tab.locator(".turn .at").all_text_contents() == ["0:01.0", "0:20.0"]


def test_hovering_tells_the_turn(show, html, result):
    page = show(html)
    box = page.tab.locator(".track").nth(1).bounding_box()
    page.tab.mouse.move(box["x"] + box["width"] * 6 / 30, box["y"] + 15)
    assert page.tab.locator("#tip").text_content() == (
        result.speakers[1].label + "\n0:04.00 – 0:08.00\n4.00 s, confidence 0.90"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_page_fits_the_screen_and_can_be_read(show, html, width, scheme):
    page = show(html, width=width, color_scheme=scheme)
    assert page.tab.evaluate("document.documentElement.scrollWidth") == width
    assert page.tab.evaluate(BACKGROUND) == (DARK if scheme == "dark" else LIGHT)
    assert page.tab.evaluate(LEAST_CONTRAST) >= 4.5
    tracks = page.tab.locator(".track").all()
    assert all(track.bounding_box()["width"] > 300 for track in tracks)
    page.tab.click("#theme")
    assert page.tab.evaluate(BACKGROUND) == (LIGHT if scheme == "dark" else DARK)
    assert page.tab.evaluate(LEAST_CONTRAST) >= 4.5


def test_linked_sound_plays_from_beside_the_page(show, result, sound, tmp_path):
    name = "café #1 a%20b?.wav"
    with wave.open(str(tmp_path / name), "wb") as file:
        file.setparams((1, 2, SECOND, 0, "NONE", ""))
        file.writeframes(sound.tobytes())
    page = show(to_html(result, sound, embed_mb=0, link="./caf%C3%A9%20%231%20a%2520b%3F.wav"))
    page.at("#wave", 21)
    page.tab.click("#play")
    page.wait(f"{NOW} > 21.2")


def test_sound_that_is_gone_is_said(show, result, sound):
    page = show(to_html(result, sound, embed_mb=0, link="./gone.mp3"), sounds=False)
    page.wait("document.getElementById('trouble').textContent.includes('cannot play ./gone.mp3')")
    assert page.tab.is_disabled("#play")
    page.wrong.clear()  # Chromium says it, too


def test_page_without_sound_shows_turns(show, result):
    page = show(to_html(result), sounds=False)
    page.at(".track", 22)
    page.wait("document.getElementById('clock').textContent.startsWith('0:22')")
    assert page.tab.is_disabled("#play")
    assert page.tab.text_content("#trouble") == "without sound"


def test_recording_without_speech_is_a_page(show, result, sound):
    silent = replace(result, turns=(), exclusive_turns=(), speakers=())
    page = show(to_html(silent, sound))
    page.at("#wave", 3)
    assert page.place() == pytest.approx(3, abs=0.05)
    assert page.tab.text_content(".empty") == "No speech was found."


def test_ten_hours_stay_usable(show, result):
    rng = np.random.default_rng(0)
    names = [f"SPEAKER_{index:02d}" for index in range(6)]
    starts = np.sort(rng.integers(0, 36_000 * SECOND - 80_000, 12_000))
    turns = tuple(
        Turn(int(start), int(start + rng.integers(1000, 80_000)), names[index % 6], round(rng.random(), 3))
        for index, start in enumerate(starts)
    )
    speakers = tuple(replace(result.speakers[0], label=name) for name in names)
    long = replace(result, num_samples=36_000 * SECOND, turns=turns, exclusive_turns=turns, speakers=speakers)
    text = to_html(long, np.tile(rng.integers(-9000, 9000, 36_000).astype(np.int16), SECOND))
    assert len(text) < 4_000_000
    begin = time.monotonic()
    page = show(text, sounds=False)
    for _ in range(14):
        page.tab.click("#zoom-in")
    page.at("#wave", 1, of_s=2)
    page.tab.evaluate("document.getElementById('turns').scrollTop = 1e6")
    page.wait("document.querySelector('.turn:last-child .at').textContent.startsWith('9:59:')")
    assert page.tab.locator(".turn").count() < 60
    assert time.monotonic() - begin < 20


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LEAST_CONTRAST = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (part) => (part <= 10.31 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [red, green, blue] = numbers(colour).map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour.startsWith("rgb(")) return colour;
    }
  };
  const texts = "h1, h2, p, th, td, dt, dd, small, .share, .caption, .turn *, button, input, select, kbd";
  const seen = [...document.querySelectorAll(texts)].filter(
    (element) => element.offsetParent && (element.value || element.textContent.trim()) && !element.disabled,
  );
  return Math.min(...seen.map((element) => {
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  }));
})()"""
