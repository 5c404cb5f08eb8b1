import os
import re
import shutil
import socket
from dataclasses import replace

import pytest

from diar.errors import SetupError
from diar.supervise.binary import find_libpython, find_server
from diar.supervise.launch import Addresses, Launch, server_environment
from diar.supervise.main import main
from diar.supervise.preflight import (
    check_files,
    check_ports,
    check_shared_memory,
    read_api_key,
    shared_memory,
)
from diar.supervise.process import sweep_shared_memory
from diar.supervise.readiness import start_error
from diar.supervise.repository import Model, read_models

MIB = 1 << 20


def installed(folder, stubs=("3.9", "3.10")):
    """Folders as nvidia-pytriton has them, of empty files."""
    server = folder / "pytriton" / "tritonserver"
    for file in [
        "bin/tritonserver",
        *(f"python_backend_stubs/{v}/triton_python_backend_stub" for v in stubs),
    ]:
        (server / file).parent.mkdir(parents=True, exist_ok=True)
        (server / file).touch()
    return folder


def test_embedded_server_without_a_stub_for_this_python_names_those_it_has(tmp_path):
    with pytest.raises(SetupError, match=r"no Triton stub for Python 3.99; .* stubs for Python 3.9, 3.10$"):
        find_server(image=tmp_path / "none", packages=installed(tmp_path), python=(3, 99))


def test_no_server_names_the_package_that_brings_one(tmp_path):
    with pytest.raises(SetupError, match=r"pip install nvidia-pytriton==0.7.0"):
        find_server(image=tmp_path, packages=tmp_path)


def test_image_is_preferred_for_its_own_python_only(tmp_path):
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    (image / "bin" / "tritonserver").touch()
    files = find_server(image=image, packages=tmp_path, python=(3, 10))
    assert files.tritonserver == image / "bin" / "tritonserver"
    assert files.backend_directory(tmp_path) == image / "backends"
    with pytest.raises(SetupError, match=r"runs Python 3.10 only, this is Python 3.11"):
        find_server(image=image, packages=tmp_path, python=(3, 11))


def test_missing_libpython_names_the_apt_package(tmp_path):
    with pytest.raises(SetupError, match=r"no libpython3.11.so.1.0, .*: sudo apt install libpython3.11$"):
        find_libpython((3, 11), (tmp_path,))
    (tmp_path / "libpython3.11.so.1.0").touch()
    assert find_libpython((3, 11), (tmp_path,)) == tmp_path


@pytest.fixture
def launch(repository, tmp_path):
    return Launch(
        files=find_server(),
        backend_directory=tmp_path,
        repository=repository,
        models=read_models(repository),
        config_name="cpu",
        addresses=Addresses("127.0.0.1", 18000, 18001, 18002, 18003),
        exit_timeout_s=30,
        admin_key="secret",
    )


def test_command_passes_on_the_largest_memory_sizes_and_an_own_prefix(launch):
    command = launch.command()
    assert "--backend-config=python,shm-default-byte-size=16777216" in command
    assert "--backend-config=python,shm-growth-byte-size=16777216" in command
    assert "--backend-config=python,shm-region-prefix-name=diar_18000_" in command


def test_command_binds_one_address_and_restricts_what_changes_the_server(launch):
    command = launch.command()
    assert {"--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1"} <= set(
        command
    )
    restricted = "model-repository,shared-memory,trace,logging:admin-key=secret"
    assert f"--http-restricted-api={restricted}" in command
    assert f"--grpc-restricted-protocol={restricted}" in command
    assert "--load-model=diar_nn_g0" in command


def test_environment_puts_this_python_first_and_keeps_the_rest():
    environment = server_environment(find_server(), {"PATH": "/bin", "HOME": "/root"})
    assert environment["PATH"].split(os.pathsep)[-1] == "/bin"
    assert shutil.which("python", path=environment["PATH"]).startswith(
        environment["PATH"].split(os.pathsep)[0]
    )
    assert environment["HOME"] == "/root"


def test_port_in_use_is_named_with_its_option():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"port {port}: Address already in use; .* --grpc-port"):
            check_ports(Addresses("127.0.0.1", 0, port, 0, 0))


def test_needed_memory_grows_with_instances_and_recording_length():
    memory = {"shm_default_bytes": str(4 * MIB), "shm_growth_bytes": str(MIB)}
    nets = Model("diar_nn_g0", 1, memory)
    recordings = Model("diarize", 2, {**memory, "max_recording_s": "60"})
    one_minute = 60 * 16_000 * 2 * 3 // 2 + MIB
    assert shared_memory([nets, recordings], 60) == 3 * 4 * MIB + 2 * one_minute
    assert shared_memory([nets, recordings], 3600) == 3 * 4 * MIB + 2 * one_minute  # no longer one is taken


def test_needed_memory_counts_files_and_pieces_of_streams():
    memory = {"shm_default_bytes": str(MIB), "shm_growth_bytes": str(MIB)}
    files = Model("diarize_file", 2, {**memory, "max_recording_s": "3600", "max_file_bytes": str(8 * MIB)})
    streams = Model("diarize_stream", 1, {**memory, "max_streams": "10", "max_chunk_s": "60"})
    assert shared_memory([files], 3600) == 2 * (MIB + 8 * MIB * 3 // 2 + MIB)
    assert shared_memory([streams], 3600) == MIB + 10 * 60 * 16_000 * 2 * 3 // 2 + MIB


def test_too_little_memory_for_the_longest_recordings_is_a_warning(tmp_path):
    memory = {"shm_default_bytes": "1", "shm_growth_bytes": "1", "max_recording_s": str(10**9)}
    warning = check_shared_memory([Model("diarize", 2, memory)], tmp_path)
    assert re.search(r"MiB free; 28 MiB are needed to start, \d+ MiB for recordings of .* h in all", warning)


@pytest.mark.parametrize("text", ["", "two words", "umlaut \u00e4"])
def test_api_key_that_cannot_be_sent_is_refused(tmp_path, text):
    (tmp_path / "key").write_text(text)
    with pytest.raises(SetupError, match="key"):
        read_api_key(tmp_path / "key")


def test_api_key_restricts_inference_on_both_protocols(launch):
    command = replace(launch, api_key="abc").command()
    assert "--http-restricted-api=inference:diar-api-key=abc" in command
    assert "--grpc-restricted-protocol=inference:diar-api-key=abc" in command


def test_too_little_shared_memory_names_the_size_for_docker(tmp_path):
    exabytes = Model("diarize", 10**9, {"shm_default_bytes": str(1 << 30), "shm_growth_bytes": "1"})
    with pytest.raises(SetupError, match=r"MiB free; .* with Docker: --shm-size=1024000000000m$"):
        check_shared_memory([exabytes], tmp_path)


def nets_at(engines, lane="auto", profile="pyannote_campplus"):
    lanes = {"segmentation_lane": lane, "embedding_lane": lane}
    return [Model("diar_nn_g0", 1, {"profile": profile, "engines_dir": str(engines), **lanes})]


def test_missing_weights_name_the_script_that_fetches_them(tmp_path):
    with pytest.raises(SetupError, match=r"no weights at .*weights/.*\.pt; run scripts/fetch_weights$"):
        check_files(nets_at(tmp_path), tmp_path, cpu=True)


def test_altered_weights_name_the_script_that_fetches_them(tmp_path, profile):
    file = tmp_path / "weights" / profile.segmentation.weights.file
    file.parent.mkdir()
    file.write_bytes(b"not a network")
    with pytest.raises(SetupError, match=r"is not what profile .* names; run scripts/fetch_weights$"):
        check_files(nets_at(tmp_path), tmp_path, cpu=True)


def test_unknown_profile_names_the_known_ones(tmp_path):
    with pytest.raises(SetupError, match=r"unknown profile 'nobody'; known: .*pyannote_campplus"):
        check_files(nets_at(tmp_path, profile="nobody"), tmp_path, cpu=True)


def test_no_repository_is_said_before_anything_starts(tmp_path, capsys):
    assert main(["--model-repository", str(tmp_path)]) == 1
    assert re.fullmatch(r"error: no model repository at .+\n", capsys.readouterr().err)


def test_sweep_removes_regions_of_its_own_prefix_only(tmp_path):
    for name in ("diar_8000_a", "diar_18000_a", "other"):
        (tmp_path / name).touch()
    sweep_shared_memory("diar_8000_", tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["diar_18000_a", "other"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [
                'I1129 21:02:05.1 1 model_lifecycle.cc:472] "loading: diarize:1"',
                'E1129 21:02:05.2 1 server.cc:241] "CudaDriverHelper has not been initialized."',
                "E1129 21:02:05.3 1 model_lifecycle.cc:642] \"failed to load 'diar_nn_g0' version 1: Invalid"
                ' argument: instance group diar_nn_g0_0 specifies invalid or unsupported gpu id 0"',
            ],
            "diar_nn_g0 did not load: instance group diar_nn_g0_0 specifies invalid or unsupported gpu id 0",
            id="triton-says-why",
        ),
        pytest.param(
            [
                'E1129 21:02:05.2 1 server.cc:241] "CudaDriverHelper has not been initialized."',
                "error: failed to start HTTP service: Unavailable - Socket '127.0.0.1:1' already in use",
            ],
            "failed to start HTTP service: Unavailable - Socket '127.0.0.1:1' already in use",
            id="last-words",
        ),
        pytest.param([], "tritonserver or a stub ended before it was ready; see its log", id="nothing-said"),
    ],
)
def test_start_error_is_the_first_line_that_says_why(lines, expected):
    assert start_error(lines) == expected
