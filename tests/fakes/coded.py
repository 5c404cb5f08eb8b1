"""A segmentation network that reads who is active from the recording itself, as an ONNX file.

The lowest four bits of the 16-bit sample at a frame's centre are its powerset class: nobody hears them, and
the embedding network hears the voices.
"""

import re
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from diar.powerset import powerset_classes

CODES = 16


def example_profile():
    """The profile that docs/bring_your_own.md shows, as text."""
    page = Path(__file__).parents[2] / "docs" / "bring_your_own.md"
    (text,) = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return text


def coded_network(geometry, **faults):
    """The network of a waveform profile. faults: see ``_faulty``."""
    first, step = geometry.frame_field // 2, geometry.frame_step
    last = first + step * (geometry.frames - 1)
    constants = {
        "starts": np.array([first]),
        "ends": np.array([last + 1]),
        "axis": np.array([1]),
        "steps": np.array([step]),
        "last": np.array([2]),
        "scale": np.float32(32_768),
        "codes": np.float32(CODES),
        "classes": np.arange(geometry.num_classes, dtype=np.float32),
        "sharpness": np.float32(-8),
    }
    nodes = [
        helper.make_node("Slice", ["waveform", "starts", "ends", "axis", "steps"], ["centres"]),
        helper.make_node("Mul", ["centres", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "scale"], ["integers"]),
        helper.make_node("Div", ["integers", "codes"], ["quotients"]),
        helper.make_node("Floor", ["quotients"], ["floors"]),
        helper.make_node("Mul", ["floors", "codes"], ["multiples"]),
        helper.make_node("Sub", ["integers", "multiples"], ["code"]),
        helper.make_node("Unsqueeze", ["code", "last"], ["column"]),
        helper.make_node("Sub", ["column", "classes"], ["distance"]),
        helper.make_node("Mul", ["distance", "distance"], ["square"]),
        helper.make_node("Mul", ["square", "sharpness"], ["scores"]),
        helper.make_node("LogSoftmax", ["scores"], ["log_probabilities"], axis=2),
    ]
    shapes = {
        "waveform": ["n", geometry.window],
        "log_probabilities": ["n", geometry.frames, geometry.num_classes],
    }
    _faulty(nodes, constants, shapes, **faults)
    source, target = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()
    )
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "coded", [source], [target], values)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("planted", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model


def _faulty(nodes, constants, shapes, *, batch="n", centred=False, scores=False, overflow=False, alien=False):
    """Break a network. batch: its first dimension. centred: scores depend on the batch's mean. scores: no
    softmax. overflow: infinite where the signal is silent. alien: an operator that nobody knows."""
    for shape in shapes.values():
        shape[0] = batch
    if centred:
        constants["first"] = np.array([0])
        nodes.insert(-1, helper.make_node("ReduceMean", ["scores"], ["mean"], axes=[0], keepdims=1))
        nodes.insert(-1, helper.make_node("Sub", ["scores", "mean"], ["centred"]))
        nodes[-1].input[0] = "centred"
    if scores:
        nodes[-1] = helper.make_node("Identity", ["scores"], ["log_probabilities"])
    if overflow:
        nodes.insert(-1, helper.make_node("Log", ["waveform"], ["logarithm"]))
        nodes.insert(-1, helper.make_node("ReduceMin", ["logarithm"], ["least"], keepdims=0))
        nodes.insert(-1, helper.make_node("Sub", ["scores", "least"], ["infinite"]))
        nodes[-1].input[0] = "infinite"
    if alien:
        nodes[-1] = helper.make_node("Whiten", ["scores"], ["log_probabilities"], domain="planted")


def plant_classes(samples, turns, geometry):
    """Write what is active into a recording, in place.

    samples: (samples,) int16. turns: (start, end, speaker) in samples, at most ``max_overlap`` at once; a
    frame is active if its centre lies in the turn.
    """
    sets = powerset_classes(geometry.local_speakers, geometry.max_overlap)
    classes = {members: klass for klass, members in enumerate(sets)}
    for centre in range(geometry.frame_field // 2, len(samples), geometry.frame_step):
        active = sorted({speaker for start, end, speaker in turns if start <= centre < end})
        samples[centre] = (int(samples[centre]) & ~(CODES - 1)) | classes[tuple(active)]


def mix(voices, turns, num_samples):
    """A recording in which each turn is heard in its speaker's voice: (samples,) int16.

    voices: by speaker, (samples,) int16 of that person talking; read on and on.
    """
    recording = np.zeros(num_samples, np.int32)
    read = dict.fromkeys(voices, 0)
    for start, end, speaker in turns:
        voice = voices[speaker]
        recording[start:end] += np.take(voice, range(read[speaker], read[speaker] + end - start), mode="wrap")
        read[speaker] += end - start
    return np.clip(recording, -32_768, 32_767).astype(np.int16)
