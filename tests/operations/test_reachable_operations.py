"""Claims about the reach of operations: a Python client can call each one, or the reason why not is written here."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import perdure
from perdure.operations.operation_table import OPERATIONS

CLIENT_MODULES = (
    "async_client.py",
    "async_handle.py",
    "async_catalog.py",
    "async_proposals.py",
    "async_recordings.py",
    "async_triggers.py",
    "async_administration.py",
    "async_people.py",
    "async_maintenance.py",
    "remote/http_access.py",
)
"""What a client of a store or a server is made of. Its sync face is generated from it."""

NOT_FOR_CLIENTS = {
    "runs.run_workflow": "the terms of other systems; `client.start` does it",
    "runs.approve": "the terms of other systems, by a resume token; `client.approve` does it",
    "runs.decide": "the terms of other systems; `client.approve` and `client.reject` do it",
    "runs.complete": "the terms of other systems, by an execution; `client.complete` does it",
    "runs.report_status": "the terms of other systems; `client.heartbeat` and `client.fail` do it",
    "runs.enqueue": "the terms of other systems; `handle.resume` does it",
}


def called_operations(module: str) -> Iterator[str]:
    """The operations that a module names as ``on_module.function`` among the arguments of a call."""
    tree = ast.parse((Path(inspect.getfile(perdure)).parent / module).read_text(encoding="utf-8"))
    for call in ast.walk(tree):
        for argument in call.args if isinstance(call, ast.Call) else ():
            if isinstance(argument, ast.Attribute) and isinstance(argument.value, ast.Name) and argument.value.id.startswith("on_"):
                yield f"perdure.operations.{argument.value.id}.{argument.attr}"


def test_a_python_client_reaches_each_operation_but_those_of_a_list() -> None:
    called = {name for module in CLIENT_MODULES for name in called_operations(module)}
    unreached = {one.name for one in OPERATIONS if f"{one.function.__module__}.{one.function.__name__}" not in called}
    assert unreached == NOT_FOR_CLIENTS.keys()
