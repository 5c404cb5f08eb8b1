"""SubRip and WebVTT: a subtitle per turn that names who speaks."""

from __future__ import annotations

import html
from collections.abc import Iterable

from diar.turns import Turn, seconds


def to_srt(turns: Iterable[Turn]) -> str:
    r"""SubRip. Turns that overlap are subtitles that overlap.

    >>> to_srt([Turn(16_000, 40_000, "SPEAKER_00")])
    '1\n00:00:01,000 --> 00:00:02,500\nSPEAKER_00\n\n'
    """
    return "".join(
        f"{number}\n{_clock(turn.start, ',')} --> {_clock(turn.end, ',')}\n{_plain(turn.speaker)}\n\n"
        for number, turn in enumerate(turns, start=1)
    )


def to_vtt(turns: Iterable[Turn]) -> str:
    r"""WebVTT, with the speaker as the cue's voice, too.

    >>> to_vtt([Turn(16_000, 40_000, "A & B")])
    'WEBVTT\n\n00:00:01.000 --> 00:00:02.500\n<v A &amp; B>A &amp; B\n\n'
    """
    cues = []
    for turn in turns:
        name = html.escape(turn.speaker, quote=False)
        cues.append(f"{_clock(turn.start, '.')} --> {_clock(turn.end, '.')}\n<v {name}>{name}\n\n")
    return "WEBVTT\n\n" + "".join(cues)


def _plain(text: str) -> str:
    """SubRip knows no escapes: what would be read as markup is written with other brackets."""
    return text.translate(str.maketrans("<>{}", "[]()"))


def _clock(samples: int, point: str) -> str:
    """Time of day, as both formats want it.

    >>> _clock(3_723 * 16_000 + 9, ",")
    '01:02:03,001'
    """
    whole, milliseconds = divmod(round(seconds(samples) * 1000), 1000)
    minutes, second = divmod(whole, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{point}{milliseconds:03d}"
