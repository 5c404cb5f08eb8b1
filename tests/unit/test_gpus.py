"""The table of GPUs, and what the options of build_engines mean on a machine with and without one."""

import pytest

from diar.errors import SetupError
from diar.gpus import find_gpu, known_gpus
from diar.plans import Host
from diar.tools.engine_target import Target, choose_target

L4 = Host("NVIDIA L4", "sm89")
UNLISTED = Host("NVIDIA GeForce RTX 4060", "sm89")


def test_models_are_unique_and_found_by_each_of_their_names():
    models = [model for gpu in known_gpus().values() for model in gpu.models]
    assert len(models) == len(set(models))
    for short, gpu in known_gpus().items():
        assert all(find_gpu(name) == gpu for name in (short, short.lower(), *gpu.models))


def test_an_unknown_gpu_is_refused_with_those_that_are_known():
    with pytest.raises(
        SetupError, match=r"E_GPU\|unknown GPU 'K80'; expected local, T4, .*, H100, .* such as sm89"
    ):
        find_gpu("K80")


@pytest.mark.parametrize(
    ("options", "local", "expected"),
    [
        pytest.param(
            ("local", None, None), L4, Target("sm89", "NVIDIA L4", "tensorrt", "fp16"), id="as-recommended"
        ),
        pytest.param(
            ("local", "tensorrt_rtx", "fp32"), L4, Target("sm89", "", "tensorrt_rtx", "fp32"), id="as-wished"
        ),
        pytest.param(("L4", None, None), L4, Target("sm89", "NVIDIA L4", "tensorrt", "fp16"), id="by-name"),
        pytest.param(
            ("sm89", "tensorrt", None),
            L4,
            Target("sm89", "NVIDIA L4", "tensorrt", "fp16"),
            id="by-capability",
        ),
        pytest.param(
            ("local", None, None),
            UNLISTED,
            Target("sm89", UNLISTED.gpu, "tensorrt", "fp16"),
            id="a-model-the-table-lacks",
        ),
        pytest.param(
            ("sm89", "tensorrt_rtx", None),
            None,
            Target("sm89", "", "tensorrt_rtx", "fp16"),
            id="without-a-gpu",
        ),
        pytest.param(
            ("rtx5090", None, None), L4, Target("sm120", "", "tensorrt_rtx", "fp16"), id="for-another"
        ),
    ],
)
def test_options_mean_a_target(options, local, expected):
    assert choose_target(*options, local) == expected


@pytest.mark.parametrize(
    ("name", "local", "expected"),
    [
        ("local", None, "no GPU on this machine; name one, as in --gpu sm89"),
        (
            "A10",
            L4,
            "the GPU of this machine only: asked for A10, here is NVIDIA L4 (sm89); --flavour tensorrt_rtx",
        ),
        ("L40S", L4, "the GPU of this machine only: asked for L40S, here is NVIDIA L4 (sm89); --flavour"),
        (
            "A10",
            None,
            "the GPU of this machine only: asked for A10, here is none; --flavour tensorrt_rtx builds on",
        ),
    ],
)
def test_tensorrt_is_built_on_its_own_gpu_only(name, local, expected):
    with pytest.raises(SetupError) as caught:
        choose_target(name, "tensorrt", None, local)
    assert caught.value.word == "E_GPU"
    assert expected in caught.value.text
