"""What a server asks of those who want to use it: a key, and a certificate to know it by."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from diar.errors import SetupError

KEY_NAME = "diar-api-key"
GRPC_KEY_NAME = f"triton-grpc-protocol-{KEY_NAME}"  # Triton looks for a restricted protocol's key under this


@dataclass(frozen=True)
class Access:
    """api_key: sent with every request. ca: PEM file of the authorities that vouch for the server.

    Without ca, those that the system trusts (with gRPC: those that come with it). certificate: PEM file of
    the caller's own certificate and private key, for servers that want one. Raises SetupError for a key that
    cannot be sent, or a file that cannot be read.
    """

    api_key: str | None = field(default=None, repr=False)
    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check all of them."""
        if self.api_key is not None and not (
            self.api_key and self.api_key.isascii() and self.api_key.isprintable() and " " not in self.api_key
        ):
            raise SetupError("E_SETUP_KEY", "the API key: expected printable ASCII characters without blanks")
        if self.needs_tls:
            self.ssl_context()

    @property
    def needs_tls(self) -> bool:
        """Whether it makes sense over an encrypted connection only."""
        return self.ca is not None or self.certificate is not None

    def http_headers(self) -> dict[str, str]:
        """Headers of every HTTP request."""
        return {} if self.api_key is None else {KEY_NAME: self.api_key}

    def grpc_metadata(self) -> dict[str, str]:
        """Metadata of every gRPC call."""
        return {} if self.api_key is None else {GRPC_KEY_NAME: self.api_key}

    def ssl_context(self) -> ssl.SSLContext:
        """For HTTPS."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as err:
            raise SetupError("E_SETUP_CA", f"{self.ca}: no PEM file of certificates: {err}") from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate)
            except OSError as err:
                text = f"{self.certificate}: no PEM file of a certificate and its key: {err}"
                raise SetupError("E_SETUP_CERTIFICATE", text) from None
        return context


def read_key_file(path: str) -> str:
    """The API key that a file holds, blanks around it left out; SetupError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise SetupError("E_SETUP_KEY", f"{path}: cannot read the API key: {err}") from None
