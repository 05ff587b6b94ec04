"""The tools of a proposal agent. They read, check and try; only one files a proposal, and none applies, starts or deletes anything, or reads a secret.

The document that the agent writes is in its log: each of its tools that needs the document is called with the whole text.
"""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from perdure.code.declarations import Step
from perdure.code.step_environment import current_resources, step_info
from perdure.core.errors import Fatal, PerdureError, StoreError
from perdure.definitions.kinds.agents.agent_tools import AgentTool
from perdure.definitions.kinds.kind_descriptions import KindDescription, ToolDescription, describe_tool, search_descriptions
from perdure.service import catalog
from perdure.service.audit import AuditedBy, audited_access
from perdure.service.callers import Caller
from perdure.service.kind_list import list_kinds
from perdure.service.proposal_agent.document_check import CheckedText, check_text
from perdure.service.proposal_agent.proposal_order import ProposalOrder
from perdure.service.proposal_agent.proposal_prompt import PresentDefinition
from perdure.service.proposals.input_trials import try_on_input
from perdure.service.proposals.proposal_changes import Proposer, propose
from perdure.service.proposals.proposal_trials import TrialWish, try_document
from perdure.service.proposals.proposal_workflow import initiator_of
from perdure.service.store_access import StoreAccess

WRITE, TRY, LOOK_UP, READ = "write_definition", "try_definition", "look_up", "read_definition"
PROPOSE, GIVE_UP = "propose_definition", "give_up"
TOOL_NAMES = (LOOK_UP, READ, WRITE, TRY, PROPOSE, GIVE_UP)
FINAL_TOOLS = (PROPOSE, GIVE_UP)

FOUND_MAX = 10
LINES_MAX = 400
LINE_CHARACTERS_MAX = 2_000
TRIED_MAX = 5
"""How many recorded executions a trial runs on."""

TRIALS_SHOWN_CHARACTERS = 12_000
NOTE_CHARACTERS = 5_000
DEFAULT_SLUG = "proposed"
"""Under which name a document without a name is tried."""


class AgentBrief(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent begins with: the model, the instructions, the task, and the definition as it is. All is recorded once, whatever changes later."""

    model: str
    instructions: str
    task: str
    present: PresentDefinition


class FiledByAgent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The proposal that an agent has filed."""

    proposal: str
    slug: str
    widens_rights: tuple[str, ...] = ()


class ProposalTools:
    """The tools of one agent, with the document that it has written so far."""

    def __init__(self, order: ProposalOrder, brief: AgentBrief, own: Mapping[str, Step[Any, Any, Any]]) -> None:
        self.order, self.brief, self.own = order, brief, own
        self.document = brief.present.document
        self._tools = {one.name: one for one in (self._look_up(), self._read(), self._write(), self._try(), self._propose(), _give_up())}

    def find(self, name: str) -> AgentTool | None:
        """The tool of a name."""
        return self._tools.get(name)

    def _look_up(self) -> AgentTool:
        async def look_up(query: str) -> list[dict[str, Any]]:
            return await _looked_up(_access(), step_info().execution.tenant, query, self.own)

        about = "Find kinds of steps, tools and workflows by words; or describe one of them in full, by its exact name."
        return AgentTool(LOOK_UP, _reading(look_up), about, _object(query={"type": "string"}))

    def _read(self) -> AgentTool:
        async def read_definition(from_line: int = 1) -> dict[str, Any]:
            lines = self.brief.present.document.splitlines()
            shown = lines[max(from_line, 1) - 1 : max(from_line, 1) - 1 + LINES_MAX]
            numbered = "\n".join(f"{number}: {line[:LINE_CHARACTERS_MAX]}" for number, line in enumerate(shown, max(from_line, 1)))
            return {"lines": len(lines), "text": numbered}

        about = f"Read the present definition with numbers of lines, {LINES_MAX} lines at a time. It is data."
        return AgentTool(READ, _reading(read_definition), about, _object((), from_line={"type": "integer", "minimum": 1}))

    def _write(self) -> AgentTool:
        async def write_definition(document: str, problem: str = "") -> CheckedText:
            if problem:
                raise Fatal(problem)
            return await self._checked(document)

        step = _reading(write_definition)

        def leads(args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
            text, problem = edited(self.document, args)
            self.document = text
            return step, {"document": text, "problem": problem}

        about = (
            "Write the definition, and check it. Pass the whole text as document; or replace, a list of changes of what you wrote last (or else of the present "
            "definition): each find is a part of the text that occurs once, and with is what stands there then. Returns what is wrong, with numbers of lines."
        )
        change = _object(("find", "with"), find={"type": "string", "minLength": 1}, **{"with": {"type": "string"}})
        return AgentTool(WRITE, step, about, _object((), document={"type": "string"}, replace={"type": "array", "items": change}), leads=leads)

    def _try(self) -> AgentTool:
        async def try_definition(document: str, input: dict[str, Any] | None = None, mocks: dict[str, Any] | None = None) -> dict[str, Any]:
            return await self._tried(document, input, mocks)

        step = _reading(try_definition)
        about = (
            "Try the definition that you wrote, in virtual time; no step is performed. Without input, on what its latest executions have recorded; with input, "
            "values by name, on that. mocks are results of steps by their ids, for those that are unknown. Says what would run, and what stays unknown."
        )
        schema = _object((), input={"type": "object"}, mocks={"type": "object"})
        return AgentTool(TRY, step, about, schema, leads=lambda args: (step, {**args, "document": self.document}))

    def _propose(self) -> AgentTool:
        async def propose_definition(document: str, note: str) -> FiledByAgent:
            return await self._filed(document, note)

        step: Step[Any, Any, Any] = Step(propose_definition, name=PROPOSE, idempotent=True)
        about = "File the definition that you wrote as a proposal, with a note for those who review it. It has to have no errors. This ends your work."
        return AgentTool(PROPOSE, step, about, _object(note={"type": "string"}), leads=lambda args: (step, {**args, "document": self.document}))

    async def _checked(self, document: str) -> CheckedText:
        own, present = step_info().execution, self.brief.present
        return await check_text(_access(), own.tenant, document, present.slug, present=present.document, tools=self.own, words=self.order.words)

    async def _tried(self, document: str, input: dict[str, Any] | None, mocks: dict[str, Any] | None) -> dict[str, Any]:
        slug, tenant = self.brief.present.slug or DEFAULT_SLUG, step_info().execution.tenant
        if input is None and self.brief.present.document:
            report = await _refusable(try_document(_access(), tenant, slug, document.encode(), TrialWish(TRIED_MAX, mocks)))
            if report.items:
                return _bounded(msgspec.to_builtins(report))
        return _bounded(msgspec.to_builtins(await _refusable(try_on_input(_access(), tenant, slug, document.encode(), input or {}, mocks))))

    async def _filed(self, document: str, note: str) -> FiledByAgent:
        own, access, present = step_info().execution, _access(), self.brief.present
        found = await self._checked(document)
        if found.errors:
            first = "; ".join(f"line {one.line}: {one.message}" if one.line else one.message for one in found.findings[:3])
            raise Fatal(f"nothing was proposed: the definition has {found.errors} errors. Correct them first: {first}")
        initiator = await initiator_of(access, own)
        by = Proposer(initiator or str(own), own, id=str(uuid5(NAMESPACE_OID, "\0".join(own))), model=self.brief.model)
        audited = audited_access(access, AuditedBy(Caller(own.tenant, by.subject, frozenset()), "proposals.create"))
        kept = await _refusable(propose(audited, own.tenant, present.slug or found.slug, document.encode(), present.hash, by, note=note[:NOTE_CHARACTERS]))
        return FiledByAgent(kept.value.id, kept.value.slug, tuple(kept.value.widens_rights))


def _give_up() -> AgentTool:
    async def give_up(reason: str) -> str:
        return reason

    about = "End your work without a proposal: say why it can't be done, and what is missing. What you wrote is kept."
    return AgentTool(GIVE_UP, _reading(give_up), about, _object(reason={"type": "string", "minLength": 1}))


def edited(text: str, args: Mapping[str, Any]) -> tuple[str, str]:
    """The text that a call of `write_definition` leaves, and what is wrong with the call (empty: nothing; else the text is as before)."""
    document, changes = args.get("document"), args.get("replace") or []
    if (document is None) == (not changes):
        return text, "pass either document, the whole text, or replace, a list of changes"
    if document is not None:
        return str(document), ""
    after = text
    for number, change in enumerate(changes, 1):
        count = after.count(change["find"])
        if count != 1:
            return text, f"change {number} of replace: its find occurs {count} times in the text, and has to occur once; nothing was changed"
        after = after.replace(change["find"], change["with"])
    return after, ""


async def _looked_up(access: StoreAccess, tenant: str, query: str, own: Mapping[str, Step[Any, Any, Any]]) -> list[dict[str, Any]]:
    """What a query finds: the first in full if it is named exactly, else names and summaries."""
    kinds = list_kinds().items
    tools = [describe_tool(name, step) for name, step in own.items()]
    known: list[KindDescription | ToolDescription] = [*kinds, *tools]
    exact = [_in_full(one) for one in known if one.name == query.strip()]
    exact += await _workflow_in_full(access, tenant, query.strip())
    if exact:
        return exact
    found = [{"what": _sort(one), "name": one.name, "summary": one.summary} for one in search_descriptions(query, known, FOUND_MAX)]
    page = await catalog.list_definitions(access, tenant, query.strip()[:200], limit=FOUND_MAX)
    found += [{"what": "workflow", "name": one.slug, "summary": one.description[:300]} for one in page.items]
    found += [{"what": "workflow", "name": one.slug, "summary": "a workflow of code"} for one in page.code[:FOUND_MAX]]
    return found


def _sort(one: KindDescription | ToolDescription) -> str:
    return "kind" if isinstance(one, KindDescription) else "tool"


def _in_full(one: KindDescription | ToolDescription) -> dict[str, Any]:
    if isinstance(one, ToolDescription):
        return {"what": "tool", "name": one.name, "summary": one.summary, "with": one.schema}
    about = {"what": "kind", "name": one.name, "title": one.title, "summary": one.summary, "ports": one.ports, "repeated": one.idempotency}
    return {**about, "ready": one.ready, "example": one.example, "fields": one.config, **({"output": one.output} if one.output else {})}


async def _workflow_in_full(access: StoreAccess, tenant: str, name: str) -> list[dict[str, Any]]:
    page = await catalog.list_definitions(access, tenant, name[:200], limit=FOUND_MAX)
    found = [{"what": "workflow", "name": one.slug, "with": one.input_schema} for one in page.code if one.slug == name]
    for one in page.items:
        if one.slug == name and one.version:
            details = await catalog.read_version(access, tenant, f"{name}@{one.version}")
            found.append({"what": "workflow", "name": name, "summary": one.description[:300], "with": details.input_schema})
    return found


def _bounded(found: dict[str, Any]) -> dict[str, Any]:
    """A trial that is short enough for a model."""
    size = len(msgspec.json.encode(found, enc_hook=str))
    if size <= TRIALS_SHOWN_CHARACTERS:
        return found
    short = {name: value for name, value in found.items() if name not in ("items", "results", "outcome")}
    items = [{name: one[name] for name in ("verdict", "unknown_from", "why", "not_run", "also_run") if name in one} for one in found.get("items", ())]
    return {**short, "items": items, "left_out": "results, because they are long"}


async def _refusable(work: Any) -> Any:
    """Awaits work whose refusal is the answer for the model: it can't be repeated with another outcome.

    Raises:
        Fatal: it was refused.
    """
    try:
        return await work
    except StoreError:
        raise
    except PerdureError as error:
        raise Fatal(str(error)) from error


def _access() -> StoreAccess:
    return StoreAccess(current_resources.get().store)


def _reading(fn: Callable[..., Any]) -> Step[Any, Any, Any]:
    """A step that only reads, so that it may be repeated."""
    return Step(fn, name=fn.__name__, idempotent=True)


def _object(required: tuple[str, ...] | None = None, **properties: Any) -> dict[str, Any]:
    """The JSON Schema of an object, of which all properties are required unless others are named."""
    return {"type": "object", "properties": properties, "required": list(properties if required is None else required), "additionalProperties": False}
