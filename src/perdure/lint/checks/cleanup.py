"""Clean-up: cancellation and eviction pass through a workflow as exceptions, which it may neither keep nor answer with work."""

import ast
from collections.abc import Iterator

from perdure.lint.checks import Found
from perdure.lint.code import WAITING, Function, shown

CANCELLED = {"asyncio.CancelledError", "asyncio.exceptions.CancelledError", "concurrent.futures.CancelledError"}
ALL = {"builtins.BaseException", "builtins.BaseExceptionGroup"}
EVICTED = {"perdure.core.errors.Evicted"}


def swallowed(function: Function) -> Iterator[Found]:
    """Handlers that keep a cancellation or an eviction to themselves."""
    for attempt in function.tries:
        for handler in attempt.handlers:
            if not _catches(handler.type, function) or any(isinstance(node, ast.Raise) for node in function.within(handler.body)):
                continue
            if _waits(attempt.body, function) and not _awaits_what_it_cancelled(attempt, handler, function):
                what = f"`except {shown(handler.type)}`" if handler.type else "a bare `except`"
                yield Found("PD501", handler.type or handler, f"{what} keeps cancellation and eviction from ending this code")
    for block in function.all(ast.With):
        for call in (item.context_expr for item in block.items if _suppresses(item.context_expr, function)):
            if _waits(block.body, function):
                yield Found("PD501", call, f"`{shown(call)}` keeps cancellation and eviction from ending this code")


def work_in_cleanup(function: Function) -> Iterator[Found]:
    """Verbs that wait, in code that runs because everything is to end."""
    for attempt in function.tries:
        for verb in function.verbs_within(attempt.finalbody):
            if verb.name in WAITING:
                yield Found("PD502", verb.call, f"`{shown(verb.call.func)}` in `finally` also runs when the execution is cancelled, and holds up its end")
        for handler in attempt.handlers:
            if handler.type is not None and _catches(handler.type, function):
                for verb in function.verbs_within(handler.body):
                    if verb.name in WAITING:
                        what = f"`{shown(verb.call.func)}` in `except {shown(handler.type)}` runs when the execution is cancelled, and holds up its end"
                        yield Found("PD502", verb.call, what)


def _suppresses(call: ast.expr, function: Function) -> bool:
    return isinstance(call, ast.Call) and function.full(call.func) == "contextlib.suppress" and any(_catches(one, function) for one in call.args)


def _catches(kind: ast.expr | None, function: Function) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches(one, function) for one in kind.elts)
    return kind is None or function.full(kind) in CANCELLED | ALL | EVICTED


def _waits(body: list[ast.stmt], function: Function) -> bool:
    """Whether a cancellation can reach these statements."""
    for node in function.within(body):
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        verb = function.code.verb(node, function.scope)
        if verb is not None and verb.context.sync and verb.name in WAITING:
            return True
    return False


def _awaits_what_it_cancelled(attempt: ast.Try | ast.TryStar, handler: ast.ExceptHandler, function: Function) -> bool:
    """`task.cancel()`, and then `await task` with its end caught: that is asyncio's way, and the cancellation is the function's own."""
    match attempt.body:
        case [ast.Expr(value=ast.Await(value=ast.Name(id=task)))] if handler.type is not None and function.full(handler.type) in CANCELLED:
            cancels = (call.func for call in function.all(ast.Call) if isinstance(call.func, ast.Attribute) and call.func.attr == "cancel")
            return any(isinstance(one.value, ast.Name) and one.value.id == task for one in cancels)
        case _:
            return False
