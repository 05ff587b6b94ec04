"""The same programs, faster: hours become seconds, so that a simulated world need not wait for days to pass.

What must come of a program stays the same. Waits for what does come get more time than any fault takes, and so do steps that
answer; waits for what never comes get less.

Code programs in a simulated world: each is started, sent its messages, and compared with what the oracle predicts of it.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.function_codec import NO_ARGUMENTS_ENCODED
from perdure.core import messages, values
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.messages import ExecutionMessage
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.testing.faults import FaultyStore
from tests.proof import program_nodes as n
from tests.proof.audited_store import AuditedWorld
from tests.proof.program_interpreter import Code, as_workflow, children, steps, undoing
from tests.proof.program_nodes import Node, Program
from tests.proof.program_oracle import CENTURY_S, predict

if TYPE_CHECKING:
    from tests.proof.simulation import Simulation


SHORT_S = 8.0
LONG_S = 400.0
MESSAGES_FASTER = 120.0


def hasten(program: Program, prefix: str = "") -> Program:
    """The program with short waits; `prefix` goes in front of the names of its children and of what workers do, so that several programs share a world."""
    sent = {node.message for node in n.walk(program.root) if isinstance(node, n.Send)}
    come = sent | {message.name.partition("[")[0] for message in program.messages}
    messages = tuple(message._replace(at_s=message.at_s / MESSAGES_FASTER) for message in program.messages)
    return replace(program, root=_hastened(program.root, come, prefix), messages=messages)


def _hastened(node: Node, come: set[str], prefix: str) -> Node:
    def again(inner: Node) -> Node:
        return _hastened(inner, come, prefix)

    match node:
        case n.Step():
            return _step(node, prefix)
        case n.Attempt(step):
            return n.Attempt(_step(step, prefix))
        case n.Sleep(duration_s):
            return n.Sleep(duration_s if duration_s >= CENTURY_S else min(duration_s, SHORT_S))
        case n.Listen(message, timeout_s) | n.Gather(message, timeout_s=timeout_s) if timeout_s is not None:
            return replace(node, timeout_s=LONG_S if message in come else min(timeout_s, SHORT_S))
        case n.Call(name, body):
            return replace(node, name=prefix + name, body=again(body))
        case n.Approve(timeout_s=timeout_s):
            return replace(node, timeout_s=min(timeout_s, SHORT_S))
        case n.Guard(body) | n.Map(body=body) | n.Loop(body=body):
            return replace(node, body=again(body))
        case n.Removed(verb):
            return replace(node, verb=again(verb))
        case n.Changed(ways=ways):
            return replace(node, ways=tuple(again(way) for way in ways))
        case n.Beside(steps, body):
            return n.Beside(tuple(_step(one, prefix) for one in steps), again(body))
        case n.Sequence(nodes) | n.Together(nodes):
            return replace(node, nodes=tuple(again(one) for one in nodes))
        case n.Join(branches) | n.Race(branches):
            return replace(node, branches={name: again(body) for name, body in branches.items()})
    return node


def _step(step: n.Step, prefix: str) -> n.Step:
    step = replace(step, name=prefix + step.name) if step.queue else step
    match step.behaviour:
        case n.Answers(duration_s=duration_s):
            return replace(step, behaviour=replace(step.behaviour, duration_s=min(duration_s, SHORT_S)), timeout_s=step.timeout_s and LONG_S)
        case n.Hangs():
            return step
    return replace(step, timeout_s=step.timeout_s and LONG_S)


class CodeCase:
    """A program in a world: its execution, what its steps act upon, and what must come of it. Satisfies `tests.proof.simulation.SimulationCase`."""

    def __init__(self, simulation: "Simulation", number: int, program: n.Program) -> None:
        self._simulation = simulation
        fast = program if simulation.options.as_written else hasten(program, f"{number}.")
        self.world = AuditedWorld(simulation.store, str(number))
        name = f"program{number}"
        codes = [self._code(deploy) for deploy in range(len(simulation.options.deploys_at_s) + 1)]
        self._workflows = {
            code.deploy: [code.declared(as_workflow(fast, self.world, code), name), *(child.code for child in children(fast, self.world, code).values())]
            for code in codes
        }
        self.key, self.program, self.prediction = Key("t", name, "x"), fast, predict(fast)
        self.last_s = max((message.at_s for message in fast.messages), default=0.0)

    def _code(self, deploy: int) -> Code:
        return Code(deploy, self._simulation.options.pinned, self._simulation.queues)

    def workflows(self, deploy: int) -> list[CodeWorkflow]:
        """See `Case.workflows`."""
        return self._workflows[deploy]

    @property
    def steps(self) -> list[Step[Any, Any, Any]]:
        """See `Case.steps`."""
        return list(steps(self.program, self.world, self._code(len(self._simulation.options.deploys_at_s))))

    @property
    def undoes(self) -> bool:
        """See `Case.undoes`."""
        return True

    async def send(self) -> None:
        """See `Case.send`."""
        simulation = self._simulation
        calm = msgspec.structs.replace(simulation.options.faults, kill_before=0.0, kill_after=0.0)
        store, started = FaultyStore(simulation.store, simulation.rng, calm), False
        began_s = simulation.loop.now_s
        cancel_s = simulation.options.cancel_after_s
        later = [
            (message.at_s, f"outside:{message.key}", messages.SignalMessage(message.name, values.encode(message.body, "a body"), message.key))
            for message in self.program.messages
        ]
        mail: list[tuple[float, str, ExecutionMessage]] = [*later, *([] if cancel_s is None else [(cancel_s, "cancel", messages.CancelMessage("because"))])]
        for at_s, key, message in sorted(mail, key=lambda one: one[0]):
            if at_s > 0 and not started:
                await self._start(store)
                started = True
            await asyncio.sleep(max(0.0, began_s + at_s - simulation.loop.now_s))
            await simulation.post(store, OutgoingMessage(self.key, key, messages.encode_message(message)))
        if not started:
            await self._start(store)

    async def _start(self, store: FaultyStore) -> None:
        simulation = self._simulation
        # A start that comes by mail comes after the messages that were sent before it; one that is made here, at any time.
        queue = self.program.queue
        if simulation.rng.random() < 0.3 and not queue and all(message.at_s > 0 for message in self.program.messages):
            simulation.rng.choice(simulation.processes).start(self.key, NO_ARGUMENTS_ENCODED)
            await asyncio.sleep(simulation.rng.uniform(0.0, 3.0))
        version = simulation.rng.randint(0, len(simulation.options.deploys_at_s) + 1) if simulation.options.pinned else 1
        opening = NewExecution(program_name(self.key.workflow, version), self.key, queue, self.world.name if queue else "")
        await simulation.post(
            store, OutgoingMessage(self.key, "start", messages.encode_message(messages.StartMessage(version, NO_ARGUMENTS_ENCODED, 7)), opens=opening)
        )

    def judge(self) -> None:
        """See `Case.judge`."""
        self._judge_result()
        self._judge_effects()

    def _judge_result(self) -> None:
        simulation = self._simulation
        ended = simulation.auditor.known[self.key].shadow.ended
        if ended is not None and ended.status == "cancelled" and simulation.options.cancel_after_s is not None:
            simulation.counts["cancelled"] += 1
            return
        outcome = ended.outcome if ended is not None else None
        value = outcome.value if isinstance(outcome, Success) else None
        raw = simulation.store.payload(value.sha256) if isinstance(value, values.Blob) else value
        result = None if raw is None else msgspec.msgpack.decode(raw)
        simulation.auditor.expect(
            result == self.prediction.result, lambda: f"{self.key}: {result if raw is not None else ended}, predicted was {self.prediction.result}"
        )

    def _judge_effects(self) -> None:
        simulation, auditor, prediction = self._simulation, self._simulation.auditor, self.prediction
        ended = auditor.known[self.key].shadow.ended
        cancelled = ended is not None and ended.status == "cancelled"
        lost = simulation.kills + sum(simulation.counts[fault] for fault in ("failed before", "failed after", "stopped", "frozen before", "frozen after"))
        lost += sum(auditor.counts[answer] for answer in ("Conflict", "Superseded"))
        for effect in sorted({*prediction.effects, *self.world.effects}):
            count, calls = self.world.effects[effect], auditor.effects.get((self.world.name, effect), set())
            least = prediction.effects.get(effect, 0)
            again = sum(auditor.interruptions[call] + simulation.store.lines.again(call, auditor.tries[call]) for call in calls) if calls else lost
            most = (least or prediction.maybe.get(effect, 0)) + again
            if cancelled and effect.startswith(undoing("")):  # what was done until then is undone
                most += self.world.effects[effect.removeprefix(undoing(""))]
            skipped = sum(1 for call in calls for attempt in range(1, auditor.tries[call] + 1) if not auditor.runs[(*call, attempt)])
            auditor.expect(cancelled or count >= least - skipped, lambda: f"{effect} happened {count} times, predicted was {least}")  # noqa: B023  # called at once
            auditor.expect(count <= most, lambda: f"{effect} happened {count} times, at most {most} was predicted, {again} interruptions included")  # noqa: B023  # called at once
