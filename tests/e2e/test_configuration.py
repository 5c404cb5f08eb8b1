"""What the server made of the committed configuration."""

import pytest


def test_networks_run_once_on_the_cpu_without_a_queue_policy(wire):
    config = wire.config("diar_nn_g0")
    (group,) = config["instance_group"]
    assert (group["kind"], group["count"]) == ("KIND_CPU", 1)
    assert "dynamic_batching" not in config
    assert config["parameters"]["engines_dir"]["string_value"] == "../engines/build"


def test_recordings_have_two_instances_and_a_queue_that_refuses(wire):
    config = wire.config("diarize")
    (group,) = config["instance_group"]
    assert (group["kind"], group["count"]) == ("KIND_CPU", 2)
    policy = config["dynamic_batching"]["default_queue_policy"]
    assert policy.get("timeout_action", "REJECT") == "REJECT"  # the first of its enum, left out over gRPC
    assert policy["allow_timeout_override"] is True
    assert policy["max_queue_size"] == 16
    assert int(policy["default_timeout_microseconds"]) == 300_000_000
    assert [each["name"] for each in config["input"] if each["optional"]] == ["AUDIO", "PCM"]


@pytest.mark.parametrize("model", ["diar_nn_g0", "diarize"])
def test_batches_are_not_offered(grpc, model):
    assert grpc.config(model).get("max_batch_size", 0) == 0
