"""Start the server, diarize one recording through it, show who spoke when, stop the server."""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from diar_client import DiarizationClient
from diar_client.decode import Decoded, decode_file
from rich.console import Console

from diar.errors import DiarError, SetupError
from diar.profile import SAMPLE_RATE
from diar.tools.fetch_sample import fetch_sample
from diar.tools.timeline import listing, timeline

_STOP_LIMIT_S = 60
_MAX_WIDTH = 120


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nobody listens on at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


@contextmanager
def running_server(serve: Path) -> Iterator[str]:
    """Run ``scripts/serve`` on free ports while inside; yields its gRPC url.

    Raises SetupError (E_SERVER) with what the server said if it does not get ready.
    """
    http, grpc, metrics = free_ports(3)
    ports = [f"--http-port={http}", f"--grpc-port={grpc}", f"--metrics-port={metrics}"]
    with (
        tempfile.TemporaryFile("w+") as log,
        # A session of its own: a Ctrl-C is meant for us, and the server is told to stop once, by us.
        subprocess.Popen(
            [serve, *ports], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as server,
    ):
        try:
            _wait_until_ready(server, log)
            yield f"grpc://127.0.0.1:{grpc}"
        finally:
            server.terminate()
            try:
                server.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_until_ready(server: subprocess.Popen[str], log: TextIO) -> None:
    """The server prints its three addresses once it is ready, or ends and has said why."""
    assert server.stdout is not None
    if all(server.stdout.readline() for _ in range(3)):
        return
    log.seek(0)
    lines = log.read().splitlines() or ["the server ended before it was ready"]
    errors = [line for line in lines if line.startswith("error: ")] or lines
    raise SetupError("E_SERVER", errors[-1].removeprefix("error: "))


def show(sound: Decoded, file_id: str, url: str, console: Console) -> None:
    """Diarize with the server at ``url`` and print the timeline and the turns."""
    with DiarizationClient(url) as client, console.status("diarizing ..."):
        began = time.perf_counter()
        found = client.diarize(sound.samples, file_id=file_id)
        seconds = time.perf_counter() - began
    console.print()
    for line in timeline(found, min(console.width, _MAX_WIDTH)):
        console.print(line, soft_wrap=True)
    console.print()
    for line in listing(found.turns):
        console.print(line, soft_wrap=True)
    console.print(f"\n{found.num_samples / SAMPLE_RATE:.1f} s of audio in {seconds:.1f} s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("audio", nargs="?", type=Path, metavar="AUDIO", help="default: a sample conversation")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    parser.add_argument("--serve", type=Path, default=Path("scripts/serve"), metavar="COMMAND")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    try:
        audio = options.audio or fetch_sample(options.engines_dir.resolve())
        sound = decode_file(audio)
        for note in sound.notes:
            console.print(f"warning: {note}", soft_wrap=True)
        console.print("starting the server ...")
        with running_server(options.serve.resolve()) as url:
            show(sound, audio.stem, url, console)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
