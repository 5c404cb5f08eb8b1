"""Results to look at, for callers in Python."""

from __future__ import annotations

import warnings

from diar.result import Diarization
from diar_client.decode import AudioWarning
from diar_client.recordings import Audio, load
from diar_client.report.page import page
from diar_client.report.picture import DPI, WIDTH_IN, picture
from diar_client.report.sound import EMBEDDED_MB, Sound, keep_sound


def to_html(
    result: Diarization,
    audio: Audio | None = None,
    *,
    channel: int | None = None,
    exclusive: bool = False,
    embed_mb: float = EMBEDDED_MB,
    link: str | None = None,
) -> str:
    """One page that shows ``result``, plays the recording, and exports RTTM and JSON with other names.

    audio: the recording, as for ``DiarizationClient.diarize``; without it there is no sound, nor waveform.
    exclusive: the turns of one speaker at a time. embed_mb: the page holds the sound unless that needs more
    megabytes; then it plays ``link``, a URL relative to the page (if there is one).

    Raises InvalidAudio and InvalidOption as ``decode_file`` does.
    """
    return page(result, _keep(audio, channel, embed_mb), exclusive=exclusive, link=link)


def to_png(
    result: Diarization,
    audio: Audio | None = None,
    *,
    channel: int | None = None,
    exclusive: bool = False,
    width_in: float = WIDTH_IN,
    dpi: int = DPI,
) -> bytes:
    """A picture of ``result`` as a PNG file, ``width_in`` inches of ``dpi`` pixels wide.

    audio: the recording, drawn above the turns.

    Raises SetupError if matplotlib is not there (extra ``report``); else as ``to_html``.
    """
    return picture(result, _keep(audio, channel, 0), exclusive=exclusive, width_in=width_in, dpi=dpi)


def _keep(audio: Audio | None, channel: int | None, embed_mb: float) -> Sound | None:
    def note(text: str) -> None:
        warnings.warn(AudioWarning(text), stacklevel=5)  # at the caller of to_html or to_png

    return None if audio is None else keep_sound(load(audio, channel, note), embed_mb)
