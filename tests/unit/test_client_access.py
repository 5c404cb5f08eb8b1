"""API key and TLS."""

import ssl
from dataclasses import replace

import numpy as np
import pytest
import trustme
from diar_client import DiarizationClient, Patience, ServerRefused, ServerUnreachable
from diar_client.access import Access, read_key_file
from scripted_server import scripted_server

from diar.errors import SetupError

SECOND = np.zeros(16_000, np.int16)
IMPATIENT = Patience(retries=0)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def ca(authority, tmp_path):
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
def server(profile):
    return replace(scripted_server(profile), api_key="s3cret")


@pytest.fixture(params=["grpcs", "https"])
def secure_url(request, server, authority):
    server.api_key = None
    certificate = authority.issue_cert("127.0.0.1")
    if request.param == "grpcs":
        key, chain = certificate.private_key_pem.bytes(), certificate.cert_chain_pems[0].bytes()
        url, stop = server.serve_grpc((key, chain))
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        url, stop = server.serve_http(context)
    yield url
    stop()


@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_key_lets_in(url, mode):
    with DiarizationClient(url, api_key="s3cret", patience=IMPATIENT) as client:
        assert client.diarize(SECOND, mode=mode).num_samples == 16_000


@pytest.mark.parametrize("key", [None, "other"])
@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_no_key_or_another_one_is_refused_at_once(url, key, mode):
    with DiarizationClient(url, api_key=key) as client, pytest.raises(ServerRefused) as failure:
        client.diarize(SECOND, mode=mode)
    assert failure.value.word == "E_SERVER_KEY"
    assert "s3cret" not in str(failure.value)
    assert "other" not in str(failure.value)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_key_that_cannot_be_sent_is_refused(key):
    with pytest.raises(SetupError, match="E_SETUP_KEY"):
        DiarizationClient(api_key=key)


def test_key_is_not_printed():
    assert "s3cret" not in repr(Access("s3cret"))


def test_key_file_is_read_without_the_line_s_end(tmp_path):
    (tmp_path / "key").write_text("s3cret\n")
    assert read_key_file(str(tmp_path / "key")) == "s3cret"
    with pytest.raises(SetupError, match="no: cannot read the API key"):
        read_key_file(str(tmp_path / "no"))


def test_server_that_the_authority_vouches_for_is_trusted(secure_url, ca):
    with DiarizationClient(secure_url, ca=ca, patience=IMPATIENT) as client:
        assert client.diarize(SECOND).num_samples == 16_000


def test_other_certificate_is_not_trusted(secure_url):
    with DiarizationClient(secure_url) as client, pytest.raises(ServerRefused, match="E_SERVER_CERTIFICATE"):
        client.diarize(SECOND)


@pytest.mark.parametrize("protocol", ["grpcs", "https"])
def test_server_that_wants_a_certificate_gets_one(server, authority, ca, tmp_path, protocol):
    server.api_key = None
    own = authority.issue_cert("127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    if protocol == "grpcs":
        key, chain = own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes()
        url, stop = server.serve_grpc((key, chain), authority.cert_pem.bytes())
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        url, stop = server.serve_http(context)
    with DiarizationClient(url, ca=ca, certificate=tmp_path / "own.pem", patience=IMPATIENT) as client:
        assert client.diarize(SECOND).num_samples == 16_000
    with DiarizationClient(url, ca=ca, patience=IMPATIENT) as client, pytest.raises(ServerUnreachable):
        client.diarize(SECOND)
    stop()


def test_ca_without_encryption_is_refused(ca):
    with pytest.raises(SetupError, match="not encrypted"):
        DiarizationClient("grpc://127.0.0.1", ca=ca)


def test_file_without_certificates_is_refused(tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(SetupError, match="E_SETUP_CA"):
        DiarizationClient("grpcs://127.0.0.1", ca=tmp_path / "ca.pem")
    with pytest.raises(SetupError, match="E_SETUP_CERTIFICATE"):
        DiarizationClient("grpcs://127.0.0.1", certificate=tmp_path / "ca.pem")
