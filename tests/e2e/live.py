"""Live servers, and plain tritonclient to talk to them."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
RECORDINGS = sorted(file.stem for file in (DATA / "dev").glob("*.flac"))
START_LIMIT_S, STOP_LIMIT_S, REQUEST_LIMIT_S = 180, 60, 600


def each_recording(few):
    """Parameters of a test: the labelled recordings, all but these few marked slow."""
    return [name if name in few else pytest.param(name, marks=pytest.mark.slow) for name in RECORDINGS or few]


@dataclass
class Served:
    """A scripts/serve process. ports: http, grpc, metrics, health. announced: the lines it printed."""

    process: subprocess.Popen
    ports: tuple[int, int, int, int]
    log: Path
    announced: list[str]

    def stop(self, signal_number=signal.SIGTERM):
        """End it; returns its exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(STOP_LIMIT_S)

    def regions(self):
        """Its regions in /dev/shm."""
        return list(Path("/dev/shm").glob(f"diar_{self.ports[0]}_*"))


def free_ports(count=4):
    """Ports that nobody listens on, of which none is given twice."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = tuple(each.getsockname()[1] for each in sockets)
    for each in sockets:
        each.close()
    return ports


def start(arguments, ports, log, python_folder=Path(sys.prefix)):
    """Run scripts/serve in the virtual environment ``python_folder``; its log goes to a file."""
    names = ("--http-port", "--grpc-port", "--metrics-port", "--health-port")
    options = [text for name, port in zip(names, ports, strict=True) for text in (name, str(port))]
    options += [] if "--gpu" in arguments else ["--cpu"]
    with log.open("w") as file:
        return subprocess.Popen(
            [str(ROOT / "scripts" / "serve"), *options, *map(str, arguments)],
            env={**os.environ, "VIRTUAL_ENV": str(python_folder)},
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )


def start_and_wait(arguments, log, **more):
    """Start a server and read the addresses that it prints when it is ready."""
    ports = free_ports()
    process = start(arguments, ports, log, **more)
    announced = [process.stdout.readline().rstrip() for _ in ports]
    if not announced[-1]:
        process.communicate(timeout=STOP_LIMIT_S)
        pytest.fail(f"the server did not start:\n{log.read_text()[-4000:]}")
    return Served(process, ports, log, announced)


class Wire:
    """One protocol to one server. ``infer`` returns output arrays by name, or raises tritonclient's error."""

    def __init__(self, protocol, served):
        self.protocol = protocol
        self._module = {"grpc": tritonclient.grpc, "http": tritonclient.http}[protocol]
        port = served.ports[{"http": 0, "grpc": 1}[protocol]]
        limits = {"network_timeout": REQUEST_LIMIT_S, "concurrency": 8} if protocol == "http" else {}
        self.client = self._module.InferenceServerClient(f"127.0.0.1:{port}", **limits)

    def infer(self, tensors, parameters=None, outputs=("RESULT", "RTTM", "EMBEDDINGS"), model="diarize"):
        """tensors: arrays by name; int16 goes as INT16, float32 as FP32 and so on."""
        inputs = []
        for name, array in tensors.items():
            kind = {"i2": "INT16", "f4": "FP32", "f8": "FP64", "O": "BYTES"}[array.dtype.str[1:]]
            inputs.append(self._module.InferInput(name, list(array.shape), kind))
            inputs[-1].set_data_from_numpy(array)
        wanted = [self._module.InferRequestedOutput(name) for name in outputs]
        response = self.client.infer(model, inputs, outputs=wanted, parameters=parameters)
        return {name: response.as_numpy(name) for name in outputs}

    def diarize(self, samples, **parameters):
        """RESULT's bytes for samples of int16 (as PCM) or float32 (as AUDIO)."""
        name = "PCM" if samples.dtype == np.int16 else "AUDIO"
        return self.infer({name: samples}, parameters or None, outputs=["RESULT"])["RESULT"][0]

    def config(self, model):
        """The configuration as the server resolved it."""
        if self.protocol == "http":
            return self.client.get_model_config(model)
        return self.client.get_model_config(model, as_json=True)["config"]


def read_recording(file):
    """16 kHz mono samples of a file that has them already: (samples,) int16."""
    with av.open(str(file)) as container:
        return np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])
