"""The small real requests by which the supervisor finds out whether a model works."""

from __future__ import annotations

import io
import wave

import numpy as np

from diar.profile import SAMPLE_RATE, load_profile
from diar.supervise.control import Request
from diar.supervise.repository import Model
from diar.tensors import FILE, PCM, PROBE_ID, SPAN

_RECORDING = np.zeros(SAMPLE_RATE // 10, np.int16)


def probe_request(model: Model) -> Request | None:
    """One window for a ``diar_nn``, 0.1 s for a model that takes recordings; None for any other."""
    path = f"/v2/models/{model.name}/infer"
    if SPAN in model.inputs:
        window = load_profile(model.parameters["profile"]).geometry.window
        return _binary(path, SPAN, "FP32", np.zeros(window, np.float32).tobytes(), window)
    if FILE in model.inputs:
        content = _wave_file()
        return _binary(path, FILE, "BYTES", len(content).to_bytes(4, "little") + content, 1)
    if PCM not in model.inputs:
        return None
    if model.is_decoupled and not model.has_sequences:
        path = f"/v2/models/{model.name}/generate_stream"
        return Request(path, {"file_id": PROBE_ID, PCM: _RECORDING.tolist()})
    parameters: dict[str, object] = {}
    if model.has_sequences:
        parameters = {
            "sequence_id": PROBE_ID,  # no caller's: a START ends what Triton has of the same id
            "sequence_start": True,
            "sequence_end": True,
            "stream_token": PROBE_ID,
        }
    return _binary(path, PCM, "INT16", _RECORDING.tobytes(), len(_RECORDING), parameters)


def _binary(
    path: str, name: str, kind: str, content: bytes, length: int, parameters: dict[str, object] | None = None
) -> Request:
    tensor = {
        "name": name,
        "datatype": kind,
        "shape": [length],
        "parameters": {"binary_data_size": len(content)},
    }
    document = {
        "id": PROBE_ID,
        "parameters": {**(parameters or {}), "binary_data_output": True},
        "inputs": [tensor],
    }
    return Request(path, document, content)


def _wave_file() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(_RECORDING.tobytes())
    return buffer.getvalue()
