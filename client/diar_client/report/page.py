"""One self-contained page: waveform, lanes, player, renaming, export, statistics. Works offline from file://.

Everything that comes from a recording or a person (names of files and speakers, notes) is text that was
escaped, or data that the page's script reads; the page's policy lets no script run but those built in here.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from diar.profile import SAMPLE_RATE
from diar.result import Diarization
from diar.tools.timeline import clock
from diar_client.formats import chosen_turns
from diar_client.report.palette import COLOURS, LIGHTEST
from diar_client.report.sound import TYPE, Sound
from diar_client.report.statistics import SpeakerStatistics, Statistics, count, speaker_labels

SCRIPTS = ("data", "names", "player", "view", "drawing", "turns", "keys", "start")  # in the order they run in


def page(
    result: Diarization,
    sound: Sound | None,
    *,
    exclusive: bool = False,
    link: str | None = None,
    name: str = "",
) -> str:
    """The page as text, to be written as UTF-8.

    sound: None shows turns only. link: what to play if ``sound`` holds no encoded sound. name: what exported
    files are called, without ending; the file id if it is empty.

    Raises InvalidAudio if the sound is not as long as the result.
    """
    if sound is not None:
        sound.check_length(result.num_samples)
    labels = speaker_labels(result)
    statistics = count(chosen_turns(result, exclusive), labels, result.num_samples)
    encoded = sound.encoded if sound else None
    result_text = result.to_json().decode()
    digest = hashlib.sha256(f"{result.file_id}\n{result_text}".encode()).hexdigest()[:32]
    data = {
        "digest": digest,
        "fileId": result.file_id,
        "name": name or result.file_id,
        "duration": result.num_samples / SAMPLE_RATE,
        "turns": "exclusive_turns" if exclusive else "turns",
        "labels": labels,
        "overlaps": [[start / SAMPLE_RATE, end / SAMPLE_RATE] for start, end in statistics.overlaps],
        "peaks": base64.b64encode(sound.peaks.tobytes()).decode() if sound else "",
        "sound": "embedded" if encoded else "linked" if link else "none",
        "type": TYPE,
        "link": link,
        "colours": len(COLOURS),
        "lightest": LIGHTEST,
    }
    return fill(
        asset("page.html"),
        {
            "title": html.escape(result.file_id),
            "policy": html.escape(_policy(digest)),
            "nonce": digest,
            "style": asset("page.css") + _colours(),
            "facts": html.escape(_facts(result, statistics)),
            "note": f'<p class="note">{html.escape(result.note)}</p>' if result.note else "",
            "lanes": "".join(_lane(index, speaker) for index, speaker in enumerate(statistics.speakers)),
            "bar": _bar(statistics),
            "rows": "".join(_row(index, speaker) for index, speaker in enumerate(statistics.speakers)),
            "totals": _totals(statistics),
            "data": for_script(json.dumps(data)),
            "result": html.escape(result_text, quote=False),
            "sound": base64.b64encode(encoded).decode() if encoded else "",
            "wavesurfer": _wavesurfer(),
            "script": _script(),
        },
    )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values where the template names them; what a value holds stays as it is.

    >>> fill("<b>{{a}}</b>{{b}}", {"a": "{{b}}", "b": "1"})
    '<b>{{b}}</b>1'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def for_script(text: str) -> str:
    r"""JSON that may stand inside a script element.

    >>> for_script('"</script><!--"')
    '"\\u003c/script>\\u003c!--"'
    """
    return text.replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """A file of the folder ``assets``."""
    return (files("diar_client.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    parts = "".join(asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'


@cache
def _wavesurfer() -> str:
    return f"/*! wavesurfer.js\n{asset('wavesurfer.LICENSE')}*/\n{asset('wavesurfer.min.js')}"


def _policy(nonce: str) -> str:
    """Our scripts, our styles, the sound; nothing else, and no network."""
    scripts = " ".join(f"'sha256-{_digest(text)}'" for text in (_wavesurfer(), _script()))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'nonce-{nonce}'; media-src 'self' file: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _colours() -> str:
    return "".join(f".s{index} {{ --speaker: {value}; }}\n" for index, value in enumerate(COLOURS))


def _class(speaker: int) -> str:
    return f"s{speaker % len(COLOURS)}"


def _facts(result: Diarization, statistics: Statistics) -> str:
    facts = [
        clock(result.num_samples / SAMPLE_RATE),
        _plural(len(statistics.speakers), "speaker"),
        _plural(statistics.turns, "turn"),
    ]
    if statistics.num_samples:
        facts.append(f"{statistics.speech / statistics.num_samples:.0%} speech")
    return " · ".join([*facts, result.profile])


def _lane(index: int, speaker: SpeakerStatistics) -> str:
    label = html.escape(speaker.label)
    return (
        f'<div class="lane {_class(index)}" data-speaker="{index}"><div class="who"><span class="dot"></span>'
        f'<input class="name" dir="auto" value="{label}" title="Rename" maxlength="100" spellcheck="false"'
        f' autocomplete="off" aria-label="Name of speaker {index + 1}">'
        f'<span class="share">{speaker.share:.0%}</span></div><canvas class="track"></canvas></div>\n'
    )


def _bar(statistics: Statistics) -> str:
    """The shares side by side."""
    parts, at = [], 0.0
    for index, speaker in enumerate(statistics.speakers):
        width = 100 * speaker.share
        parts.append(
            f'<rect class="{_class(index)}" data-speaker="{index}" height="100%" x="{at:.3f}%"'
            f' width="{width:.3f}%"><title>{html.escape(speaker.label)}: {speaker.share:.1%}</title></rect>'
        )
        at += width
    return f'<svg class="bar" role="img" aria-label="Shares of the speech">{"".join(parts)}</svg>'


def _row(index: int, speaker: SpeakerStatistics) -> str:
    cells = [
        _seconds(speaker.speech),
        f"{speaker.share:.1%}",
        str(speaker.turns),
        _seconds(speaker.mean),
        _seconds(speaker.longest),
        f"{speaker.confidence:.2f}",
    ]
    label = html.escape(speaker.label)
    name = f'<span class="dot"></span><bdi class="called" data-speaker="{index}">{label}</bdi>'
    numbers = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{_class(index)}"><th scope="row">{name}</th>{numbers}</tr>\n'


def _totals(statistics: Statistics) -> str:
    """What is said of the recording as a whole, as term and description."""
    whole = max(statistics.num_samples, 1)
    pairs = {
        "speech": (statistics.speech, whole),
        "silence": (statistics.num_samples - statistics.speech, whole),
        "overlap": (statistics.overlap, max(statistics.speech, 1)),
    }
    return "".join(
        f"<div><dt>{name}</dt><dd>{_seconds(samples)} <small>{samples / of:.1%}</small></dd></div>"
        for name, (samples, of) in pairs.items()
    )


def _seconds(samples: float) -> str:
    time_s = samples / SAMPLE_RATE
    return clock(time_s) if time_s >= 60 else f"{time_s:.1f} s"


def _plural(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
