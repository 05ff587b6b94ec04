"""Workflows of either kind, code or a definition: what an engine can run, and the program that each is."""

from collections.abc import Generator, Mapping, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from perdure.code import context, divergence_report
from perdure.code.call_options import WITH_OPTIONS, misplaced_options, refuse_options_among_arguments
from perdure.code.declarations import CodeWorkflow
from perdure.core import events as e
from perdure.core import values
from perdure.core.error_text import shown_value
from perdure.core.errors import BadValue, Diverged, Undecodable
from perdure.core.paths import Key, Path
from perdure.core.program import Program
from perdure.core.replay import LoadBlob
from perdure.definitions.graph.graph_workflow import DefinitionRelease, GraphWorkflow

if TYPE_CHECKING:
    from perdure.definitions.graph.ir import IR

Workflow = CodeWorkflow | GraphWorkflow


@runtime_checkable
class WorkflowProgram(Program, Protocol):
    """A program in memory that knows the functions of its calls."""

    @property
    def steps(self) -> Mapping[Path, Any]:
        """The functions that perform the open calls, by path."""
        ...

    @property
    def required(self) -> frozenset[str] | None:
        """The capabilities that an engine needs for the program in its present state (None: not known yet); see `perdure.definitions.graph.requirements`."""
        ...


def program_of(workflow: Workflow, key: Key, variables: Context | None = None) -> WorkflowProgram:
    """Returns a new program for an execution of `workflow`. Code runs with the context variables of `variables`, by default those of the caller."""
    if isinstance(workflow, CodeWorkflow):
        return context.new_code_program(workflow, key, variables)
    from perdure.definitions.graph.graph_verbs import new_graph_program  # a late import, so that code workflows do not load what definitions need

    return new_graph_program(workflow, key)


def explain_divergence(workflow: Workflow, key: Key, events: Sequence[e.Event], diverged: Diverged) -> Generator[LoadBlob, bytes, tuple[str, ...]]:
    """Returns the report, in lines, of how `workflow` differs from the log of an execution whose replay has `diverged`."""
    if isinstance(workflow, GraphWorkflow):
        return diverged.diff
    return (yield from divergence_report.explain_divergence(workflow, key, events, diverged))


def encode_input(workflow: Workflow | str, args: Sequence[Any], kwargs: Mapping[str, Any], verb: str = "client.start") -> bytes:
    """Encodes the input of an execution that `verb` starts, and checks that the workflow takes it, as far as this process knows the workflow.

    Raises:
        BadValue: the workflow takes other arguments.
        WrongVerb: an option is among the arguments.
        Unencodable, TooLarge: the arguments can't be stored.
    """
    if isinstance(workflow, str):
        return values.encode((args, kwargs), f"the input of {workflow}")
    what = f"the input of {workflow.name}"
    try:
        refuse_options_among_arguments(workflow.name, verb, workflow.fn, args, kwargs)
        workflow.codec.expect_arguments(args, kwargs)
        raw = workflow.codec.encode_args(args, kwargs, what)
        decoded, named = workflow.codec.decode_args(raw, what)
    except TypeError as error:
        raise _refused_arguments(workflow, args, kwargs, str(error)) from error
    except Undecodable as error:
        raise _refused_arguments(workflow, args, kwargs, error.why) from error
    if isinstance(workflow, GraphWorkflow) and workflow.release is not None:
        _check_definition_input(workflow.name, workflow.release, decoded, named, verb)
    return raw


def _refused_arguments(workflow: Workflow, args: Sequence[Any], kwargs: Mapping[str, Any], why: str) -> BadValue:
    what = f"the arguments of {workflow.name}"
    if isinstance(workflow, CodeWorkflow) or not args or isinstance(args[0], Mapping):
        return BadValue(what, (args, dict(kwargs)), f"what it takes: {why}")
    name = "NAME" if workflow.release is None else next(iter(_ir_of(workflow.release).input), "NAME")
    how = f"Give each value its name: perdure start {workflow.name} -i {name}=VALUE, or {name}=value in Python"
    message = f"{workflow.name} is a definition, which takes its input by name, and {shown_value(args[0])} has none. {how}"
    return BadValue(what, list(args), "values by name", message)


def _ir_of(release: DefinitionRelease) -> "IR":
    from perdure.definitions.graph.plan import plan_of_definition  # a late import, so that code workflows do not load what definitions need

    return plan_of_definition(release.sha256, {release.sha256: release.raw}).ir


def _check_definition_input(workflow: str, release: DefinitionRelease, args: Sequence[Any], kwargs: Mapping[str, Any], verb: str) -> None:
    from perdure.definitions.format.dialect_rules import RULES
    from perdure.definitions.graph.definition_input import input_problems  # a late import, so that code workflows do not load what definitions need

    given = {**(args[0] if args and isinstance(args[0], Mapping) else {}), **kwargs}
    ir = _ir_of(release)
    if ir.input and RULES[ir.dialect].declared_names_only and (options := {one: kwargs[one] for one in kwargs if one in WITH_OPTIONS and one not in ir.input}):
        raise misplaced_options(workflow, verb, options, args, {name: value for name, value in kwargs.items() if name not in options})
    if found := input_problems(ir, given):
        raise BadValue(f"the input of {workflow}", given, f"what it takes: {'; '.join(found)}")
