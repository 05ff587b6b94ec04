"""Every example of the seeds and of the format, with nothing standing in for a kind of steps: on a real engine with SQLite, and, where it waits for long, in
virtual time. Each comes to the result that it states."""

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from perdure import ExecutionCancelled, ExecutionFailed
from perdure.fake_llm import Fake, serving
from perdure.testing import World
from tests.definitions.graph.semantics.table import ANYTHING, LONGEST_S, OVER, Broken, Skip, befall, check
from tests.definitions.kinds.agents.scripted_model import ModelScript
from tests.seeds.cases import ExampleCase
from tests.seeds.real import NAMES, REALS, Real, answering, asking_aside, deployment, ended, expected, made, pages, placed, put_on_path, vendor
from tests.seeds.test_runs import CASES, NAMED

LONG_S = 60
"""What takes longer, in its own time, is run in virtual time."""


def is_long(case: ExampleCase) -> bool:
    """Whether a case waits for a time that nobody has: for its own, between tries, or while a tool is at work; or says things of single steps of a tool."""
    fails = any(isinstance(one, Broken) for answers in case.answers.values() for one in answers)
    waits = case.takes and case.failed is not None
    goes_round = len(case.answers.get("HEALTH_CHECK", ())) > 1
    of_steps = case.answers.keys() & {"initial", "checked"} or "/~" in " ".join(case.answers)
    return bool(
        fails or of_steps or waits or case.tries or goes_round or ((case.took or 0) >= LONG_S and not any(isinstance(event, Skip) for event in case.script))
    )


def named(case: ExampleCase) -> str:
    """What a case is called."""
    return f"{case.definition}: {case.claim}"


SHORT = [case for case in CASES if not is_long(case)]
LONG = [case for case in CASES if is_long(case)]
FIRST = {case.definition: case for case in reversed(SHORT)}
ASKED = [case for case in SHORT if REALS.get((case.definition, case.claim), Real()).answers]


class ExampleServices(NamedTuple):
    """What is around the examples: a provider of models, and a server."""

    fake: Fake
    models: str
    address: str


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with pages() as it:
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(address: str) -> AsyncIterator[ExampleServices]:
    fake = Fake([])
    async with serving(fake) as url:
        yield ExampleServices(fake, url, address)


async def comes_to_what_it_states(case: ExampleCase, place: ExampleServices, work: Path, provider: str = "openai") -> None:
    """Run a case on a real engine."""
    real = REALS.get((case.definition, case.claim), Real())
    wanted = expected(case, real)
    it = made(placed(NAMED[case.definition], place.address), wanted, deployment(work, vendor(place.models, provider), place.address))
    assert it.lacks() == []
    put_on_path(work, it.code.name, real.programs)
    async with answering(place.fake, real.answers):
        failing = wanted.failed if wanted.failed is not None else wanted.cancelled
        if failing is not None:
            with pytest.raises(ExecutionCancelled if wanted.failed is None else ExecutionFailed) as failed:
                await ended(it, wanted, f"sqlite:///{work}/it.db")
            assert failing in str(failed.value)
        else:
            result = await ended(it, wanted, f"sqlite:///{work}/it.db")
            assert wanted.result is ANYTHING or result == wanted.result


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", FIRST.values(), ids=named)
async def test_an_example_comes_to_what_it_states_with_all_that_is_real(case: ExampleCase, place: ExampleServices, tmp_path: Path) -> None:
    await comes_to_what_it_states(case, place, tmp_path)


@pytest.mark.prove
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", [case for case in SHORT if case is not FIRST[case.definition]], ids=named)
async def test_so_it_does_in_each_of_its_cases(case: ExampleCase, place: ExampleServices, tmp_path: Path) -> None:
    await comes_to_what_it_states(case, place, tmp_path)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", [case for case in ASKED if case.definition in ("003_inline", "004_agent_branch")][:2], ids=named)
async def test_models_of_another_vendor_answer_as_well(case: ExampleCase, place: ExampleServices, tmp_path: Path) -> None:
    await comes_to_what_it_states(case, place, tmp_path, "anthropic")


@pytest.mark.prove
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", ASKED, ids=named)
async def test_models_of_another_vendor_answer_in_each_case(case: ExampleCase, place: ExampleServices, tmp_path: Path) -> None:
    await comes_to_what_it_states(case, place, tmp_path, "anthropic")


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG, ids=named)
def test_what_waits_for_long_does_so_in_virtual_time(world: World, case: ExampleCase, address: str, tmp_path: Path) -> None:
    real = REALS.get((case.definition, case.claim), Real())
    wanted, script = expected(case, real), ModelScript(*real.answers)
    for where in dict.fromkeys((*wanted.answers, *wanted.takes)):
        answer = {"answers": wanted.answers[where]} if where in wanted.answers else {"calls": wanted.does.get(where, lambda **given: given)}
        world.mock(where, takes=wanted.takes.get(where, 0), **answer)
    here = deployment(tmp_path, dict.fromkeys(NAMES, script), address)
    with asking_aside(real.answers, tmp_path) if case.definition == "003_inline" else nullcontext() as llm:
        it = made(placed(NAMED[case.definition], address), wanted, here, {"llm": llm} if llm else None)
        put_on_path(tmp_path, it.code.name, real.programs)
        run = world.start(it, dict(wanted.input))
        for event in wanted.script:
            befall(world, run, event)
        world.pass_until("wait", f"the end of {case.claim}", lambda: run.status in OVER, LONGEST_S, run._stuck)
    check(world, wanted, run)


def test_every_example_is_run_and_every_case_that_is_named_is_there() -> None:
    assert FIRST.keys() | {case.definition for case in LONG} == NAMED.keys()
    assert REALS.keys() <= {(case.definition, case.claim) for case in CASES}
