"""Inputs: the arguments of an execution, held against what its workflow takes before anything is started."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from perdure.code.call_options import WITH_OPTIONS, misplaced_options, refuse_options_among_arguments
from perdure.core import values
from perdure.core.errors import BadValue, Undecodable
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.runtime.workflow_programs import Workflow


def encoded(workflow: Workflow | str, args: Sequence[Any], kwargs: Mapping[str, Any], verb: str = "client.start") -> bytes:
    """The encoded input of an execution that `verb` starts, if it is what the workflow takes, as far as that is known here.

    Raises:
        BadValue: it takes other arguments.
        WrongVerb: there is an option among the arguments.
        Unencodable, TooLarge: they can't be kept.
    """
    if isinstance(workflow, str):
        return values.encode((args, kwargs), f"the input of {workflow}")
    what = f"the input of {workflow.name}"
    try:
        refuse_options_among_arguments(workflow.name, verb, workflow.fn, args, kwargs)
        signature(workflow.fn).bind(None, *args, **kwargs)
        raw = workflow.codec.encode_args(args, kwargs, what)
        decoded, named = workflow.codec.decode_args(raw, what)
    except TypeError as error:
        raise BadValue(f"the arguments of {workflow.name}", (args, dict(kwargs)), f"what it takes: {error}") from error
    except Undecodable as error:
        raise BadValue(f"the arguments of {workflow.name}", (args, dict(kwargs)), f"what it takes: {error.why}") from error
    if isinstance(workflow, GraphWorkflow) and workflow.release is not None:
        _expect_fitting(workflow, decoded, named, verb)
    return raw


def _expect_fitting(workflow: GraphWorkflow, args: Sequence[Any], kwargs: Mapping[str, Any], verb: str) -> None:
    from perdure.definitions.format.dialect_rules import RULES
    from perdure.definitions.graph.definition_input import input_problems  # here, so that who has no definitions loads nothing of them
    from perdure.definitions.graph.plan import plan_of_definition

    given = {**(args[0] if args and isinstance(args[0], Mapping) else {}), **kwargs}
    release = workflow.release
    assert release is not None
    ir = plan_of_definition(release.sha256, {release.sha256: release.raw}).ir
    if ir.input and RULES[ir.dialect].declared_names_only and (options := {one: kwargs[one] for one in kwargs if one in WITH_OPTIONS and one not in ir.input}):
        raise misplaced_options(workflow.name, verb, options, args, {name: value for name, value in kwargs.items() if name not in options})
    if found := input_problems(ir, given):
        raise BadValue(f"the input of {workflow.name}", given, f"what it takes: {'; '.join(found)}")
