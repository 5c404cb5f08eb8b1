"""The command ``diarize``: recordings in, RTTM or JSON out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from diar.errors import DiarError, SetupError
from diar.options import Options
from diar.result import Diarization
from diar_client import exit_codes
from diar_client.client import DiarizationClient
from diar_client.decode import decode_file
from diar_client.display import Display
from diar_client.failures import ServerRefused, ServerUnreachable
from diar_client.outputs import Output
from diar_client.recordings import recording_name

EXAMPLES = """examples:
  diarize meeting.mp3                          RTTM to standard output
  diarize --num-speakers 2 --json call.json call.wav
  diarize --mode blocks --url http://10.0.0.7:8000 --rttm all.rttm *.flac"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (see ``--help``)."""
    parser = build_parser()
    wishes = parser.parse_args(arguments)
    if wishes.file_id is not None and len(wishes.audio) > 1:
        parser.error("--file-id names one recording, got several")
    display = Display(wishes.quiet)
    try:
        return _diarize_all(wishes, display)
    except DiarError as err:
        display.error(err.text)
        return exit_codes.exit_code(err)
    except KeyboardInterrupt:
        display.error("interrupted")
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on; exit quietly
        return exit_codes.BROKEN_PIPE
    except Exception as err:
        display.error(f"internal error: {type(err).__name__}: {err}")
        return exit_codes.OTHER


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="diarize",
        description="Who spoke when: speaker turns of recordings, from a diarization server.",
        epilog=f"{EXAMPLES}\n\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("audio", nargs="+", metavar="AUDIO", help="sound or video file of any common format")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001", help="grpc://… or http://… (%(default)s)")
    parser.add_argument(
        "--mode",
        choices=("server", "blocks"),
        type=lambda mode: "blocks" if mode == "block" else mode,
        default="server",
        help="send the whole recording, or its blocks and do the rest here (same result)",
    )
    speakers = parser.add_argument_group("number of speakers")
    speakers.add_argument("--num-speakers", type=int, metavar="N", help="exactly")
    speakers.add_argument("--min-speakers", type=int, metavar="N", help="at least")
    speakers.add_argument("--max-speakers", type=int, metavar="N", help="at most")
    parser.add_argument("--channel", type=int, metavar="N", help="take this one, from 0 (default: average)")
    parser.add_argument("--file-id", metavar="ID", help="name in RTTM (default: the file's name)")
    parser.add_argument("--rttm", metavar="FILE", help="write RTTM there, - for standard output (default)")
    parser.add_argument("--json", metavar="FILE", help="write RESULT documents there, one a line")
    parser.add_argument("--exclusive", action="store_true", help="RTTM with one speaker at a time")
    parser.add_argument("--timings", action="store_true", help="add seconds by stage to the JSON")
    parser.add_argument(
        "--timeout", type=float, default=3600.0, metavar="S", help="seconds for each recording (%(default)g)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar, no warnings")
    return parser


def _diarize_all(wishes: argparse.Namespace, display: Display) -> int:
    """Every recording in turn; a bad one does not stop the others, a server that is not there does."""
    Options(wishes.num_speakers, wishes.min_speakers, wishes.max_speakers)  # refuses what contradicts itself
    rttm = Output(wishes.rttm or "-") if wishes.rttm or not wishes.json else None
    json = Output(wishes.json, separator=b"\n") if wishes.json else None
    code = exit_codes.OK
    with DiarizationClient(wishes.url, timeout_s=wishes.timeout) as client:
        for path in wishes.audio:
            try:
                result = _diarize_one(client, path, wishes, display)
            except (ServerUnreachable, ServerRefused, SetupError):
                raise
            except DiarError as err:
                display.error(err.text if err.text.startswith(path) else f"{path}: {err.text}")
                code = code or exit_codes.exit_code(err)
                continue
            if rttm:
                rttm.write(result.to_rttm(exclusive=wishes.exclusive).encode())
            if json:
                json.write(result.to_json())
            if result.note:
                display.warn(f"{path}: {result.note}")
    return code


def _diarize_one(
    client: DiarizationClient, path: str, wishes: argparse.Namespace, display: Display
) -> Diarization:
    with display.recording(Path(path).name) as line:
        line.stage("reading")
        decoded = decode_file(path, channel=wishes.channel)
        for note in decoded.notes:
            display.warn(f"{path}: {note}")
        line.stage("diarizing")
        return client.diarize(
            decoded.samples,
            num_speakers=wishes.num_speakers,
            min_speakers=wishes.min_speakers,
            max_speakers=wishes.max_speakers,
            file_id=wishes.file_id if wishes.file_id is not None else recording_name(path),
            timings=wishes.timings,
            mode=wishes.mode,
            progress=line.blocks,
        )


if __name__ == "__main__":
    sys.exit(main())
