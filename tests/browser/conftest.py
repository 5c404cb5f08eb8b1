"""A real Chromium that looks at report pages, from files and without a network.

``show(page)`` opens one and gives a ``Shown``; at the end of the test nothing may have gone wrong in it.
"""

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diar_client.report import to_html

from diar.result import Diarization, Speaker
from diar.tools.screenshots import FLAGS
from diar.turns import Turn

SECOND = 16_000
LIMIT_S = 20
NAMES = ("SPEAKER_00", "</script><b>\"'&`李", "\u202eevil \u05d3\u05e0\u05d4")
TURNS = (
    Turn(1 * SECOND, 5 * SECOND, NAMES[0], 1.0),
    Turn(4 * SECOND, 8 * SECOND, NAMES[1], 0.9),
    Turn(10 * SECOND, 14 * SECOND, NAMES[2], 0.0),
    Turn(15 * SECOND, 15 * SECOND + 777, NAMES[1], 0.5),
    Turn(20 * SECOND, 29 * SECOND + 33, NAMES[0], 0.876),
)


@dataclass
class Shown:
    """A page in a tab of its own. wrong: its complaints; asked: what it has asked the network for."""

    tab: Any  # playwright.sync_api.Page
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.tab.on("console", lambda message: self.wrong.append(message.text))
        self.tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))

    def place(self):
        """Where the sound is, in seconds."""
        return self.tab.evaluate("document.getElementById('audio').currentTime")

    def wait(self, condition):
        """Until the JavaScript expression holds. (Playwright's own way is against the page's policy.)"""
        deadline = time.monotonic() + LIMIT_S
        while not self.tab.evaluate(condition):
            assert time.monotonic() < deadline, condition
            self.tab.wait_for_timeout(20)

    def at(self, selector, time_s, of_s=30.0, number=0):
        """Click on a track where a time is drawn; ``of_s``: what the track shows, from 0."""
        track = self.tab.locator(selector).nth(number)
        box = track.bounding_box()
        track.click(position={"x": box["width"] * time_s / of_s, "y": box["height"] / 2})

    def pixel(self, selector, time_s, of_s=30.0, number=0):
        """(red, green, blue, opacity) of a canvas at a time, at half its height."""
        script = """(canvas, share) => {
            const copy = document.createElement("canvas");
            copy.width = copy.height = 1;
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(canvas, -Math.floor(canvas.width * share), -Math.floor(canvas.height / 2));
            return [...context.getImageData(0, 0, 1, 1).data];
        }"""
        return tuple(self.tab.locator(selector).nth(number).evaluate(script, time_s / of_s))

    def saved(self, button):
        """The bytes and the name of the file that a button saves."""
        with self.tab.expect_download() as download:
            self.tab.click(button)
        return Path(download.value.path()).read_bytes(), download.value.suggested_filename

    def rename(self, speaker, name):
        """Type a name over that of a speaker."""
        self.tab.locator(".name").nth(speaker).fill(name)
        self.tab.locator(".name").nth(speaker).press("Enter")


@pytest.fixture(scope="module")  # Playwright's event loop runs in this thread until it is stopped
def chromium():
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium: apt install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def result():
    """Three speakers in half a minute; two speak at once from 4 s to 5 s; two names are not harmless."""
    return Diarization(
        num_samples=30 * SECOND,
        profile="pyannote_campplus",
        lanes={"segmentation": "exact"},
        requested=None,
        note="",
        turns=TURNS,
        exclusive_turns=tuple(turn for turn in TURNS if turn.start != 4 * SECOND),
        speakers=tuple(Speaker(name, 8 * SECOND, 0.5) for name in NAMES),
        embeddings=np.eye(3, 192, dtype=np.float32),
        file_id="team_</title><script>alert(1)</script>",
    )


@pytest.fixture(scope="session")
def sound():
    """(sample,) int16: half a minute of a tone that rises."""
    time = np.arange(30 * SECOND) / SECOND
    return (8000 * np.sin(2 * np.pi * (200 + 20 * time) * time)).astype(np.int16)


@pytest.fixture(scope="session")
def html(result, sound):
    return to_html(result, sound)


@pytest.fixture
def show(chromium, tmp_path):
    contexts, shown = [], []

    def open_page(html, name="report.html", width=1280, height=900, sounds=True, **more):
        (tmp_path / name).write_text(html, encoding="utf-8")
        contexts.append(chromium.new_context(viewport={"width": width, "height": height}, **more))
        shown.append(Shown(contexts[-1].new_page()))
        shown[-1].tab.goto((tmp_path / name).as_uri())
        shown[-1].wait("document.getElementById('ruler').width > 300")
        if sounds:
            shown[-1].wait("document.getElementById('audio').readyState >= 3")
        return shown[-1]

    yield open_page
    for context in contexts:
        context.close()
    assert [complaint for page in shown for complaint in page.wrong] == []
    own = ("file:", "blob:")
    assert [url for page in shown for url in page.asked if not url.startswith(own)] == []
