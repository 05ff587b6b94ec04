"""Workflows of either kind, code or a definition: what an engine can run, and the program that each is."""

from collections.abc import Generator, Sequence
from contextvars import Context

from perdure.core import events as e
from perdure.core.errors import Diverged
from perdure.core.paths import Key
from perdure.core.rebuild import Load
from perdure.programs.code import context, diff
from perdure.programs.code.declare import CodeWorkflow
from perdure.programs.code.instance import Instance as CodeInstance
from perdure.programs.graph.declare import GraphWorkflow
from perdure.programs.graph.instance import Instance as GraphInstance

Workflow = CodeWorkflow | GraphWorkflow
Instance = CodeInstance | GraphInstance
"""A program in memory, with the steps behind its calls."""


def program(workflow: Workflow, key: Key, variables: Context | None = None) -> Instance:
    """A program for an execution of `workflow`, to be fed its events; code finds context variables as they are in `variables`, by default as here."""
    return GraphInstance(workflow, key) if isinstance(workflow, GraphWorkflow) else context.program(workflow, key, variables)


def explain(workflow: Workflow, key: Key, events: Sequence[e.Event], diverged: Diverged) -> Generator[Load, bytes, tuple[str, ...]]:
    """How `workflow` differs from the log of an execution, which rebuilding found to have `diverged`, in lines."""
    if isinstance(workflow, GraphWorkflow):
        return diverged.diff
    return (yield from diff.explain(workflow, key, events, diverged))
