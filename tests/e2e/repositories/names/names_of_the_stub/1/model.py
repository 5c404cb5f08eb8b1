"""Answers what the real stub's triton_python_backend_utils has: name -> names inside it, as JSON."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        names = {name: dir(getattr(pb_utils, name)) for name in dir(pb_utils)}
        tensor = pb_utils.Tensor("NAMES", np.array([json.dumps(names).encode()], dtype=np.object_))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
