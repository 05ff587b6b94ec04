"""How a workflow's function ended, as the end of its execution."""

from collections.abc import Coroutine, Mapping
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any

from perdure.core import values
from perdure.core.errors import ErrorInfo, NotAwaited, ProgrammingError, WrongVerb
from perdure.core.execution import Execution
from perdure.core.ops import Err, Ok
from perdure.core.paths import Path, text
from perdure.core.program import Finish
from perdure.programs.code.codec import Codec
from perdure.programs.code.failures import error_info
from perdure.programs.code.results import Ported
from perdure.programs.code.scheduler import NumberedTask


def ending(
    root: NumberedTask[Any], codec: Codec, execution: Execution, unstarted: Mapping[Path, Coroutine[Any, Any, Any]], left_behind: BaseException | None = None
) -> Finish:
    """What the task of the function came to. Verbs that were called and never awaited are an error, and so is what a task that it has `left_behind` raised."""
    if not root.done():
        stuck = WrongVerb("the workflow waits for something that can never happen", "await a verb, or let another task settle what it awaits")
        return Finish("failed", Err("failed", 1, error_info(stuck)))
    if root.cancelled():
        reason = execution.cancelling.reason if execution.cancelling is not None else "the workflow cancelled itself"
        return Finish("cancelled", Err("cancelled", 1, ErrorInfo("Cancelled", reason)))
    error = root.exception()
    forgotten = [path for path, coroutine in unstarted.items() if getcoroutinestate(coroutine) == CORO_CREATED]
    for path in forgotten:
        unstarted[path].close()
    if error is None and forgotten:
        error = NotAwaited([text(path) for path in forgotten])
    error = error or left_behind
    if error is None:
        try:
            returned = root.result()
            what = f"the result of workflow {execution.key.workflow}"
            if isinstance(returned, Ported):
                return Finish("completed", Ok(values.encode(returned.value, what), returned.port))
            return Finish("completed", Ok(codec.encode_result(returned, what)))
        except ProgrammingError as unencodable:
            error = unencodable
    return Finish("failed", Err("failed", 1, error_info(error)))
