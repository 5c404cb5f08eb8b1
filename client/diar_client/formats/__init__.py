"""The forms in which the command writes a result, by the name that a user types.

A further one needs a function ``(Diarization, exclusive) -> bytes`` and a line in ``FORMATS``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diar.result import Diarization
from diar.turns import Turn, seconds
from diar_client.formats.subtitles import to_srt, to_vtt
from diar_client.formats.textgrid import to_textgrid

CSV_COLUMNS = ("file", "start", "end", "speaker", "confidence")


@dataclass(frozen=True)
class Format:
    """How to write one recording.

    render: the file's content; ``exclusive`` asks for the turns of one speaker at a time. separator: what
    stands between recordings in one file; None if a file holds one recording only.
    """

    suffix: str
    render: Callable[[Diarization, bool], bytes]
    separator: bytes | None = None


def chosen_turns(result: Diarization, exclusive: bool) -> Sequence[Turn]:
    """All turns, or those of one speaker at a time."""
    return result.exclusive_turns if exclusive else result.turns


def to_csv(result: Diarization, exclusive: bool) -> str:
    """A line per turn under a line of names: file id, start and end in seconds, speaker, confidence."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for turn in chosen_turns(result, exclusive):
        start, end = f"{seconds(turn.start):.3f}", f"{seconds(turn.end):.3f}"
        writer.writerow([result.file_id, start, end, turn.speaker, f"{turn.confidence:.3f}"])
    return text.getvalue()


FORMATS = {
    "rttm": Format(".rttm", lambda result, exclusive: result.to_rttm(exclusive=exclusive).encode(), b""),
    "json": Format(".json", lambda result, exclusive: result.to_json(), b"\n"),
    "srt": Format(".srt", lambda result, exclusive: to_srt(chosen_turns(result, exclusive)).encode()),
    "vtt": Format(".vtt", lambda result, exclusive: to_vtt(chosen_turns(result, exclusive)).encode()),
    "csv": Format(".csv", lambda result, exclusive: to_csv(result, exclusive).encode()),
    "textgrid": Format(
        ".TextGrid",
        lambda result, exclusive: to_textgrid(
            chosen_turns(result, exclusive),
            [speaker.label for speaker in result.speakers],
            result.num_samples,
        ).encode(),
    ),
}
