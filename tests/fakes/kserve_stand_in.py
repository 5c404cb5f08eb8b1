"""A small Triton server in this process, over real gRPC and real HTTP, that answers what a test says.

Only what the client uses is there: model configuration, model readiness, inference with binary tensors, over
gRPC also with several answers to a request, TLS, and a key that is asked for as Triton does.
"""

from __future__ import annotations

import json
import threading
from concurrent import futures
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

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

    models: name -> function of a Call that returns {output: array} or raises Refusal; one that is asked
    through a stream yields such dictionaries. configs: name -> configuration as in JSON. calls: every
    inference request so far. api_key: what "diar-api-key" must be; None lets everybody in.
    """

    models: dict
    configs: dict
    calls: list = field(default_factory=list)
    api_key: str | None = None

    def check_key(self, headers, name):
        """headers: of a request. name: that of the one which holds the key."""
        if self.api_key is not None and headers.get(name) != self.api_key:
            raise Refusal("UNAVAILABLE", f"This protocol is restricted, expecting header '{name}'")

    def config(self, name):
        if name not in self.configs:
            raise Refusal("NOT_FOUND", f"Request for unknown model: '{name}' is not found")
        return self.configs[name]

    def infer(self, call):
        outputs = self.ask(call)
        return {name: outputs[name] for name in call.outputs if name in outputs}

    def ask(self, call):
        """What the model returns."""
        self.calls.append(call)
        if call.model not in self.models:
            raise Refusal("NOT_FOUND", f"Request for unknown model: '{call.model}' is not found")
        return self.models[call.model](call)

    def serve_grpc(self, certificate=None, authority=None, port=0):
        """Start gRPC on a port (0: a free one); returns (url, function that stops it).

        certificate: (key, chain) in PEM, for TLS. authority: who must have signed the callers', in PEM.
        """
        pool = futures.ThreadPoolExecutor(16)
        server = grpc.server(pool, options=[("grpc.max_receive_message_length", -1)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(self), server)
        if certificate:
            credentials = grpc.ssl_server_credentials([certificate], authority, authority is not None)
            port = server.add_secure_port(f"127.0.0.1:{port}", credentials)
        else:
            port = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()

        def stop():
            server.stop(0).wait()
            pool.shutdown()

        return f"grpc{'s' if certificate else ''}://127.0.0.1:{port}", stop

    def serve_http(self, context=None, port=0):
        """Start HTTP on a port (0: a free one); returns (url, function that stops it). context: for HTTPS."""
        server = _HttpServer(("127.0.0.1", port), type("Handler", (_Handler,), {"stand_in": self}))
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()

        def stop():
            server.shutdown()
            server.server_close()
            thread.join()

        return f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", stop


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
    def __init__(self, stand_in):
        self._stand_in = stand_in

    def ModelReady(self, request, context):  # noqa: N802 - the protocol's name
        self._check_key(context)
        return service_pb2.ModelReadyResponse(ready=request.name in self._stand_in.models)

    def ModelConfig(self, request, context):  # noqa: N802
        self._check_key(context)
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
        self._check_key(context)
        try:
            outputs = self._stand_in.infer(_read_call(request))
        except Refusal as err:
            context.abort(grpc.StatusCode[err.status], err.message)
        return _response(request.model_name, outputs)

    def ModelStreamInfer(self, requests, context):  # noqa: N802
        self._check_key(context)
        for request in requests:
            try:
                for outputs in self._stand_in.ask(_read_call(request)):
                    yield service_pb2.ModelStreamInferResponse(
                        infer_response=_response(request.model_name, outputs)
                    )
            except Refusal as err:  # its status is lost, as Triton does it
                yield service_pb2.ModelStreamInferResponse(error_message=err.message)

    def _check_key(self, context):
        try:
            headers = dict(context.invocation_metadata())
            self._stand_in.check_key(headers, "triton-grpc-protocol-diar-api-key")
        except Refusal as err:
            context.abort(grpc.StatusCode[err.status], err.message)


def _read_call(request):
    inputs = {
        tensor.name: np.frombuffer(content, DTYPES[tensor.datatype]).reshape(tensor.shape)
        for tensor, content in zip(request.inputs, request.raw_input_contents, strict=True)
    }
    parameters = {key: getattr(p, p.WhichOneof("parameter_choice")) for key, p in request.parameters.items()}
    timeout = parameters.pop("timeout", None)
    names = [output.name for output in request.outputs]
    return Call(request.model_name, inputs, names, parameters, timeout)


def _response(model, outputs):
    response = service_pb2.ModelInferResponse(model_name=model)
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
            self.stand_in.check_key(self.headers, "diar-api-key")
            if what == "ready":
                self._send(200 if name in self.stand_in.models else 400)
            else:
                self._send(200, json.dumps(self.stand_in.config(name)).encode())
        except Refusal as err:
            self._send_error(err)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        json_length = int(self.headers.get("Inference-Header-Content-Length", len(body)))
        head, rest = json.loads(body[:json_length]), body[json_length:]
        inputs = {}
        for tensor in head.get("inputs", []):
            size = tensor["parameters"]["binary_data_size"]
            inputs[tensor["name"]] = np.frombuffer(rest[:size], DTYPES[tensor["datatype"]]).reshape(
                tensor["shape"]
            )
            rest = rest[size:]
        parameters = head.get("parameters", {})
        timeout = parameters.pop("timeout", None)
        names = [output["name"] for output in head["outputs"]]
        try:
            self.stand_in.check_key(self.headers, "diar-api-key")
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
        status = 403 if "is restricted" in err.message else HTTP_STATUS[err.status]
        self._send(status, json.dumps({"error": err.message}).encode())

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
