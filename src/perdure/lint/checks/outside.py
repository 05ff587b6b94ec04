"""The world outside: whatever a workflow asks the machine for, and gets another answer to when it is replayed."""

import ast
from collections.abc import Iterator
from itertools import chain

from perdure.lint.checks import Found
from perdure.lint.checks.outside_names import CALLS, FAMILIES, READS
from perdure.lint.code import Function, shown
from perdure.lint.scopes import Definition

DOES = {
    "PD101": "reads the clock of the machine",
    "PD102": "waits in memory, and only until the next restart",
    "PD103": "sets a timer that is in no log",
    "PD104": "depends on the time zone of the machine",
    "PD105": "draws a number that replay can't draw again",
    "PD106": "reads the randomness of the machine",
    "PD107": "makes an id that replay can't make again",
    "PD108": "reads the environment, which differs between workers and deploys",
    "PD109": "depends on the process and the machine that run it",
    "PD110": "touches files, which replay would do again",
    "PD111": "uses the network, which replay would do again",
    "PD112": "talks to a database, which replay would do again",
    "PD113": "starts or stops processes, which replay would do again",
    "PD114": "runs code in a thread or process that the log knows nothing of",
    "PD115": "drives an event loop, which is the engine's to do",
    "PD116": "reads what somebody types, which replay can't ask for again",
    "PD117": "is printed or logged again by every replay",
    "PD118": "ends the process and not the workflow",
    "PD203": "has tasks start in an order that replay can't repeat",
    "PD204": "differs between processes",
}
"""What is wrong with what a workflow calls or reads, by code."""


def outside(function: Function) -> Iterator[Found]:
    """What is called or read of the world outside, in the function and in the defaults of its parameters."""
    for call in chain(function.all(ast.Call), _calls_in_defaults(function)):
        if code := _of_call(call, function):
            yield Found(code, call, f"`{shown(call.func)}()` {DOES[code]}")
    names: list[ast.Attribute | ast.Name] = [*function.all(ast.Attribute), *function.all(ast.Name)]
    for name in names:
        if isinstance(name.ctx, ast.Load) and (code := READS.get(function.full(name))):
            yield Found(code, name, f"`{shown(name)}` {DOES[code]}")
    for raised in function.all(ast.Raise):
        error = raised.exc.func if isinstance(raised.exc, ast.Call) else raised.exc
        if error is not None and function.full(error) in ("builtins.SystemExit", "builtins.KeyboardInterrupt"):
            yield Found("PD118", raised, f"`raise {shown(error)}` {DOES['PD118']}")


def _calls_in_defaults(function: Function) -> Iterator[ast.Call]:
    """Defaults are computed when the module is imported: in each process anew."""
    if isinstance(function.node, Definition):
        defaults = [one for one in (*function.node.args.defaults, *function.node.args.kw_defaults) if one is not None]
        yield from (node for node in function.within(defaults) if isinstance(node, ast.Call))


def _of_call(call: ast.Call, function: Function) -> str | None:
    name = function.full(call.func)
    if not name:
        return "PD104" if isinstance(call.func, ast.Attribute) and call.func.attr == "astimezone" and _given(call) == 0 else None
    decided = _depends(name, call)
    return (CALLS.get(name) or _of_family(name)) if decided is None else decided


def _of_family(name: str) -> str | None:
    module, _, last = name.rpartition(".")
    return FAMILIES.get(module) if "(" not in last and not last[:1].isupper() else None


def _given(call: ast.Call) -> int:
    return len(call.args) + len(call.keywords)


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    named = next((one.value for one in call.keywords if one.arg == name), None)
    return call.args[position] if len(call.args) > position else named


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _depends(name: str, call: ast.Call) -> str | None:
    """The code of a call about which its arguments decide, or empty text if they are right; None if it is no such call."""
    match name:
        case "time.localtime" | "time.ctime" | "time.mktime":
            return "PD104" if _given(call) else "PD101"
        case "time.gmtime" | "time.asctime":
            return "" if _given(call) else "PD101"
        case "time.strftime":
            return "" if _given(call) > 1 else "PD101"
        case "datetime.datetime.fromtimestamp":
            return "PD104" if _is_none(_argument(call, 1, "tz")) and _given(call) < 2 else ""
        case "random.Random" | "numpy.random.default_rng" | "numpy.random.RandomState" | "numpy.random.SeedSequence":
            return "" if _given(call) else "PD105"
        case "asyncio.wait_for":
            return "" if _is_none(_argument(call, 1, "timeout")) else "PD103"
        case "asyncio.timeout" | "asyncio.timeout_at":
            return "" if _is_none(_argument(call, 0, "delay")) else "PD103"
        case "asyncio.wait" | "asyncio.as_completed":
            return "" if _is_none(_argument(call, 9, "timeout")) else "PD103"
        case "asyncio.create_task" | "asyncio.Task":
            eager = _argument(call, 9, "eager_start")
            return "PD203" if isinstance(eager, ast.Constant) and eager.value is True else ""
        case _ if name.endswith(".astimezone"):
            return "" if _given(call) else "PD104"
        case "asyncio.sleep":
            return "" if isinstance(first := _argument(call, 0, "delay"), ast.Constant) and first.value == 0 else "PD102"
        case _:
            return None
