"""Run while the image is built: TensorRT's Python side and its library must be of one version."""

import ctypes
import importlib
import sys


def release(number: int) -> str:
    """Version that the number of ``getInferLibVersion`` stands for (NvInferVersion.h of TensorRT 10).

    >>> release(100500)
    '10.5.0'
    """
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def main() -> int:
    """Compare them; returns the exit status."""
    try:
        library = release(ctypes.CDLL("libnvinfer.so.10").getInferLibVersion())
        module = importlib.import_module("tensorrt").__version__
    except (ImportError, OSError) as err:
        print(f"error: TensorRT does not import: {err}", file=sys.stderr)
        return 1
    if module != library:
        what = f"import tensorrt gives {module}, the image's libnvinfer is {library}"
        print(f"error: {what}; build with --build-arg TENSORRT={library}", file=sys.stderr)
        return 1
    print(f"TensorRT {library}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
