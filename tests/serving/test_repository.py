from difflib import unified_diff

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from diar.supervise.repository import read_models
from diar.tensors import BLOCK_OUTPUTS, RECORDING_OUTPUTS

MODELS = ["diar_nn_g0", "diarize", "diarize_events", "diarize_file", "diarize_stream"]


def config(repository, model, file="config.pbtxt"):
    return text_format.Parse((repository / model / file).read_text(), pb.ModelConfig())


@pytest.mark.parametrize("model", MODELS)
def test_cpu_configuration_differs_in_the_kind_of_instance_only(repository, model):
    gpu, cpu = config(repository, model), config(repository, model, "configs/cpu.pbtxt")
    changed = [
        line
        for line in unified_diff(str(gpu).splitlines(), str(cpu).splitlines(), n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    moved = ["-  gpus: 0", "-  kind: KIND_GPU", "+  kind: KIND_CPU"]
    assert sorted(changed) == sorted(moved if model == "diar_nn_g0" else [])


@pytest.mark.parametrize("model", MODELS)
def test_model_takes_no_batches_and_is_named_as_its_folder(repository, model):
    assert (config(repository, model).name, config(repository, model).max_batch_size) == (model, 0)


def test_shapes_are_those_of_the_profile(repository, profile):
    geometry, dim = profile.geometry, profile.embedding.dim
    vectors = [-1, geometry.local_speakers, dim]
    shapes = {output.name: list(output.dims) for output in config(repository, "diar_nn_g0").output}
    assert shapes == {
        "LOGITS": [-1, geometry.frames, geometry.num_classes],
        "EMBEDDINGS": vectors,
        "SPEECH": vectors[:2],
        "PURE_EMBEDDINGS": vectors,
        "LANES": [2],
    }
    assert tuple(shapes) == BLOCK_OUTPUTS
    recording = {output.name: list(output.dims) for output in config(repository, "diarize").output}
    assert recording == {"RESULT": [1], "RTTM": [1], "EMBEDDINGS": [-1, dim]}
    assert tuple(recording) == RECORDING_OUTPUTS


def test_only_models_with_several_instances_have_a_queue_policy(repository):
    for model in MODELS:
        served = config(repository, model)
        count = sum(group.count for group in served.instance_group)
        assert served.HasField("dynamic_batching") == (count >= 2), model


def test_rttm_is_the_last_output_of_a_file(repository):
    outputs = [output.name for output in config(repository, "diarize_file").output]
    assert sorted(outputs) == sorted(RECORDING_OUTPUTS)
    assert outputs[-1] == "RTTM"
    assert len(config(repository, "diarize_file").input) == 1  # so that a file can be a whole body


def test_the_limit_of_streams_comes_before_triton_lets_them_wait(repository):
    streams = config(repository, "diarize_stream")
    limit = int(streams.parameters["max_streams"].string_value)
    assert streams.sequence_batching.oldest.max_candidate_sequences >= 8 * limit
    idle_us = streams.sequence_batching.max_sequence_idle_microseconds
    assert int(streams.parameters["idle_s"].string_value) * 1_000_000 > idle_us


def test_memory_at_the_start_holds_the_blocks_in_flight(repository, profile):
    geometry, dim = profile.geometry, profile.embedding.dim
    windows = geometry.windows_per_block
    vectors = windows * geometry.local_speakers * dim * 4
    logits = windows * geometry.frames * geometry.num_classes * 4
    block = geometry.span_samples() * 4 + logits + 2 * vectors + windows * geometry.local_speakers * 4
    models = {model.name: model for model in read_models(repository)}
    nets, recordings = models["diar_nn_g0"], models["diarize"]
    assert block == pytest.approx(3.3e6, rel=0.01)  # as the comments say
    assert nets.number("shm_default_bytes") > block
    assert recordings.number("shm_default_bytes") > 2 * block * int(recordings.parameters["blocks_in_flight"])
