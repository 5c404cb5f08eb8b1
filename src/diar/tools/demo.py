"""Start the server, diarize one recording through it, show who spoke when, stop the server."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from diar_client import DiarizationClient
from diar_client.decode import Decoded, decode_file
from rich.console import Console

from diar.errors import DiarError
from diar.profile import SAMPLE_RATE
from diar.tools.fetch_sample import fetch_sample
from diar.tools.live_server import running_server
from diar.tools.timeline import listing, timeline

_MAX_WIDTH = 120


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
        with running_server(options.serve.resolve()) as server:
            show(sound, audio.stem, server.url, console)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
