"""Fetch a sample conversation with its reference: out of a pinned PyPI wheel, checked by sha256.

It is the one that pyannote.audio carries: 30 s, two speakers, on the telephone (MIT licence).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from diar.artifacts import file_sha256, replacing
from diar.errors import SetupError
from diar.tools.fetch_weights import download_wheel

SOURCE = "pyannote-audio==4.0.7"
_MEMBERS = {  # file -> its place in the wheel, its sha256
    "sample.wav": (
        "pyannote/audio/sample/sample.wav",
        "c319b4abca767b124e41432d364fd7df006cb26bb79d09326c487d606a134e6e",
    ),
    "sample.rttm": (
        "pyannote/audio/sample/sample.rttm",
        "d78fe62c69d8e6dcbb42c26adfce83faccb374c5a1e6d987fe37f85f1c173c87",
    ),
    "LICENSE": (
        "pyannote_audio-4.0.7.dist-info/licenses/LICENSE",
        "a3b53644a76e70e289b25271b119c0a1aadaaf0db7a16225fb494fdc0e36c32a",
    ),
}


def fetch_sample(engines_dir: Path) -> Path:
    """Make sure that ``engines_dir/build/sample`` holds the sample; returns the path of ``sample.wav``.

    Raises SetupError: E_DOWNLOAD (no wheel), E_SAMPLE (not what is expected), E_FILES.
    """
    folder = engines_dir / "build" / "sample"
    try:
        if any(not _is_in_place(folder / name) for name in _MEMBERS):
            with tempfile.TemporaryDirectory() as scratch:
                _extract(download_wheel(SOURCE, Path(scratch)), folder)
    except OSError as err:
        raise SetupError("E_FILES", f"cannot write {folder}: {err}") from err
    return folder / "sample.wav"


def _is_in_place(path: Path) -> bool:
    return path.is_file() and file_sha256(path) == _MEMBERS[path.name][1]


def _extract(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name, (member, expected) in _MEMBERS.items():
            try:
                data = archive.read(member)
            except (KeyError, zipfile.BadZipFile) as err:
                raise SetupError("E_SAMPLE", f"no readable {member} in {SOURCE}: {err}") from err
            if (actual := hashlib.sha256(data).hexdigest()) != expected:
                raise SetupError("E_SAMPLE", f"{member} of {SOURCE} has sha256 {actual}, expected {expected}")
            with replacing(folder / name) as draft:
                draft.write_bytes(data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fetch_sample", description=__doc__)
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        print(fetch_sample(options.engines_dir.resolve()))
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
