"""The reports that the command writes, by the name that a user types; beside ``formats.FORMATS``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import quote

from diar_client.finished import Finished
from diar_client.report.page import page
from diar_client.report.picture import picture


@dataclass(frozen=True)
class Report:
    """How to write one recording: as ``Format``, but with its sound.

    render: the file's content; gets what is finished, ``exclusive``, and the path that the file will have,
    None for standard output. plays: it wants the sound to play, not its peaks only.
    """

    suffix: str
    render: Callable[[Finished, bool, Path | None], bytes]
    plays: bool
    separator: bytes | None = None


def wanted_mb(names: Iterable[str], embed_mb: float) -> float | None:
    """The limit for ``keep_sound`` when reports or formats of these names are to be written; None: no sound.

    >>> wanted_mb(["rttm", "html"], 30.0), wanted_mb(["png"], 30.0), wanted_mb(["rttm"], 30.0)
    (30.0, 0.0, None)
    """
    reports = [REPORTS[name] for name in names if name in REPORTS]
    if not reports:
        return None
    return embed_mb if any(report.plays for report in reports) else 0.0


def link_to(recording: str, page_path: Path | None) -> str | None:
    """URL of a recording as the page at ``page_path`` can name it; relative, so that both can move together.

    >>> link_to("calls/a b?.wav", Path("out/a.html"))
    '../calls/a%20b%3F.wav'
    """
    if recording == "-":
        return None
    if page_path is None:
        return Path(recording).absolute().as_uri()
    try:
        relative = os.path.relpath(recording, page_path.parent)
    except ValueError:  # another drive
        return Path(recording).absolute().as_uri()
    parts = [quote(os.fsencode(part), safe="") for part in PurePath(relative).parts]
    return "/".join(parts if parts[0] == ".." else [".", *parts])


def _html(finished: Finished, exclusive: bool, path: Path | None) -> bytes:
    recording = finished.recording
    link = link_to(recording.path, path)
    text = page(finished.result, finished.sound, exclusive=exclusive, link=link, name=recording.output.name)
    return text.encode()


def _png(finished: Finished, exclusive: bool, path: Path | None) -> bytes:
    return picture(finished.result, finished.sound, exclusive=exclusive)


REPORTS = {"html": Report(".html", _html, plays=True), "png": Report(".png", _png, plays=False)}
