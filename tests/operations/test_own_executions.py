"""Claims about Perdure's own executions: what they are told or begun with goes through the operation that is there for it, with its role, but for admins."""

from typing import Any

import pytest

from perdure.core.errors import Forbidden
from perdure.core.paths import Key
from perdure.operations import on_catalog, on_dead_letters, on_execution_changes, on_runs
from perdure.operations.operation_table import BY_FUNCTION
from perdure.service.callers import Caller, Role
from perdure.service.execution_operations import StartRequest
from perdure.service.queries import INTERNAL_WORKFLOWS, ExecutionFilter

SEND, START, BULK = (BY_FUNCTION[one] for one in (on_execution_changes.send, on_execution_changes.start, on_execution_changes.start_bulk))
REQUEUE = BY_FUNCTION[on_dead_letters.requeue]


def caller(role: Role) -> Caller:
    return Caller("default", "key:AbC123xy", frozenset((role,)))


def key(workflow: str) -> Key:
    return Key("default", workflow, "1")


CASES: list[Any] = [
    *(
        pytest.param(operation, arguments, id=f"{operation.name} {workflow}")
        for workflow in INTERNAL_WORKFLOWS
        for operation, arguments in (
            (SEND, {"key": key(workflow), "name": "vote"}),
            (START, {"request": StartRequest(key=key(workflow))}),
            (BY_FUNCTION[on_execution_changes.rerun], {"key": key(workflow)}),
            (BY_FUNCTION[on_execution_changes.fork], {"key": key(workflow)}),
            (BY_FUNCTION[on_catalog.start_document], {"request": StartRequest(key=key(workflow)), "document": {}}),
            (BY_FUNCTION[on_runs.run_workflow], {"workflow_id": workflow}),
            (REQUEUE, {"key": key(workflow), "edits": {"1": b"\xc0"}}),
            (REQUEUE, {"key": key(workflow), "version": 2}),
            (BULK, {"which": ExecutionFilter(tenant="default", workflow=workflow), "action": "send"}),
        )
    ),
    pytest.param(BULK, {"which": ExecutionFilter(tenant="default", internal=True), "action": "send"}, id="all internal ones"),
]


@pytest.mark.parametrize(("operation", "arguments"), CASES)
def test_an_operator_does_not_tell_perdure_s_own_executions_anything(operation: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(Forbidden, match="needs the role admin"):
        operation.expect_arguments_allowed(caller("operator"), arguments)
    operation.expect_arguments_allowed(caller("admin"), arguments)


def test_an_operator_commands_what_users_have() -> None:
    SEND.expect_arguments_allowed(caller("operator"), {"key": key("order"), "name": "go"})
    START.expect_arguments_allowed(caller("operator"), {"request": StartRequest(key=key("order"))})
    BULK.expect_arguments_allowed(caller("operator"), {"which": ExecutionFilter(tenant="default", workflow="order"), "action": "send"})
    BULK.expect_arguments_allowed(caller("operator"), {"which": ExecutionFilter(tenant="default"), "action": "send"})
    BY_FUNCTION[on_runs.run_workflow].expect_arguments_allowed(caller("operator"), {"workflow_id": "order"})
    REQUEUE.expect_arguments_allowed(caller("operator"), {"key": key("order"), "edits": {"1": b"\xc0"}})


def test_an_operator_requeues_perdure_s_own_executions_as_they_are() -> None:
    REQUEUE.expect_arguments_allowed(caller("operator"), {"key": key("perdure.propose"), "reason": "the model is there again"})
