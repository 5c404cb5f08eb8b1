"""Fail-over, without a server: a block goes to another diar_nn, or waits until one is back."""

import asyncio
import time

import numpy as np
import pytest
from scripted import scripted_nets

from diar.board import Board
from diar.errors import InternalError, NetsUnavailable, Overloaded
from diar.serving.breaker import Breaker
from diar.serving.metrics import Metrics
from diar.serving.nets import CallLimits, Nets

SPAN = np.zeros(160_000, np.float32)
UNHEALTHY = "Stub process 'diar_nn_g0_0_0' is not healthy."


@pytest.fixture
def board(tmp_path):
    return Board.create(tmp_path / "board", log_json=False)


class Callees:
    """diar_nn_g0 … of which those named in ``broken`` answer with an error."""

    def __init__(self, profile, triton, count):
        self.broken, self.calls, self.names = {}, [], [f"diar_nn_g{index}" for index in range(count)]
        for name in self.names:
            triton._callees[name] = scripted_nets(profile, lambda name=name: self._before(name))

    def _before(self, name):
        self.calls.append(name)
        if name in self.broken:
            raise RuntimeError(self.broken[name])


@pytest.fixture
def two(profile, triton):
    return Callees(profile, triton, 2)


def run(nets, home=0, **limits):
    return asyncio.run(nets.slots(CallLimits(**limits))[home](SPAN))


def test_block_goes_to_another_one_and_nothing_more_to_the_first(two, board):
    two.broken["diar_nn_g0"] = UNHEALTHY
    nets = Nets(two.names, 2, "i", Breaker(board), Metrics())
    for _ in range(3):
        assert run(nets).lanes == ("scripted", "scripted")
    assert two.calls == ["diar_nn_g0", "diar_nn_g1", "diar_nn_g1", "diar_nn_g1"]
    assert UNHEALTHY in board.trouble("diar_nn_g0")


def test_other_instances_see_it_through_the_board(two, board):
    board.report("diar_nn_g0", "a stub is dead")
    run(Nets(two.names, 2, "i", Breaker(board), Metrics()))
    assert two.calls == ["diar_nn_g1"]


def test_healed_one_is_used_again(two, board):
    board.report("diar_nn_g0", "a stub is dead")
    board.settle("diar_nn_g0")
    run(Nets(two.names, 2, "i", Breaker(board), Metrics()))
    assert two.calls == ["diar_nn_g0"]


def test_with_no_other_one_it_waits_for_the_reload(profile, triton, board):
    one = Callees(profile, triton, 1)
    one.broken["diar_nn_g0"] = UNHEALTHY

    async def heal():
        await asyncio.sleep(0.3)
        one.broken.clear()
        board.settle("diar_nn_g0")

    async def both():
        nets = Nets(one.names, 2, "i", Breaker(board), Metrics())
        result, _ = await asyncio.gather(nets.slots(CallLimits())[0](SPAN), heal())
        return result

    assert asyncio.run(both()).lanes == ("scripted", "scripted")
    assert one.calls == ["diar_nn_g0", "diar_nn_g0"]


@pytest.mark.parametrize(
    "watched", [pytest.param(True, id="given-up"), pytest.param(False, id="nobody-heals")]
)
def test_without_hope_it_does_not_wait(profile, triton, board, watched):
    one = Callees(profile, triton, 1)
    one.broken["diar_nn_g0"] = UNHEALTHY
    if watched:
        board.give_up("diar_nn_g0", "no weights")
    nets = Nets(one.names, 2, "i", Breaker(board if watched else None), Metrics())
    with pytest.raises(NetsUnavailable, match=r"E_NETS_UNAVAILABLE\|diar_nn_g0 cannot take"):
        run(nets)


def test_waiting_ends_with_the_callers_time(profile, triton, board):
    one = Callees(profile, triton, 1)
    board.report("diar_nn_g0", "a stub is dead")
    end = time.monotonic() + 0.3
    with pytest.raises(NetsUnavailable):
        run(Nets(one.names, 2, "i", Breaker(board), Metrics()), left_s=lambda: end - time.monotonic())
    assert one.calls == []


def test_block_without_an_answer_in_time_goes_to_another_one(two, board, triton):
    async def never(request):
        await asyncio.sleep(60)

    triton._callees["diar_nn_g0"] = never
    run(Nets(two.names, 2, "i", Breaker(board), Metrics()), block_s=0.2)
    assert two.calls == ["diar_nn_g1"]
    assert "no answer to a block" in board.trouble("diar_nn_g0")


def test_block_that_is_lost_everywhere_is_given_up(two, board):
    two.broken = dict.fromkeys(two.names, UNHEALTHY)

    async def healing():
        nets = Nets(two.names, 2, "i", Breaker(board), Metrics())
        block = asyncio.ensure_future(nets.slots(CallLimits())[0](SPAN))
        while not block.done():
            for name in two.names:
                board.settle(name)
            await asyncio.sleep(0.01)
        return await block

    with pytest.raises(InternalError, match="E_INTERNAL_BLOCK"):
        asyncio.run(healing())
    assert len(two.calls) == 3


def test_no_more_blocks_than_allowed_are_on_their_way_to_the_one_that_is_left(two, board, triton):
    board.report("diar_nn_g0", "a stub is dead")
    scripted, in_flight, most = triton._callees["diar_nn_g1"], 0, 0

    async def counted(request):
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0.01)
        in_flight -= 1
        return await scripted(request)

    triton._callees["diar_nn_g1"] = counted

    async def everything():
        slots = Nets(two.names, 2, "i", Breaker(board), Metrics()).slots(CallLimits())
        await asyncio.gather(*(slot(SPAN) for slot in slots))

    asyncio.run(everything())
    assert most == 2


def test_shared_memory_that_is_used_up_is_overload_and_no_fault_of_the_networks(two, board):
    two.broken["diar_nn_g0"] = "Failed to increase the shared memory pool size for key 'diar_1_x' to 9 bytes"
    with pytest.raises(Overloaded, match="E_OVERLOADED_MEMORY"):
        run(Nets(two.names, 2, "i", Breaker(board), Metrics()))
    assert board.trouble("diar_nn_g0") is None


def test_gpu_that_is_out_of_memory_is_a_fault_of_the_networks(two, board):
    two.broken["diar_nn_g0"] = "E_NETS_MEMORY|the GPU's memory is used up"
    run(Nets(two.names, 2, "i", Breaker(board), Metrics()))
    assert two.calls == ["diar_nn_g0", "diar_nn_g1"]
    assert "memory is used up" in board.trouble("diar_nn_g0")
