"""``diarize --live``: turns while they are spoken, the final result at the end."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, nullcontext
from pathlib import PurePath

import numpy as np
from rich.console import Group
from rich.live import Live

from diar.errors import InvalidAudio
from diar.result import Diarization
from diar_client import exit_codes
from diar_client.aio import AsyncDiarizationClient
from diar_client.decode import Pcm, decode_file
from diar_client.display import Display
from diar_client.finished import Finished
from diar_client.inputs import Recording, safe_name
from diar_client.interrupt import on_interrupt
from diar_client.live_source import paced, threaded
from diar_client.live_view import LiveView, TurnJoiner
from diar_client.outputs import Output
from diar_client.recordings import recording_name
from diar_client.report.sound import Sound, keep_sound
from diar_client.sound_pipe import SoundPipe, raw_pcm
from diar_client.stream import AsyncStream
from diar_client.voices import Voice, check_voices, name_speakers

REDRAWN_PER_S = 8


def listen(
    wishes: argparse.Namespace,
    client: AsyncDiarizationClient,
    outputs: Sequence[Output],
    voices: Sequence[Voice],
    display: Display,
    embed_mb: float | None = None,
) -> int:
    """Stream ``wishes.paths[0]`` to the server; the exit code. The first Ctrl-C ends the recording.

    embed_mb: as for ``keep_sound``; None if no output needs the sound, which then is not kept.
    """
    path = wishes.paths[0]
    name = "live" if path == "-" else recording_name(path)
    if wishes.file_id is not None:
        name = wishes.file_id
    heard: list[Pcm] | None = None if embed_mb is None else []
    result = asyncio.run(_listen(wishes, name, client, voices, display, heard))
    if result.note:
        display.warn(result.note, path)
    recording, sound = Recording(path, PurePath(safe_name(name))), _sound(heard, result.num_samples, embed_mb)
    finished = Finished(0, recording, name_speakers(result, voices), sound)
    for output in outputs:
        output.write(finished)
        output.close()
    return exit_codes.OK


async def _listen(
    wishes: argparse.Namespace,
    name: str,
    client: AsyncDiarizationClient,
    voices: Sequence[Voice],
    display: Display,
    heard: list[Pcm] | None,
) -> Diarization:
    stop = asyncio.Event()
    async with client:
        if voices:
            check_voices(voices, await client.profile())
        stream = client.stream(
            latency=wishes.latency,
            num_speakers=wishes.num_speakers,
            min_speakers=wishes.min_speakers,
            max_speakers=wishes.max_speakers,
            file_id=name,
            timings=wishes.timings,
        )
        with on_interrupt(stop.set):
            async with aclosing(_source(wishes, display, stop)) as pieces:
                await _show(stream, pieces if heard is None else _kept(pieces, heard), display)
        if stream.num_samples == 0:
            raise InvalidAudio("E_AUDIO_EMPTY", f"{wishes.paths[0]}: no sound came")
        with display.console.status("finishing ...") if display.shows else nullcontext():
            return await stream.finish()


async def _source(
    wishes: argparse.Namespace, display: Display, stop: asyncio.Event
) -> AsyncGenerator[Pcm, None]:
    path = wishes.paths[0]
    if path != "-":
        decoded = await asyncio.to_thread(decode_file, path, channel=wishes.channel)
        for note in decoded.notes:
            display.warn(note, path)
        source = paced(decoded.samples, stop)
    elif wishes.pcm:
        source = threaded(raw_pcm(sys.stdin.fileno(), wishes.pcm), stop)
    else:
        source = threaded(SoundPipe(sys.stdin.fileno()).pcm(wishes.channel), stop)
    async with aclosing(source) as pieces:
        async for piece in pieces:
            yield piece


async def _kept(pieces: AsyncIterator[Pcm], heard: list[Pcm]) -> AsyncIterator[Pcm]:
    async for piece in pieces:
        heard.append(piece)
        yield piece


def _sound(heard: list[Pcm] | None, num_samples: int, embed_mb: float | None) -> Sound | None:
    """What the server has got of it; Ctrl-C may have come between a piece and the server."""
    if not heard or embed_mb is None:
        return None
    samples = np.concatenate(heard)[:num_samples]
    return keep_sound(samples, embed_mb) if len(samples) == num_samples else None


async def _show(stream: AsyncStream, pieces: AsyncIterator[Pcm], display: Display) -> None:
    """Push the pieces; draw what comes back, or print a line a turn where there is no terminal."""
    if not display.shows:
        await _list(stream, pieces, display)
        return
    view, begin = LiveView(), time.monotonic()
    with Live(console=display.console, refresh_per_second=REDRAWN_PER_S, transient=True) as screen:
        async for update in stream.updates(pieces):
            view.add(update)
            screen.update(Group(*view.lines(display.console.width, time.monotonic() - begin)))


async def _list(stream: AsyncStream, pieces: AsyncIterator[Pcm], display: Display) -> None:
    joiner = TurnJoiner()
    async for update in stream.updates(pieces):
        for turn in joiner.add(update):
            display.turn(turn)
    for turn in joiner.rest():
        display.turn(turn)
