"""What the supervisor says to tritonserver, over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass

from diar.supervise.launch import ADMIN_HEADER, API_HEADER, Addresses

_LENGTH_HEADER = "Inference-Header-Content-Length"


class ControlError(Exception):
    """tritonserver refused, and says why."""


class NoAnswer(Exception):
    """tritonserver did not answer in time, or not at all."""


@dataclass(frozen=True)
class Request:
    """An inference request. content: what follows the JSON document as raw tensors."""

    path: str
    document: Mapping[str, object]
    content: bytes | None = None


@dataclass(frozen=True)
class Control:
    """Talks to one server. api_key: None where inference needs none."""

    addresses: Addresses
    admin_key: str
    api_key: str | None = None

    def load(self, model: str, timeout_s: float) -> None:
        """Load a model; ControlError says why it cannot be."""
        self._post(f"/v2/repository/models/{model}/load", b"{}", {ADMIN_HEADER: self.admin_key}, timeout_s)

    def unload(self, model: str, timeout_s: float) -> None:
        """Take a model out of service; requests it is at work on go on."""
        self._post(f"/v2/repository/models/{model}/unload", b"{}", {ADMIN_HEADER: self.admin_key}, timeout_s)

    def infer(self, request: Request, timeout_s: float) -> None:
        """Run a request and drop the answer; ControlError is the server's own."""
        document = json.dumps(request.document).encode()
        headers = {} if self.api_key is None else {API_HEADER: self.api_key}
        if request.content is not None:
            headers[_LENGTH_HEADER] = str(len(document))
        self._post(request.path, document + (request.content or b""), headers, timeout_s)

    def is_live(self, timeout_s: float) -> bool:
        """Whether the server answers at all."""
        try:
            return self._ask("GET", "/v2/health/live", b"", {}, timeout_s)[0] == 200
        except NoAnswer:
            return False

    def _post(self, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> None:
        status, text = self._ask("POST", path, body, headers, timeout_s)
        if status != 200:
            raise ControlError(error_text(text))

    def _ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes]:
        at = self.addresses
        connection = http.client.HTTPConnection(at.reachable_host, at.http, timeout=timeout_s)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as err:
            raise NoAnswer(f"{type(err).__name__}: {err}") from None
        finally:
            connection.close()


def error_text(body: bytes) -> str:
    r"""What an error answer says, on one line, without the traceback that Triton appends.

    >>> error_text(b'{"error": "failed to load: SetupError: E_X|no file\\n\\nAt:\\n  /a.py(3)"}')
    'failed to load: SetupError: E_X|no file'
    """
    try:
        text = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return " ".join(text.split("\n\nAt:")[0].split())[:500]
