"""Runs the networks; all of it is in the package."""

from diar.serving.nn_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
