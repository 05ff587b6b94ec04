"""Claims about ports: a worker may leave a task by any port that the definition names, and by no other if it names some."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.core import values
from perdure.core.errors import BadDefinition
from perdure.runtime.task_broker import LeaseRequest, TaskWorker
from perdure.testing.virtual_time import run
from tests.runtime.cluster import cluster

ADA = TaskWorker("", "ada")


def document(**step: Any) -> dict[str, Any]:
    """A task, and the steps to which it may lead; the result says which of them were done."""
    after = [id for id in ("sure", "unsure", "told") if f"'{id}'" in repr(list(targets(step.get("next"))))]
    steps = [{"id": "judge", "task": "judge", **step}, *({"id": id, "set": {"done": True}} for id in after)]
    return {"perdure": 1, "name": "judging", "order": "ports", "steps": steps, "output": {id: f"@{id}" for id in after}}


def targets(following: Any) -> Any:
    """The ids of steps that something behind `next` has."""
    match following:
        case str():
            yield following
        case list():
            for one in following:
                yield from targets(one)
        case {"to": to}:
            yield from targets(to)
        case dict():
            for one in following.values():
                yield from targets(one)


def left_by(port: str, **step: Any) -> Any:
    """The steps that follow when a worker leaves the task by this port."""

    async def world() -> Any:
        async with cluster() as c:
            definition = Definition.of(document(**step))
            engine, process = await c.engine(definition), await c.broker(queues=["judge"])
            assert await c.start(engine, definition)
            task_leases = await process.broker.lease(ADA, LeaseRequest(["judge"], wait_s=5.0, lease_s=None))
            assert isinstance(task_leases, list)
            assert await process.broker.complete(ADA, task_leases[0].id, values.encode({"score": 1}, "a result"), port) is None
            return [id for id, done in (await c.result(engine, definition)).items() if done]

    return run(world, handles_max=100_000)


FOLLOWING = {"sure": "sure", "unsure": "unsure", "nothing": []}


@pytest.mark.parametrize(("port", "follow"), [("sure", ["sure"]), ("unsure", ["unsure"]), ("success", []), ("nothing", [])])
def test_a_task_leads_on_by_the_port_that_its_worker_names(port: str, follow: list[str]) -> None:
    assert left_by(port, next=FOLLOWING) == follow


def test_a_port_that_is_not_in_next_fails_the_task_and_says_which_there_are() -> None:
    with pytest.raises(ExecutionFailed, match=r"unknown_port: judge ended at the port 'other', which is not in its next \(sure, unsure, nothing"):
        left_by("other", next=FOLLOWING)


@pytest.mark.parametrize("following", [None, "told", [], [{"to": "told"}]])
def test_where_ports_are_not_told_apart_any_will_do(following: Any) -> None:
    assert left_by("whatever", **({} if following is None else {"next": following})) == (["told"] if following else [])


def test_a_port_that_is_not_named_leads_on_where_success_does() -> None:
    assert left_by("whatever", next={"success": "told", "sure": "sure"}) == ["told"]


def test_within_a_list_ports_lead_nowhere() -> None:
    assert left_by("whatever", each={"in": [1]}, next={"done": "told", "error": "sure"}) == ["told"]


def test_steps_that_are_no_tasks_have_the_ports_that_they_have() -> None:
    with pytest.raises(BadDefinition, match="sleep has no port 'sure'"):
        Definition.of({**document(), "steps": [{"id": "a", "sleep": "1s", "next": {"sure": "b"}}, {"id": "b", "set": {}}]})
