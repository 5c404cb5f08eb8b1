"""Where tritonserver, its Python backend and the stub of the running Python are."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from diar.errors import SetupError

IMAGE = Path("/opt/tritonserver")  # where NVIDIA's container image has it
IMAGE_PYTHON = (3, 10)  # the image's only stub is for this Python
_STUB = "triton_python_backend_stub"
_BACKEND_FILES = ("libtriton_python.so", "triton_python_backend_utils.py")

Version = tuple[int, int]


@dataclass(frozen=True)
class ServerFiles:
    """One tritonserver that can run this Python.

    backend: folder of the Python backend. stub: apart from it, where the backend has no stub of its own.
    libraries: folders that the dynamic linker needs.
    """

    tritonserver: Path
    backend: Path
    stub: Path | None
    libraries: tuple[Path, ...]

    def backend_directory(self, run_folder: Path) -> Path:
        """The folder to give as ``--backend-directory``; made in ``run_folder`` of links where needed."""
        if self.stub is None:
            return self.backend.parent
        folder = run_folder / "backends" / "python"
        folder.mkdir(parents=True)
        for file in [*(self.backend / name for name in _BACKEND_FILES), self.stub]:
            (folder / file.name).symlink_to(file)
        return folder.parent


def find_server(
    image: Path = IMAGE, packages: Path | None = None, python: Version = sys.version_info[:2]
) -> ServerFiles:
    """Find the image's tritonserver, else the one inside the installed nvidia-pytriton.

    packages: the folder that nvidia-pytriton is installed in; by default where Python would import it from.

    Raises SetupError: E_SERVER (there is none), E_PYTHON (none has a stub for this Python),
    E_LIBPYTHON (the stub's shared library is missing).
    """
    packages = packages or _folder_of("pytriton")
    embedded = packages / "pytriton" / "tritonserver"
    if (image / "bin" / "tritonserver").is_file():
        if python == IMAGE_PYTHON:
            return ServerFiles(image / "bin" / "tritonserver", image / "backends" / "python", None, ())
        if not embedded.is_dir():
            raise SetupError("E_PYTHON", f"{image} runs {_name(IMAGE_PYTHON)} only, this is {_name(python)}")
    if not (embedded / "bin" / "tritonserver").is_file():
        raise SetupError("E_SERVER", "no tritonserver here; get one with: pip install nvidia-pytriton==0.7.0")
    stubs = embedded / "python_backend_stubs"
    stub = stubs / _digits(python) / _STUB
    if not stub.is_file():
        known = ", ".join(sorted((folder.name for folder in stubs.iterdir()), key=_sort_key))
        raise SetupError(
            "E_PYTHON", f"no Triton stub for {_name(python)}; this tritonserver has stubs for Python {known}"
        )
    return ServerFiles(
        embedded / "bin" / "tritonserver",
        embedded / "backends" / "python",
        stub,
        (packages / "nvidia_pytriton.libs", find_libpython(python)),
    )


def find_libpython(python: Version, folders: tuple[Path, ...] | None = None) -> Path:
    """The folder of ``libpythonX.Y.so.1.0``, which the stub is linked against.

    folders: where to look; by default where this Python was built to have it. Raises SetupError
    (E_LIBPYTHON) with the command that installs it.
    """
    if folders is None:
        library, multiarch = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("MULTIARCH")
        folders = (Path(library), Path(library) / str(multiarch), Path(sys.base_prefix) / "lib")
    name = f"libpython{_digits(python)}.so.1.0"
    for folder in folders:
        if (folder / name).exists():
            return folder
    raise SetupError(
        "E_LIBPYTHON",
        f"no {name}, which Triton's stub needs; on Debian and Ubuntu: "
        f"sudo apt install libpython{_digits(python)}",
    )


def _folder_of(package: str) -> Path:
    """The folder that an installed package lies in; purelib if it is not installed."""
    spec = importlib.util.find_spec(package)  # looks for it, without running it
    return Path(spec.origin).parents[1] if spec and spec.origin else Path(sysconfig.get_path("purelib"))


def _digits(python: Version) -> str:
    return f"{python[0]}.{python[1]}"


def _name(python: Version) -> str:
    return f"Python {_digits(python)}"


def _sort_key(digits: str) -> list[int]:
    return [int(part) for part in digits.split(".")]
