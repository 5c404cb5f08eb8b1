"""Live recordings through plain tritonclient: unary HTTP, unary gRPC, or a gRPC stream."""

import itertools
import queue
import secrets

import numpy as np
import tritonclient.grpc
import tritonclient.http
from live import REQUEST_LIMIT_S
from tritonclient.utils import InferenceServerException

OUTPUTS = ("RESULT", "RTTM", "EMBEDDINGS")


class LiveWire:
    """One connection for live recordings. protocol: ``http``, ``grpc`` or ``grpc-stream``."""

    def __init__(self, protocol, served):
        self._protocol = protocol
        self._module = tritonclient.http if protocol == "http" else tritonclient.grpc
        more = {"network_timeout": REQUEST_LIMIT_S, "concurrency": 8} if protocol == "http" else {}
        port = served.ports[0 if protocol == "http" else 1]
        self.client = self._module.InferenceServerClient(f"127.0.0.1:{port}", **more)
        self._answers = queue.Queue()
        if protocol == "grpc-stream":
            self.client.start_stream(lambda result, error: self._answers.put((result, error)))

    def send(self, stream, samples=None, start=False, end=False, **parameters):
        """Output arrays by name of one request of a sequence, or tritonclient's error."""
        inputs = []
        if samples is not None:
            name, kind = {"i2": ("PCM", "INT16"), "f4": ("AUDIO", "FP32"), "f8": ("AUDIO", "FP64")}[
                samples.dtype.str[1:]
            ]
            inputs.append(self._module.InferInput(name, list(samples.shape), kind))
            inputs[0].set_data_from_numpy(samples)
        more = {
            "outputs": [self._module.InferRequestedOutput(name) for name in OUTPUTS],
            "sequence_id": stream,
            "sequence_start": start,
            "sequence_end": end,
            "parameters": {"stream_token": "a test", **parameters},
        }
        if self._protocol == "grpc-stream":
            self.client.async_stream_infer("diarize_stream", inputs, **more)
            answer, error = self._answers.get(timeout=REQUEST_LIMIT_S)
            if error:
                raise error
        else:
            answer = self.client.infer("diarize_stream", inputs, **more)
        return {name: answer.as_numpy(name) for name in OUTPUTS}

    def refusal(self, *arguments, **more):
        """The text of the error that ``send`` must raise."""
        try:
            answer = self.send(*arguments, **more)
        except InferenceServerException as err:
            return err.message()
        raise AssertionError(f"expected an error, got {answer['RESULT'][0]}")

    def stream_all(self, samples, pieces, stream=None, **parameters):
        """A whole recording in ``pieces`` (a number, or lengths), then its END; RESULT's bytes."""
        stream = stream or new_id()
        cuts = pieces if isinstance(pieces, int) else list(itertools.accumulate(pieces))[:-1]
        for index, piece in enumerate(np.array_split(samples, cuts)):
            self.send(stream, piece, start=index == 0, **(parameters if index == 0 else {}))
        return self.send(stream, end=True)["RESULT"][0]

    def close(self):
        if self._protocol == "grpc-stream":
            self.client.stop_stream()
        self.client.close()


def new_id():
    """A random sequence id of 63 bits."""
    return 1 + secrets.randbelow(2**63 - 1)


def random_pieces(num_samples, seed):
    """Lengths between 10 ms and a minute, many short ones, that add up to ``num_samples``."""
    random = np.random.default_rng(seed)
    lengths = []
    while (left := num_samples - sum(lengths)) > 0:
        lengths.append(min(left, int(16_000 * 60 ** random.uniform(-1.1, 1))))
    return lengths
