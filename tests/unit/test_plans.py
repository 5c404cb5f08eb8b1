"""The manifest of plans, and each value in which a plan can disagree with what runs."""

import json

import msgspec
import pytest

from diar.artifacts import file_sha256
from diar.errors import SetupError
from diar.plans import MANIFEST, Host, Plan, Shapes, enter_plan, find_plan, onnx_of_precision, read_manifest

L4 = Host("NVIDIA L4", "sm89")
SHAPES = Shapes((1, 8), (4, 8), (4, 8))
VERSIONS = {"tensorrt": "10.5.0", "tensorrt_rtx": "1.7.1.116"}


@pytest.fixture
def add(tmp_path):
    """Write a plan and its ONNX file into tmp_path, and enter it; keywords change the entry."""

    def add_plan(precision="fp16", flavour="tensorrt", **changes):
        onnx = onnx_of_precision(tmp_path / "net.onnx", precision)
        file = tmp_path / f"net.{precision}.{flavour}.plan"
        onnx.write_text(precision)
        file.write_text(precision + flavour)
        plan = Plan(
            file=file.name,
            sha256=file_sha256(file),
            onnx=onnx.name,
            onnx_sha256=file_sha256(onnx),
            network="net",
            profile="P",
            precision=precision,
            flavour=flavour,
            version=VERSIONS[flavour],
            capability="sm89",
            gpu=L4.gpu if flavour == "tensorrt" else "",
            shapes=SHAPES,
            built="2026-11-29T21:00:00Z",
            build_s=1.5,
        )
        enter_plan(tmp_path, msgspec.structs.replace(plan, **changes))

    return add_plan


def find(folder, *, host=L4, shapes=SHAPES, precision=None, versions=VERSIONS):
    return find_plan(folder, folder / "net.onnx", shapes, "P", precision, host, versions.get).file


def refusal(folder, **how):
    with pytest.raises(SetupError) as caught:
        find(folder, **how)
    return str(caught.value)


def test_fp16_is_preferred_and_the_full_tensorrt_before_rtx(tmp_path, add):
    add("fp32", "tensorrt")
    assert find(tmp_path) == "net.fp32.tensorrt.plan"
    add("fp16", "tensorrt_rtx")
    assert find(tmp_path) == "net.fp16.tensorrt_rtx.plan"
    add("fp16", "tensorrt")
    assert find(tmp_path) == "net.fp16.tensorrt.plan"
    assert find(tmp_path, precision="fp32") == "net.fp32.tensorrt.plan"
    assert find(tmp_path, versions={"tensorrt_rtx": "1.7.1.116"}) == "net.fp16.tensorrt_rtx.plan"


def test_an_rtx_plan_serves_every_gpu_of_its_capability(tmp_path, add):
    add("fp16", "tensorrt_rtx")
    assert find(tmp_path, host=Host("NVIDIA GeForce RTX 4090", "sm89")) == "net.fp16.tensorrt_rtx.plan"


COMMAND = "rebuild it with scripts/build_engines --profile P --gpu local --flavour tensorrt --precision fp16"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        pytest.param(
            {"host": Host("NVIDIA A10", "sm86")},
            "E_PLAN_GPU|plan net.fp16.tensorrt.plan is for sm89, this GPU is sm86 (NVIDIA A10)",
            id="another-capability",
        ),
        pytest.param(
            {"host": Host("NVIDIA L40S", "sm89")},
            "E_PLAN_GPU|plan net.fp16.tensorrt.plan is for the model 'NVIDIA L4', this GPU is 'NVIDIA L40S'",
            id="another-model",
        ),
        pytest.param(
            {"versions": {"tensorrt": "10.7.0"}},
            "E_PLAN_VERSION|plan net.fp16.tensorrt.plan was built with tensorrt 10.5.0,"
            " here is tensorrt 10.7.0",
            id="another-build",
        ),
        pytest.param(
            {"versions": {}},
            "E_PLAN_VERSION|plan net.fp16.tensorrt.plan was built with tensorrt 10.5.0, here is no tensorrt",
            id="not-installed",
        ),
        pytest.param(
            {"shapes": Shapes((1, 8), (9, 8), (9, 8))},
            "E_PLAN_SHAPES|plan net.fp16.tensorrt.plan takes inputs of [1, 8] to [4, 8], profile P needs"
            " [1, 8] to [9, 8]",
            id="larger-blocks",
        ),
        pytest.param(
            {"shapes": Shapes((1, 8, 80), (4, 8, 80), (4, 8, 80))},
            "E_PLAN_SHAPES|plan net.fp16.tensorrt.plan takes inputs of [1, 8] to [4, 8], profile P needs"
            " [1, 8, 80] to [4, 8, 80]",
            id="another-front-end",
        ),
    ],
)
def test_a_disagreement_names_both_sides_and_the_command(tmp_path, add, how, expected):
    add()
    assert refusal(tmp_path, **how) == f"{expected}; {COMMAND}"


@pytest.mark.parametrize(
    ("name", "word"), [("net.fp16.onnx", "E_PLAN_ONNX"), ("net.fp16.tensorrt.plan", "E_PLAN_FILE")]
)
def test_an_altered_or_missing_file_is_named_with_both_hashes(tmp_path, add, name, word):
    add()
    before = file_sha256(tmp_path / name)
    (tmp_path / name).write_bytes(b"altered")
    after = file_sha256(tmp_path / name)
    plan = "plan net.fp16.tensorrt.plan"
    text = f"{word}|{plan} needs {name} with sha256 {before}, found {after}; {COMMAND}"
    assert refusal(tmp_path) == text
    (tmp_path / name).unlink()
    missing = f"{word}|{plan} needs {name}, which cannot be read (No such file or directory); {COMMAND}"
    assert refusal(tmp_path) == missing


def test_the_plan_that_comes_nearest_is_named(tmp_path, add):
    add("fp16", "tensorrt_rtx", capability="sm80")
    add("fp32", "tensorrt", version="10.6.0")
    assert refusal(tmp_path).startswith("E_PLAN_VERSION|plan net.fp32.tensorrt.plan was built with")


def test_without_a_plan_the_command_that_builds_one_is_named(tmp_path, add):
    expected = (
        "E_PLAN_MISSING|no {} plan of net in {}; build it with scripts/build_engines --profile P --gpu local"
    )
    assert refusal(tmp_path) == expected.format("fp16 or fp32", tmp_path / MANIFEST)
    add("fp16")
    text = expected.format("fp32", tmp_path / MANIFEST) + " --precision fp32"
    assert refusal(tmp_path, precision="fp32") == text


def test_entries_are_replaced_by_file_and_stand_in_order(tmp_path, add):
    add("fp32")
    add("fp16")
    add("fp32", build_s=9.0)
    assert [(plan.precision, plan.build_s) for plan in read_manifest(tmp_path)] == [
        ("fp16", 1.5),
        ("fp32", 9.0),
    ]
    document = json.loads((tmp_path / MANIFEST).read_text())
    assert document["schema"] == 1
    assert document["plans"][0]["shapes"] == {"least": [1, 8], "best": [4, 8], "most": [4, 8]}


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"plans": [], "schema": 2}', '{"schema": 1, "plans": [{"file": "x"}]}'],
    ids=["empty", "cut", "later-schema", "fields-missing"],
)
def test_a_manifest_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    assert refusal(tmp_path).startswith(f"E_PLAN_MANIFEST|cannot read {tmp_path / MANIFEST}: ")
