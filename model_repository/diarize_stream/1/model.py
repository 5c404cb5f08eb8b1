"""Diarizes live recordings; all of it is in the package."""

from diar.serving.stream_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
