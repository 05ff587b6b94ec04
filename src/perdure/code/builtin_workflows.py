"""The program of a composite: a pipeline that was used, and how often. It is a workflow like any other, and an engine always knows it.

Its id is the pipeline's name, in which stands a hash of what it does: whoever uses the same finds the same. It waits for messages that say that it was used,
until there were `USES_MAX`, and then ends: it remembers each sender, as no use may count twice. Cancelled, it is forgotten.
"""

from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Signal
from perdure.core.operations import COMPOSITE_WORKFLOW

USED_SIGNAL = Signal("used")
"""The message that says that it was used, once."""

USES, DESCRIPTION = "uses", "about"
"""The attributes by which it is found, the number of its uses and words; the number is also its state of that name."""

USES_AT_A_TIME = 1000
GATHER_S = 1.0
"""So long further uses are gathered after the first, to be counted at once. Who searches meanwhile counts them himself."""

USES_MAX = 10_000
"""So many uses are counted; the number stays there."""


class CompositeDefinition(msgspec.Struct, frozen=True):
    """What a composite does: its operations, in which ``@input.NAME`` stands for what differs from use to use, in words, and the names of its inputs."""

    name: str
    description: str
    pipeline: list[Any]
    inputs: tuple[str, ...]
    tables: tuple[str, ...] = ()


async def _composite_workflow(ctx: Context, shape: CompositeDefinition) -> int:
    uses = 0
    async for turn in ctx.loop("count", state=0, keep=1):
        _ = await turn.listen(USED_SIGNAL)
        uses = turn.state + 1
        turn.set(USES, uses)
        if uses < USES_MAX:
            uses += len(await turn.listen_many(USED_SIGNAL, limit=min(USES_AT_A_TIME, USES_MAX - uses), timeout=GATHER_S))
        turn.set(USES, uses)
        turn.set_attributes({USES: uses})
        turn.state = uses
        if uses >= USES_MAX:
            break
    return uses


COMPOSITE_CODE = CodeWorkflow(_composite_workflow, COMPOSITE_WORKFLOW)
"""What engines know beside what they are given."""
