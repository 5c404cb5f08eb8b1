"""scripts/serve from start to end: what it prints, what it refuses, what it leaves behind."""

import http.client
import signal
import socket
from time import sleep

import psutil
import pytest


def test_addresses_are_printed_when_it_is_ready(server):
    http, grpc, metrics, health = server.ports
    assert server.announced == [
        f"http     http://127.0.0.1:{http}",
        f"grpc     127.0.0.1:{grpc}",
        f"metrics  http://127.0.0.1:{metrics}/metrics",
        f"health   http://127.0.0.1:{health}/ready",
    ]


def post(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, body=b"{}")
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/v2/repository/models/diarize/unload", id="unload"),
        pytest.param("/v2/repository/models/diarize/load", id="load"),
        pytest.param("/v2/repository/index", id="index"),
        pytest.param("/v2/systemsharedmemory/region/x/register", id="register-memory"),
        pytest.param("/v2/trace/setting", id="trace"),
        pytest.param("/v2/logging", id="logging"),
    ],
)
def test_what_changes_the_server_is_refused_without_the_admin_key(server, path):
    assert post(server.ports[0], path) == 403


def test_only_the_asked_for_address_is_bound(server):
    bound = {
        connection.laddr
        for process in [
            psutil.Process(server.process.pid),
            *psutil.Process(server.process.pid).children(recursive=True),
        ]
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    addresses = {(address.ip.removeprefix("::ffff:"), address.port) for address in bound}
    assert addresses == {("127.0.0.1", port) for port in server.ports}


def test_ctrl_c_ends_it_with_exit_code_0_and_nothing_left(serve):
    served = serve()
    processes = psutil.Process(served.process.pid).children(recursive=True)
    assert len(processes) >= 4  # tritonserver and at least three stubs
    assert served.regions()
    assert served.stop(signal.SIGINT) == 0
    assert [process for process in processes if process.is_running()] == []
    assert served.regions() == []
    assert "error" not in served.log.read_text().splitlines()[-1]


def test_signal_while_it_loads_ends_it_too(spawn):
    served = spawn()
    while "loading: diar_nn_g0" not in served.log.read_text():
        assert served.process.poll() is None, served.log.read_text()
        sleep(0.05)
    assert served.stop() == 0, served.log.read_text()[-2000:]
    assert served.process.stdout.read() == ""  # it was never announced
    assert served.regions() == []


def test_port_in_use_is_one_clear_line(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused("--grpc-port", port)
    reason = f"cannot listen on 127.0.0.1 port {port}: Address already in use"
    assert line == f"error: {reason}; choose another with --grpc-port"
