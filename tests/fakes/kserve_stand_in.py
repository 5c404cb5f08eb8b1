"""A small Triton server in this process, over real gRPC and real HTTP, that answers what a test says.

Only what the client uses is there: model configuration, model readiness, inference with binary tensors.
"""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent import futures
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
from scripted import ScriptedRunner
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from diar.options import Options
from diar.pipeline import diarize
from diar.serving.nn_model import block_outputs

HTTP_STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "INTERNAL": 500, "UNAVAILABLE": 503}
DTYPES = {"FP32": np.float32, "INT16": np.int16}


class Refusal(Exception):
    """An error to answer with. status: name of the gRPC status."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Call:
    """One inference request as it arrived. timeout: its parameter, in microseconds."""

    model: str
    inputs: dict
    outputs: list
    parameters: dict
    timeout: int | None


@dataclass
class StandIn:
    """Models and what they answer.

    models: name -> function of a Call that returns {output: array} or raises Refusal. configs: name ->
    configuration as in JSON. calls: every inference request so far.
    """

    models: dict
    configs: dict
    calls: list = field(default_factory=list)

    def config(self, name):
        if name not in self.configs:
            raise Refusal("NOT_FOUND", f"Request for unknown model: '{name}' is not found")
        return self.configs[name]

    def infer(self, call):
        self.calls.append(call)
        if call.model not in self.models:
            raise Refusal("NOT_FOUND", f"Request for unknown model: '{call.model}' is not found")
        outputs = self.models[call.model](call)
        return {name: outputs[name] for name in call.outputs if name in outputs}

    def serve_grpc(self):
        """Start gRPC on a free port; returns (url, function that stops it)."""
        pool = futures.ThreadPoolExecutor(16)
        server = grpc.server(pool, options=[("grpc.max_receive_message_length", -1)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(self), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()

        def stop():
            server.stop(0).wait()
            pool.shutdown()

        return f"grpc://127.0.0.1:{port}", stop

    def serve_http(self):
        """Start HTTP on a free port; returns (url, function that stops it)."""
        server = _HttpServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"stand_in": self}))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()

        def stop():
            server.shutdown()
            server.server_close()
            thread.join()

        return f"http://127.0.0.1:{server.server_port}", stop


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
    def __init__(self, stand_in):
        self._stand_in = stand_in

    def ModelReady(self, request, context):  # noqa: N802 - the protocol's name
        return service_pb2.ModelReadyResponse(ready=request.name in self._stand_in.models)

    def ModelConfig(self, request, context):  # noqa: N802
        try:
            config = self._stand_in.config(request.name)
        except Refusal as err:
            context.abort(grpc.StatusCode[err.status], err.message)
        response = service_pb2.ModelConfigResponse()
        response.config.name = request.name
        for key, value in config["parameters"].items():
            response.config.parameters[key].string_value = value["string_value"]
        for output in config["output"]:
            response.config.output.add(name=output["name"], dims=output["dims"])
        return response

    def ModelInfer(self, request, context):  # noqa: N802
        inputs = {
            tensor.name: np.frombuffer(content, DTYPES[tensor.datatype]).reshape(tensor.shape)
            for tensor, content in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        parameters = {
            key: getattr(p, p.WhichOneof("parameter_choice")) for key, p in request.parameters.items()
        }
        timeout = parameters.pop("timeout", None)
        names = [output.name for output in request.outputs]
        try:
            outputs = self._stand_in.infer(Call(request.model_name, inputs, names, parameters, timeout))
        except Refusal as err:
            context.abort(grpc.StatusCode[err.status], err.message)
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        for name, array in outputs.items():
            response.outputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
            response.raw_output_contents.append(_to_bytes(array))
        return response


class _HttpServer(ThreadingHTTPServer):
    request_queue_size = 64  # connections made at once; with 5 the others wait for a second


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        _, _, _, name, what = self.path.split("/")
        try:
            if what == "ready":
                self._send(200 if name in self.stand_in.models else 400)
            else:
                self._send(200, json.dumps(self.stand_in.config(name)).encode())
        except Refusal as err:
            self._send_error(err)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        json_length = int(self.headers["Inference-Header-Content-Length"])
        head, rest = json.loads(body[:json_length]), body[json_length:]
        inputs = {}
        for tensor in head["inputs"]:
            size = tensor["parameters"]["binary_data_size"]
            inputs[tensor["name"]] = np.frombuffer(rest[:size], DTYPES[tensor["datatype"]]).reshape(
                tensor["shape"]
            )
            rest = rest[size:]
        parameters = head.get("parameters", {})
        timeout = parameters.pop("timeout", None)
        names = [output["name"] for output in head["outputs"]]
        try:
            outputs = self.stand_in.infer(Call(self.path.split("/")[3], inputs, names, parameters, timeout))
        except Refusal as err:
            self._send_error(err)
            return
        contents = [_to_bytes(array) for array in outputs.values()]
        answer = json.dumps(
            {
                "outputs": [
                    {
                        "name": name,
                        "datatype": np_to_triton_dtype(array.dtype),
                        "shape": array.shape,
                        "parameters": {"binary_data_size": len(content)},
                    }
                    for (name, array), content in zip(outputs.items(), contents, strict=True)
                ]
            }
        ).encode()
        self._send(200, answer + b"".join(contents), {"Inference-Header-Content-Length": str(len(answer))})

    def _send_error(self, err):
        self._send(HTTP_STATUS[err.status], json.dumps({"error": err.message}).encode())

    def _send(self, status, body=b"", headers=None):
        try:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client did not wait


def _to_bytes(array):
    if array.dtype == np.object_:
        return serialize_byte_tensor(array).item()
    return np.ascontiguousarray(array).tobytes()


def scripted_server(profile, num_nets=2):
    """A StandIn of our server: ``diarize`` and ``diar_nn_g<i>``, all on scripted networks."""
    runner = ScriptedRunner(profile)
    parameters = {"profile": {"string_value": profile.name}}
    geometry = profile.geometry
    nn_outputs = [
        {"name": "LOGITS", "dims": [-1, geometry.frames, geometry.num_classes]},
        {"name": "EMBEDDINGS", "dims": [-1, geometry.local_speakers, profile.embedding.dim]},
    ]

    def run_block(call):
        return block_outputs(runner.run(call.inputs["SPAN"]), profile)

    async def run_span(span):
        return runner.run(span)

    def run_recording(call):
        (samples,) = call.inputs.values()
        options = Options.from_parameters(call.parameters)
        result = asyncio.run(diarize(samples, profile, [run_span], options))
        texts = {"RESULT": result.to_json(), "RTTM": result.to_rttm().encode()}
        outputs = {name: np.array([text], dtype=np.object_) for name, text in texts.items()}
        return {**outputs, "EMBEDDINGS": result.embeddings}

    nets = [f"diar_nn_g{index}" for index in range(num_nets)]
    return StandIn(
        models={"diarize": run_recording, **dict.fromkeys(nets, run_block)},
        configs={
            "diarize": {"parameters": parameters, "output": [{"name": "RESULT", "dims": [1]}]},
            **{net: {"parameters": parameters, "output": nn_outputs} for net in nets},
        },
    )
