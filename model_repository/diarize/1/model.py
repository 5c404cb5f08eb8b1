"""Diarizes recordings; all of it is in the package."""

from diar.serving.diarize_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
