"""Diarizes recordings and tells how far it is; all of it is in the package."""

from diar.serving.events_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
