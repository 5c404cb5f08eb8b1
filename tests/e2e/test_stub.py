"""The fake that the fast tests use promises nothing that the real stub does not have."""

import inspect
import json
from pathlib import Path

import triton_python_backend_utils as fake

NAMES = Path(__file__).parent / "repositories" / "names"


def own_names(module):
    """Public classes and functions defined in the fake, with the public names inside each class."""
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__:
            inside = vars(value) if inspect.isclass(value) else ()
            yield name, [each for each in inside if not each.startswith("_")]


def test_every_name_of_the_fake_exists_on_the_real_stub(serve, connect):
    served = serve("--model-repository", NAMES)
    answer = connect("grpc", served).infer({}, outputs=["NAMES"], model="names_of_the_stub")
    real = json.loads(answer["NAMES"][0])
    promised = dict(own_names(fake))
    assert {"Tensor", "InferenceRequest", "Logger", "get_input_tensor_by_name"} <= promised.keys()
    missing = [
        f"{name}.{each}" for name, inside in promised.items() for each in inside if each not in real[name]
    ]
    assert missing == []
