"""``diarize enroll``: keep a person's voice."""

from __future__ import annotations

import argparse
import asyncio
from functools import partial

from diar.errors import InvalidAudio
from diar.options import Options
from diar.profile import SAMPLE_RATE
from diar.result import Diarization
from diar.spans import Samples
from diar_client import exit_codes
from diar_client.decode import decode_file
from diar_client.display import Display, RecordingLine
from diar_client.interrupt import cancel_on_interrupt
from diar_client.servers import Servers
from diar_client.voices import check_name, make_voice, save_voice

LEAST_S = 3.0  # of speech in all: docs/decisions/2026-11-29-known-voices.md
ALONE = 0.9  # share of the speech that the person must have in each recording


def enroll(wishes: argparse.Namespace, servers: Servers, display: Display) -> int:
    """Hear the recordings, write the voice file, say so; the exit code. Any failure ends it."""
    check_name(wishes.name)
    results = asyncio.run(_hear(wishes, servers, display))
    voice = make_voice(wishes.name, results)
    if voice.seconds < LEAST_S:
        raise InvalidAudio(
            "E_AUDIO_SHORT",
            f"got {voice.seconds:.1f} s of speech, expected {LEAST_S:.0f} s at least, better half a minute",
        )
    path = save_voice(voice, wishes.speakers)
    if not wishes.quiet:
        text = f"{path}: the voice of {voice.name}, {voice.seconds:.1f} s of speech"
        display.tell(text, file=str(path), name=voice.name, seconds=voice.seconds)
    return exit_codes.OK


async def _hear(wishes: argparse.Namespace, servers: Servers, display: Display) -> list[Diarization]:
    results = []
    with cancel_on_interrupt(), display:
        async with servers:
            for path in wishes.paths:
                with display.recording(path) as line:
                    result = await servers.diarize(
                        partial(_load, path, wishes.channel, line, display),
                        Options(wishes.num_speakers),
                        timeout_s=wishes.timeout,
                    )
                check_alone(path, result)
                results.append(result)
    return results


async def _load(path: str, channel: int | None, line: RecordingLine, display: Display) -> Samples:
    line.stage("reading")
    decoded = await asyncio.to_thread(decode_file, path, channel=channel)
    for note in decoded.notes:
        display.warn(note, path)
    line.stage("listening")
    return decoded.samples


def check_alone(path: str, result: Diarization) -> None:
    """Raise InvalidAudio unless (almost) all speech of the recording is one person's."""
    seconds = sorted((speaker.speech / SAMPLE_RATE for speaker in result.speakers), reverse=True)
    if not seconds:
        raise InvalidAudio("E_AUDIO_SILENT", f"{path}: there is no speech in it")
    if seconds[0] < ALONE * sum(seconds):
        speech = ", ".join(f"{one:.1f} s" for one in seconds)
        raise InvalidAudio(
            "E_AUDIO_VOICES",
            f"{path}: {len(seconds)} people speak in it ({speech}), expected one; --num 1 takes them for one",
        )
