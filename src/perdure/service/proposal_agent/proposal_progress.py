"""What a proposal agent does and has done, read from its log: each use of a tool with what came of it, and the document that is nearest to be proposed."""

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.core import values
from perdure.core.execution import Execution
from perdure.core.operations import PROPOSAL_AGENT_WORKFLOW, CallOperation, Failure, Outcome, Success
from perdure.core.paths import Key
from perdure.core.values import Value
from perdure.definitions.kinds.agents.agent_workflow import PROGRESS, AgentProgress
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service import queries
from perdure.service.proposal_agent.document_check import CheckedText, ShownFinding
from perdure.service.proposal_agent.proposal_agent_workflow import ProposalAgentResult
from perdure.service.proposal_agent.proposal_order import ProposalOrder
from perdure.service.proposal_agent.proposal_tools import GIVE_UP, LOOK_UP, PROPOSE, READ, TRY, WRITE
from perdure.service.proposals.proposal_workflow import initiator_of
from perdure.service.store_access import StoreAccess

SHOWN_CHARACTERS = 300


class ProposalAgentStep(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a tool by an agent: `number` counts them, `did` says in words what came of it (empty: it is in progress). Of a written document, `errors` and
    `warnings` count its findings.
    """

    number: int
    tool: str
    did: str
    failed: bool = False
    errors: int | None = None
    warnings: int | None = None


class ProposalAgentState(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal agent. `slug` is that of the definition (empty: it is made of the name of a new one), and `asked_by` who has asked.

    It has `ended` with the id of a `proposal`, or without one: `why` says why. While it works, `why` says what it waits for, as its status does. `document` is
    the one with the fewest errors that it has written, the last of these, with its `findings` (empty: it has written none). `cost_usd` is None if a price is
    not known.
    """

    key: Key
    status: str
    ended: bool
    words: str
    slug: str
    is_new: bool
    model: str
    asked_by: str
    steps: list[ProposalAgentStep]
    proposal: str
    why: str
    document: str
    findings: list[ShownFinding]
    calls: int
    tokens: int
    cost_usd: float | None


class _Use(msgspec.Struct):
    """A use of a tool: its number in the log, the tool, its arguments as stored, and its outcome (None: in progress)."""

    number: int
    tool: str
    args: Value
    outcome: Outcome | None


async def read_proposal_agent(access: StoreAccess, tenant: str, id: str) -> ProposalAgentState:
    """An agent by its id.

    Raises:
        NotFound: there is none.
    """
    key = Key(tenant, PROPOSAL_AGENT_WORKFLOW, id)
    status = await queries.execution_status(access, key)
    execution = await access.folds.of(key).refresh()
    order = await _order(access, execution)
    steps, written = list[ProposalAgentStep](), list[tuple[CheckedText, Value]]()
    for number, use in enumerate(_uses(execution), 1):
        found = await _value(access, use.outcome)
        steps.append(_step(number, use, found))
        if use.tool == WRITE and isinstance(use.outcome, Success):
            written.append((msgspec.convert(found, CheckedText), use.args))
    best = min(reversed(written), key=lambda one: one[0].errors, default=None)
    result = await _result(access, execution)
    raw = execution.state.get(PROGRESS)
    spent = (AgentProgress() if raw is None else values.decode(await access.payload(raw), AgentProgress, "the progress")).spent
    return ProposalAgentState(
        key=key,
        status=status.status,
        ended=status.status in ENDED_STATUSES,
        words=order.words,
        slug=result.slug or order.slug,
        is_new=order.is_new,
        model=order.model,
        asked_by=await initiator_of(access, key),
        steps=steps,
        proposal=result.proposal,
        why=result.why or _failure(execution) or ("" if result.proposal else status.why),
        document="" if best is None else str((await _arguments(access, best[1])).get("document", "")),
        findings=[] if best is None else list(best[0].findings),
        calls=spent.calls,
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
    )


async def _order(access: StoreAccess, execution: Execution) -> ProposalOrder:
    if execution.started is None:
        return ProposalOrder(words="")
    (order,), _ = values.decode(await access.payload(execution.started.input), tuple[tuple[ProposalOrder], dict[str, Any]], "the order")
    found: ProposalOrder = order
    return found


def _uses(execution: Execution) -> list[_Use]:
    """The uses of tools, in the order in which they began."""
    calls = ((one.number, one.op, one.outcome) for one in execution.settled.values() if isinstance(one.op, CallOperation))
    found = sorted((_Use(number, op.target, op.args, outcome) for number, op, outcome in calls if op.target in _DOING), key=lambda one: one.number)
    begun = (one.op for one in execution.open.values() if isinstance(one.op, CallOperation))
    return found + [_Use(0, op.target, op.args, None) for op in begun if op.target in _DOING]


_DOING = {
    LOOK_UP: "looks up what there is",
    READ: "reads the present definition",
    WRITE: "writes the definition",
    TRY: "runs a trial",
    PROPOSE: "files the proposal",
    GIVE_UP: "gives up",
}


def _step(number: int, use: _Use, found: Any) -> ProposalAgentStep:
    if use.outcome is None:
        return ProposalAgentStep(number=number, tool=use.tool, did="")
    if isinstance(use.outcome, Failure):
        return ProposalAgentStep(number=number, tool=use.tool, did=f"{_DOING[use.tool]}: {use.outcome.error.message[:SHOWN_CHARACTERS]}", failed=True)
    if use.tool == WRITE:
        checked = msgspec.convert(found, CheckedText)
        said = ", ".join(_count(count, what) for count, what in ((checked.errors, "error"), (checked.warnings, "warning")) if count) or "no findings"
        return ProposalAgentStep(number=number, tool=WRITE, did=f"{_DOING[WRITE]}: {said}", errors=checked.errors, warnings=checked.warnings)
    said = _tried(found) if use.tool == TRY and isinstance(found, Mapping) else str(found)[:SHOWN_CHARACTERS] if use.tool == GIVE_UP else ""
    return ProposalAgentStep(number=number, tool=use.tool, did=f"{_DOING[use.tool]}: {said}" if said else _DOING[use.tool])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _tried(found: Mapping[str, Any]) -> str:
    if "same" in found:
        return f"{found['same']} same, {found['differing']} differ, {found['unknown']} unknown"
    if found.get("why"):
        return f"unknown from {found['unknown_from']}: {found['why']}" if found.get("unknown_from") else str(found["why"])
    return f"it would have {found.get('status')}"


async def _value(access: StoreAccess, outcome: Outcome | None) -> Any:
    if not isinstance(outcome, Success):
        return None
    return values.decode(await access.payload(outcome.value), Any, "what a tool returned")


async def _arguments(access: StoreAccess, args: Value) -> dict[str, Any]:
    _, named = values.decode(await access.payload(args), tuple[list[Any], dict[str, Any]], "the arguments of a tool")
    found: dict[str, Any] = named
    return found


async def _result(access: StoreAccess, execution: Execution) -> ProposalAgentResult:
    ended = execution.ended
    if ended is None or not isinstance(ended.outcome, Success) or ended.status != "completed":
        return ProposalAgentResult()
    found: ProposalAgentResult = values.decode(await access.payload(ended.outcome.value), ProposalAgentResult, "the result")
    return found


def _failure(execution: Execution) -> str:
    ended = execution.ended
    return ended.outcome.error.message if ended is not None and isinstance(ended.outcome, Failure) else ""
