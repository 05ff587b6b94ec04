"""What an engine knows: the workflows that it was given and can run here, and those that are Perdure's own."""

import logging
from collections.abc import Iterable
from importlib.util import find_spec

from perdure.programs.code.approval import WORKFLOW as APPROVAL
from perdure.programs.code.composite import WORKFLOW as COMPOSITE
from perdure.programs.workflows import Workflow

logger = logging.getLogger("perdure.engine")

OWN = (APPROVAL, COMPOSITE)


def runnable(workflows: Iterable[Workflow]) -> dict[str, Workflow]:
    """By name, those that can be run here; a sync one needs greenlet, and is left to other engines without it."""
    return {one.name: one for one in workflows if _can_run(one)}


def _can_run(workflow: Workflow) -> bool:
    able = not workflow.sync or find_spec("greenlet") is not None
    if not able:
        logger.warning('%s is left to other engines: greenlet is not installed here (pip install "perdure[sync]")', workflow.name)
    return able
