"""Claims about options: `with_` takes them, refuses what means nothing, and they never stand among the arguments."""

import re
from typing import Any

import pytest

from perdure import Client, Context, Definition, NamedWorkflow, Queue, Retry, SyncContext, Workflow, step, workflow
from perdure.code.call_options import TAKES, WITH_OPTIONS, with_options
from perdure.core.errors import BadName, BadValue, ExecutionFailed, WrongVerb
from perdure.testing.world import World


@step
def double(number: int) -> int:
    return 2 * number


@workflow
async def doubling(ctx: Context, number: int) -> int:
    return await ctx.step(double, number)


@workflow
async def ordering(ctx: Context, id: str, delay: int, tenant: str, name: str) -> list[Any]:
    return [ctx.execution.id, id, delay, tenant, name]


@workflow
async def open_ended(ctx: Context, /, **anything: Any) -> dict[str, Any]:
    return anything


def test_a_parameter_may_have_the_name_of_any_option(world: World) -> None:
    assert world.run(ordering.with_(id="k"), id="a", delay=1, tenant="b", name="c") == ["k", "a", 1, "b", "c"]
    assert ordering.with_(id="k", db="memory:").run(id="a", delay=1, tenant="b", name="c") == ["k", "a", 1, "b", "c"]


def test_a_child_may_have_parameters_with_the_names_of_options(world: World) -> None:
    @workflow
    async def parent(ctx: Context) -> list[Any]:
        return await ctx.call(ordering.with_(id="child", name="one"), id="a", delay=1, tenant="b", name="c")

    assert world.run(parent) == ["child", "a", 1, "b", "c"]


def test_an_input_of_a_definition_may_have_the_name_of_any_option(world: World) -> None:
    inputs = {name: {"type": "string"} for name in (*WITH_OPTIONS, "self", "workflow")}
    document = {"perdure": 1, "name": "echo", "input": inputs, "steps": [{"id": "a", "set": {"all": "@input"}}], "output": "@input"}
    echo = Definition.of(document)
    given = {name: f"the {name}" for name in inputs}
    assert world.run(echo.with_(id="k"), **given) == given
    assert echo.with_(db="memory:").run(**given) == given


def test_what_takes_anything_by_name_is_given_it(world: World) -> None:
    assert world.run(open_ended, id="a", delay=1) == {"id": "a", "delay": 1}


def test_an_option_among_the_arguments_is_refused_with_the_call_that_is_meant(world: World) -> None:
    started: Any = world.start
    with pytest.raises(WrongVerb, match=re.escape("world.start(doubling.with_(id='k', delay='1h'), 5)")):
        started(doubling, 5, id="k", delay="1h")
    with pytest.raises(WrongVerb, match=re.escape("doubling.with_(id='k').run(number=5)")):
        doubling.run(number=5, id="k")  # type: ignore[call-arg]  # that is the claim
    document = {"perdure": 1, "name": "echo", "input": {"a": {"type": "integer"}}, "steps": [{"id": "b", "set": {"c": "@input.a"}}]}
    with pytest.raises(WrongVerb, match=re.escape("world.start(echo.with_(id='k'), a=1)")):
        started(Definition.of(document), a=1, id="k")
    assert world.runs == []


@pytest.mark.parametrize("verb", ["call", "attempt", "start"])
def test_an_option_among_the_arguments_of_a_child_is_refused_with_the_call_that_is_meant(world: World, verb: str) -> None:
    @workflow
    async def parent(ctx: Context) -> Any:
        return await getattr(ctx, verb)(doubling, 5, name="one")

    with pytest.raises(ExecutionFailed, match=re.escape(f"ctx.{verb}(doubling.with_(name='one'), 5)")):
        world.run(parent)


def test_an_option_among_the_arguments_of_a_step_is_refused_with_the_call_that_is_meant(world: World) -> None:
    @workflow
    async def hasty(ctx: Context) -> int:
        return await ctx.step(double, 5, timeout="1s")  # type: ignore[call-arg]  # that is the claim

    with pytest.raises(ExecutionFailed, match=re.escape("ctx.step(double.with_(timeout='1s'), 5)")):
        world.run(hasty)


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    for thing in (doubling, NamedWorkflow("doubling"), Definition.of({"perdure": 1, "name": "doubling", "steps": [{"id": "a", "set": {"b": 1}}]})):
        with pytest.raises(BadValue, match=r"doubling\.with_: 'dealy' is not an option; did you mean 'delay'\?"):
            thing.with_(dealy="1h")  # type: ignore[call-arg]  # that is the claim
    with pytest.raises(BadValue, match="there are attributes, connection"):
        doubling.with_(xyz=1)  # type: ignore[call-arg]  # that is the claim


@pytest.mark.parametrize(
    "options",
    [
        {"id": ""}, {"id": 5}, {"name": ""}, {"tenant": ""}, {"delay": -1}, {"delay": "soon"}, {"deadline": float("inf")}, {"ttl": "x"}, {"debounce": [1]},
        {"priority": "high"}, {"priority": 2**31}, {"priority": True}, {"queue": ""}, {"on_cancel": "forget"}, {"retry": 5}, {"undo": 1}, {"strict": "yes"},
        {"attributes": {"a": [[]]}}, {"debounce": "1s", "singleton": True}, {"debounce": "1s", "strict": True}, {"singleton": True, "strict": True},
        {"queue": Queue("q"), "priority": 1}, {"retry": Retry(max=0)},
    ],
)  # fmt: skip
def test_an_option_that_means_nothing_is_refused_where_it_is_given(options: dict[str, Any]) -> None:
    with pytest.raises((BadValue, BadName)):
        doubling.with_(**options)
    with pytest.raises((BadValue, BadName)):
        NamedWorkflow("doubling").with_(**options)


def test_options_add_up_and_none_leaves_one_as_it_is() -> None:
    first = doubling.with_(id="a", deadline="1h", queue="q")
    second = first.with_(id=None, priority=5).with_(deadline=60)
    assert (second.code.calling.id, second.code.calling.queue, second.code.calling.priority, second.code.deadline_s) == ("a", "q", 5, 60.0)
    assert doubling.code.calling.given == frozenset() and first.code.deadline_s == 3600.0


def test_a_definition_with_options_is_still_a_definition(world: World) -> None:
    one = Definition.of({"perdure": 1, "name": "one", "steps": [{"id": "a", "set": {"b": 1}}]}).with_(id="k")
    assert one.ir.name == one.graph.name and world.start(one).id == "k"


VALUES: dict[str, Any] = {
    "id": "k", "name": "one", "tenant": "acme", "delay": "1s", "deadline": "1h", "grace": "5s", "queue": "q", "lane": "a", "priority": 5,
    "attributes": {"a": 1},
    "strict": True, "ttl": "1h", "debounce": "1s", "singleton": True, "undo": True, "on_cancel": "detach", "retry": Retry(max=1), "connection": object(),
    "db": "memory:",
}  # fmt: skip


def test_every_option_has_a_value_here_and_acts_on_some_verb() -> None:
    assert set(VALUES) == WITH_OPTIONS == frozenset().union(*TAKES.values())


@pytest.mark.parametrize("option", sorted(WITH_OPTIONS))
def test_an_option_acts_on_a_verb_or_is_refused_there(world: World, option: str) -> None:
    beside: dict[str, Any] = {"queue": "q"} if option in ("lane", "priority") else {}
    given = doubling.with_(**{option: VALUES[option]}, **beside)
    if option in TAKES["world.start"]:
        run = world.start(given, 5)
        assert run.result() == 10 and _acted(run, option)
    else:
        with pytest.raises(WrongVerb, match=f"world.start does not take doubling.with_\\({option}=...\\). {option}= is for .*; leave {option}= out here"):
            world.start(given, 5)


def _acted(run: Any, option: str) -> bool:
    started, head = run._execution().started, run._world.machine.head(run.key)
    took_s = run._world._loop.now_s - run._world.start_s
    ways = {
        "id": run.id == "k", "tenant": run.key.tenant == "acme", "delay": took_s >= 1, "debounce": took_s >= 1 and run.id == "doubling@1",
        "singleton": run.id == "doubling@1", "deadline": run._execution().deadline_at_s is not None, "attributes": run.attributes == {"a": 1},
        "grace": started is not None and started.grace_s == 5,
        "queue": head.queue == "q", "lane": head.queue == "q", "priority": head.queue == "q", "strict": run.created, "ttl": run.created and started is not None,
    }  # fmt: skip
    return bool(ways[option])


@pytest.mark.parametrize("option", sorted(WITH_OPTIONS - TAKES["ctx.call"]))
def test_a_child_refuses_what_has_no_effect_on_it(world: World, option: str) -> None:
    @workflow
    def parent(ctx: SyncContext) -> int:
        return ctx.call(doubling.with_(**{option: VALUES[option]}), 5)

    with pytest.raises(ExecutionFailed, match=f"ctx.call does not take doubling.with_\\({option}=...\\)"):
        world.run(parent)


def test_a_strict_start_of_another_input_is_refused_in_a_world(world: World) -> None:
    world.start(doubling.with_(id="k", strict=True), 5)
    assert not world.start(doubling.with_(id="k", strict=True), 5).created and not world.start(doubling.with_(id="k"), 6).created
    with pytest.raises(Exception, match="another input"):
        world.start(doubling.with_(id="k", strict=True), 6)


def test_a_name_stands_for_a_workflow_with_its_options(tmp_path: Any) -> None:
    with Client(f"sqlite:///{tmp_path}/p.db") as client:
        named = client.workflow("order").with_(id="o1", delay="1h", tenant="acme")
        handle = client.start(named, "o1", 500, id="an argument")
        assert (handle.key.tenant, handle.key.workflow, handle.id) == ("acme", "order", "o1")
        with pytest.raises(BadName):
            client.workflow("")
        with pytest.raises(BadValue, match="known by name only; give lane= as well"):
            client.start(client.workflow("order").with_(queue=Queue("q", per_key="customer", concurrency_per_key=1)), customer="c1")
        assert client.start(client.workflow("order").with_(queue=Queue("q", per_key="tenant"))).created


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"delay": "50ms"}, {"attributes": {"a": 1}}, {"queue": Queue("q", concurrency=1)}, {"ttl": "1h"}, {"strict": True}])
def test_run_does_what_its_options_say(tmp_path: Any, options: dict[str, Any]) -> None:
    url = f"sqlite:///{tmp_path}/p.db"
    assert doubling.with_(id="k", tenant="acme", db=url, **options).run(5) == 10
    assert doubling.with_(id="k", tenant="acme", db=url, **options).run(5) == 10, "it has ended"
    with Client(url) as client:
        (found,) = client.list(tenant="acme", where=options.get("attributes"))
        assert found.key.id == "k" and [one.limits.concurrency for one in client.queues()] == ([1] if "queue" in options else [])


def test_what_is_chosen_is_known_by_its_names() -> None:
    calling = with_options(doubling.code.calling, {"id": "k", "strict": False, "delay": None}, "doubling")
    assert calling.given == {"id", "strict"}
    assert isinstance(doubling.with_(id="k"), Workflow)
