"""Ending: how a graph execution comes to its end. What failed or was cancelled is undone first, and who is to be told of a failure is called."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.core import values
from perdure.core.errors import ErrorInfo, ExpressionFailed, Fatal, ProgrammingError
from perdure.core.ops import Call, Err, Keep, Ok, Outcome, Sleep, Spawn
from perdure.core.paths import UNDO, Path
from perdure.core.undo import UNDO_WITH, undoable, undoing
from perdure.core.values import NOTHING, Blob
from perdure.programs.code.codec import NO_ARGS
from perdure.programs.code.declare import Step
from perdure.programs.code.undo import BEGIN, PLAN, Done, not_undone_line
from perdure.programs.graph import guarding
from perdure.programs.graph.log import Failure
from perdure.programs.graph.names import Names, Output, together

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance

Status = Literal["completed", "failed", "cancelled"]

REJECTED = "Rejected"
"""The type of the error of an execution that ended because a person said no."""
TOLD: Path = (("on_failure", 0),)
OUTPUT: Path = (("output", 0),)
NO_ARGUMENTS = "what it takes to undo this could not be made of the results; undo it by hand, and give the result: perdure preset"


class GivenTo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What undoing a step is given: its arguments, encoded, and where in them secrets stand; or `why` these could not be made."""

    args: bytes = NO_ARGS
    secrets: tuple[str, ...] = ()
    why: str = ""


class Ending:
    """The end of one execution."""

    def __init__(self, run: "Instance") -> None:
        self.run = run
        self.status: Status = "completed"
        self.outcome: Outcome = Ok()
        self.left: list[Path] = []
        self.is_begun = False
        self.is_told = False
        self.failed_at: Path = ()

    # what brings it about

    def complete_all(self) -> None:
        """All has been done."""
        made: list[Output] = []
        wrong = self.run.log.judged(OUTPUT, lambda: made.append(self._output()))
        if isinstance(wrong, Err):
            self.fail(wrong)
        else:
            self._begin("completed", Ok(made[0].raw if made else NOTHING))

    def complete(self, output: Output) -> None:
        """A return was reached."""
        self._begin("completed", Ok(output.raw))

    def fail(self, error: Err, at: Path = ()) -> None:
        """The step at a path has failed, and nothing handles it; without one, it is no step that has failed. Where a person has rejected what was called
        there, that is a rejection here, too."""
        if error.kind == "cancelled" and error.error.type == REJECTED:
            self.reject(error.error.message)
            return
        if not self.is_begun:
            self.failed_at = at
        self._begin("failed", Err("failed", error.attempts, error.error))

    def reject(self, why: str) -> None:
        """A person said no, and nothing leads on from there."""
        self._begin("cancelled", Err("cancelled", 1, ErrorInfo(REJECTED, why)))

    def cancel(self) -> None:
        """Somebody has cancelled the execution, or its time is over."""
        cancelling = self.run.execution.cancelling
        why = "" if cancelling is None else cancelling.reason
        self._begin("cancelled", Err("cancelled", 1, ErrorInfo("Cancelled", why)))

    def stop(self) -> None:
        """It was to end, and has not within its grace: what it still waits for is not wanted any more."""
        self.run.log.drop_all()
        self.is_told = True
        self._undo_or_tell()

    def undo(self, status: Status, outcome: Outcome) -> None:
        """What an execution has done that has ended is to be undone; whoever is told of failures has been."""
        self.is_begun = self.is_told = True
        self.status, self.outcome = status, outcome
        self.failed_at = () if self.run.execution.completed is None else self.run.execution.completed.path
        self._begin_undo()

    # what is done before it

    def _output(self) -> Output:
        """The result: as the definition says, or that of the steps with which it ends."""
        run, ir = self.run, self.run.plan.ir
        if ir.has_output:
            return Output.of(run.evaluated(ir.output, Names(run.roots, outputs=run.roots.outputs)), "the output")
        last = [id for id in run.plan.ids_directly_in(0) if not run.plan.by_id[id].out]
        if ir.order == "listed":
            last = last[-1:]
        done = {id: run.roots.outputs[id] for id in last if id in run.roots.outputs}
        if len(last) <= 1:
            return next(iter(done.values()), Output())
        return Output.of(together({id: output for id, output in done.items() if output.port != "skipped"}, "the output"), "the output")

    def _begin(self, status: Status, outcome: Outcome) -> None:
        if self.is_begun:
            return
        self.is_begun = True
        self.status, self.outcome = status, outcome
        self.run.walk.ready.clear()
        self.run.works.clear()
        if status != "completed":
            self.run.log.drop_all()
        self._undo_or_tell()

    def _undo_or_tell(self) -> None:
        if self.status != "completed" and self._ends_later():
            self._begin_undo()
        else:
            self._tell()

    def _ends_later(self) -> bool:
        """Whether something is in flight, or to be undone, before the execution ends."""
        run = self.run
        if run.log.replaying:
            return run.log.upcoming(PLAN) is not None
        return run.execution.is_in_flight or (self._undoes and run.execution.is_to_be_undone)

    @property
    def _undoes(self) -> bool:
        """Whether what was done is undone."""
        cancelling = self.run.execution.cancelling
        return self.run.plan.ir.on_failure.undo if cancelling is None else cancelling.undo

    def _begin_undo(self) -> None:
        kept = self.run.log.note(PLAN, Keep(values.encode(self.outcome, "the outcome"), "undo", self.status))
        self.status = kept.label  # type: ignore[assignment]  # it is one of the three
        self.outcome = values.decode(self.run.log.raw(kept.value), Outcome, "the outcome")
        _ = self.run.log.ask(BEGIN, Sleep(0.0))  # what was dropped with the last breath is known from then on
        self.run.log.wait(BEGIN, lambda _: self._undo_all())

    def _undo_all(self) -> None:
        if cancelled := self.run.execution.opened.cancelled():
            self.run.log.wait(cancelled[0].path, lambda _: self._undo_all())
            return
        undoes = self._undoes or self.run.execution.completed is not None
        self.left = undoable(self.run.execution.settled) if undoes else []
        self._undo_next()

    def _undo_next(self) -> None:
        if not self.left:
            self._tell()
            return
        path = self.left.pop(0)
        step, op = self._undoing(path)
        if isinstance(op, Call) and self._may_fail(path):
            op = msgspec.structs.replace(op, may_fail=True)
        _ = self.run.log.ask((UNDO, *path), op)
        self.run.log.wait((UNDO, *path), lambda settled: self._undone(path, settled.outcome), step)

    def _undone(self, path: Path, outcome: Outcome | None) -> None:
        if isinstance(outcome, Err):
            self.run.log.caution(not_undone_line(path, outcome))
        self._undo_next()

    def _may_fail(self, path: Path) -> bool:
        """Whether the execution goes on with what else is to be undone, should this fail for good."""
        run, settled = self.run, undoing(self.run.execution.settled, path)
        node = self._node(path)
        if node is not None and node.undo is not None:
            return node.undo.on_error == "continue" or (not node.undo.on_error and run.plan.ir.dialect == "004")
        tool = run.workflow.tool(settled.op.target) if isinstance(settled.op, Call) else None
        return tool is not None and bool(tool.handlers) and tool.handlers[0].on_error == "continue"

    def _undoing(self, path: Path) -> tuple[Any, Call | Spawn]:
        """What undoes the operation at `path`: the tool that the definition names for it, or the kind, all of which stands in its input; else what its step
        declares."""
        run, settled = self.run, undoing(self.run.execution.settled, path)
        node = self._node(path)
        if not isinstance(settled.op, Call) and (node is None or node.undo is None):
            assert isinstance(settled.op, Spawn)
            return None, msgspec.structs.replace(settled.op, input=NOTHING)
        result = settled.op.value if isinstance(settled.op, Keep) else settled.outcome.value if isinstance(settled.outcome, Ok) else NOTHING
        if isinstance(settled.op, Call) and (node is None or node.undo is None):
            tool = run.workflow.tool(settled.op.target)
            if tool is None or not tool.handlers:
                return _missing(settled.op.target), Call(f"undo:{settled.op.target}")
            handler = tool.handlers[0]
            given = values.encode(Done(result, settled.op.args), "what is to be undone", path)
            return handler, Call(
                handler.step.name,
                given,
                handler.step.queue,
                handler.step.rule,
                handler.step.timeout_s,
                secrets=settled.op.secrets,
                transaction=handler.step.transaction,
            )
        undo = node.undo
        kind = run.workflow.kinds.get(undo.tool) if run.workflow.tool(undo.tool) is None else None
        tool = run.workflow.tool(undo.tool) if kind is None else kind.step
        if tool is None:
            return _missing(undo.tool), Call(undo.tool)
        from perdure.programs.graph.tools import tuned

        step = tuned(tool, undo.retry, run.plan.ir.retry)
        timeout_s = undo.timeout_s if undo.timeout_s is not None and not tool.transaction else tool.timeout_s
        op = Call(undo.tool, NO_ARGS, step.queue, step.rule, timeout_s, transaction=tool.transaction)
        if (noted := run.execution.settled.get((*path, UNDO_WITH))) is not None:
            assert isinstance(noted.op, Keep)
            given_to: GivenTo = values.decode(run.log.raw(noted.op.value), GivenTo, "what an undoing is given", path)
        elif run.log.replaying:
            known = run.log.upcoming((UNDO, *path))
            why = known.about if isinstance(known, Call) else NOTHING
            given_to = GivenTo(why=values.decode(run.log.raw(why), str, "why") if why != NOTHING else "")
        else:
            given_to = self._given_to(undo, node, path, self._done(result, isinstance(settled.op, Spawn) and node.kind == "agent"))
        if given_to.why:
            return _refusing(undo.tool, given_to.why), msgspec.structs.replace(op, about=values.encode(given_to.why, "why"))
        return step, msgspec.structs.replace(op, args=given_to.args, secrets=given_to.secrets)

    def note_undoing(self, path: Path, output: Output) -> None:
        """Note what the undoing of a step is given, as soon as the step has completed: its turn may be forgotten by then."""
        run, made = self.run, NOTHING
        if not run.log.replaying:
            known, node = run.execution.settled.get(path), self._node(path)
            value = known.outcome.value if known is not None and isinstance(known.outcome, Ok) and isinstance(known.op, Call | Spawn) else None
            is_here = value is not None and (not isinstance(value, Blob) or value.sha256 in run.log.payloads)
            done = self._done(value, node.kind == "agent") if is_here else output.parted().value
            made = values.encode(self._given_to(node.undo, node, path, done), "what an undoing is given", path)
        _ = run.log.note((*path, UNDO_WITH), Keep(made, "undo_with"))

    def _given_to(self, undo: Any, node: Any, path: Path, done: Any) -> "GivenTo":
        from perdure.programs.graph.tools import arguments

        is_kind = undo.tool in self.run.workflow.kinds and self.run.workflow.tool(undo.tool) is None
        try:
            given, secrets = self._given({"config": None, "input": undo.input} if is_kind else undo.input, path, done)
            guarding.aside(self.run, undo.tool, given, node)
            return GivenTo(arguments(given, path), secrets)
        except (ExpressionFailed, ProgrammingError, Failure) as error:
            return GivenTo(why=f"{NO_ARGUMENTS}: {error}")

    def _given(self, template: Any, path: Path, done: Any) -> tuple[Any, tuple[str, ...]]:
        """What undoes the operation at `path` is given: it reads what its step could read, and what that has come to as ``@self``."""
        around = self.run.undo_names.get(self._place(path))
        return self.run.given(template, Names(self.run.roots, around, {"self": done}, self.run.roots.outputs if around is None else None))

    def _done(self, result: Any, of_agent: bool) -> Any:
        """The result of what is undone, as its step has it: without what a kind says beside its data, and of an agent its answer."""
        done = Output(self.run.log.raw(result)).parted().value
        return done.get("output") if of_agent else done

    def _place(self, path: Path) -> Path:
        """Where the step is done that an operation is of; the path itself where that is not known any more."""
        return next((path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in self.run.undo_names), path)

    def _node(self, path: Path) -> Any:
        """The node that an operation is of: the innermost that its path names."""
        for segment in reversed(self._place(path)):
            if isinstance(segment, tuple) and segment[1] and (place := self.run.plan.by_id.get(segment[0])) is not None:
                return place.node
        return None

    def _tell(self) -> None:
        """Call who is to be told of a failure; then end."""
        run, call = self.run, self.run.plan.ir.on_failure.call
        error = self.outcome.error if isinstance(self.outcome, Err) else ErrorInfo("Unknown", "")
        given = {"error": {"type": error.type, "message": error.message}, "execution": run.roots.root("execution")}

        def check() -> None:
            if call and self.status == "failed" and not self.is_told:
                guarding.aside(run, call, given)

        forbidden = run.log.judged((*TOLD, guarding.POLICY), check)
        wanted = call and self.status == "failed" and not forbidden and not self.is_told
        is_told = run.log.upcoming(TOLD) is not None if run.log.replaying else wanted
        if not is_told:
            run.finish(self.status, self.outcome)
            return
        from perdure.programs.graph.tools import called, missing

        if (known := run.log.upcoming(TOLD)) is not None:  # as it was done then, whatever is here now
            _ = run.log.ask(TOLD, known)
            step = (run.workflow.tool(call) or missing(call, run.workflow.tools)) if isinstance(known, Call) else None
        else:
            made = called(run, call, TOLD, given)
            step, _ = made.step, run.log.ask(TOLD, made.op, made.blobs)
        run.log.wait(TOLD, lambda _: run.finish(self.status, self.outcome), step)


def _missing(tool: str) -> Step[Any, Any, Any]:
    """What stands for a tool that is not here."""
    return _refusing(tool, f"the engine that runs here has no tool {tool!r} to undo with; give it that tool, and resume the execution")


def _refusing(tool: str, why: str) -> Step[Any, Any, Any]:
    """What fails for good, and says why, so that the execution is parked and nothing is left out."""

    def refuse(*_: Any, **__: Any) -> None:
        raise Fatal(why)

    return Step(refuse, name=tool)
