"""``diarize report``: a page or a picture of a result that was kept as JSON. Needs no server."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePath

import msgspec
import numpy as np

from diar.errors import SetupError
from diar.result import Diarization
from diar_client import exit_codes
from diar_client.decode import decode_file
from diar_client.display import Display
from diar_client.finished import Finished
from diar_client.inputs import Recording, safe_name
from diar_client.outputs import OneFile
from diar_client.recordings import recording_name
from diar_client.report.forms import REPORTS, wanted_mb
from diar_client.report.picture import check_matplotlib
from diar_client.report.sound import Sound, keep_sound


def report(wishes: argparse.Namespace, display: Display) -> int:
    """Write what ``wishes`` (as ``arguments.parse_report`` gives them) ask for; the exit code."""
    wanted = {name: path for name in REPORTS if (path := getattr(wishes, name))}
    if "png" in wanted:
        check_matplotlib()
    name = recording_name(wishes.recording or wishes.result)
    result = read_result(wishes.result, name if wishes.file_id is None else wishes.file_id)
    outputs = [OneFile(path, REPORTS[name], wishes.exclusive) for name, path in wanted.items()]
    recording = Recording(wishes.recording or "-", PurePath(safe_name(name)))
    finished = Finished(0, recording, result, _sound(wishes, wanted_mb(wanted, wishes.embed), display))
    for output in outputs:
        output.write(finished)
    return exit_codes.OK


def read_result(path: str, file_id: str) -> Diarization:
    """Read a RESULT document. Raises SetupError if the file holds anything else."""
    try:
        return Diarization.from_json(Path(path).read_bytes(), np.zeros((0, 0), np.float32), file_id)
    except OSError as err:
        raise SetupError("E_SETUP_RESULT", f"{path}: {err.strerror or err}") from None
    except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as err:
        raise SetupError("E_SETUP_RESULT", f"{path}: not one RESULT document: {err}") from None


def _sound(wishes: argparse.Namespace, embed_mb: float | None, display: Display) -> Sound | None:
    if not wishes.recording or embed_mb is None:
        return None
    decoded = decode_file(wishes.recording, channel=wishes.channel)
    for note in decoded.notes:
        display.warn(note, wishes.recording)
    return keep_sound(decoded.samples, embed_mb)
