"""The command ``diarize``: recordings in, speaker turns out; live recordings; known voices."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence

from diar.errors import DiarError
from diar.options import Options
from diar_client import exit_codes
from diar_client.access import read_key_file
from diar_client.aio import AsyncDiarizationClient
from diar_client.arguments import parse, parse_enroll, parse_report
from diar_client.batch import Batch
from diar_client.display import Display
from diar_client.enroll import enroll
from diar_client.formats import FORMATS
from diar_client.inputs import find_recordings
from diar_client.live import listen
from diar_client.outputs import Folder, OneFile, Output
from diar_client.report.again import report
from diar_client.report.forms import REPORTS, wanted_mb
from diar_client.report.picture import check_matplotlib
from diar_client.retry import Patience
from diar_client.servers import Servers
from diar_client.voices import load_voices

ONE_FILE = ("rttm", "json", "html", "png")  # options that name a file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (see ``--help``)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["enroll"]:
        wishes, work = parse_enroll(arguments[1:]), _enroll
    elif arguments[:1] == ["report"]:
        wishes, work = parse_report(arguments[1:]), report
    else:
        wishes, work = parse(arguments), _diarize
    display = Display(wishes.quiet, wishes.json_errors)
    return guarded(lambda: work(wishes, display), display)


def guarded(work: Callable[[], int], display: Display) -> int:
    """Run ``work``; whatever it raises becomes a line and an exit code."""
    try:
        return work()
    except DiarError as err:
        display.error(err)
        return exit_codes.exit_code(err)
    except (KeyboardInterrupt, asyncio.CancelledError):
        display.tell("interrupted", interrupted=True)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on; exit quietly
        return exit_codes.BROKEN_PIPE
    except Exception as err:
        display.error(err)
        return exit_codes.OTHER


def _diarize(wishes: argparse.Namespace, display: Display) -> int:
    Options(wishes.num_speakers, wishes.min_speakers, wishes.max_speakers)  # refuses what contradicts itself
    recordings = [] if wishes.live else find_recordings(wishes.paths)
    outputs, embed_mb = _outputs(wishes), wanted_mb(_names(wishes), wishes.embed)
    voices = load_voices(wishes.speakers) if wishes.speakers else []
    if wishes.live:
        return listen(wishes, _clients(wishes, display)[0], outputs, voices, display, embed_mb)
    batch = Batch(recordings, outputs, voices, wishes, display, embed_mb)
    return batch.run(_servers(wishes, display))


def _enroll(wishes: argparse.Namespace, display: Display) -> int:
    return enroll(wishes, _servers(wishes, display), display)


def _servers(wishes: argparse.Namespace, display: Display) -> Servers:
    return Servers(_clients(wishes, display), display.warn)


def _clients(wishes: argparse.Namespace, display: Display) -> list[AsyncDiarizationClient]:
    api_key = read_key_file(wishes.api_key_file) if wishes.api_key_file else None
    access = {"api_key": api_key, "ca": wishes.ca, "certificate": wishes.cert}
    return [
        AsyncDiarizationClient(url, **access, patience=Patience(tell=display.retried)) for url in wishes.urls
    ]


def _outputs(wishes: argparse.Namespace) -> list[Output]:
    """Where results go: as the options say, RTTM to standard output if they do not."""
    kinds, outputs = FORMATS | REPORTS, list[Output]()
    if "png" in _names(wishes):
        check_matplotlib()
    if wishes.output is not None:
        formats = [kinds[name] for name in wishes.formats or ["rttm"]]
        outputs.append(Folder(wishes.output, formats, wishes.exclusive))
    elif wishes.formats:
        outputs.append(OneFile("-", kinds[wishes.formats[0]], wishes.exclusive))
    for name in ONE_FILE:
        if path := getattr(wishes, name):
            outputs.append(OneFile(path, kinds[name], wishes.exclusive))
    return outputs or [OneFile("-", FORMATS["rttm"], wishes.exclusive)]


def _names(wishes: argparse.Namespace) -> list[str]:
    """The formats and reports that are wanted."""
    return [*(wishes.formats or []), *(name for name in ONE_FILE if getattr(wishes, name))]


if __name__ == "__main__":
    sys.exit(main())
