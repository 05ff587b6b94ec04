"""Claims about the pytest plugin: what it gives a test, what it checks behind it, and how it kills its process at every write."""

import pytest

import perdure.testing.world  # noqa: F401  # what a run in this process imports is forgotten behind it, and must not be known in part
from perdure.testing.crash_points import CrashPoint, parse_crash_points

pytest_plugins = ["pytester"]

PLUGIN = "perdure.testing.plugin"
"""Named, and not found by its entry point: that an installed one is found is for `tests/test_wheel.py`."""

OPTIONS = ["-p", PLUGIN, "-p", "no:cacheprovider", "--strict-markers"]

SHOP = """
from dataclasses import dataclass
from itertools import count

import pytest

from perdure import Context, Retry, Signal, StepFailed, step, step_info, workflow


@dataclass
class Charge:
    id: str


@dataclass
class Approval:
    approved: bool
    by: str


approved = Signal("approved", Approval)


@step(retry=Retry(max=5, wait="1s", only=(TimeoutError,)))
def charge(order: str, cents: int) -> Charge:
    raise AssertionError("a test must not really charge anybody")


@step
def receipt(paid: Charge) -> str:
    return f"r_{paid.id[-1]}"


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    paid = await ctx.step(charge, order_id, cents)
    answer = await ctx.listen(approved, timeout="2d")
    return await ctx.step(receipt, paid)


YES = Approval(True, "ada")
"""

EXAMPLE = """
    world.mock(charge, answers=[TimeoutError(), Charge("ch_1")])      # fail once, then succeed
    run = world.start(order, "o1", 500)
    world.skip("1s")
    run.send(approved, YES)
    assert run.result() == "r_1" and run.step("charge").attempts == 2
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with a shop in it, where every warning is an error, and no plugin is loaded but what is named."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    return pytester


def checked(project: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """The outcome of a file of tests."""
    project.makepyfile(test_shop=f"from shop import *\n\n{source}")
    return project.runpytest_inprocess(*OPTIONS, *options)


@pytest.mark.slow
def test_a_test_is_given_a_world(project: pytest.Pytester) -> None:
    checked(project, f"def test_order(world):{EXAMPLE}").assert_outcomes(passed=1)


@pytest.mark.slow
def test_each_test_has_a_world_of_its_own(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.parametrize("number", [1, 2])
def test_fresh(world, number):
    world.mock(charge, returns=Charge("c"))
    assert world.runs == [] and world.start(order.with_(id="same"), "o", 1).created
"""
    checked(project, source).assert_outcomes(passed=2)


@pytest.mark.slow
def test_who_does_not_use_it_does_not_pay_for_it(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_nothing="""
import sys

def test_nothing():
    loaded = {name for name in sys.modules if name.startswith("perdure")}
    assert loaded <= {"perdure", "perdure.testing", "perdure.testing.plugin", "perdure.testing.plugin_settings"}, loaded
    assert "msgspec" not in sys.modules
"""
    )
    project.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


@pytest.mark.slow
def test_an_execution_that_can_not_be_replayed_fails_its_test(project: pytest.Pytester) -> None:
    source = """
counter = count()

@workflow
async def fickle(ctx: Context) -> None:
    await ctx.step("even" if next(counter) % 2 == 0 else "odd", receipt, Charge("c"))

def test_checked(world):
    world.run(fickle)

@pytest.mark.perdure(replay=False)
def test_not_checked(world):
    world.run(fickle)
"""
    result = checked(project, source)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*NotReplayed: default/fickle/1* diverges when*: remembered even (call receipt), asked for odd (call receipt)", "*ctx.keep()*"]
    )


@pytest.mark.slow
def test_a_failure_comes_with_the_trace_and_its_seed(project: pytest.Pytester) -> None:
    source = f"@pytest.mark.perdure(seed=7)\ndef test_order(world):{EXAMPLE}    assert run.result() == 'r_2'\n"
    result = checked(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- perdure trace -*",
            "seed 7",
            "default/order/1 is completed*",
            "*0:00:00  charge  * attempt 1 failed: TimeoutError*",
            "*0:00:01  listen:approved  *received 1 message",
        ]
    )


@pytest.mark.slow
def test_a_failure_in_the_workflow_points_to_the_line_of_the_test(project: pytest.Pytester) -> None:
    result = checked(project, "def test_late(world):\n    world.mock(charge, returns=Charge('c'))\n    world.run(order, 'o1', 500)\n")
    result.stdout.fnmatch_lines(
        [">*world.run(order, 'o1', 500)", "E*ExecutionFailed: *listen:approved: timed out after 172800 s", "test_shop.py:5: ExecutionFailed"]
    )


@pytest.mark.slow
def test_a_test_that_passes_shows_nothing(project: pytest.Pytester) -> None:
    result = checked(project, f"def test_order(world):{EXAMPLE}")
    result.stdout.no_fnmatch_line("*perdure trace*")


# killed at every write

EVERY = '@pytest.mark.perdure(crash_at="every")\n'


@pytest.mark.slow
def test_an_idempotent_order_survives_a_crash_at_every_write(project: pytest.Pytester) -> None:
    result = checked(project, f"{EVERY}def test_order(world):{EXAMPLE}", "-rP")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*perdure crashes*", "killed at 12 moments, around 6 durable writes; failed at 0"])


TWICE = """
def test_once(world):
    charged = []

    def bank(order, cents):
        charged.append(order)
        return Charge("c1")

    world.mock(charge, calls=bank)
    run = world.start(order, "o1", 500)
    run.send(approved, YES)
    assert run.result() == "r_1"
    assert charged == ["o1"]
"""


@pytest.mark.slow
def test_a_step_that_is_not_idempotent_is_named_with_the_write_and_how_to_see_it_again(project: pytest.Pytester) -> None:
    result = checked(project, EVERY + TWICE.lstrip())
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*assert charged == *",
            "E*Undisturbed, this test passes. Here the process was killed before write 2 (default/order/1: charge returned {'id': 'c1'}; listen:app*",
            "E*Ran again because of it: step charge of order, 2 times in place of 1.",
            'E*See it again: pytest "test_shop.py::test_once" --perdure-crash-at=before:2',
            "*perdure trace*",
            "*the process was killed before write 2 *",
            "*charge  *attempt 1 was lost with its process",
            "*perdure crashes*",
            "killed at 8 moments, around 4 durable writes; failed at 1",
            "  before:2: *",
            "ran again: step charge of order; its effects are not known*",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("option", "failed"), [("before:2", 1), ("2", 1), ("after:2", 0), ("every", 1)])
def test_one_crash_is_seen_again_by_an_option(project: pytest.Pytester, option: str, failed: int) -> None:
    checked(project, TWICE, f"--perdure-crash-at={option}").assert_outcomes(failed=failed, passed=1 - failed)


@pytest.mark.slow
def test_a_write_that_is_never_made_is_an_error(project: pytest.Pytester) -> None:
    result = checked(project, '@pytest.mark.perdure(crash_at="after:9")\n' + TWICE.lstrip())
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NotReached: the process was to be killed at after write 9, but there were only 4 durable writes*"])


EFFECTS = """
def charging(world, key):
    def bank(order, cents):
        world.effect("charged", key=key())
        return Charge("c1")

    world.mock(charge, calls=bank)
    run = world.start(order, "o1", 500)
    run.send(approved, YES)
    assert run.result() == "r_1"
    assert world.effects.count("charged") >= 1

@pytest.mark.perdure(crash_at="every")
def test_keyed(world):
    charging(world, lambda: step_info().key)

@pytest.mark.perdure(crash_at="every")
def test_without_a_key(world):
    charging(world, lambda: None)

keys = count()

@pytest.mark.perdure(crash_at="every")
def test_a_key_that_changes(world):
    charging(world, lambda: f"k{next(keys)}")
"""


@pytest.mark.slow
def test_effects_tell_whether_a_step_is_idempotent_where_the_test_asserts_nothing_of_it(project: pytest.Pytester) -> None:
    result = checked(project, EFFECTS, "-rP")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*NotIdempotent: not idempotent: step charge of default/order/1 did 'charged' in attempt 1, and again in attempt 2, with no key",
            "*See it again: *test_without_a_key* --perdure-crash-at=before:2",
            "*NotIdempotent: not idempotent: step charge of default/order/1 did 'charged' 2 times in place of 1, *its key is not the same in both",
            "*test_keyed*",
            "ran again: step charge of order; its effects happened once",
        ]
    )


@pytest.mark.slow
def test_a_step_that_is_declared_not_idempotent_must_be_dealt_with(project: pytest.Pytester) -> None:
    source = """
@step(idempotent=False)
def fax(text: str) -> str:
    return text

@workflow
async def faxing(ctx: Context) -> str:
    return await ctx.step(fax, "hello")

@workflow
async def careful(ctx: Context) -> str:
    try:
        return await ctx.step(fax, "hello")
    except StepFailed as failed:
        return failed.kind

@pytest.mark.perdure(crash_at="every")
def test_careless(world):
    world.run(faxing)

@pytest.mark.perdure(crash_at="every")
def test_careful(world):
    assert world.run(careful) in ("hello", "interrupted")
"""
    result = checked(project, source)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Was in flight, and may not run again, as it is not declared idempotent: step fax of default/faxing/1."])


RICH = """
@charge.undo
def refund(done, order, cents):
    pass

@workflow
async def child(ctx: Context, number: int) -> int:
    await ctx.sleep("1h")
    return number * 2

async def pay(ctx: Context) -> str:
    return (await ctx.step(charge, "left", 1)).id

async def wait(ctx: Context) -> int:
    return await ctx.call(child, 4)

@workflow
async def rich(ctx: Context) -> None:
    paid, doubled = await ctx.join(pay, wait)
    async for turn in ctx.loop("turns", state=0):
        await turn.step(receipt, Charge("c"))
        turn.state += 1
        if turn.state == 3:
            break
    raise Rollback(f"{paid} {doubled}")

def test_rich(world):
    refunds = world.mock(refund)
    world.mock(charge, answers=[TimeoutError(), Charge("c1")])
    run = world.start(rich)
    with pytest.raises(ExecutionFailed, match="Rollback: c1 8"):
        run.result()
    assert {call.key for call in refunds.calls} == {"default/rich/1:~undo/join/pay/charge"}
    assert [child.status for child in run.children()] == ["completed"] and run.step("join/pay/charge").attempts == 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--perdure-always-suspend", *(pytest.param(option, marks=pytest.mark.prove) for option in ("--perdure-seed=5", "-q"))])
def test_children_branches_loops_and_undo_survive_a_crash_at_every_write(project: pytest.Pytester, option: str) -> None:
    source = "from perdure import ExecutionFailed, Rollback\n" + RICH
    result = checked(project, source, option, "--perdure-crash-at=every", "-rP")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"killed at \d\d moments, around 1\d durable writes; failed at 0"])


FIXTURES = """
calls = []

@pytest.fixture(scope="module")
def shared():
    calls.append("shared")
    yield
    calls.append("shared is gone")

@pytest.fixture
def bank(world, shared):
    calls.append("bank")
    charged = {}

    def do(order, cents):
        return charged.setdefault(step_info().key, Charge(f"c{len(charged)}"))

    world.mock(charge, calls=do)
    yield charged
    calls.append("bank is gone")

@pytest.mark.perdure(crash_at="every")
def test_order(world, bank):
    run = world.start(order, "o1", 500)
    run.send(approved, YES)
    assert run.result() == "r_0" and len(bank) == 1

def test_what_was_set_up():
    assert calls == ["shared", *["bank", "bank is gone"] * 9]
"""


@pytest.mark.slow
def test_every_crash_has_fixtures_of_its_own_and_shared_ones_are_set_up_once(project: pytest.Pytester) -> None:
    checked(project, FIXTURES).assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_shared_fixture_that_can_not_be_torn_down_is_an_error(project: pytest.Pytester) -> None:
    source = f"@pytest.fixture(scope='module')\ndef shared():\n    yield\n    raise OSError('gone')\n\n{EVERY}def test_order(world, shared):{EXAMPLE}"
    result = checked(project, source)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_order*", "E*OSError: gone"])


@pytest.mark.slow
def test_a_test_that_fails_undisturbed_is_reported_as_it_is(project: pytest.Pytester) -> None:
    result = checked(project, f"{EVERY}def test_order(world):\n    assert 1 == 2\n\n{EVERY}def test_skipped(world):\n    pytest.skip('not now')\n")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.no_fnmatch_line("*Undisturbed*")


@pytest.mark.slow
def test_many_moments_are_spread_evenly(project: pytest.Pytester) -> None:
    result = checked(project, f"@pytest.mark.perdure(crash_at='every', crashes_max=3)\ndef test_order(world):{EXAMPLE}", "-rP")
    result.stdout.fnmatch_lines(["killed at 3 moments, around 6 durable writes; failed at 0"])


MEANINGS: list[tuple[object, tuple[CrashPoint, ...] | None]] = [
    ("every", None),
    (7, (CrashPoint(7, False), CrashPoint(7, True))),
    ("before:3", (CrashPoint(3, False),)),
    ("after:3", (CrashPoint(3, True),)),
]


@pytest.mark.parametrize(("wanted", "moments"), MEANINGS)
def test_what_crash_at_means(wanted: object, moments: tuple[CrashPoint, ...] | None) -> None:
    assert parse_crash_points(wanted) == moments


@pytest.mark.parametrize("wanted", ["sometimes", 0, -1, "before:", "during:3", True, "before:x", 1.5])
def test_what_crash_at_does_not_mean(wanted: object) -> None:
    with pytest.raises(ValueError, match=r'"before:7"'):
        parse_crash_points(wanted)


# settings


@pytest.mark.parametrize("marker", ["crash_at='sometimes'", "crash='every'", "3"])
def test_a_marker_that_makes_no_sense_is_refused_before_anything_runs(project: pytest.Pytester, marker: str) -> None:
    result = checked(project, f"@pytest.mark.perdure({marker})\ndef test_order(world):{EXAMPLE}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_shop.py::test_order: *"])


SUSPENDED = """
def test_memory(world):
    world.mock(charge, returns=Charge("c1"))
    run = world.start(order, "o1", 500)
    cold = all(warm.execution is None for engine in world.machine.process.engines for warm in engine._residents)
    run.send(approved, YES)
    assert run.result() == "r_1"
    assert world.machine.always_suspend and cold
"""


@pytest.mark.slow
def test_executions_leave_memory_at_every_wait_by_a_marker_or_an_option(project: pytest.Pytester) -> None:
    checked(project, f"@pytest.mark.perdure(always_suspend=True){SUSPENDED}").assert_outcomes(passed=1)
    checked(project, SUSPENDED, "--perdure-always-suspend").assert_outcomes(passed=1)
    checked(project, SUSPENDED).assert_outcomes(failed=1)


@pytest.mark.slow
def test_a_seed_comes_from_the_marker_or_the_command_line_and_may_be_drawn(project: pytest.Pytester) -> None:
    source = "@pytest.mark.perdure(seed=3)\ndef test_seed(world):\n    assert world.seed == {}\n"
    checked(project, source.format(3)).assert_outcomes(passed=1)
    checked(project, source.format(8), "--perdure-seed=8").assert_outcomes(passed=1)
    checked(project, source.format("'a word'"), "--perdure-seed=a word").assert_outcomes(passed=1)
    result = checked(project, "def test_seed(world):\n    assert world.seed is None\n", "--perdure-seed=random")
    result.stdout.re_match_lines([r"^seed \d+$"])


def test_markers_of_classes_and_modules_hold_and_the_nearest_wins(project: pytest.Pytester) -> None:
    source = """
pytestmark = pytest.mark.perdure(seed=1, always_suspend=True)

@pytest.mark.perdure(seed=2)
class TestOfAClass:
    def test_it(self, world):
        assert (world.seed, world.machine.always_suspend) == (2, True)

    @pytest.mark.perdure(seed=3)
    def test_its_own(self, world):
        assert (world.seed, world.machine.always_suspend) == (3, True)
"""
    checked(project, source).assert_outcomes(passed=2)


# among others


@pytest.mark.slow
def test_it_works_in_many_processes(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    source = f"{EVERY}def test_order(world):{EXAMPLE}\n{EVERY}{TWICE.lstrip()}\ndef test_plain(world):{EXAMPLE}"
    result = checked(project, source, "-n2", "-p", "xdist.plugin")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["E*Ran again because of it: step charge of order, 2 times in place of 1.", "*perdure trace*"])


@pytest.mark.slow
def test_in_an_async_test_a_world_says_what_to_do(project: pytest.Pytester) -> None:
    pytest.importorskip("pytest_asyncio")
    project.makeini("[pytest]\nfilterwarnings = error\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    source = f"async def test_async(world):\n    world.start(order, 'o', 1)\n\nasync def test_other():\n    pass\n\ndef test_sync(world):{EXAMPLE}"
    result = checked(project, source, "-p", "pytest_asyncio.plugin")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["E*WrongVerb: start() was called inside a running event loop. Write the test as a plain `def`*"])


@pytest.mark.slow
def test_its_fixture_and_marker_are_shown_to_those_who_ask(project: pytest.Pytester) -> None:
    project.runpytest_inprocess(*OPTIONS, "--markers").stdout.fnmatch_lines(["@pytest.mark.perdure(crash_at=None, *"])
    project.runpytest_inprocess(*OPTIONS, "--fixtures").stdout.fnmatch_lines(["world*"])
    project.runpytest_inprocess(*OPTIONS, "--help").stdout.fnmatch_lines(["*--perdure-crash-at=WHEN*"])
