import pytest
from scripted import initialize_arguments

from diar.errors import SetupError
from diar.serving.settings import Instance, NetsSettings, RecordingSettings


@pytest.fixture
def nets(parameters):
    return dict(parameters["diar_nn_g0"])


def read(tmp_path, parameters, kind=NetsSettings):
    return Instance.from_arguments(initialize_arguments("m", tmp_path, parameters)).settings(kind)


def test_committed_parameters_are_read(tmp_path, parameters):
    nets = read(tmp_path, parameters["diar_nn_g0"])
    assert (nets.profile, nets.threads, nets.segmentation_lane) == ("pyannote_campplus", 0, "auto")
    recordings = read(tmp_path, parameters["diarize"], RecordingSettings)
    assert (recordings.nn_model_names, recordings.blocks_in_flight) == (["diar_nn_g0"], 2)


def test_unknown_parameter_is_refused_by_name(tmp_path, nets):
    with pytest.raises(SetupError, match=r"unknown field `colour`; known: profile, engines_dir"):
        read(tmp_path, {**nets, "colour": "red"})


def test_missing_parameter_is_refused_by_name(tmp_path, nets):
    del nets["engines_dir"]
    with pytest.raises(SetupError, match="missing required field `engines_dir`"):
        read(tmp_path, nets)


def test_bad_number_is_refused_by_name(tmp_path, nets):
    with pytest.raises(SetupError, match=r"Expected `int`, got `str` - at `\$.threads`"):
        read(tmp_path, {**nets, "threads": "many"})


@pytest.mark.parametrize(("kind", "device"), [("CPU", "cpu"), ("GPU", "cuda:0")])
def test_device_comes_from_the_instance(tmp_path, nets, kind, device):
    instance = Instance.from_arguments(initialize_arguments("m", tmp_path, nets, kind))
    assert (instance.device, instance.repository) == (device, tmp_path)
