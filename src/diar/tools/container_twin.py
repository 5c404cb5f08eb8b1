"""Try the image without Docker: what docker/Dockerfile installs, in Python 3.10, and the tests against it.

What is committed is checked out beside a virtual environment, the Dockerfile's steps are taken there with its
pins, then the tests run against the package as installed; tritonserver 2.51.0 and its stub for Python 3.10
are those of nvidia-pytriton. What this cannot try: the image's libnvinfer, its CUDA, a GPU.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GROUPS = ("unit", "golden", "serving", "e2e")
TEST_EXTRAS = "server,export,embedded,eval,dev"
_PINS = ("TORCH", "TORCHAUDIO", "TENSORRT")
_REPORTED = ("torch", "torchaudio", "numpy", "onnx", "openvino", "nvidia-pytriton", "tensorrt-cu12-bindings")


@dataclass(frozen=True)
class Outcome:
    """What became of one group of tests. skips: how often for which reason. commit: what was tested."""

    group: str
    commit: str
    date: str
    passed: int
    failed: int
    skips: Mapping[str, int]
    seconds: float

    @property
    def skipped(self) -> int:
        """Tests that were skipped."""
        return sum(self.skips.values())


def read_pins(dockerfile: str) -> dict[str, str]:
    r"""The default values of a Dockerfile's ARGs.

    >>> read_pins("ARG TORCH=2.1.1\nRUN echo ARG X=1\n")
    {'TORCH': '2.1.1'}
    """
    return dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.MULTILINE))


def read_outcome(group: str, commit: str, report: str) -> Outcome:
    """What pytest's JUnit report says."""
    suite = ElementTree.fromstring(report).find("testsuite")
    if suite is None:
        raise ValueError("expected a testsuite in the report, found none")
    skips: dict[str, int] = {}
    for skipped in suite.iter("skipped"):
        reason = skipped.get("message", "")
        skips[reason] = skips.get(reason, 0) + 1
    number = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    passed = number["tests"] - failed - number["skipped"]
    date = suite.get("timestamp", "")[:10]
    return Outcome(group, commit, date, passed, failed, skips, float(suite.get("time", 0)))


def markdown(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> str:
    """The report."""
    lines = [
        "# The image's Python side, tried without Docker",
        "",
        "Written by `scripts/container_twin`: the steps of `docker/Dockerfile` in a Python 3.10 environment,",
        "then the tests against the package as installed there. Not tried: the image's libnvinfer, its CUDA,",
        "a GPU.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in facts.items()),
        "",
        "| tests | passed | failed | skipped | seconds | commit | date |",
        "|---|---|---|---|---|---|---|",
        *map(_row, outcomes),
    ]
    skips = [(each.group, reason, count) for each in outcomes for reason, count in each.skips.items()]
    if skips:
        lines += ["", "Skipped:", ""]
        lines += [f"- {group}, {count} times: {reason}" for group, reason, count in skips]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    counts = f"{outcome.passed} | {outcome.failed} | {outcome.skipped} | {outcome.seconds:.0f}"
    return f"| {outcome.group} | {counts} | {outcome.commit} | {outcome.date} |"


@dataclass(frozen=True)
class Twin:
    """The places of one twin: environment, checkout, and the data that tests expect beside a checkout."""

    root: Path
    folder: Path

    @property
    def checkout(self) -> Path:
        """What is committed, and what the image adds to it."""
        return self.folder / "checkout"

    @property
    def environment(self) -> Path:
        """A virtual environment: the image's python3."""
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.environment / "bin" / "python"

    def run(self, *command: str | Path) -> int:
        """Run a command in the checkout as the image would, with its Python; returns its exit status."""
        environment = {**os.environ, "VIRTUAL_ENV": str(self.environment)}
        environment.pop("PYTHONPATH", None)
        return subprocess.run([str(part) for part in command], cwd=self.checkout, env=environment).returncode

    def must_run(self, *command: str | Path) -> None:
        """Run a command that has to succeed."""
        print("+", *command, file=sys.stderr, flush=True)
        if status := self.run(*command):
            sys.exit(f"error: {command[0]} ended with status {status}")

    def check_out(self) -> str:
        """Check out what is committed, anew, and return the commit."""
        shutil.rmtree(self.checkout, ignore_errors=True)
        self.checkout.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "-C", str(self.root), "archive", "HEAD"], stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "x", "-C", str(self.checkout)], input=archive.stdout, check=True)
        data = self.folder / "shared"
        data.unlink(missing_ok=True)
        data.symlink_to(self.root.parent / "shared")
        head = ["git", "-C", str(self.root), "rev-parse", "--short", "HEAD"]
        return subprocess.run(head, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def install(self) -> None:
        """Take the Dockerfile's steps, then add what the tests need."""
        pins = read_pins((self.checkout / "docker" / "Dockerfile").read_text(encoding="utf-8"))
        torch, torchaudio, tensorrt = (pins[name] for name in _PINS)
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(self.environment)], check=True)
        install = self.checkout / "docker" / "install"
        self.must_run(install, "torch", self.python, torch, torchaudio)
        self.must_run(install, "tensorrt", self.python, tensorrt)
        self.must_run(install, "project", self.python, torch, torchaudio)
        self.must_run(self.checkout / "scripts" / "fetch_weights")
        self.must_run(self.checkout / "scripts" / "export_onnx")
        self.must_run(self.checkout / "scripts" / "export_onnx", "--profile", "span16")
        self.must_run(install, "project", self.python, torch, torchaudio, TEST_EXTRAS)

    def test(self, group: str, commit: str) -> None:
        """Run a group of tests; its report takes the place of an earlier one."""
        for report in self.folder.glob(f"{group}.*.xml"):
            report.unlink()
        report = self.folder / f"{group}.{commit}.xml"
        status = self.run(self.python, "-m", "pytest", "-q", f"--junitxml={report}", f"tests/{group}")
        if not report.exists():
            sys.exit(f"error: pytest ended with status {status} and without a report")

    def outcomes(self) -> list[Outcome]:
        """Of the last run of each group that was run here."""
        found = []
        for group in GROUPS:
            for report in self.folder.glob(f"{group}.*.xml"):
                commit = report.stem.removeprefix(f"{group}.")
                found.append(read_outcome(group, commit, report.read_text(encoding="utf-8")))
        return found

    def versions(self) -> dict[str, str]:
        """Of what is installed."""
        ask = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
        said = subprocess.run(
            [str(self.python), "-c", ask, *_REPORTED], stdout=subprocess.PIPE, text=True, check=True
        )
        return dict(zip(_REPORTED, said.stdout.split(), strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="container_twin", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the project (default: here)")
    parser.add_argument("--folder", type=Path, help="for environment and checkout (default: build/twin)")
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"which tests to run now, of {', '.join(GROUPS)}"
    )
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    twin = Twin(root, (options.folder or root / "build" / "twin").resolve())
    commit = twin.check_out()
    twin.install()
    for group in options.groups or GROUPS:
        twin.test(group, commit)
    outcomes = twin.outcomes()
    versions = ", ".join(f"{name} {version}" for name, version in twin.versions().items())
    facts = {
        "Python": platform.python_version(),
        "packages": versions,
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
    }
    report = markdown(outcomes, facts)
    print(report)
    (root / "docs" / "container_twin.md").write_text(report, encoding="utf-8")
    return 1 if any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
