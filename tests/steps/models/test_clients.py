"""Clients: what an event loop asks models with is its own, and leaves nothing behind."""

import asyncio
import gc
import os
from pathlib import Path

import pytest

from perdure.fake_llm import serving_aside
from perdure.steps.models.asking import ask
from tests.steps.models.provider import NAMES, deployment, said


async def test_a_request_that_is_cancelled_leaves_nothing_and_the_next_one_is_answered() -> None:
    with serving_aside([{"when": {"contains": "slow"}, "answer": "late", "delay": "1h"}, {"answer": "soon", "repeat": True}]) as url:
        where = deployment(url)
        assert (await ask(said("Hi"), where)).text == "soon"
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(said("slow"), where)
        assert asyncio.all_tasks() == before
        assert (await ask(said("Hi"), where)).text == "soon"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors where Linux shows them")
def test_the_connections_of_a_loop_are_closed_as_it_ends() -> None:
    async def once(url: str) -> None:
        for model in NAMES:
            assert (await ask(said("Hi", model), deployment(url))).text == "Hello"

    def times(count: int) -> int:
        with serving_aside([{"answer": "Hello", "repeat": True}]) as url:
            for _ in range(count):
                asyncio.run(once(url))
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names alone, of what may be gone by then

    gc.disable()  # so that nothing else closes what was left open
    try:
        before = times(1)
        assert times(3) <= before
    finally:
        gc.enable()
