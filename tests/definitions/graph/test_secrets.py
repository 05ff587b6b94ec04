"""Secrets: whatever does work is given them, and no log, result or mistake has them."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed, Fatal, step, step_info
from perdure.core import log_format
from perdure.testing import World

CANARY = "canary-of-the-test"


def started(world: World, given: Any, found: Any, **more: Any) -> Any:
    seen: list[Any] = []

    @step
    def send(token: str, to: list[dict[str, str]]) -> str:
        seen.append((token, to))
        return "sent"

    steps = [{"id": "a", "tool": "send", "with": given, "retry": {"max": 1}, **more}]
    document = {"perdure": 1, "name": "it", "steps": steps}
    run = world.start(Definition.of(document, tools=[send], secrets=found))
    return run, seen


def defined(*steps: Any, tools: Any = (), secrets: Any = None, **more: Any) -> Definition:
    kinds = more.pop("kinds", None)
    found = {"TOKEN": CANARY} if secrets is None else secrets
    return Definition.of({"perdure": 1, "name": "it", **more, "steps": list(steps)}, tools=tools, kinds=kinds, secrets=found)


def everything(world: World, run: Any) -> str:
    """All that a log says, and a trace."""
    found = world.machine.read(run.key)
    assert found is not None
    return repr(log_format.decode_rows(found.payloads)) + repr(found.payloads) + world.trace()


@pytest.mark.parametrize(("token", "seen"), [("@secrets.TOKEN", CANARY), ("Bearer @{secrets.TOKEN}", f"Bearer {CANARY}")])
def test_a_tool_is_given_the_secret_and_no_log_has_it(world: World, token: str, seen: str) -> None:
    run, given = started(world, {"token": token, "to": [{"a/b~c": "@secrets.OTHER"}]}, {"TOKEN": CANARY, "OTHER": f"{CANARY}-2"})
    assert run.result() == "sent" and given == [(seen, [{"a/b~c": f"{CANARY}-2"}])]
    assert CANARY not in everything(world, run) and "@secret" in everything(world, run)


@pytest.mark.parametrize("found", [None, {"OTHER": CANARY}, lambda name: None])
def test_who_has_no_such_secret_says_so_and_what_stands_for_it_goes_nowhere(world: World, found: Any) -> None:
    run, given = started(world, {"token": "@secrets.TOKEN", "to": []}, found)
    with pytest.raises(
        ExecutionFailed, match=r"the secret TOKEN is not set in this process. Set it \(perdure secret set TOKEN, or PERDURE_SECRET_TOKEN\), and retry"
    ):
        run.result()
    assert given == []


def test_once_a_secret_is_set_the_execution_is_retried_and_done_with_it(world: World) -> None:
    found: dict[str, str] = {}
    run, given = started(world, {"token": "@secrets.TOKEN", "to": []}, found.get)
    assert run.status == "failed" and given == []
    found["TOKEN"] = CANARY
    run.retry()
    assert run.result() == "sent" and given == [(CANARY, [])]


def test_what_undoes_a_step_is_given_secrets(world: World) -> None:
    undone: list[Any] = []

    @step
    def charge(token: str, cents: int) -> dict[str, Any]:
        return {"id": 7, "token": token}

    @step
    def refund(token: str, id: int, key: str) -> None:
        undone.append((token, id, key))

    undo = {"tool": "refund", "with": {"token": "@secrets.TOKEN", "id": "@self.id", "key": "of @{secrets.TOKEN}"}}
    pay = {"id": "pay", "tool": "charge", "with": {"token": "@secrets.TOKEN", "cents": 5}, "undo": undo}
    run = world.start(defined(pay, {"id": "b", "needs": ["pay"], "fail": "no"}, tools=[charge, refund]))
    assert run.status == "failed" and undone == [(CANARY, 7, f"of {CANARY}")]
    assert CANARY not in everything(world, run)


def test_what_a_tool_declares_to_undo_it_is_given_the_same_secrets(world: World) -> None:
    undone: list[Any] = []

    @step
    def charge(token: str) -> str:
        return f"charged with {token}"

    @charge.undo
    def refund(done: str, token: str) -> None:
        undone.append((done, token))

    run = world.start(
        defined({"id": "pay", "tool": "charge", "with": {"token": "@secrets.TOKEN"}}, {"id": "b", "needs": ["pay"], "fail": "no"}, tools=[charge])
    )
    assert run.status == "failed" and undone == [("charged with ***", CANARY)]
    assert CANARY not in everything(world, run)


@pytest.mark.parametrize("whole", ["@secrets.TOKEN", ["@secrets.TOKEN"], "of @{secrets.TOKEN}"])
def test_what_is_not_given_by_name_is_given_no_secret(world: World, whole: Any) -> None:
    with pytest.raises(ExecutionFailed, match="pass secrets only in the"):
        started(world, whole, {"TOKEN": CANARY})[0].result()
    undo = {"id": "a", "tool": "send", "undo": {"tool": "send", "with": whole}}
    run = world.start(defined(undo, {"id": "b", "needs": ["a"], "fail": "no"}, tools={"send": lambda: None}, name="undone"))
    assert run.status == "needs_attention" and "Undo the step by hand" in world.trace()


def test_another_execution_is_handed_no_secret_for_its_input_is_kept(world: World) -> None:
    child = Definition.of({"perdure": 1, "name": "child", "input": {"x": {}}, "steps": [{"id": "a", "return": "@input.x"}]})
    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "call": "child", "with": {"x": "@secrets.TOKEN"}}]}
    with pytest.raises(ExecutionFailed, match="a value that is recorded reads a secret"):
        world.run(Definition.of(document, calls=[child], secrets={"TOKEN": CANARY}))


def test_a_kind_is_given_secrets_in_its_config_its_input_and_its_environment(world: World) -> None:
    seen: list[Any] = []

    def echo(config: Any, input: Any, env: Any = None) -> Any:
        seen.append((config, input, env))
        return {"config": config, "input": input, "env": env}

    task = {"type": "echo", "config": {"headers": {"k": "@secrets.TOKEN"}}}
    one = {"id": "a", "task": task, "with": {"b": ["@{secrets.TOKEN}!"]}, "env": {"E": "@secrets.TOKEN"}}
    run = world.start(defined(one, kinds={"echo": echo}))
    assert run.result() == {"config": {"headers": {"k": "***"}}, "input": {"b": ["***!"]}, "env": {"E": "***"}}
    assert seen == [({"headers": {"k": CANARY}}, {"b": [f"{CANARY}!"]}, {"E": CANARY})]
    assert CANARY not in everything(world, run)


def test_what_a_step_says_of_its_secrets_is_hidden_in_results_errors_and_progress(world: World) -> None:
    class Odd(Exception):
        pass

    tries: list[Any] = []

    @step(raises=(Odd,))
    async def leaks(token: str) -> Any:
        info = step_info()
        tries.append(info.progress)
        assert info.mask and info.mask.text(f"cut {token} here") == "cut *** here"
        info.heartbeat({"at": token})
        if len(tries) == 1:
            raise Odd(token, {"key": token})
        if len(tries) == 2:
            raise ValueError(f"{token!r} is wrong")
        raise Fatal(f"no {token}")

    run = world.start(defined({"id": "a", "tool": "leaks", "with": {"token": "@secrets.TOKEN"}}, tools=[leaks]))
    with pytest.raises(ExecutionFailed, match=r"fatal: no \*\*\*"):
        run.result()
    assert tries == [None, {"at": "***"}, {"at": "***"}] and CANARY not in everything(world, run)
    assert "'***' is wrong" in everything(world, run)


FORGED: list[Any] = [{"@secret": "TOKEN"}, {"@text": ["x", {"@secret": "TOKEN"}]}]


@pytest.mark.parametrize("mark", FORGED)
def test_what_data_says_of_secrets_is_data(world: World, mark: Any) -> None:
    run, given = started(world, {"token": "@secrets.TOKEN", "to": [{"x": "y"}]}, {"TOKEN": CANARY})
    assert run.result() == "sent" and given == [(CANARY, [{"x": "y"}])]
    tools: Any = {"say": lambda v, w=None: v}
    document = {"perdure": 1, "name": "other", "input": {"x": {}}, "steps": [{"id": "b", "tool": "say", "with": {"v": "@input.x", "w": "@secrets.TOKEN"}}]}
    assert world.run(Definition.of(document, tools=tools, secrets={"TOKEN": CANARY}), x=mark) == mark


@pytest.mark.parametrize("mark", FORGED)
@pytest.mark.parametrize("chosen", [True, False])
def test_where_a_secret_or_data_may_stand_only_the_secret_is_one(world: World, mark: Any, chosen: bool) -> None:
    given: list[Any] = []

    def say(v: Any) -> str:
        given.append(v)
        return "said"

    action = {"type": "say", "parameters": {"v": "{{ input.c ? secrets.TOKEN : input.x }}"}}
    steps = [{"stepSlug": "a", "name": "a", "stepType": "action", "order": 1, "config": action, "nextSteps": {}}]
    document = {"workflowConfig": {"name": "it"}, "stepsConfig": steps}
    world.run(Definition.of(document, tools={"say": say}, secrets={"TOKEN": CANARY}), x=mark, c=chosen)
    assert given == [CANARY if chosen else mark]


def of_a_list(tool: str, turns: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a", "tool": tool, "with": {"token": "@secrets.TOKEN", "n": "@index"}, **turns}


@pytest.mark.parametrize("turns", [{"each": {"in": [1, 2, 3]}}, {"repeat": {"until": {"ref": "@self.n", "eq": 2}, "max": 5}}])
def test_each_item_and_each_turn_is_given_them(world: World, turns: dict[str, Any]) -> None:
    given: list[Any] = []

    def say(token: str, n: int) -> dict[str, Any]:
        given.append((token, n))
        return {"n": n, "said": token}

    world.run(defined(of_a_list("say", turns), tools=[say]))
    assert given == [(CANARY, 0), (CANARY, 1), (CANARY, 2)]


def test_a_secret_is_looked_for_anew_in_every_try(world: World) -> None:
    found, given = iter(["first-canary", "second-canary"]), list[str]()

    def say(token: str) -> str:
        given.append(token)
        if len(given) == 1:
            raise ValueError(token)
        return token

    finder: Callable[[str], str | None] = lambda name: next(found)  # noqa: E731  # it reads best here
    assert world.run(defined({"id": "a", "tool": "say", "with": {"token": "@secrets.TOKEN"}}, tools=[say], secrets=finder)) == "***"
    assert given == ["first-canary", "second-canary"]
