"""Recordings on their way, in threads of their own."""

import threading

from tritonclient.utils import InferenceServerException


class Running:
    """``wire.diarize(samples)`` in the background."""

    def __init__(self, wire, samples, **parameters):
        self._thread = threading.Thread(target=self._run, args=(wire, samples, parameters))
        self._thread.start()

    def _run(self, wire, samples, parameters):
        try:
            self.result = wire.diarize(samples, **parameters)
        except InferenceServerException as err:
            self.result = err

    def wait(self, limit_s=90):
        """RESULT's bytes, or the error."""
        self._thread.join(limit_s)
        assert not self._thread.is_alive(), "no answer"
        return self.result
