"""Timing: what a node waits for, given up once its time is over."""

from typing import TYPE_CHECKING

from perdure.core.errors import ErrorInfo
from perdure.core.operations import Failure, SleepOperation
from perdure.core.paths import Path
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, Output

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


def start_timeout(run: "GraphProgram", doing: VerbRun) -> None:
    """Give up what stands at the path of a node once its time is over, if it has one: by port ``timeout`` where that leads on, else as a failure."""
    if (timeout_s := doing.node.timeout_s) is None:
        return

    def over() -> None:
        run.log.drop_under(doing.path)
        late = Failure("timeout", 1, ErrorInfo("Timeout", f"{doing.node.id} has not ended within {timeout_s:g} s"))
        doing.then(NodeOutcome("timeout", Output()) if run.plan.has_port(doing.firing.place, "timeout") else late)

    _ = run.log.ask(_timeout_path(doing), SleepOperation(timeout_s))
    run.log.wait(_timeout_path(doing), lambda _: over())


def stop_timeout(run: "GraphProgram", doing: VerbRun) -> None:
    """Look at the time no longer: what was waited for has come."""
    if run.log.waits_at(_timeout_path(doing)):
        run.log.drop(_timeout_path(doing))


def _timeout_path(doing: VerbRun) -> Path:
    return (*doing.path, ("timeout", 0))
