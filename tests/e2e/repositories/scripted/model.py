"""A diar_nn on networks that do what the audio says, at once; takes the place of diar_nn_g<i>/1/model.py.

A block's first sample decides: at −0.9 it never ends, at −0.8 it does not if there is a file ``hangs`` beside
the models (once: the file is gone then), at −0.7 the GPU's memory is used up, else each window's first sample
gives its powerset class in steps of 0.1. The setting ``threads`` is what a block takes, in hundredths of a
second. A file ``broken`` beside the models lets the model not load.
"""

import time

import numpy as np

from diar.errors import SetupError
from diar.pipeline import BlockResult
from diar.serving import nn_model


class OutOfMemoryError(RuntimeError):
    """As torch's."""


class Runner:
    def __init__(self, profile, settings, instance):
        self._repository = instance.repository
        if (instance.repository / "broken").exists():
            raise SetupError("E_WEIGHTS", "no weights here; run scripts/fetch_weights")
        self._profile, self._block_s = profile, settings.threads / 100

    def _takes(self, flag):
        """Whether the flag is there; it is not afterwards."""
        try:
            (self._repository / flag).unlink()
        except FileNotFoundError:
            return False
        return True

    def run(self, span, embeddings=True, spans=True):
        time.sleep(self._block_s)
        mood = round(float(span[0]), 1)
        while mood == -0.9 or (mood == -0.8 and self._takes("hangs")):
            time.sleep(600)
        if mood == -0.7:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        geometry = self._profile.geometry
        classes = np.rint(span[:: geometry.hop] * 10).astype(int)
        windows = 1 + (len(span) - geometry.window) // geometry.hop
        logits = np.full((windows, geometry.frames, geometry.num_classes), -20.0, np.float32)
        logits[np.arange(windows), :, np.clip(classes[:windows], 0, geometry.num_classes - 1)] = 0.0
        shape = (windows, geometry.local_speakers)
        vectors = np.zeros((*shape, self._profile.embedding.dim), np.float32)
        vectors[:, np.arange(shape[1]), np.arange(shape[1])] = 1.0
        pure = np.zeros_like(vectors)
        if step := self._profile.pure_step(windows):
            pure[::step] = vectors[::step]
        return BlockResult(logits, vectors, np.full(shape, 9.0, np.float32), pure, ("scripted", "scripted"))

    def close(self):
        pass


class TritonPythonModel(nn_model.TritonPythonModel):
    def __init__(self):
        super().__init__(Runner)
