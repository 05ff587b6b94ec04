"""Asking a model: what a step comes to, when it is asked again, and that a replay decides nothing."""

from typing import Any

import pytest

from perdure import Definition
from perdure.definitions.graph.kind_runs import summed_usage
from perdure.definitions.graph.step_kind import KindResult
from perdure.testing import World

SHAPE = {"label": {"enum": ["bug", "question"]}}
BUG = {"label": "bug"}


def answered(data: Any, finish: str = "stop", text: str | None = None, **usage: Any) -> KindResult:
    meta = {"finish": finish, "usage": {"input_tokens": 10, "cost_usd": 0.5, **usage}}
    return KindResult(data, meta if text is None else {**meta, "text": text})


class Model:
    """A model that gives these answers, one after the other, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = answers, list[dict[str, Any]]()

    def __call__(self, config: dict[str, Any], input: Any = None) -> Any:
        self.asked.append(config)
        return self.answers[len(config.get("repair", ()))]


def definition(model: Any, *steps: Any, **more: Any) -> Definition:
    return Definition.of({"perdure": 1, "name": "it", "order": "listed", "steps": list(steps), **more}, kinds={"llm": model})


def asks(**config: Any) -> dict[str, Any]:
    return {"id": "ask", "llm": {"prompt": "?", "schema": SHAPE, **config}}


def test_plain_data_is_the_answer_and_has_no_meta(world: World) -> None:
    found: Any = world.run(definition(Model(BUG), asks(), {"id": "end", "return": "@steps.ask.output"}))
    assert found == {"type": "llm", "data": BUG, "meta": {}, "port": "success"}


def test_what_several_requests_took_is_told_together(world: World) -> None:
    model = Model(answered({"label": 1}), answered(None, text="bug", cost_usd=None), answered(BUG))
    found: Any = world.run(definition(model, asks(repairs=2), {"id": "end", "return": "@steps.ask.output.meta"}))
    assert found == {"finish": "stop", "usage": {"input_tokens": 30, "cost_usd": None}, "repairs": 2}
    (_, second, third) = model.asked
    assert [one["answer"] for one in second["repair"]] == ['{"label":1}'] and "at label" in second["repair"][0]["wrong"]
    assert third["repair"][1] == {"answer": "bug", "wrong": "it is not JSON"}


def test_each_request_asks_the_same_whatever_has_changed_meanwhile(world: World) -> None:
    model = Model(answered({"label": 1}), answered(BUG))
    other = {"id": "other", "do": [{"id": "slow", "sleep": "1s"}, {"id": "new", "tool": "new"}]}
    steps = [{"id": "old", "tool": "old"}, {"id": "both", "parallel": [asks(prompt="@last"), other]}]
    found = Definition.of(
        {"perdure": 1, "name": "it", "order": "listed", "steps": steps},
        tools={"old": lambda: "old", "new": lambda: "new"},
        kinds={"llm": model},
    )
    world.mock("llm", calls=model, takes="5s")
    world.run(found)
    assert [one["prompt"] for one in model.asked] == ["old", "old"]


def test_an_answer_that_fits_none_of_its_turns_goes_by_the_port_of_errors(world: World) -> None:
    steps = [{**asks(), "next": {"success": "good", "error": "bad"}}, {"id": "good", "return": 1}, {"id": "bad", "return": "@ask.type"}]
    assert world.run(definition(Model({"label": 1}, {"label": 2}), *steps, order="ports")) == "bad_answer"


def test_each_of_a_list_is_repaired_on_its_own(world: World) -> None:
    def model(config: dict[str, Any], input: Any = None) -> Any:
        return answered({"label": 1} if config["prompt"] == "b" and not config.get("repair") else BUG)

    run = world.start(definition(model, {**asks(prompt="@item"), "each": {"in": ["a", "b", "c"]}}))
    assert run.result() == [BUG, BUG, BUG]
    assert sorted(one.path for one in run.steps() if one.kind == "call") == ["ask/~0", "ask/~1", "ask/~1/repair", "ask/~2"]


@pytest.mark.parametrize(("transform", "made"), [({"ts": "x"}, "BUG"), ({"is": "@self.label"}, {"is": "bug"})])
def test_a_step_made_over_keeps_what_its_answer_came_by(world: World, transform: Any, made: Any) -> None:
    found = Definition.of(
        {"perdure": 1, "name": "it", "order": "listed", "steps": [{**asks(), "transform": transform}, {"id": "end", "return": "@steps.ask.output"}]},
        kinds={"llm": Model(answered(BUG)), "ts": lambda config, input: input["label"].upper()},
    )
    told: Any = world.run(found)
    assert (told["data"], told["meta"]["finish"]) == (made, "stop")


def test_any_kind_may_say_what_its_result_came_by(world: World) -> None:
    given = {"perdure": 1, "name": "it", "order": "listed", "steps": [{"id": "a", "bash": "ls"}, {"id": "end", "return": ["@a", "@steps.a.output.meta"]}]}
    assert world.run(Definition.of(given, kinds={"bash": lambda config, input=None: KindResult([1], {"took_s": 2})})) == [[1], {"took_s": 2}]
    odd = {"@data": 1, "@meta": "no mapping"}
    again = {**given, "name": "odd"}
    assert world.run(Definition.of(again, kinds={"bash": lambda config, input=None: odd})) == [odd, {}]


@pytest.mark.slow
@pytest.mark.parametrize("answers", [(BUG,), ({"label": 1}, BUG), ({"label": 1}, {"label": 2}), (answered(None, "filter"),)])
@pytest.mark.perdure(crash_at="every", crashes_max=40)
def test_what_was_decided_of_an_answer_stands_across_a_crash_at_every_write(world: World, answers: Any) -> None:
    step = {**asks(), "on_error": [{"id": "instead", "set": {"why": "@error.type"}}]}
    found: Any = world.run(definition(Model(*answers), step, {"id": "end", "return": ["@ask", "@vars.why?"]}))
    assert found in ([BUG, None], [{"why": "bad_answer"}, "bad_answer"], [{"why": "answer_refused"}, "answer_refused"])


def test_what_is_not_known_of_all_is_not_known_of_the_sum() -> None:
    assert summed_usage([{"a": 1, "b": None}, {"a": 2}]) == {"a": 3, "b": None}
