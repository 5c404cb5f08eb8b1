"""What a user may type after ``diarize``."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence

from diar_client.aio import MODES
from diar_client.formats import FORMATS
from diar_client.report.forms import REPORTS
from diar_client.report.sound import EMBEDDED_MB

KINDS = FORMATS | REPORTS
DEFAULT_URL = "grpc://127.0.0.1:8001"
DEFAULT_VOICES = "voices"
WIDTH = 100
USAGE = """diarize [options] PATH ...              recordings, and folders of them
       diarize --live [options] FILE|-         standard input as it comes, or a file in real time
       diarize enroll [options] NAME FILE ...  keep a voice, to be known again with --speakers
       diarize report [options] JSON [FILE]    a page or picture of a result that was kept as JSON"""
EXAMPLES = """examples:
  diarize meeting.mp3                          RTTM to standard output
  diarize --num 2 -f rttm,srt -o results call.wav interviews/
  diarize --html meeting.html meeting.mp3      a page with waveform, lanes, player and statistics
  arecord -q -f S16_LE -r 16000 | diarize --live -
  diarize enroll Anna anna.wav && diarize --speakers voices meeting.mp3

exit codes: 0 all done, 1 anything else, 2 usage, 3 a recording, 4 an option, 5 no server answers,
  6 not a server for this client, or its key, 7 overloaded: try again, 8 time-out, 130 interrupted.
  With several recordings the first failure counts; the others are diarized all the same."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line without ``enroll`` or ``report``; ends the process with 2 for wrong usage."""
    parser = diarize_parser()
    wishes = parser.parse_intermixed_args(arguments)
    wishes.urls = wishes.urls or [DEFAULT_URL]
    if not wishes.paths:
        parser.error("expected PATH (see --help)")
    if wishes.live:
        if len(wishes.paths) > 1 or len(wishes.urls) > 1:
            parser.error("--live takes one recording and one --url")
        if wishes.mode != "auto" or wishes.jobs is not None:
            parser.error("--live goes without --mode and --jobs")
    elif "-" in wishes.paths:
        parser.error("standard input (-) needs --live")
    elif wishes.pcm is not None or wishes.latency is not None:
        parser.error("--pcm and --latency need --live")
    if wishes.pcm is not None and wishes.paths != ["-"]:
        parser.error("--pcm is for standard input (-)")
    several = len(wishes.paths) > 1 or os.path.isdir(wishes.paths[0])
    if wishes.file_id is not None and several:
        parser.error("--file-id names one recording, got several")
    if wishes.output is None and len(wishes.formats or []) > 1:
        parser.error("several formats need a folder to write to: -o DIR")
    if wishes.output is None and wishes.formats and several and KINDS[wishes.formats[0]].separator is None:
        parser.error(f"several recordings as {wishes.formats[0]} need a folder to write to: -o DIR")
    if several and (wishes.html or wishes.png):
        parser.error("--html and --png show one recording; for several: -f html,png -o DIR")
    return wishes


def parse_enroll(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line behind ``enroll``."""
    parser = argparse.ArgumentParser(
        prog="diarize enroll",
        description="Keep a voice: recordings in which one person speaks, best half a minute or more in all.",
    )
    parser.add_argument("name", metavar="NAME", help="whose voice it is")
    parser.add_argument("paths", nargs="+", metavar="FILE", help="recordings of nobody else")
    parser.add_argument(
        "--speakers", default=DEFAULT_VOICES, metavar="DIR", help="folder of the voice files (%(default)s)"
    )
    parser.add_argument(
        "--num", "--num-speakers", dest="num_speakers", type=int, choices=(1,), help="whatever it sounds like"
    )
    parser.add_argument("--channel", type=int, metavar="N", help="take this one, from 0 (default: average)")
    _add_server(parser)
    _add_messages(parser)
    wishes = parser.parse_intermixed_args(arguments)
    wishes.urls = wishes.urls or [DEFAULT_URL]
    return wishes


def parse_report(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line behind ``report``."""
    parser = argparse.ArgumentParser(
        prog="diarize report",
        description="A page or a picture of a result that was kept as JSON (-f json). No server is asked.",
    )
    parser.add_argument("result", metavar="JSON", help="the kept result")
    parser.add_argument("recording", nargs="?", metavar="FILE", help="the recording; without it: no sound")
    parser.add_argument("--channel", type=int, metavar="N", help="take this one, from 0 (default: average)")
    parser.add_argument("--file-id", metavar="ID", help="what it is called (default: the file's name)")
    parser.add_argument("--exclusive", action="store_true", help="one speaker at a time")
    _add_reports(parser)
    _add_messages(parser)
    wishes = parser.parse_intermixed_args(arguments)
    if not (wishes.html or wishes.png):
        parser.error("expected --html FILE or --png FILE")
    return wishes


def diarize_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="diarize",
        usage=USAGE,
        description="Who spoke when: speaker turns of recordings, from a diarization server.",
        epilog=EXAMPLES,
        add_help=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=31, width=WIDTH
        ),
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help=argparse.SUPPRESS)
    _add_server(parser)
    _add_work(parser)
    _add_results(parser)
    _add_live(parser)
    _add_messages(parser)
    return parser


def _add_server(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument(
        "--url",
        action="append",
        dest="urls",
        metavar="URL",
        help=f"({DEFAULT_URL}) also http://, grpcs://, https://; repeatable",
    )
    group.add_argument("--api-key-file", metavar="FILE", help="file that holds the server's API key")
    group.add_argument("--ca", metavar="FILE", help="PEM file of the authority behind the certificate")
    group.add_argument("--cert", metavar="FILE", help="PEM file of your own certificate and its key")
    group.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds for each recording (default: an hour, or its length)",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("recordings")
    for name, what in (("num", "exactly so many speakers"), ("min", "at least"), ("max", "at most")):
        long = f"--{name}-speakers"
        group.add_argument(f"--{name}", long, type=int, dest=f"{name}_speakers", metavar="N", help=what)
    group.add_argument("--channel", type=int, metavar="N", help="take this one, from 0 (default: average)")
    group.add_argument("--speakers", metavar="DIR", help="name the speakers whose voices are kept there")
    group.add_argument(
        "--mode",
        choices=MODES,
        type=lambda mode: "blocks" if mode == "block" else mode,
        default="auto",
        help="send all of it, or blocks of it and do the rest here; auto: what fits",
    )
    group.add_argument("--jobs", type=_count, metavar="N", help="at once (default: 2 for each server)")


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    group.add_argument(
        "-f", "--format", type=_formats, dest="formats", metavar="LIST", help=f"{', '.join(KINDS)} (rttm)"
    )
    group.add_argument("-o", "--output", metavar="DIR", help="a file for each recording and format there")
    group.add_argument("--rttm", metavar="FILE", help="all recordings in one file, - for standard output")
    group.add_argument("--json", metavar="FILE", help="the same as RESULT documents, one a line")
    _add_reports(group)
    group.add_argument("--exclusive", action="store_true", help="one speaker at a time (JSON has both)")
    group.add_argument("--file-id", metavar="ID", help="name in RTTM and CSV (default: the file's name)")
    group.add_argument("--timings", action="store_true", help="add seconds by stage to the JSON")


def _add_reports(group: argparse._ActionsContainer) -> None:
    group.add_argument("--html", metavar="FILE", help="a page to look at, listen to and name speakers in")
    group.add_argument("--png", metavar="FILE", help="a picture; wants matplotlib")
    group.add_argument(
        "--embed",
        type=_megabytes,
        default=EMBEDDED_MB,
        metavar="MB",
        help="most sound inside the page, else it plays the file (%(default)g: 2.8 h)",
    )


def _add_live(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("live")
    group.add_argument("--live", action="store_true", help="show turns while they are spoken")
    group.add_argument("--pcm", type=_count, metavar="HZ", help="standard input is raw 16-bit mono sound")
    group.add_argument("--latency", type=float, metavar="S", help="until a turn is final, 0.5 to 5 (1)")


def _add_messages(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("messages")
    if not parser.add_help:
        group.add_argument("-h", "--help", action="help", help="show this")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress display, no warnings")
    group.add_argument("--json-errors", action="store_true", help="errors and warnings as JSON, one a line")


def _formats(text: str) -> list[str]:
    names = [name.strip().lower() for name in text.split(",")]
    if unknown := [name for name in names if name not in KINDS]:
        raise argparse.ArgumentTypeError(f"got {unknown[0]!r}, expected some of {', '.join(KINDS)}")
    return list(dict.fromkeys(names))


def _megabytes(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"got {text}, expected 0 or more")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {number}, expected 1 or more")
    return number
