"""scripts/screenshots: the pictures of reports in docs/, of a made-up conversation, taken by Chromium.

Nobody's voice is used: turns are drawn at random (one seed), the sound is noise in the rhythm of syllables.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from diar_client.report import to_html, to_png

from diar.errors import SetupError
from diar.profile import SAMPLE_RATE
from diar.result import Diarization, Speaker
from diar.turns import Turn

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--autoplay-policy=no-user-gesture-required",
)
NAMES = ("Anna Weber", "Ben", "SPEAKER_02", "Chloé Martin")
LENGTH_S = 240
PLACE_S = 96.0  # where the player stands
COLOURS = 256  # of a screenshot's palette, to keep it small


def conversation(seed: int = 5) -> tuple[Diarization, npt.NDArray[np.int16]]:
    """A result of LENGTH_S seconds and its sound, (sample,) int16."""
    rng = np.random.default_rng(seed)
    turns: list[Turn] = []
    at_s, last = 1.0, -1
    while True:
        speaker = int(rng.choice([each for each in range(len(NAMES)) if each != last]))
        end_s = at_s + rng.gamma(2, 2.4) + 0.5
        if end_s > LENGTH_S - 1:
            break
        confidence = round(float(rng.beta(9, 1)) if rng.random() < 0.8 else float(rng.uniform(0.1, 0.6)), 3)
        turns.append(Turn(round(at_s * SAMPLE_RATE), round(end_s * SAMPLE_RATE), NAMES[speaker], confidence))
        at_s = max(
            at_s + 0.3, end_s + (rng.exponential(0.7) if rng.random() < 0.75 else -rng.uniform(0.5, 1.5))
        )
        last = speaker
    speech: dict[str, int] = {}  # by first appearance
    for turn in turns:
        speech[turn.speaker] = speech.get(turn.speaker, 0) + turn.end - turn.start
    result = Diarization(
        num_samples=LENGTH_S * SAMPLE_RATE,
        profile="pyannote_campplus",
        lanes={},
        requested=None,
        note="",
        turns=tuple(turns),
        exclusive_turns=(),
        speakers=tuple(Speaker(name, samples, 0.9) for name, samples in speech.items()),
        embeddings=np.zeros((len(NAMES), 192), np.float32),
        file_id="Team meeting",
    )
    return result, _murmur(result, rng)


def take(folder: Path, chromium: str) -> list[Path]:
    """Write the pictures into ``folder``; their paths. chromium: the program."""
    from playwright.sync_api import sync_playwright

    result, sound = conversation()
    picture = folder / "report_picture.png"
    picture.write_bytes(_small(to_png(result, sound, dpi=110)))
    paths = [picture]
    with tempfile.TemporaryDirectory() as drafts, sync_playwright() as playwright:
        page = Path(drafts) / "page.html"
        page.write_text(to_html(result, sound), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for name, width, height, scheme in [
            ("report_light", 1280, 900, "light"),
            ("report_dark", 1280, 900, "dark"),
            ("report_phone", 400, 860, "light"),
        ]:
            paths.append(folder / f"{name}.png")
            paths[-1].write_bytes(_small(_shot(browser, page, width, height, scheme)))
        browser.close()
    return paths


def _murmur(result: Diarization, rng: np.random.Generator) -> npt.NDArray[np.int16]:
    """Noise where somebody speaks, four syllables a second, louder and softer by turn."""
    time = np.arange(result.num_samples) / SAMPLE_RATE
    level = np.full(result.num_samples, 0.004)
    for turn in result.turns:
        span = slice(turn.start, turn.end)
        syllables = np.abs(np.sin(2 * np.pi * 2 * time[span] + rng.uniform(0, 6)))
        slow = 0.55 + 0.45 * np.sin(2 * np.pi * 0.23 * time[span] + rng.uniform(0, 6))
        level[span] += 0.3 * rng.uniform(0.4, 1) * syllables * slow
    noise: npt.NDArray[np.int16] = (rng.uniform(-1, 1, result.num_samples) * level * 30000).astype(np.int16)
    return noise


def _shot(browser: Any, page: Path, width: int, height: int, scheme: str) -> bytes:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(page.as_uri())
    box = tab.locator("#wave").bounding_box()
    tab.wait_for_timeout(600)  # for the sound to be there, and what is drawn after it
    tab.locator("#wave").click(position={"x": box["width"] * PLACE_S / LENGTH_S, "y": 10})
    tab.mouse.move(0, 0)
    tab.wait_for_timeout(300)
    image: bytes = tab.screenshot(full_page=True)
    context.close()
    return image


def _small(png: bytes) -> bytes:
    """The same picture with few colours."""
    from PIL import Image

    file = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        file, "PNG", optimize=True
    )
    return file.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="screenshots", description="Take the pictures of reports in docs/.")
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to write them")
    parser.add_argument("--chromium", metavar="FILE", default=shutil.which("chromium"), help="the browser")
    wishes = parser.parse_args(arguments)
    try:
        if wishes.chromium is None:
            raise SetupError("E_SETUP_BROWSER", "no chromium found: apt install chromium, or --chromium FILE")
        if not wishes.folder.is_dir():
            raise SetupError("E_SETUP_OUTPUT", f"{wishes.folder}: no such folder")
        for path in take(wishes.folder, wishes.chromium):
            print(path)
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
