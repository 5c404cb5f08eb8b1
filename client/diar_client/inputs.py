"""Which recordings the command works on, and what their output files are called."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from diar.errors import InvalidAudio
from diar_client.recordings import recording_name

SOUND = (  # endings of what is taken from a folder; a file that is named is read whatever its ending
    *(
        ".3gp",
        ".aac",
        ".ac3",
        ".aif",
        ".aifc",
        ".aiff",
        ".amr",
        ".au",
        ".caf",
        ".flac",
        ".flv",
        ".m4a",
        ".m4b",
    ),
    *(
        ".mka",
        ".mkv",
        ".mov",
        ".mp2",
        ".mp3",
        ".mp4",
        ".mpeg",
        ".mpg",
        ".oga",
        ".ogg",
        ".opus",
        ".sph",
        ".ts",
    ),
    *(".wav", ".weba", ".webm", ".wma", ".wmv", ".wv"),
)
MAX_NAME_BYTES = 200  # of a file name's 255, to leave room for an ending


@dataclass(frozen=True)
class Recording:
    """A file to diarize. path: as the user wrote it, or found under a folder that the user named.

    output: path of its results below the output folder, without an ending; different for each recording.
    """

    path: str
    output: PurePath


def find_recordings(paths: Iterable[str]) -> list[Recording]:
    """Files stay as they are; a folder gives the sound and video files in it and below, sorted by name.

    Raises InvalidAudio for a folder without any. A file that is named twice counts once.
    """
    found: dict[str, PurePath] = {}
    for path in paths:
        if not os.path.isdir(path):
            found.setdefault(path, PurePath(os.path.basename(path)))
            continue
        inside = list(_search(path))
        if not inside:
            raise InvalidAudio("E_AUDIO_FILE", f"{path}: the folder holds no sound or video file")
        for name in inside:
            found.setdefault(os.path.join(path, name), PurePath(name))
    outputs = _output_names(list(found.values()))
    return [Recording(path, output) for path, output in zip(found, outputs, strict=True)]


def safe_name(text: str) -> str:
    r"""A file name that stays in its folder, whatever the text; every system takes it.

    >>> safe_name("../calls\\mo:day "), safe_name(".."), safe_name("Zoë 1")
    ('_.._calls_mo_day', '_..', 'Zoë 1')
    """
    name = "".join("_" if letter in '/\\\\:*?"<>|' or not letter.isprintable() else letter for letter in text)
    name = name.strip()
    if name.startswith(".") or not name:
        name = f"_{name}"
    while len(name.encode()) > MAX_NAME_BYTES:
        name = name[:-1]
    return name


def _search(folder: str) -> Iterator[str]:
    """Paths relative to ``folder`` of what has a known ending; hidden files and folders are passed by."""
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix.lower() in SOUND and not name.startswith("."):
                yield os.path.relpath(os.path.join(path, name), folder)


def _output_names(paths: Sequence[PurePath]) -> list[PurePath]:
    """Without ending where that is enough to tell them apart, else with it, else numbered.

    >>> [str(path) for path in _output_names([PurePath(p) for p in ("a.wav", "a.mp3", "b.wav", "b.wav")])]
    ['a.wav', 'a.mp3', 'b.wav', 'b.wav-2']
    """
    short = [_safe(path.with_name(recording_name(path))) for path in paths]
    counts = Counter(str(path).casefold() for path in short)
    names: list[PurePath] = []
    taken: set[str] = set()
    for path, name in zip(paths, short, strict=True):
        chosen = name if counts[str(name).casefold()] == 1 else _safe(path)
        unique, number = chosen, 1
        while str(unique).casefold() in taken:
            number += 1
            unique = chosen.with_name(f"{chosen.name}-{number}")
        taken.add(str(unique).casefold())
        names.append(unique)
    return names


def _safe(path: PurePath) -> PurePath:
    return PurePath(*(safe_name(part) for part in path.parts))
