"""Definitions in a simulated world: several beside each other, each as it was written, on engines that know the tools and nothing else of them."""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.code.approval_requests import ApprovalRequest
from perdure.code.results import Vote
from perdure.code.step_environment import StepInfo
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.messages import ExecutionMessage
from perdure.core.operations import APPROVAL_WORKFLOW, SpawnOperation
from perdure.core.paths import Key, Path
from perdure.core.program import program_name
from perdure.core.values import Blob, Value
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.runtime.workflow_programs import encode_input
from perdure.testing.faults import FaultyStore
from tests.proof.audited_store import AuditedWorld
from tests.proof.definitions import log_checks
from tests.proof.definitions.comparison import differs, differs_from_part
from tests.proof.definitions.facts import Decision, Facts
from tests.proof.definitions.log_checks import replayed
from tests.proof.definitions.log_facts import LogFacts
from tests.proof.definitions.plans import CasePlan
from tests.proof.definitions.tools import Work

if TYPE_CHECKING:
    from tests.proof.simulation import Simulation

TENANT = "t"
VIEWED_EVERY = 25
"""Of how many moments of a log one is looked at."""


def made(simulation: "Simulation", plans: Sequence[CasePlan]) -> "list[DefinitionCase]":
    """The cases of a world, of these definitions."""
    cases: list[DefinitionCase] = []

    def failures(info: StepInfo) -> int:
        known = simulation.auditor.known.get(info.execution)
        pending = None if known is None else known.shadow.open.get(info.path)
        return info.attempt - 1 if pending is None else pending.failures

    def begins(name: str, info: StepInfo) -> None:
        world = cases[int(info.execution.id)].world
        world.effects[name] += 1
        simulation.store.ran(world.name, f"{name} at {info.path}")

    work = Work(failures, begins)
    cases += [DefinitionCase(simulation, number, plan, work) for number, plan in enumerate(plans)]
    by_key = {case.key: case for case in cases}

    def tell(key: Key, event: e.Event) -> None:
        if key in by_key:
            by_key[key].told(event)

    simulation.auditor.tell = tell
    return cases


class DefinitionCase:
    """A definition in a world: its execution, all that was written of it, and what must come of it. Satisfies `tests.proof.simulation.SimulationCase`.

    Once that was judged, `taken` are the definitions of the patches that were taken, in order.
    """

    def __init__(self, simulation: "Simulation", number: int, plan: CasePlan, work: Work) -> None:
        from perdure.definition_workflow import Definition

        self._simulation, self.plan = simulation, plan
        self.graph: GraphWorkflow = Definition.of(plan.case.definition, tools=work.tools()).graph
        self.key = Key(TENANT, self.graph.name, str(number))
        self.world = AuditedWorld(simulation.store, str(number))
        later = [message.at_s for message in plan.case.script.messages] + [patch.at_s for patch in plan.patches]
        self.last_s = max((*later, plan.cancel_s or 0.0), default=0.0)
        self.events: list[e.Event] = []
        self.taken: list[bytes] = []
        self._asked: set[Path] = set()

    def workflows(self, _: int) -> list[GraphWorkflow]:
        """See `Case.workflows`. One stands for all: each execution carries its definition along."""
        return [self.graph] if self.key.id == "0" else []

    @property
    def steps(self) -> list[Any]:
        """See `Case.steps`."""
        return []

    @property
    def undoes(self) -> bool:
        """See `Case.undoes`. No patch changes it."""
        return bool(self.plan.case.definition.get("on_failure", {}).get("undo", True))

    # what it is told

    async def send(self) -> None:
        """See `Case.send`."""
        simulation, script = self._simulation, self.plan.case.script
        calm = msgspec.structs.replace(simulation.options.faults, kill_before=0.0, kill_after=0.0, freeze=0.0)
        store, began_s = FaultyStore(simulation.store, simulation.rng, calm), simulation.loop.now_s
        version, given = self.graph.version, encode_input(self.graph, (), script.input)
        start = messages.StartMessage(version, given, 7, definition=self.graph.definition)
        opening = NewExecution(program_name(self.key.workflow, version), self.key)
        await simulation.post(store, OutgoingMessage(self.key, "start", messages.encode_message(start), opens=opening))
        mail: list[tuple[float, str, ExecutionMessage]] = [
            (one.at_s, f"outside:{number}", messages.SignalMessage(one.name, values.encode(one.body, "a body"), f"outside:{number}"))
            for number, one in enumerate(script.messages)
        ]
        mail += [(patch.at_s, f"patch:{number}", messages.PatchMessage(patch.raw)) for number, patch in enumerate(self.plan.patches)]
        mail += [] if self.plan.cancel_s is None else [(self.plan.cancel_s, "cancel", messages.CancelMessage("because"))]
        for at_s, key, message in sorted(mail, key=lambda one: one[0]):
            await asyncio.sleep(max(0.0, began_s + at_s - simulation.loop.now_s))
            await simulation.post(store, OutgoingMessage(self.key, key, messages.encode_message(message)))

    def told(self, event: e.Event) -> None:
        """An event of it was written: somebody decides, in time, what is asked for in it, and mends what has stopped it."""
        self.events.append(event)
        match event:
            case e.OpenedEvent(path, SpawnOperation(workflow, id) as op) if workflow == APPROVAL_WORKFLOW and path not in self._asked:
                self._asked.add(path)
                (request,), _ = values.decode(self._payload(op.input), tuple[tuple[ApprovalRequest], dict[str, Any]], "what is asked")
                if decision := self.plan.case.script.decisions.get(request.title):
                    self._soon(decision.after_s, self.key._replace(workflow=workflow, id=id), "vote", _vote(decision))
            case e.ParkedEvent("interrupted") if self._simulation.options.at_once:
                self._soon(0.0, self.key, f"mend:{len(self.events)}", messages.RetryMessage())

    def _soon(self, after_s: float, to: Key, key: str, message: ExecutionMessage) -> None:
        simulation = self._simulation

        async def post() -> None:
            await asyncio.sleep(after_s)
            await simulation.post(FaultyStore(simulation.store, simulation.rng), OutgoingMessage(to, key, messages.encode_message(message)))

        Context().run(simulation.at_once, post())

    # what comes of it

    def _payload(self, value: Value) -> bytes:
        return (self._simulation.store.payload(value.sha256) or b"") if isinstance(value, Blob) else value

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled it before it had ended."""
        return any(isinstance(event, e.CancellingEvent) for event in self.events)

    @property
    def is_discarded(self) -> bool:
        """Whether it was cancelled while it needed attention, and so as it stood."""
        parked = [event for event in self.events if isinstance(event, e.ParkedEvent | e.ResumedEvent)]
        needs_attention = bool(parked) and isinstance(parked[-1], e.ParkedEvent) and parked[-1].reason == "interrupted"
        return self.plan.cancel_s is not None and needs_attention and not self.is_cancelled

    def judge(self) -> None:
        """See `Case.judge`."""
        auditor, counts = self._simulation.auditor, self._simulation.counts
        definition, prediction = self.plan.case.definition, self.plan.case.prediction
        refused = {patch.raw for patch in self.plan.patches if patch.prediction is None}
        self.taken = [self._payload(event.definition) for event in self.events if isinstance(event, e.PatchedEvent) and not event.refused]
        for raw in self.taken:
            auditor.expect(raw not in refused, lambda: f"{self.key}: a patch was taken that changes what has begun")
            patch = next(patch for patch in self.plan.patches if patch.raw == raw)
            definition, prediction = patch.definition, patch.prediction or prediction
        counts["patched"] += bool(self.taken)
        counts["refused"] += sum(isinstance(event, e.PatchedEvent) and bool(event.refused) for event in self.events)
        counts["cancelled"] += self.is_cancelled or self.is_discarded
        facts: Facts = LogFacts(self.key, definition, self.events, self._payload).facts()
        if self.is_discarded:
            found = [] if not facts.undone else [f"it was cancelled as it stood, and {facts.undone} undone"]
        else:
            found = differs_from_part(definition, prediction, facts) if self.is_cancelled else differs(prediction, facts)
        for problem in found:
            auditor.complain(f"{self.key}: {problem}")
        for what, events in (("log", log_format.decode_rows(self._simulation.store.rows(self.key))), ("whole log", self.events)):
            for problem in replayed(self.graph, self.key, events, self._payload):
                auditor.complain(f"{self.key}: its {what}: {problem}")
            for problem in log_checks.problems(self.key, events, self._payload, VIEWED_EVERY):
                auditor.complain(f"{self.key}: the view of its {what}: {problem}")


def _vote(decision: Decision) -> messages.SignalMessage:
    vote = Vote(decision.by, decision.approved, decision.comment, decision.form)
    return messages.SignalMessage("vote", values.encode(vote, "a vote"), "vote")
