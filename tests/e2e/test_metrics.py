"""The figures: what the dashboard plots exists, and says what happened."""

import json
import re
from pathlib import Path
from time import sleep

import pytest
from health import figures, get, meeting
from live import start_and_wait
from scripted_repository import scripted_repository
from tritonclient.utils import InferenceServerException

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docker" / "grafana" / "dashboards" / "diar.json"


@pytest.fixture(scope="module")
def served(weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    repository = scripted_repository(
        folder, replicas=2, only=("diarize", "diarize_events", "diarize_file", "diarize_stream")
    )
    arguments = ["--model-repository", repository, "--log-json", "--probe-interval", 0.3]
    served = start_and_wait(arguments, folder / "log")
    yield served
    assert served.stop() == 0
    served.process.stdout.close()


@pytest.fixture(scope="module")
def used(served, connect):
    """The server after one good recording and one bad one."""
    wire = connect("grpc", served)
    wire.diarize(meeting(2))
    with pytest.raises(InferenceServerException):
        wire.diarize(meeting(0))
    return served


def test_every_metric_of_the_dashboard_exists(used):
    asked = set(re.findall(r"\b((?:diar|nv)_[a-z0-9_]+)", DASHBOARD.read_text()))
    known = {re.split(r"[{ ]", name)[0] for port in (used.ports[2], used.ports[3]) for name in figures(port)}
    assert len(asked) > 10
    assert asked - known == set()


def test_dashboard_is_one_that_grafana_can_read():
    dashboard = json.loads(DASHBOARD.read_text())
    assert all(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_figures_say_what_happened(used):
    seen = figures(used.ports[2])
    assert seen['diar_recordings_total{model="diarize",outcome="ok"}'] == 1
    assert seen['diar_recordings_total{model="diarize",outcome="E_AUDIO_EMPTY"}'] == 1
    assert seen['diar_audio_seconds_total{model="diarize"}'] == 120
    assert seen['diar_stage_seconds_count{model="diarize",stage="blocks"}'] == 1
    assert seen['diar_speakers_count{model="diarize"}'] == 1
    assert seen['diar_lane{lane="scripted",model="diar_nn_g0",network="segmentation"}'] == 1
    blocks = [value for name, value in seen.items() if name.startswith("diar_blocks_total")]
    assert sum(blocks) >= 4
    own = figures(used.ports[3])
    assert own["diar_ready"] == 1
    assert own["diar_shared_memory_bytes"] > 0
    assert own['diar_heals_total{model="diar_nn_g0"}'] == 0


def test_probes_are_not_counted_as_recordings(used):
    sleep(1.5)  # several probes
    counted = {name for name in figures(used.ports[2]) if name.startswith("diar_recordings_total")}
    assert counted == {
        'diar_recordings_total{model="diarize",outcome="ok"}',
        'diar_recordings_total{model="diarize",outcome="E_AUDIO_EMPTY"}',
    }


def test_log_has_one_json_line_for_each_recording(used):
    lines = re.findall(r"recording (\{.*\})", used.log.read_text())
    documents = [json.loads(line.encode().decode("unicode_escape").rstrip('"')) for line in lines]
    assert [document["outcome"] for document in documents] == ["ok", "E_AUDIO_EMPTY"]
    assert documents[0]["audio_s"] == 120.0


@pytest.mark.parametrize(
    ("path", "status"), [("/ready", 200), ("/live", 200), ("/metrics", 200), ("/", 404), ("/../etc", 404)]
)
def test_pages_of_the_health_port(used, path, status):
    assert get(used.ports[3], path)[0] == status
