"""Workflows of either kind, code or a definition: what an engine can run, and the program that each is."""

from collections.abc import Generator, Mapping, Sequence
from contextvars import Context
from typing import Any, Protocol, runtime_checkable

from perdure.code import context, divergence_report
from perdure.code.declarations import CodeWorkflow
from perdure.core import events as e
from perdure.core.errors import Diverged
from perdure.core.paths import Key, Path
from perdure.core.program import Program
from perdure.core.replay import LoadBlob
from perdure.definitions.graph.graph_workflow import GraphWorkflow

Workflow = CodeWorkflow | GraphWorkflow


@runtime_checkable
class WorkflowProgram(Program, Protocol):
    """A program in memory that knows what performs its calls."""

    @property
    def steps(self) -> Mapping[Path, Any]:
        """What performs each call that is open, by its path."""
        ...

    @property
    def required(self) -> frozenset[str] | None:
        """The capabilities that an engine needs for it, as it is now (None: nobody knows yet); see `perdure.definitions.graph.requirements`."""
        ...


def program_of(workflow: Workflow, key: Key, variables: Context | None = None) -> WorkflowProgram:
    """A program for an execution of `workflow`, to be fed its events; code finds context variables as they are in `variables`, by default as here."""
    if isinstance(workflow, CodeWorkflow):
        return context.new_code_program(workflow, key, variables)
    from perdure.definitions.graph.instance import GraphProgram as GraphInstance  # here, so that who has no definitions loads nothing of them

    return GraphInstance(workflow, key)


def explain_divergence(workflow: Workflow, key: Key, events: Sequence[e.Event], diverged: Diverged) -> Generator[LoadBlob, bytes, tuple[str, ...]]:
    """How `workflow` differs from the log of an execution, which rebuilding found to have `diverged`, in lines."""
    if isinstance(workflow, GraphWorkflow):
        return diverged.diff
    return (yield from divergence_report.explain_divergence(workflow, key, events, diverged))
