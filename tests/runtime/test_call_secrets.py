"""Secrets at work: they are put where marks stand and nowhere else, each tenant is given its own, and nothing that is logged within a step has them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import Definition, step, step_info
from perdure.async_client import AsyncClient
from perdure.code.step_environment import StepControl, StepInfo, current_step
from perdure.core import values
from perdure.core.errors import BadValue, LogDamaged, MissingSecret
from perdure.core.paths import Key
from perdure.core.secret_masks import SecretFinder, find_no_secret
from perdure.runtime.call_secrets import mask_log_records, secret_finder, with_secrets
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.memory import MemoryStore

CANARY = "canary-at-work"


def given(**named: Any) -> bytes:
    return values.encode(((1,), named), "arguments")


def test_secrets_are_put_where_marks_stand_and_nowhere_else() -> None:
    mark, text = {"@secret": "A"}, {"@text": ["<", {"@secret": "A"}, "|", {"@secret": "B"}, ">"]}
    raw = given(**{"a/b~": [mark, {"x": text}], "data": mark, "more": text})
    found, mask = with_secrets(raw, ("/a~1b~0/0", "/a~1b~0/1/x"), {"A": CANARY, "B": "other-canary"}.get)
    assert msgspec.msgpack.decode(found) == [[1], {"a/b~": [CANARY, {"x": f"<{CANARY}|other-canary>"}], "data": mark, "more": text}]
    assert mask.text(f"{CANARY} other-canary") == "*** ***"


def test_a_secret_that_stands_at_several_places_is_looked_for_once() -> None:
    asked: list[str] = []

    def find(name: str) -> str:
        asked.append(name)
        return CANARY

    mark = {"@secret": "A"}
    with_secrets(given(a=mark, b=[mark]), ("/a", "/b/0"), find)
    assert asked == ["A"]


def test_what_is_missing_is_named_and_a_place_that_is_none_is_a_damaged_log() -> None:
    with pytest.raises(MissingSecret, match=r"the secret A is not set in this process. Set it") as raised:
        with_secrets(given(a={"@secret": "A"}), ("/a",), find_no_secret)
    assert raised.value.name == "A"
    for place in ("/b", "/a/0", "/a/x/y", "", "/a/@secret/0"):
        with pytest.raises(LogDamaged, match="its arguments have nothing"):
            with_secrets(given(a={"@secret": "A"}, c=1), (place,), {"A": CANARY}.get)
    assert with_secrets(given(a="no mark"), ("/a",), find_no_secret)[0] == given(a="no mark")


def test_a_short_secret_is_given_and_a_warning_says_that_it_is_not_hidden(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "perdure.secrets"):
        found, mask = with_secrets(given(a={"@secret": "A"}), ("/a",), {"A": "abc"}.get)
    assert msgspec.msgpack.decode(found)[1] == {"a": "abc"} and not mask
    assert caplog.messages == ["could not mask the secret A in the output of steps: it has fewer than 4 characters. Set a longer one"]


class Tenants:
    """Finds for each tenant what is called by its name."""

    def of(self, tenant: str) -> SecretFinder:
        return lambda name: f"{name} of {tenant}" if name != "NONE" else None


def test_what_a_definition_was_given_goes_before_what_the_process_has() -> None:
    both = secret_finder(Tenants(), "acme", {"A": "own"}.get)
    assert [both("A"), both("B"), both("NONE")] == ["own", "B of acme", None]
    assert secret_finder(None, "acme")("A") is None and secret_finder({"A": "x"}.get, "acme")("A") == "x"


async def ran(definition: Definition, tenant: str = "default", **options: Any) -> Any:
    store = MemoryStore()
    engine = Engine(store, [definition.code], **options)
    worker = Worker(store, [step(tell)], queues=["far"], secrets=options.get("secrets"))
    tasks = [asyncio.create_task(member.run()) for member in (engine, worker)]
    await engine.ready()
    try:
        async with AsyncClient(store) as client:
            return await (await client.start(definition.with_(id="x", tenant=tenant))).result("10s")
    finally:
        engine.stop()
        worker.stop()
        await asyncio.gather(*tasks)


seen: list[str] = []


def tell(token: str) -> str:
    seen.append(token)
    return f"told {token}"


@pytest.mark.parametrize("how", [{"tool": "tell"}, {"task": {"type": "tell", "queue": "far"}}])
@pytest.mark.parametrize("tenant", ["default", "acme"])
async def test_engines_and_workers_give_each_tenant_its_own(how: dict[str, Any], tenant: str) -> None:
    seen.clear()
    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", **how, "with": {"token": "@secrets.TOKEN"}}]}
    assert await ran(Definition.of(document, tools=[tell]), tenant, secrets=Tenants()) == "told ***"
    assert seen == [f"TOKEN of {tenant}"]


async def test_finding_a_secret_holds_up_nothing_else() -> None:
    ticks: list[int] = []

    def find(name: str) -> str:
        assert asyncio.run(found()) == CANARY, "no loop runs in the thread that it is called in"
        return CANARY

    async def found() -> str:
        ticks.append(1)
        return CANARY

    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "tool": "tell", "with": {"token": "@secrets.TOKEN"}}]}
    assert await ran(Definition.of(document, tools=[tell]), secrets=find) == "told ***" and ticks == [1]


async def test_what_finds_secrets_and_fails_fails_the_try_which_is_made_again() -> None:
    answers: list[Any] = [OSError("the server of secrets is away"), CANARY]

    def find(name: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return str(answer)

    retry = {"max": 2, "wait": "1ms"}
    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "tool": "tell", "with": {"token": "@secrets.TOKEN"}, "retry": retry}]}
    assert await ran(Definition.of(document, tools=[tell], secrets=find)) == "told ***" and answers == []


@pytest.fixture
def _masked() -> Any:
    before = logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(before)


def logged(say: Callable[[logging.Logger], None], info: StepInfo | None) -> str:
    lines: list[str] = []
    logger, handler = logging.getLogger("tests.masked"), logging.Handler()
    logger.setLevel(logging.DEBUG)
    handler.emit = lambda record: lines.append(logging.Formatter("%(levelname)s %(message)s").format(record))  # type: ignore[method-assign]  # it collects
    logger.addHandler(handler)
    token = current_step.set(info) if info is not None else None
    try:
        say(logger)
    finally:
        if token is not None:
            current_step.reset(token)
        logger.removeHandler(handler)
    return "\n".join(lines)


def of_step() -> StepInfo:
    life = StepControl(lambda _: None, ("/a",), {"A": CANARY}.get)
    _, life.mask = with_secrets(given(a={"@secret": "A"}), life.places, life.find)
    return StepInfo(Key("default", "it", "x"), (("a", 1),), 1, life=life)


def fails(logger: logging.Logger) -> None:
    try:
        raise BadValue("token", CANARY, "one")
    except BadValue:
        logger.exception("it failed with %s", CANARY)


@pytest.mark.usefixtures("_masked")
def test_what_is_logged_within_a_step_has_none_of_its_secrets() -> None:
    mask_log_records()
    factory = logging.getLogRecordFactory()
    mask_log_records()
    assert logging.getLogRecordFactory() is factory, "it is done once"
    said = logged(lambda logger: logger.info("a %s and %r, 100%%", CANARY, {"k": CANARY}), of_step())
    assert said == "INFO a *** and {'k': '***'}, 100%"
    failed = logged(fails, of_step())
    assert "canary" not in failed and "Traceback" in failed and "BadValue: token: '***' is not one" in failed
    assert "canary" not in logged(lambda logger: logger.info("%d too many", CANARY), of_step())
    assert logged(lambda logger: logger.info("a %s", CANARY), None) == f"INFO a {CANARY}", "outside of the step nothing is changed"


@pytest.mark.usefixtures("_masked")
async def test_what_a_step_logs_has_no_secret_that_it_has_asked_for_by_name(caplog: pytest.LogCaptureFixture) -> None:
    def asks() -> str:
        found = step_info().secret("TOKEN")
        logging.getLogger("tests.masked").warning("it is %s", found)
        return f"it is {found}"

    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "tool": "asks"}]}
    assert await ran(Definition.of(document, tools=[asks], secrets={"TOKEN": CANARY})) == "it is ***"
    assert "it is ***" in caplog.messages and CANARY not in caplog.text


async def test_a_step_may_hide_its_secrets_before_it_cuts_what_others_say() -> None:
    def cut(token: str) -> str:
        said = f"{'x' * 100}{token}"
        assert step_info().mask.text(said)[-5:] == "xx***" and step_info().mask.raw(said.encode())[-5:] == b"xx***"
        return step_info().mask.text(said)[-6:]

    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "tool": "cut", "with": {"token": "@secrets.TOKEN"}}]}
    assert await ran(Definition.of(document, tools=[cut], secrets={"TOKEN": CANARY})) == "xxx***"
