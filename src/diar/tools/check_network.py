"""Check whether an ONNX file meets a profile's contract for its segmentation network, and install it if so.

One line for each finding: what was got, what was expected. The contract: docs/bring_your_own.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diar.artifacts import file_sha256, replacing
from diar.errors import SetupError
from diar.network_files import installed_file
from diar.profile import Profile, load_profile
from diar.tools.network_contract import Finding, check_file, single_file


def install(source: Path, profile: Profile, engines_dir: Path) -> Path:
    """Copy a checked file to where the profile's lanes look for it; SetupError (E_FILES)."""
    target = installed_file(profile, engines_dir)
    try:
        with replacing(target) as draft:
            shutil.copyfile(source, draft)
    except OSError as err:
        raise SetupError("E_FILES", f"cannot write {target}: {err}") from err
    return target


def check_network(
    model: Path, profile: Profile, engines_dir: Path, *, gpus: bool = True, keep: bool = True
) -> tuple[list[Finding], Path | None]:
    """The findings, and where the file was installed: nowhere if ``keep`` is False or a finding is bad.

    engines_dir: ``engines/build``. gpus: the network is to run on GPUs, too.

    Raises SetupError: E_PROFILE for a profile that has its own network, E_ONNX for a file that is none,
    E_FILES.
    """
    if profile.segmentation.network == "pyannet":
        raise SetupError(
            "E_PROFILE",
            f"profile {profile.name} has network pyannet, with weights;"
            ' expected one with segmentation.network = "onnx" or "reference"',
        )
    with tempfile.TemporaryDirectory() as scratch:
        file = single_file(model, Path(scratch) / "network.onnx")
        findings = check_file(file, profile, gpus=gpus)
        if not keep or any(finding.passed is False for finding in findings):
            return findings, None
        return findings, install(file, profile, engines_dir)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 only if the contract is met."""
    parser = argparse.ArgumentParser(prog="check_network", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--profile", required=True, help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), help="default: %(default)s")
    parser.add_argument(
        "--cpu", action="store_true", help="to be served on CPUs alone: TensorRT is not asked"
    )
    parser.add_argument("--no-install", action="store_true", help="only check")
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile)
        folder = options.engines_dir.resolve() / "build"
        findings, installed = check_network(
            options.model, profile, folder, gpus=not options.cpu, keep=not options.no_install
        )
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    for finding in findings:
        print(finding)
    bad = sum(finding.passed is False for finding in findings)
    if bad:
        print(f"{options.model} does not meet the contract of profile {profile.name}: {bad} bad, see above")
    elif installed:
        print(f"installed as {installed}, sha256 {file_sha256(installed)}")
    else:
        print(f"{options.model} meets the contract of profile {profile.name}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
