"""Timing: what a node waits for, given up once its time is over."""

from typing import TYPE_CHECKING

from perdure.core.errors import ErrorInfo
from perdure.core.ops import Err, Sleep
from perdure.core.paths import Path
from perdure.programs.graph.doing import Doing
from perdure.programs.graph.names import Done, Output

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance


def begin(run: "Instance", doing: Doing) -> None:
    """Give up what stands at the path of a node once its time is over, if it has one: by port ``timeout`` where that leads on, else as a failure."""
    if (timeout_s := doing.node.timeout_s) is None:
        return

    def over() -> None:
        run.log.drop_under(doing.path)
        late = Err("timeout", 1, ErrorInfo("Timeout", f"{doing.node.id} has not ended within {timeout_s:g} s"))
        doing.then(Done("timeout", Output()) if run.plan.has_port(doing.firing.place, "timeout") else late)

    _ = run.log.ask(_timer(doing), Sleep(timeout_s))
    run.log.wait(_timer(doing), lambda _: over())


def end(run: "Instance", doing: Doing) -> None:
    """Look at the time no longer: what was waited for has come."""
    if run.log.waits_at(_timer(doing)):
        run.log.drop(_timer(doing))


def _timer(doing: Doing) -> Path:
    return (*doing.path, ("timeout", 0))
