import numpy as np
import pytest
import triton_python_backend_utils as pb_utils
from scripted import ScriptedRunner, initialize_arguments

from diar.errors import InvalidAudio, SetupError
from diar.pipeline import BlockResult
from diar.serving.nn_model import TritonPythonModel
from diar.tensors import BLOCK_OUTPUTS, EMBEDDINGS, LANES, LOGITS, PURE_OUTPUTS, SPAN

WINDOW, HOP = 160_000, 16_000


class MoodyRunner(ScriptedRunner):
    """Refuses spans that begin with 0.6, breaks down at 0.5, answers NaN at 0.4, a wrong shape at 0.3."""

    def run(self, span, embeddings=True, spans=True):
        mood = round(float(span[0]), 1)
        if mood == 0.6:
            raise InvalidAudio("E_SPAN_LENGTH", "got 1 samples, expected more")
        if mood == 0.5:
            raise RuntimeError("a secret path: /etc/networks")
        result = super().run(span, embeddings, spans)
        if mood == 0.4:
            result.logits[0, 0, 0] = np.nan
        if mood == 0.3:
            return BlockResult(
                result.logits[:, 1:], result.embeddings, result.speech, result.pure_embeddings, result.lanes
            )
        return result


@pytest.fixture
def runner(profile):
    return MoodyRunner(profile)


@pytest.fixture
def model(runner, repository, parameters):
    model = TritonPythonModel(lambda *_: runner)
    model.initialize(initialize_arguments("diar_nn_g0", repository, parameters["diar_nn_g0"]))
    return model


def block_request(mood=0.1, num_samples=WINDOW, outputs=BLOCK_OUTPUTS):
    span = np.full(num_samples, mood, np.float32)
    return pb_utils.InferenceRequest(
        model_name="diar_nn_g0", requested_output_names=outputs, inputs=[pb_utils.Tensor(SPAN, span)]
    )


def error_of(response):
    return response.error().code(), response.error().message()


def test_block_answers_every_output_in_its_shape(model):
    (response,) = model.execute([block_request(num_samples=WINDOW + 2 * HOP)])
    shapes = {tensor.name(): tensor.as_numpy().shape for tensor in response.output_tensors()}
    assert shapes == {
        "LOGITS": (3, 589, 7),
        "EMBEDDINGS": (3, 3, 192),
        "SPEECH": (3, 3),
        "PURE_EMBEDDINGS": (3, 3, 192),
        "LANES": (2,),
    }
    lanes = pb_utils.get_output_tensor_by_name(response, LANES).as_numpy()
    assert list(lanes) == [b"scripted", b"scripted"]


def test_bad_crashing_and_good_request_get_three_answers(model, triton):
    bad, crashing, good = model.execute([block_request(0.6), block_request(0.5), block_request(0.1)])
    assert error_of(bad) == (
        pb_utils.TritonError.INVALID_ARG,
        "E_SPAN_LENGTH|got 1 samples, expected more",
    )
    assert error_of(crashing) == (
        pb_utils.TritonError.INTERNAL,
        "E_INTERNAL|internal error; see the server log",
    )
    assert not good.has_error()
    ((level, line),) = triton.Logger._lines
    assert level == "error"
    assert "secret path" in line


@pytest.mark.parametrize(
    ("mood", "logged"),
    [
        pytest.param(0.4, "NaN", id="not-finite"),
        pytest.param(0.3, "got float32 (1, 588, 7)", id="wrong-shape"),
    ],
)
def test_output_that_is_not_as_it_must_be_is_an_internal_error(model, triton, mood, logged):
    (response,) = model.execute([block_request(mood)])
    assert error_of(response)[1] == "E_INTERNAL|internal error; see the server log"
    assert logged in triton.Logger._lines[0][1]


def test_cancelled_request_is_answered_unrun(model, runner):
    request = block_request()
    request._cancel()
    (response,) = model.execute([request])
    assert error_of(response)[0] == pb_utils.TritonError.CANCELLED
    assert error_of(response)[1].startswith("E_CANCELLED|")
    assert runner.calls == []


@pytest.mark.parametrize(
    ("outputs", "embeddings", "spans"),
    [
        pytest.param([LOGITS], False, False, id="logits-alone"),
        pytest.param([LOGITS, LANES], False, False, id="logits-and-lanes"),
        pytest.param([EMBEDDINGS], True, True, id="embeddings-alone"),
        pytest.param(PURE_OUTPUTS, True, False, id="none-of-the-span"),
        pytest.param(BLOCK_OUTPUTS, True, True, id="everything"),
    ],
)
def test_only_what_is_asked_for_is_computed_and_sent(model, runner, outputs, embeddings, spans):
    (response,) = model.execute([block_request(outputs=outputs)])
    assert {tensor.name() for tensor in response.output_tensors()} == set(outputs)
    assert runner.calls == [(WINDOW, embeddings, spans)]


def test_finalize_closes_the_runner(model, runner):
    model.finalize()
    assert runner.closed


class OutOfMemoryError(RuntimeError):
    """As torch's."""


@pytest.mark.parametrize(
    ("failures", "word"), [pytest.param(1, None, id="once"), pytest.param(2, "E_NETS_MEMORY|", id="twice")]
)
def test_out_of_gpu_memory_is_tried_once_more_and_then_nets_unavailable(
    model, runner, triton, monkeypatch, failures, word
):
    run, left = runner.run, [OutOfMemoryError("CUDA out of memory")] * failures

    def fail_first(span, embeddings=True, spans=True):
        if left:
            raise left.pop()
        return run(span, embeddings)

    monkeypatch.setattr(runner, "run", fail_first)
    (response,) = model.execute([block_request()])
    if word is None:
        assert not response.has_error()
    else:
        assert error_of(response)[0] == pb_utils.TritonError.UNAVAILABLE
        assert error_of(response)[1].startswith(word)
    assert [level for level, line in triton.Logger._lines if "out of GPU memory" in line] == ["warn"]


def test_broken_gpu_is_nets_unavailable(model, runner, monkeypatch):
    def fail(span, embeddings=True, spans=True):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(runner, "run", fail)
    (response,) = model.execute([block_request()])
    assert error_of(response)[1] == "E_NETS_DEVICE|CUDA error: an illegal memory access was encountered"


def test_block_whose_deadline_has_passed_is_answered_unrun(model, runner):
    late, early = block_request(), block_request()
    late._parameters = '{"deadline_unix_ms": 1}'
    early._parameters = '{"deadline_unix_ms": 99999999999999}'
    first, second = model.execute([late, early])
    assert error_of(first)[1].startswith("E_CANCELLED_DEADLINE|")
    assert not second.has_error()
    assert len(runner.calls) == 1


def test_blocks_are_counted_by_outcome(model, triton):
    model.execute([block_request(0.6), block_request(), block_request()])
    counts = {
        labels: metric.value()
        for (name, labels), metric in triton.MetricFamily._all.items()
        if name == "diar_blocks_total"
    }
    assert counts == {
        (("model", "diar_nn_g0"), ("outcome", "ok")): 2,
        (("model", "diar_nn_g0"), ("outcome", "E_SPAN_LENGTH")): 1,
    }


def test_a_gpu_that_is_not_there_is_a_load_error_of_one_line(runner, repository, parameters):
    torch = pytest.importorskip("torch")
    arguments = initialize_arguments("diar_nn_g7", repository, parameters["diar_nn_g0"], kind="GPU")
    arguments["model_instance_device_id"] = "7"
    if torch.cuda.device_count() > 7:
        pytest.skip("this machine has that GPU")
    with pytest.raises(SetupError, match=r"^E_DEVICE\|GPU 7: .*; \d+ GPUs here$"):
        TritonPythonModel(lambda *_: runner).initialize(arguments)
