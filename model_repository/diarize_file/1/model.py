"""Diarizes files; all of it is in the package."""

from diar.serving.file_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
