"""What must hold on a GPU: the checks of scripts/gpu_check, each one a test."""

import pytest

from diar.tools.gpu_check import ALL_CHECKS
from diar.tools.gpu_checks import CheckSkipped


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.__name__)
def test_gpu(bench, check, record_property):
    try:
        figures = check(bench)
    except CheckSkipped as err:
        pytest.skip(str(err))
    for name, value in figures.items():
        record_property(name, value)
