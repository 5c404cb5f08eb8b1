"""The command's way through many recordings: some at once, one bad one never stops the rest."""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from diar.errors import Cancelled, SetupError
from diar.options import Options
from diar.result import Diarization
from diar.spans import Samples
from diar_client import exit_codes
from diar_client.decode import decode_file
from diar_client.display import Display, RecordingLine
from diar_client.failures import ServerRefused, ServerUnreachable
from diar_client.finished import Finished
from diar_client.inputs import Recording
from diar_client.interrupt import cancel_on_interrupt
from diar_client.outputs import Output
from diar_client.recordings import recording_name
from diar_client.report.keeping import Keeping
from diar_client.report.sound import Sound
from diar_client.servers import Servers
from diar_client.voices import Voice, check_voices, name_speakers

JOBS_PER_SERVER = 2
ENDS_ALL = (ServerUnreachable, ServerRefused, SetupError)  # what no other recording would fare better with
MOST_NAMED = 10


@dataclass
class Batch:
    """Recordings to diarize, and what has become of them. wishes: as ``arguments.parse`` gives them.

    embed_mb: as for ``keep_sound``; None if no output needs the sound.
    """

    recordings: Sequence[Recording]
    outputs: Sequence[Output]
    voices: Sequence[Voice]
    wishes: argparse.Namespace
    display: Display
    embed_mb: float | None = None
    done: set[int] = field(default_factory=set)
    failures: dict[int, Exception] = field(default_factory=dict)
    end: Exception | None = None  # why no more recordings were begun

    def run(self, servers: Servers) -> int:
        """Diarize all of them, report the failures, return the exit code."""
        interrupted = False
        try:
            asyncio.run(self._run(servers))
        except (KeyboardInterrupt, asyncio.CancelledError):
            interrupted = True
        for output in self.outputs:
            output.close()
        return self._report(interrupted)

    async def _run(self, servers: Servers) -> None:
        self.display.start(len(self.recordings))
        with cancel_on_interrupt(), self.display:
            async with servers:
                try:
                    if self.voices:
                        check_voices(self.voices, await servers.profile())
                    await self._run_all(servers)
                except ENDS_ALL as err:
                    self.end = err

    async def _run_all(self, servers: Servers) -> None:
        stopped = threading.Event()  # for the threads that decode: they cannot be cancelled
        waiting = iter(enumerate(self.recordings))
        jobs = min(self.wishes.jobs or JOBS_PER_SERVER * len(servers), len(self.recordings))
        workers = [asyncio.ensure_future(self._work(waiting, servers, stopped)) for _ in range(jobs)]
        try:
            await asyncio.gather(*workers)
        finally:
            stopped.set()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(
        self, waiting: Iterator[tuple[int, Recording]], servers: Servers, stopped: threading.Event
    ) -> None:
        """Take recordings until there are no more."""
        for position, recording in waiting:
            try:
                result, sound = await self._diarize(recording, servers, stopped)
                for output in self.outputs:
                    output.write(Finished(position, recording, result, sound))
            except (BrokenPipeError, *ENDS_ALL):
                raise
            except Exception as err:
                self.failures[position] = err
                for output in self.outputs:
                    output.skip(position)
            else:
                self.done.add(position)
            self.display.finished(len(self.done), len(self.failures), len(self.recordings))

    async def _diarize(
        self, recording: Recording, servers: Servers, stopped: threading.Event
    ) -> tuple[Diarization, Sound | None]:
        wishes, path = self.wishes, recording.path
        options = Options(
            wishes.num_speakers,
            wishes.min_speakers,
            wishes.max_speakers,
            wishes.file_id if wishes.file_id is not None else recording_name(path),
            wishes.timings,
        )
        with self.display.recording(recording.output.name) as line, Keeping(self.embed_mb) as keeping:
            result = await servers.diarize(
                lambda: self._load(path, line, stopped, keeping),
                options,
                wishes.mode,
                line.blocks if self.display.shows else None,
                wishes.timeout,
            )
            sound = await keeping.sound()
        if result.note:
            self.display.warn(result.note, path)
        return name_speakers(result, self.voices), sound

    async def _load(
        self, path: str, line: RecordingLine, stopped: threading.Event, keeping: Keeping
    ) -> Samples:
        line.stage("reading")
        decoded = await asyncio.to_thread(
            decode_file, path, channel=self.wishes.channel, watch=lambda num_samples: _check(stopped)
        )
        for note in decoded.notes:
            self.display.warn(note, path)
        line.stage("diarizing")
        keeping.begin(decoded.samples)
        return decoded.samples

    def _report(self, interrupted: bool) -> int:
        """Say what failed and what is left; the exit code."""
        for position in sorted(self.failures):
            self.display.error(self.failures[position], self.recordings[position].path)
        if self.end:
            self.display.error(self.end)
        errors = [self.failures[position] for position in sorted(self.failures)]
        errors += [self.end] if self.end else []
        left = [
            recording.path
            for position, recording in enumerate(self.recordings)
            if position not in self.done and position not in self.failures
        ]
        if interrupted or (errors and len(self.recordings) > 1):
            self._sum_up(interrupted, left)
        if interrupted:
            return exit_codes.INTERRUPTED
        return exit_codes.exit_code(errors[0]) if errors else exit_codes.OK

    def _sum_up(self, interrupted: bool, left: Sequence[str]) -> None:
        done, total = len(self.done), len(self.recordings)
        text = f"{done} of {total} recordings done" if total > 1 or not interrupted else ""
        if left and total > 1:
            more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
            text += f"; not done: {', '.join(left[:MOST_NAMED])}{more}"
        if interrupted:
            text = f"interrupted: {text}" if text else "interrupted"
        self.display.tell(text, interrupted=interrupted, done=done, total=total, left=list(left))


def _check(stopped: threading.Event) -> None:
    if stopped.is_set():
        raise Cancelled("E_CANCELLED", "interrupted")
