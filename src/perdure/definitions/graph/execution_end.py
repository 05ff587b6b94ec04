"""The end of an execution of a definition.

An execution that failed or was cancelled is undone first; then the failure is reported to the tool or workflow that the definition names for that.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from perdure.code.declarations import Step
from perdure.code.function_codec import NO_ARGUMENTS_ENCODED
from perdure.core import error_codes, values
from perdure.core.errors import ErrorInfo, ExpressionFailed, Fatal, ProgrammingError
from perdure.core.operations import CallOperation, KeepOperation, Operation, Outcome, SleepOperation, SpawnOperation, Success
from perdure.core.operations import Failure as Err
from perdure.core.paths import UNDO, Path
from perdure.core.undo_plan import UNDO_BEGIN, UNDO_INPUT, UNDO_PLAN, UndoArguments, not_undone_line, operations_to_undo, undo_subject
from perdure.core.values import ENCODED_NONE, Blob
from perdure.definitions.format.model import verbs_by_name
from perdure.definitions.graph.graph_run import GraphRun
from perdure.definitions.graph.node_scope import NodeScope, Output, combined_values
from perdure.definitions.graph.operation_log import NodeFailure
from perdure.definitions.graph.policy_checks import POLICY_NOTE, check_without_person
from perdure.definitions.graph.step_kind import undo_templates
from perdure.definitions.graph.tool_calls import encode_call_arguments, failure_notification, missing_tool_step, step_with_retry

EndStatus = Literal["completed", "failed", "cancelled"]

"""The type of the error of an execution that ended because a person rejected an approval."""
ON_FAILURE_PATH: Path = (("on_failure", 0),)
OUTPUT_PATH: Path = (("output", 0),)
UNDO_INPUT_FAILED = "the input of the undo could not be computed from the results. Undo the step by hand, and record the result with perdure preset"


class UndoInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """The input of an undo: its encoded arguments, and the JSON pointers of secrets in them; or `why` these could not be computed."""

    args: bytes = NO_ARGUMENTS_ENCODED
    secrets: tuple[str, ...] = ()
    why: str = ""


class ExecutionEnd:
    """The end of one execution."""

    def __init__(self, run: GraphRun, finish: Callable[[EndStatus, Outcome], None]) -> None:
        self.run, self.finish = run, finish
        self.status: EndStatus = "completed"
        self.outcome: Outcome = Success()
        self.left: list[Path] = []
        self.is_begun = False
        self.is_failure_reported = False
        self.failed_at: Path = ()

    def complete_without_return(self) -> None:
        """Completes the execution, because no node is left to run."""
        made: list[Output] = []
        wrong = self.run.log.judged(OUTPUT_PATH, lambda: made.append(self._output()))
        if isinstance(wrong, Err):
            self.fail(wrong)
        else:
            self._begin("completed", Success(made[0].raw if made else ENCODED_NONE))

    def complete(self, output: Output) -> None:
        """Completes the execution with the result of a `return`."""
        self._begin("completed", Success(output.raw))

    def fail(self, error: Err, at: Path = ()) -> None:
        """Fails the execution because of the step at a path, whose failure nothing handles, or for another reason without a path. A rejection in a called
        workflow counts as a rejection here."""
        if error.kind == "cancelled" and error.error.type == error_codes.REJECTED:
            self.reject(error.error.message)
            return
        if not self.is_begun:
            self.failed_at = at
        self._begin("failed", Err("failed", error.attempts, error.error))

    def reject(self, why: str) -> None:
        """Cancels the execution, because a person rejected an approval and the definition does not handle that."""
        self._begin("cancelled", Err("cancelled", 1, ErrorInfo(error_codes.REJECTED, why)))

    def cancel(self) -> None:
        """Cancels the execution because of a request or of the deadline."""
        cancelling = self.run.execution.cancelling
        why = "" if cancelling is None else cancelling.reason
        self._begin("cancelled", Err("cancelled", 1, ErrorInfo(error_codes.CANCELLED, why)))

    def stop(self) -> None:
        """Drops everything that is still awaited, because the grace is over."""
        self.run.log.drop_all()
        self.is_failure_reported = True
        self._undo_or_tell()

    def undo(self, status: EndStatus, outcome: Outcome) -> None:
        """Undoes an execution that has already ended. Its failure, if any, has been reported already."""
        self.is_begun = self.is_failure_reported = True
        self.status, self.outcome = status, outcome
        self.failed_at = () if self.run.execution.completed is None else self.run.execution.completed.path
        self._begin_undo()

    def _output(self) -> Output:
        """The result: the `output` of the definition, or the results of the steps that lead nowhere."""
        run, ir = self.run, self.run.plan.ir
        if ir.has_output:
            return Output.of(run.evaluated(ir.output, NodeScope(run.roots, outputs=run.roots.outputs)), "the output")
        last = [id for id in run.plan.ids_directly_in(0) if not run.plan.by_id[id].out]
        if ir.order == "listed":
            last = last[-1:]
        done = {id: run.roots.outputs[id] for id in last if id in run.roots.outputs}
        if len(last) <= 1:
            return next(iter(done.values()), Output())
        return Output.of(combined_values({id: output for id, output in done.items() if output.port != "skipped"}, "the output"), "the output")

    def _begin(self, status: EndStatus, outcome: Outcome) -> None:
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
            return run.log.upcoming(UNDO_PLAN) is not None
        return run.execution.is_in_flight or (self._undoes and run.execution.is_to_be_undone)

    @property
    def _undoes(self) -> bool:
        """Whether completed steps are undone."""
        cancelling = self.run.execution.cancelling
        return self.run.plan.ir.on_failure.undo if cancelling is None else cancelling.undo

    def _begin_undo(self) -> None:
        kept = self.run.log.note(UNDO_PLAN, KeepOperation(values.encode(self.outcome, "the outcome"), "undo", self.status))
        self.status = kept.label  # type: ignore[assignment]  # it is one of the three statuses
        self.outcome = values.decode(self.run.log.raw(kept.value), Outcome, "the outcome")
        _ = self.run.log.ask(UNDO_BEGIN, SleepOperation(0.0))  # after this wait, everything that was dropped at the end is recorded
        self.run.log.wait(UNDO_BEGIN, lambda _: self._undo_all())

    def _undo_all(self) -> None:
        if cancelled := self.run.execution.opened.cancelled():
            self.run.log.wait(cancelled[0].path, lambda _: self._undo_all())
            return
        undoes = self._undoes or self.run.execution.completed is not None
        self.left = operations_to_undo(self.run.execution.settled) if undoes else []
        self._undo_next()

    def _undo_next(self) -> None:
        if not self.left:
            self._tell()
            return
        path = self.left.pop(0)
        step, op = self._undoing(path)
        if isinstance(op, CallOperation) and self._may_fail(path):
            op = msgspec.structs.replace(op, may_fail=True)
        _ = self.run.log.ask((UNDO, *path), op)
        self.run.log.wait((UNDO, *path), lambda settled: self._undone(path, settled.outcome), step)

    def _undone(self, path: Path, outcome: Outcome | None) -> None:
        if isinstance(outcome, Err):
            self.run.log.log_warning(not_undone_line(path, outcome))
        self._undo_next()

    def _may_fail(self, path: Path) -> bool:
        """Whether the undo of other steps continues if this undo fails for good."""
        run, settled = self.run, undo_subject(self.run.execution.settled, path)
        node = _node_at(run, path)
        if node is not None and node.undo is not None:
            return node.undo.on_error == "continue" or (not node.undo.on_error and run.dialect_rules.failed_undo_continues)
        tool = run.workflow.tool(settled.op.target) if isinstance(settled.op, CallOperation) else None
        return tool is not None and bool(tool.handlers) and tool.handlers[0].on_error == "continue"

    def _undoing(self, path: Path) -> tuple[Any, CallOperation | SpawnOperation]:
        """Returns the undo of the operation at `path`: the tool or the kind that the definition names for it, else the undo handler of its step."""
        run, settled = self.run, undo_subject(self.run.execution.settled, path)
        node = _node_at(run, path)
        if not isinstance(settled.op, CallOperation) and (node is None or node.undo is None):
            assert isinstance(settled.op, SpawnOperation)
            return None, msgspec.structs.replace(settled.op, input=ENCODED_NONE)
        result = settled.op.value if isinstance(settled.op, KeepOperation) else settled.outcome.value if isinstance(settled.outcome, Success) else ENCODED_NONE
        if isinstance(settled.op, CallOperation) and (node is None or node.undo is None):
            tool = run.workflow.tool(settled.op.target)
            if tool is None or not tool.handlers:
                return _missing_undo_tool(settled.op.target), CallOperation(f"undo:{settled.op.target}")
            handler = tool.handlers[0]
            given = values.encode(UndoArguments(result, settled.op.args), "what is to be undone", path)
            return handler, CallOperation(
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
            return _missing_undo_tool(undo.tool), CallOperation(undo.tool)
        step = step_with_retry(tool, undo.retry, run.plan.ir.retry)
        timeout_s = undo.timeout_s if undo.timeout_s is not None and not tool.transaction else tool.timeout_s
        op = CallOperation(undo.tool, NO_ARGUMENTS_ENCODED, step.queue, step.rule, timeout_s, transaction=tool.transaction)
        if (noted := run.execution.settled.get((*path, UNDO_INPUT))) is not None:
            assert isinstance(noted.op, KeepOperation)
            given_to: UndoInput = values.decode(run.log.raw(noted.op.value), UndoInput, "what an undoing is given", path)
        elif run.log.replaying:
            known = run.log.upcoming((UNDO, *path))
            why = known.about if isinstance(known, CallOperation) else ENCODED_NONE
            given_to = UndoInput(why=values.decode(run.log.raw(why), str, "why") if why != ENCODED_NONE else "")
        else:
            given_to = _undo_input(run, undo, node, path, _undone_result(run, result, settled.op, node))
        if given_to.why:
            return _refusing_step(undo.tool, given_to.why), msgspec.structs.replace(op, about=values.encode(given_to.why, "why"))
        return step, msgspec.structs.replace(op, args=given_to.args, secrets=given_to.secrets)

    def _tell(self) -> None:
        """Report a failure to the tool or workflow of `on_failure`, then end."""
        run, call = self.run, self.run.plan.ir.on_failure.call
        error = self.outcome.error if isinstance(self.outcome, Err) else ErrorInfo(error_codes.OUTCOME_UNKNOWN, "")
        given = {"error": {"type": error.type, "message": error.message}, "execution": run.roots.root("execution")}

        def check() -> None:
            if call and self.status == "failed" and not self.is_failure_reported:
                check_without_person(run, call, given)

        forbidden = run.log.judged((*ON_FAILURE_PATH, POLICY_NOTE), check)
        wanted = call and self.status == "failed" and not forbidden and not self.is_failure_reported
        is_failure_reported = run.log.upcoming(ON_FAILURE_PATH) is not None if run.log.replaying else wanted
        if not is_failure_reported:
            self.finish(self.status, self.outcome)
            return
        if (known := run.log.upcoming(ON_FAILURE_PATH)) is not None:  # as it was done then, whatever is here now
            _ = run.log.ask(ON_FAILURE_PATH, known)
            step = (run.workflow.tool(call) or missing_tool_step(call, run.workflow.tools)) if isinstance(known, CallOperation) else None
        else:
            made = failure_notification(run, call, ON_FAILURE_PATH, given)
            step, _ = made.step, run.log.ask(ON_FAILURE_PATH, made.op, made.blobs)
        run.log.wait(ON_FAILURE_PATH, lambda _: self.finish(self.status, self.outcome), step)


def note_undo_arguments(run: GraphRun, path: Path, output: Output) -> None:
    """Records the input of the undo of a step as soon as the step has completed, because its iteration may be forgotten before the undo."""
    made = ENCODED_NONE
    if not run.log.replaying:
        known, node = run.execution.settled.get(path), _node_at(run, path)
        value = (
            known.outcome.value if known is not None and isinstance(known.outcome, Success) and isinstance(known.op, CallOperation | SpawnOperation) else None
        )
        is_here = value is not None and (not isinstance(value, Blob) or value.sha256 in run.log.payloads)
        done = _undone_result(run, value, known.op, node) if known is not None and is_here else output.parted().value
        made = values.encode(_undo_input(run, node.undo, node, path, done), "what an undoing is given", path)
    _ = run.log.note((*path, UNDO_INPUT), KeepOperation(made, "undo_input"))


def _undo_input(run: GraphRun, undo: Any, node: Any, path: Path, done: Any) -> UndoInput:
    kind = run.workflow.kinds.get(undo.tool) if run.workflow.tool(undo.tool) is None else None
    try:
        given, secrets = _undo_given(run, undo.input if kind is None else undo_templates(kind, undo.input), path, done)
        check_without_person(run, undo.tool, given, node)
        return UndoInput(encode_call_arguments(given, path), secrets)
    except (ExpressionFailed, ProgrammingError, NodeFailure) as error:
        return UndoInput(why=f"{UNDO_INPUT_FAILED}: {error}")


def _undo_given(run: GraphRun, template: Any, path: Path, done: Any) -> tuple[Any, tuple[str, ...]]:
    """Returns the input of the undo of the operation at `path`, which may read what its step could read, and the result of the step as ``@self``."""
    around = run.undo_scopes.get(_step_path(run, path))
    return run.given(template, NodeScope(run.roots, around, {"self": done}, run.roots.outputs if around is None else None))


def _undone_result(run: GraphRun, result: Any, op: Operation, node: Any) -> Any:
    """The result of a node that is undone: without the metadata of a kind, and of a child only the field that the verb declares as its output."""
    done = Output(run.log.raw(result)).parted().value
    field = verbs_by_name()[node.kind].child_output if isinstance(op, SpawnOperation) else ""
    return done.get(field) if field else done


def _step_path(run: GraphRun, path: Path) -> Path:
    """Returns the path of the step that an operation belongs to; the operation's own path if the step is not known any more."""
    return next((path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in run.undo_scopes), path)


def _node_at(run: GraphRun, path: Path) -> Any:
    """Returns the node that an operation belongs to: the innermost that its path names."""
    for segment in reversed(_step_path(run, path)):
        if isinstance(segment, tuple) and segment[1] and (place := run.plan.by_id.get(segment[0])) is not None:
            return place.node
    return None


def _missing_undo_tool(tool: str) -> Step[Any, Any, Any]:
    """A step in place of an undo tool that this engine does not have."""
    return _refusing_step(tool, f"the engine has no tool {tool!r}, which the undo needs. Give the engine that tool, and resume the execution")


def _refusing_step(tool: str, why: str) -> Step[Any, Any, Any]:
    """A step that fails for good with a reason, so that the execution is parked and no undo is skipped."""

    def refuse(*_: Any, **__: Any) -> None:
        raise Fatal(why)

    return Step(refuse, name=tool)
