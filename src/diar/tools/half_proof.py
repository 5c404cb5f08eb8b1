"""Proof, on a CPU, that an FP16 graph is the same network as the FP32 graph it was made from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import numpy_helper

from diar.errors import SetupError
from diar.plans import Shapes
from diar.tools.half_precision import HALF, LARGEST_HALF

_TOLERANCE = 0.03  # of the largest output; the default networks stay below 0.01
_UNROUNDED = ".unrounded"


def prove_half(half: onnx.ModelProto, full: onnx.ModelProto, shapes: Shapes) -> float:
    """Largest difference of the two, as a share of the largest output.

    On noise as a waveform or an fbank would have it, of the least shape and of one four times as large.

    Raises SetupError: E_BUILD_PRECISION when the difference is over 3 % or a value does not fit into FP16,
    E_ONNX if ONNX Runtime cannot run the network.
    """
    rounded = emulate(half)
    worst = 0.0
    for factor in (1, 4):
        shape = tuple(min(factor * low, high) for low, high in zip(shapes.least, shapes.most, strict=True))
        loudness = 0.1 if len(shape) == 2 else 3.0
        noise = loudness * np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        expected, actual = _run(full, noise), _run(rounded, noise)
        for name, values in actual.items():
            if name.endswith(_UNROUNDED) and not float(np.abs(values).max()) <= LARGEST_HALF:  # or NaN
                tensor = name.removesuffix(HALF + _UNROUNDED)
                raise SetupError("E_BUILD_PRECISION", f"FP16 overflows in {tensor}; use fp32")
        output = full.graph.output[0].name
        scale = np.abs(expected[output]).max()
        difference = float(np.abs(actual[output] - expected[output]).max() / scale)
        if not difference <= _TOLERANCE:
            what = f"FP16 differs from FP32 by {difference:.1%} of the largest output at {list(shape)}"
            raise SetupError("E_BUILD_PRECISION", f"{what}, expected at most {_TOLERANCE:.0%}; use fp32")
        worst = max(worst, difference)
    return worst


def emulate(half: onnx.ModelProto) -> onnx.ModelProto:
    """``half`` in FP32, with every FP16 tensor rounded by a pair of casts; unrounded they are outputs too.

    That is what a GPU computes: factors of 16 bits, sums in FP32, results of 16 bits. ONNX Runtime itself has
    hardly a kernel in FP16 on CPUs and leaves out the roundings between them.
    """
    model = onnx.ModelProto()
    model.CopyFrom(half)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT16:
            tensor.CopyFrom(
                numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)
            )
    nodes = []
    for node in graph.node:
        target = node.output[0]
        if node.op_type == "Cast" and node.name == target and target + HALF == node.input[0]:
            nodes.append(onnx.helper.make_node("Identity", node.input, node.output))
        elif not target.endswith(HALF):
            nodes.append(node)
        else:
            source = target + _UNROUNDED
            is_cast = node.op_type == "Cast"
            nodes.append(onnx.helper.make_node("Identity", node.input, [source]) if is_cast else node)
            node.output[0] = source
            nodes += _rounding(source, target)
            graph.output.append(onnx.helper.make_tensor_value_info(source, onnx.TensorProto.FLOAT, None))
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _rounding(source: str, target: str) -> list[onnx.NodeProto]:
    low = f"{target}.low"
    return [
        onnx.helper.make_node("Cast", [source], [low], to=onnx.TensorProto.FLOAT16),
        onnx.helper.make_node("Cast", [low], [target], to=onnx.TensorProto.FLOAT),
    ]


def _run(model: onnx.ModelProto, inputs: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    names = [output.name for output in model.graph.output]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString())
        outputs = session.run(names, {model.graph.input[0].name: inputs})
    except Exception as err:  # its own classes derive from Exception alone
        reason = str(err).partition("\n")[0]
        raise SetupError("E_ONNX", f"ONNX Runtime cannot run the network: {reason}") from err
    return dict(zip(names, outputs, strict=True))
