"""Conditions in Python, evaluated in a sandbox by `pydantic-monty`, which is optional.

There are no files, network or processes, the clock stands still, and random numbers are always the same. Each source gets a fresh interpreter, one second and
50 MB; a source that takes more is an error, and its process is replaced.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from perdure.core.errors import ExpressionFailed, SandboxLost
from perdure.definitions.expr.plain_values import shortened, value_kind
from perdure.definitions.expr.python_syntax import checked_condition_source
from perdure.definitions.kinds.sandbox import monty_pool

SECONDS_MAX = 1.0
MEMORY_BYTES_MAX = 50_000_000
DEPTH_MAX = 200
PRINTED_BYTES_MAX = 64 * 1024


def evaluate_conditions(sources: Sequence[str], output: Any, context: Any) -> list[bool]:
    """The results of each source's ``evaluate(output, context)``. Blocks for at most one second a source: call it in a step or a thread.

    `output` is the result that is looked at, `context` what else the condition may see, by the ids of steps; both plain data.

    Raises:
        BadExpression: a source defines no such function, or imports something.
        ExpressionFailed: a source fails, takes too much, or gives something that is neither true nor false. Its `where` is the number of the source.
            Or this process was forked from one that has evaluated conditions.
        MissingExtra: the sandbox is not installed.
        SandboxLost: too many others are evaluated at once; try again.
    """
    library = monty_pool.monty_library("a condition in Python")
    if monty_pool.is_forked():
        raise ExpressionFailed("", "this process was forked from one that has its sandbox", "start processes by spawn, or evaluate in the parent")
    for place, source in enumerate(sources):
        checked_condition_source(source, f"/{place}")
    return [_evaluated(library, f"/{place}", source, {"output": output, "context": context}) for place, source in enumerate(sources)]


def _evaluated(library: ModuleType, where: str, source: str, inputs: dict[str, Any]) -> bool:
    limits = {
        "max_feed_duration_secs": SECONDS_MAX,
        "max_memory": MEMORY_BYTES_MAX,
        "max_recursion_depth": DEPTH_MAX,
    }
    try:
        with monty_pool.monty_session(library, limits, _POLICY) as session:
            answer = session.feed_run(f"{source}\nevaluate(output, context)", inputs=inputs, print_callback=library.CollectString(PRINTED_BYTES_MAX))
    except library.MontyCrashedError as crashed:
        if isinstance(error := monty_pool.crash_error("condition in Python", crashed), SandboxLost):
            raise error from None
        raise ExpressionFailed(where, f"the Python has ended its sandbox: {shortened(str(crashed), 120)}", HINT) from None
    except (library.MontySyntaxError, library.MontyRuntimeError, library.MontyConversionError) as failed:
        raise ExpressionFailed(where, f"the Python has failed: {shortened(str(failed), 150)}", HINT) from None
    if type(answer) is not bool:
        raise ExpressionFailed(
            where, f"evaluate gave {value_kind(answer)}, and a condition is true or false", "return a comparison, or bool(...) of what it gives"
        )
    return answer


HINT = f"it has {SECONDS_MAX:g} s, {MEMORY_BYTES_MAX // 1_000_000} MB and nothing of the world outside; do larger work in a step"
_POLICY: dict[str, Any] = {"datetime": datetime(2000, 1, 1, tzinfo=UTC), "random_start": {"seed": 0}}
