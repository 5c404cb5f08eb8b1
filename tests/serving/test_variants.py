"""Varied copies of the committed repository: nothing but what follows from the variant differs."""

import re

import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2 as pb

from diar.errors import SetupError
from diar.profile import load_profile
from diar.supervise.repository import read_models
from diar.tools import add_gpus
from diar.variants import (
    Variant,
    differences,
    engines_folder,
    nets_memory,
    recording_memory,
    variant_files,
    write_repository,
)

CONFIGS = ("config.pbtxt", "configs/cpu.pbtxt")
# What may differ in any model, and in the diar_nn models alone.
MAY_DIFFER = {
    *("parameters.profile", "parameters.nn_models", "parameters.engines_dir"),
    *("parameters.shm_default_bytes", "parameters.shm_growth_bytes"),
}
NETS_MAY_DIFFER = {"name", "parameters.threads", "instance_group.gpus", "instance_group.kind", "output.dims"}


@pytest.fixture
def make(repository, tmp_path):
    """Write a variant; gives its folder."""

    def make_variant(**how):
        variant = Variant(**how)
        out = tmp_path / variant.folder
        assert write_repository(variant_files(repository, variant, out), out)
        return out

    return make_variant


def config(file):
    return text_format.Parse(file.read_text(), pb.ModelConfig())


def leaves(value, path=""):
    """(dotted path, value) of everything in a configuration; of lists without their positions."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and path != "output.dims" and not path.endswith("gpus"):
        for inner in value:
            yield from leaves(inner, path)
    else:
        yield path.removesuffix(".stringValue"), str(value)


def changed(one, two):
    """Dotted paths of what differs between two configurations."""
    before, after = (
        set(leaves(json_format.MessageToDict(each, preserving_proto_field_name=True))) for each in (one, two)
    )
    return {path.removesuffix(".string_value") for path, _ in before ^ after}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"models": 2},
        {"models": 8},
        {"profile": "span16"},
        {"models": 3, "replicas": True},
        {"models": 2, "replicas": True, "profile": "span16"},
    ],
    ids=str,
)
def test_only_what_follows_from_the_variant_differs(make, repository, how):
    out = make(**how)
    for model in out.iterdir():
        nets = model.name.startswith("diar_nn_g")
        origin = repository / ("diar_nn_g0" if nets else model.name)
        assert (model / "1" / "model.py").read_bytes() == (origin / "1" / "model.py").read_bytes()
        for name in CONFIGS:
            allowed = MAY_DIFFER | (NETS_MAY_DIFFER if nets else set())
            assert changed(config(origin / name), config(model / name)) <= allowed, (model.name, name)
    names = {model.name for model in read_models(repository)}
    more = {f"diar_nn_g{index}" for index in range(how.get("models", 1))}
    assert {model.name for model in read_models(out)} == names | more


def test_one_gpu_of_the_default_profile_is_the_committed_repository(make, repository):
    out = make()
    for model in read_models(repository):
        for name in CONFIGS:
            difference = changed(config(repository / model.name / name), config(out / model.name / name))
            assert difference <= {"parameters.engines_dir"}, (model.name, name)


def test_each_gpu_has_a_model_that_all_callers_know(make):
    out = make(models=3)
    for index in range(3):
        (group,) = config(out / f"diar_nn_g{index}" / "config.pbtxt").instance_group
        assert (group.kind, list(group.gpus)) == (pb.ModelInstanceGroup.KIND_GPU, [index])
        (group,) = config(out / f"diar_nn_g{index}" / "configs" / "cpu.pbtxt").instance_group
        assert (group.kind, list(group.gpus)) == (pb.ModelInstanceGroup.KIND_CPU, [])
    callers = [model for model in read_models(out) if "nn_models" in model.parameters]
    assert {model.name for model in callers} >= {"diarize"}
    assert {model.parameters["nn_models"] for model in callers} == {"diar_nn_g0,diar_nn_g1,diar_nn_g2"}


def test_replicas_share_the_cores_and_want_no_gpu(make, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(5)))
    out = make(models=2, replicas=True)
    for index in range(2):
        for name in CONFIGS:
            served = config(out / f"diar_nn_g{index}" / name)
            (group,) = served.instance_group
            assert (group.kind, list(group.gpus)) == (pb.ModelInstanceGroup.KIND_CPU, [])
            assert served.parameters["threads"].string_value == "2"


def test_shapes_and_sizes_are_those_of_the_profile(make):
    served = config(make(profile="span16") / "diar_nn_g0" / "config.pbtxt")
    dims = {output.name: list(output.dims) for output in served.output}
    assert dims["LOGITS"] == [-1, 799, 16]
    assert dims["EMBEDDINGS"] == dims["PURE_EMBEDDINGS"] == [-1, 4, 192]
    assert dims["SPEECH"] == [-1, 4]
    assert served.parameters["profile"].string_value == "span16"
    assert served.parameters["shm_default_bytes"].string_value == str(3 << 20)  # 2.2 MB a block


def test_committed_sizes_are_the_derived_ones(repository, profile):
    sizes = {model.name: model.number("shm_default_bytes") for model in read_models(repository)}
    assert sizes["diar_nn_g0"] == nets_memory(profile) == 4 << 20
    assert sizes["diarize"] == recording_memory(profile, 1) == 16 << 20
    assert recording_memory(profile, 4) == 64 << 20


def test_networks_are_found_from_anywhere(make, repository, tmp_path):
    assert engines_folder(make()) == engines_folder(repository) == repository.parent / "engines" / "build"


def test_a_profile_of_a_file_is_served_by_its_path(make, repository, tmp_path):
    text = (repository.parent / "engines" / "profiles" / "span16.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('name = "span16"', 'name = "mine"'))
    out = make(profile=str(file))
    assert out.name == "mine_gpus1"
    named = {model.parameters["profile"] for model in read_models(out) if "profile" in model.parameters}
    assert named == {str(file)}
    assert load_profile(*named).name == "mine"


def test_a_second_run_changes_nothing_and_another_one_everything_it_must(make, repository):
    out = make(models=3)
    files = variant_files(repository, Variant(3), out)
    inode = out.stat().st_ino
    assert not write_repository(files, out)
    assert out.stat().st_ino == inode
    (out / "diarize" / "1" / "__pycache__").mkdir()  # as the stub leaves it
    (out / "diarize" / "1" / "__pycache__" / "model.pyc").write_bytes(b"")
    assert differences(files, out) == []
    fewer = variant_files(repository, Variant(2), out)
    lines = differences(fewer, out)
    assert f"{out / 'diar_nn_g2' / 'config.pbtxt'}: not of this variant" in lines
    assert f"{out / 'diarize' / 'config.pbtxt'}: differs" in lines
    assert write_repository(fewer, out)
    assert not (out / "diar_nn_g2").exists()
    assert not list(out.parent.glob(".*"))


def test_nothing_else_is_ever_overwritten(repository, tmp_path):
    files = variant_files(repository, Variant(2), repository)
    with pytest.raises(SetupError, match=r"E_FILES\|.* was not written by add_gpus"):
        write_repository(files, repository)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SetupError, match=r"E_FILES\|.*notes.txt was not written by add_gpus"):
        write_repository(files, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_disk_that_is_full_is_one_line(repository, tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    with pytest.raises(SetupError, match=r"E_FILES\|cannot write .*out"):
        write_repository(variant_files(repository, Variant(2), out), out)


def run(repository, capsys, *arguments):
    status = add_gpus.main(["--model-repository", str(repository), *map(str, arguments)])
    printed = capsys.readouterr()
    return status, (printed.out + printed.err).splitlines()


def test_the_command_writes_checks_and_explains(repository, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(repository, capsys, 2, "--out", out, "--check")[0] == 1
    assert not out.exists()
    assert run(repository, capsys, 2, "--out", out) == (0, [f"{out}: written"])
    assert run(repository, capsys, 2, "--out", out) == (0, [f"{out}: already there"])
    assert run(repository, capsys, 2, "--out", out, "--check") == (0, [f"{out}: as it should be"])
    status, lines = run(repository, capsys, "--replicas", 2, "--out", out, "--check")
    assert status == 1
    assert all(re.search(r": (differs|missing|not of this variant)$", line) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0"], "got '0' GPUs, expected a number or auto"),
        (["two"], "got 'two' GPUs, expected a number or auto"),
        (["--replicas", "0"], "got 0 replicas, expected at least 1"),
        (["--profile", "nobody"], "unknown profile 'nobody'; known: "),
    ],
)
def test_nonsense_is_one_line(repository, capsys, arguments, message):
    status, (line,) = run(repository, capsys, *arguments)
    assert (status, line.startswith(f"error: {message}")) == (1, True)


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put a command nvidia-smi, which prints a text, in front of PATH; None: there is none at all."""

    def install(text):
        file = tmp_path / "bin" / "nvidia-smi"
        file.parent.mkdir()
        if text is not None:
            file.write_text(f"#!/bin/sh\necho '{text}'\n")
            file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{file.parent}:/bin" if text is not None else str(file.parent))

    return install


def test_auto_counts_the_gpus(nvidia_smi):
    nvidia_smi("GPU 0: NVIDIA L4 (UUID: GPU-1)\nGPU 1: NVIDIA L4 (UUID: GPU-2)\n  MIG 1g.5gb")
    assert add_gpus.make_variant("auto", None, None) == Variant(2)


@pytest.mark.parametrize("text", [None, "No devices were found"])
def test_auto_without_a_gpu_is_one_line(nvidia_smi, text):
    nvidia_smi(text)
    with pytest.raises(SetupError, match=r"E_GPU\|.*nvidia-smi"):
        add_gpus.make_variant("auto", None, None)


def test_without_options_the_committed_repository_is_served(repository):
    assert add_gpus.prepare_repository(repository, None, None, None) == repository


def test_more_streams_change_their_model_alone(make, repository):
    out = make(streams=200)
    assert out.name == "default_gpus1_streams200"
    for file in CONFIGS:
        streams = config(out / "diarize_stream" / file)
        assert streams.parameters["max_streams"].string_value == "200"
        assert streams.sequence_batching.oldest.max_candidate_sequences == 1600
        committed = config(repository / "diarize_stream" / file)
        assert changed(committed, streams) - MAY_DIFFER == {
            "parameters.max_streams",
            "sequence_batching.oldest.max_candidate_sequences",
        }
        assert changed(config(repository / "diarize" / file), config(out / "diarize" / file)) <= MAY_DIFFER


def test_fewer_streams_leave_room_for_sequences(make):
    oldest = config(make(streams=2) / "diarize_stream" / CONFIGS[0]).sequence_batching.oldest
    assert oldest.max_candidate_sequences == 1024


def test_no_streams_are_none(repository):
    with pytest.raises(SetupError, match="got 0 streams, expected at least 1"):
        add_gpus.make_variant(None, None, None, 0)


def test_a_lane_is_of_both_networks_and_changes_nothing_else(make, repository):
    out = make(lane="openvino:bf16")
    assert out.name == "default_gpus1_openvino_bf16"
    for name in ("diar_nn_g0", "diarize"):
        committed, varied = (config(folder / name / CONFIGS[1]) for folder in (repository, out))
        lanes = (
            {"parameters.segmentation_lane", "parameters.embedding_lane"} if name == "diar_nn_g0" else set()
        )
        assert changed(committed, varied) - MAY_DIFFER == lanes
    nets = config(out / "diar_nn_g0" / CONFIGS[1]).parameters
    assert nets["segmentation_lane"].string_value == nets["embedding_lane"].string_value == "openvino:bf16"
