"""Finds the signals that a workflow of code names, and the JSON Schemas of their bodies, so that people can be given a form for a message.

What a workflow receives is known only when it runs. The signals that its function names as globals, or closes over, are those that it may receive; so are those
of the functions of its module that it names, such as branches. A signal that is made in the workflow, or has no type, has no schema.
"""

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from perdure.code.declarations import CodeWorkflow, Signal
from perdure.code.function_codec import hint_schema


def message_schemas(workflow: CodeWorkflow) -> dict[str, Any]:
    """Returns the JSON Schemas of the bodies of the messages that a workflow of code may receive, by the names of the messages.

    If two signals of one name have different types, the name has no schema.
    """
    found: dict[str, Any] = {}
    for signal in _signals_of(inspect.unwrap(workflow.fn), set()):
        schema = hint_schema(signal.body)
        found[signal.name] = schema if found.get(signal.name, schema) == schema else {}
    return {name: found[name] for name in sorted(found) if found[name]}


def _signals_of(function: Any, seen: set[int]) -> Iterator[Signal[Any]]:
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    named = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    of_modules = [vars(one)[name] for one in named if isinstance(one, ModuleType) for name in sorted(names) if name in vars(one)]
    closed = inspect.getclosurevars(function).nonlocals.values()
    for one in (*named, *of_modules, *closed):
        if isinstance(one, Signal):
            yield one
        elif isinstance(one, FunctionType) and one.__module__ == function.__module__:
            yield from _signals_of(one, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those that are written within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
