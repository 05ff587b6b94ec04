"""What an engine knows: the workflows that it was given and can run here, and those that are Perdure's own."""

import logging
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from perdure.core.program import Toolbox
from perdure.programs.code.approval import WORKFLOW as APPROVAL
from perdure.programs.code.composite import WORKFLOW as COMPOSITE
from perdure.programs.code.declare import CodeWorkflow, Step
from perdure.programs.graph.declare import GraphWorkflow
from perdure.programs.graph.versions import number
from perdure.programs.workflows import Workflow

logger = logging.getLogger("perdure.engine")

OWN = (APPROVAL, COMPOSITE)


def runnable(workflows: Iterable[Workflow]) -> dict[str, Workflow]:
    """By name, those that can be run here; a sync one needs greenlet, and is left to other engines without it. Of several definitions, the newest.

    Raises:
        UnsupportedType: one of them, or one of its tools, has a type that can't be decoded.
    """
    found: dict[str, Workflow] = {}
    for one in workflows:
        if isinstance(one, CodeWorkflow):
            _ = one.codec
        else:
            bind(one.tools.values())
        before = found.get(one.name)
        if _can_run(one) and not (isinstance(before, GraphWorkflow) and isinstance(one, GraphWorkflow) and _number(one) < _number(before)):
            found[one.name] = one
    return found


def bind(steps: Iterable[Step[Any, Any, Any]]) -> None:
    """Read the type hints of steps and of what undoes them, so that nothing is done before they are known to be sound.

    Raises:
        UnsupportedType: one has a type that can't be decoded.
    """
    for one in steps:
        _ = one.codec, [handler.step.codec for handler in one.handlers]


def releases(workflows: Iterable[Workflow]) -> dict[tuple[str, str], GraphWorkflow]:
    """Each definition with the tools that were given for it, by its name and its SHA-256."""
    return {(one.name, one.release.sha256): one for one in workflows if isinstance(one, GraphWorkflow) and one.release is not None}


def toolboxes(workflows: Iterable[Workflow]) -> tuple[Toolbox, ...]:
    """What the executions of definitions may need of these, for all definitions that have the same together."""
    found: dict[frozenset[str], set[str]] = {}
    for one in workflows:
        if isinstance(one, GraphWorkflow) and one.capabilities:
            found.setdefault(one.capabilities, set()).update(one.programs)
    return tuple((frozenset(programs), has) for has, programs in found.items())


def _number(workflow: GraphWorkflow) -> tuple[int, int, int, bool]:
    return number(workflow.release.version) if workflow.release is not None else (0, 0, 0, False)


def _can_run(workflow: Workflow) -> bool:
    able = not workflow.sync or find_spec("greenlet") is not None
    if not able:
        logger.warning('%s is left to other engines: greenlet is not installed here (pip install "perdure[sync]")', workflow.name)
    return able
