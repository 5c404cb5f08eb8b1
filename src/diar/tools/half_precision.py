"""An ONNX graph with its products in FP16 and everything else as it was, every tensor's type spelled out.

A strongly typed TensorRT build takes types from the graph alone, so the graph must say where 16 bits are
enough. Convolutions and products with constant weights are: their factors are rounded once and the sums are
kept in FP32 by the hardware. What follows them and only moves, clips or adds values goes on in FP16, to save
casts. All else stays in FP32: normalisations, softmax, sums over frames (products of two computed tensors:
segment means), recurrences (their state would be rounded at every step), and everything up to the tensor
FULL_PRECISION, since a waveform does not survive 16 bits. So does a product that an instance normalisation
reads: where a recording begins with silence the normalisation magnifies the rounding of all that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from diar.lanes.lane import FULL_PRECISION

_FLOAT, _HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
_PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
_FOLLOWERS = {
    *("Relu", "LeakyRelu", "Abs", "Add", "MaxPool", "Concat", "Identity"),
    *("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather"),
}
_MAGNIFIERS = {"InstanceNormalization", "GroupNormalization"}
HALF = ".half"  # behind the names of FP16 tensors
LARGEST_HALF = float(np.finfo(np.float16).max)  # 65 504


def to_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` with its products in FP16. Inputs and outputs keep their types.

    A product whose constants FP16 cannot hold stays in FP32. The same model gives the same bytes.
    """
    return _Rewriter(model).run()


class _Rewriter:
    """Goes through the nodes in their order; a tensor computed in FP16 is called ``<name>.half``."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        graph = self._model.graph
        inferred = onnx.shape_inference.infer_shapes(model).graph
        values = [*inferred.value_info, *inferred.input, *inferred.output]
        self._floats = {value.name for value in values if value.type.tensor_type.elem_type == _FLOAT}
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._constants[node.output[0]] = node.attribute[0].t
            elif (
                node.op_type == "Identity" and node.input[0] in self._constants
            ):  # equal weights, stored once
                self._constants[node.output[0]] = self._constants[node.input[0]]
        self._floats |= {name for name, tensor in self._constants.items() if tensor.data_type == _FLOAT}
        self._full = ancestors(graph.node, FULL_PRECISION) | _magnified(graph.node)
        self._computed_in_half: set[str] = set()
        self._there: set[str] = set()  # casts and constants that were added already
        self._nodes: list[onnx.NodeProto] = []

    def run(self) -> onnx.ModelProto:
        graph = self._model.graph
        for node in list(graph.node):
            if self._in_half(node):
                self._add_half(node)
            else:
                for name in node.input:
                    self._need_full(name)
                self._nodes.append(node)
        for output in graph.output:
            self._need_full(output.name)
        del graph.node[:]
        graph.node.extend(self._nodes)
        used = {name for node in self._nodes for name in node.input}
        kept = [tensor for tensor in graph.initializer if tensor.name in used]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        del graph.value_info[:]  # what it says about types is no longer true
        onnx.checker.check_model(self._model)
        return self._model

    def _in_half(self, node: onnx.NodeProto) -> bool:
        if self._full & set(node.output):
            return False
        floats = [name for name in node.input if name in self._floats]
        constants = [name for name in floats if name in self._constants]
        computed = [name for name in floats if name not in self._constants]
        if not all(_fits(numpy_helper.to_array(self._constants[name])) for name in constants):
            return False
        if node.op_type in _PRODUCTS:
            return bool(constants) and len(computed) == 1
        is_follower = node.op_type in _FOLLOWERS and len(node.output) == 1
        return is_follower and bool(computed) and set(computed) <= self._computed_in_half

    def _add_half(self, node: onnx.NodeProto) -> None:
        node.input[:] = [self._half(name) if name in self._floats else name for name in node.input]
        self._computed_in_half.add(node.output[0])
        node.output[0] += HALF
        self._nodes.append(node)

    def _half(self, name: str) -> str:
        half = name + HALF
        if name in self._constants:
            if half not in self._there:
                values = numpy_helper.to_array(self._constants[name]).astype(np.float16)
                self._model.graph.initializer.append(numpy_helper.from_array(values, half))
        elif name not in self._computed_in_half and half not in self._there:
            self._nodes.append(onnx.helper.make_node("Cast", [name], [half], name=half, to=_HALF))
        self._there.add(half)
        return half

    def _need_full(self, name: str) -> None:
        if name in self._computed_in_half and name not in self._there:
            self._nodes.append(onnx.helper.make_node("Cast", [name + HALF], [name], name=name, to=_FLOAT))
            self._there.add(name)


def ancestors(nodes: Iterable[onnx.NodeProto], tensor: str) -> set[str]:
    """Names of ``tensor`` and of all tensors that it is computed from; empty if no node gives it."""
    makers = {output: node for node in nodes for output in node.output}
    found: set[str] = set()
    open_names = [tensor] if tensor in makers else []
    while open_names:
        name = open_names.pop()
        if name not in found:
            found.add(name)
            open_names += makers[name].input if name in makers else []
    return found


def _magnified(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Results of products that a normalisation over the recording reads, and of what lies between."""
    makers = {node.output[0]: node for node in nodes}
    found: set[str] = set()
    open_names = [node.input[0] for node in nodes if node.op_type in _MAGNIFIERS]
    while open_names:
        node = makers.get(open_names.pop())
        if node is not None and node.op_type in _PRODUCTS | _FOLLOWERS and node.output[0] not in found:
            found.add(node.output[0])
            open_names += node.input if node.op_type in _FOLLOWERS else []
    return found


def _fits(values: npt.NDArray[np.float32]) -> bool:
    return bool(np.all(np.abs(values) <= LARGEST_HALF))
