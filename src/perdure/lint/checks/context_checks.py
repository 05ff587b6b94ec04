"""Checks of the use of a context: verbs, names, loops and clean-up.

Verbs are called on the right context, awaited, and given functions instead of their results. Names of operations are unique, and loops end. Cancellation and
eviction pass through a workflow as exceptions, which it must neither swallow nor answer with further work.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

from perdure.lint.checks import Violation
from perdure.lint.name_resolution import AssignmentBinding, FunctionNode
from perdure.lint.workflow_code import BRANCHING, VERBS, WAITING, ContextName, VerbCall, WorkflowFunction, expression_text, text_of

COLLECTIONS = ast.Tuple | ast.List | ast.Set | ast.Dict | ast.ListComp | ast.IfExp
TAKES_VALUES = {"set", "emit", "send", "step", "attempt", "call", "start"}
"""Verbs whose arguments are data."""

BUILTINS_OF_VALUES = {f"builtins.{name}" for name in ("len", "str", "repr", "int", "float", "bool", "round", "abs", "print")}


def not_awaited(function: WorkflowFunction) -> Iterator[Violation]:
    """Verbs whose coroutine is thrown away, or used as if it were the result."""
    for verb in function.verbs:
        if verb.name in WAITING and not verb.context.sync and function.waits and _is_taken_for_result(verb.call, function):
            yield Violation("PD301", verb.call, f"`{expression_text(verb.call.func)}(...)` is not awaited, so it does nothing")


def _is_taken_for_result(call: ast.Call, function: WorkflowFunction) -> bool:
    """Whether the coroutine itself is used, or put where it is used, as only its result can be."""
    if _is_misused(call, function):
        return True
    match parent := function.parent(call):
        case ast.Assign(targets=[ast.Name() as name]) | ast.AnnAssign(target=ast.Name() as name) | ast.NamedExpr(target=name):
            return not (isinstance(parent, ast.NamedExpr) and not _is_misused(parent, function)) and _is_never_awaited(name, call, function)
        case ast.Assign(targets=[ast.Attribute(value=value)]):
            return function.code.context(value, function.scope) is not None  # the state of a turn
        case _:
            return False


def _is_never_awaited(name: ast.Name, call: ast.Call, function: WorkflowFunction) -> bool:
    """Whether a variable holds the coroutine alone, and wherever it is read its result was meant."""
    if function.scope.bindings.get(name.id) != [AssignmentBinding(call)]:
        return False
    for scope in function.code.module.functions.values():
        for node in scope.nodes:
            if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load) and scope.owner(name.id) is function.scope:
                used_here = scope is function.scope and _is_misused(node, function)
                if not used_here:
                    return False
    return True


def _is_misused(node: ast.expr, function: WorkflowFunction) -> bool:
    """Whether a coroutine is used where only a result makes sense."""
    parent = function.parent(node)
    match parent:
        case ast.Expr() | ast.BoolOp() | ast.Compare() | ast.BinOp() | ast.FormattedValue() | ast.UnaryOp() | ast.Attribute() | ast.AugAssign():
            return True
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test) if test is node:
            return True
        case ast.Subscript(value=value):
            return value is node
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated) | ast.comprehension(iter=iterated):
            return iterated is node
        case ast.Call(func=called) if function.full(called) in BUILTINS_OF_VALUES:
            return True
        case ast.Call() | ast.keyword():
            outer = function.code.verb(parent if isinstance(parent, ast.Call) else function.parent(parent) or parent, function.scope)
            return outer is not None and outer.name in TAKES_VALUES and outer.target is not node and outer.call.func is not node
        case _:
            return _is_returned(node, function)


def _is_returned(node: ast.AST, function: WorkflowFunction) -> bool:
    """Whether the function returns it, or a value that contains it."""
    parent = function.parent(node)
    while isinstance(parent, COLLECTIONS):
        parent = function.parent(parent)
    return isinstance(parent, ast.Return)


def outer_context(function: WorkflowFunction) -> Iterator[Violation]:
    """Verbs on a context that is another branch's, or that waits for its loop."""
    has_own = _has_own(function)
    for node in function.all(ast.Name):
        context = function.code.context(node, function.scope)
        if context is None or not isinstance(node.ctx, ast.Load) or not (used := _used(node, function)):
            continue
        if has_own and context.owner is not function.scope:
            yield Violation("PD302", node, f"{used} is on the context of another branch than this one")
        elif (turn := _turn_around(node, context, function)) is not None:
            yield Violation("PD302", node, f"{used} is on the context around this loop, whose iterations have their own, `{turn}`")


def _has_own(function: WorkflowFunction) -> bool:
    """Whether it is a branch with a context of its own. A branch that is called directly may share the context around it."""
    if function.node in function.code.called:
        return False
    arguments = function.node.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return any(owner is function.scope and name in names for owner, name in function.code.contexts)


def _used(node: ast.Name, function: WorkflowFunction) -> str:
    """How the context is used where its branch matters: a verb of it, or passed to a function that uses one."""
    match function.parent(node):
        case ast.Attribute(attr=name) as verb if name in VERBS:
            return f"`{expression_text(verb)}`"
        case ast.Call(func=called, args=given) if node in given and function.code.names.definition(called, function.scope) is not None:
            return f"`{expression_text(node)}`, which `{expression_text(called)}` is given,"
        case _:
            return ""


def _turn_around(node: ast.Name, context: ContextName, function: WorkflowFunction) -> str | None:
    for loop, part in function.around(node):
        if isinstance(loop, ast.AsyncFor | ast.For) and part == "body" and isinstance(loop.target, ast.Name):
            verb = function.code.verb(loop.iter, function.scope)
            if loop.target.id == node.id:
                return None
            if verb is not None and verb.name == "loop" and verb.context is context:
                return loop.target.id
    return None


def direct_calls(function: WorkflowFunction) -> Iterator[Violation]:
    """Steps and workflows that are called as if they were functions."""
    code, scope = function.code, function.scope
    given = {id(verb.target) for verb in function.verbs if verb.name in ("step", "attempt")}
    for call in function.all(ast.Call):
        if id(call) not in given and code.is_step(call.func, scope):
            yield Violation("PD303", call, f"`{expression_text(call.func)}(...)` calls the step directly, so that nothing of it is remembered")
        elif code.is_workflow(call.func, scope):
            yield Violation("PD304", call, f"`{expression_text(call.func)}(...)` calls a workflow as a function")
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("run", "arun") and code.is_workflow(call.func.value, scope):
            yield Violation("PD304", call, f"`{expression_text(call.func)}(...)` starts an engine of its own in a workflow")


def called_too_early(function: WorkflowFunction) -> Iterator[Violation]:
    """Steps and branches that are called where the function itself is expected."""
    for verb in function.verbs:
        if verb.name in ("step", "attempt") and verb.target is not None and _is_result(verb.target, function):
            yield Violation("PD305", verb.target, f"`{expression_text(verb.target)}` calls the function before `{verb.name}` can")
        elif verb.name in BRANCHING:
            given = verb.call.args[:1] if verb.name == "map" else [*verb.call.args, *(one.value for one in verb.call.keywords if one.arg != "name")]
            for one in given:
                if _is_result(one, function):
                    yield Violation("PD306", one, f"`{expression_text(one)}` is no function of a context")


def _is_result(node: ast.expr, function: WorkflowFunction) -> bool:
    if not isinstance(node, ast.Call):
        return False
    definition = function.code.names.definition(node.func, function.scope)
    verb = function.code.verb(node, function.scope)
    return (verb is not None and verb.name in WAITING) or isinstance(definition, ast.AsyncFunctionDef) or function.code.is_step(node.func, function.scope)


def context_in_step(function: WorkflowFunction) -> Iterator[Violation]:
    """Contexts that leave the workflow: as arguments, or in a function that runs as a step."""
    for verb in function.verbs:
        if verb.name not in ("step", "attempt", "keep", "call", "start"):
            continue
        for given in (*verb.call.args, *(one.value for one in verb.call.keywords)):
            if isinstance(given, ast.Name) and function.code.context(given, function.scope) is not None:
                yield Violation("PD307", given, f"the context `{given.id}` is given to `{verb.name}`, and works in workflow code only")
        if verb.target is not None and verb.name in ("step", "attempt", "keep"):
            yield from _captured(verb, function)


def _captured(verb: VerbCall, function: WorkflowFunction) -> Iterator[Violation]:
    node = verb.target if isinstance(verb.target, ast.Lambda) else function.code.names.definition(verb.target, function.scope) if verb.target else None
    if node is None or node in function.code.functions:
        return
    scope = function.code.module.functions[node]
    for inner in scope.nodes:
        match inner:
            case ast.Attribute(value=ast.Name() as name, attr=used) if used in VERBS and (context := function.code.context(name, scope)) is not None:
                if context.owner is not scope:
                    yield Violation("PD307", inner, f"`{expression_text(inner)}` is used in a function that `{verb.name}` runs outside of the workflow")


def waiting_keep(function: WorkflowFunction) -> Iterator[Violation]:
    """A keep that would have to wait."""
    for verb in function.verbs:
        if verb.name == "keep" and verb.target is not None and _is_async(verb.target, function):
            yield Violation("PD308", verb.target, f"`{expression_text(verb.target)}` is async, and `keep` does not wait")


def _is_async(given: ast.expr, function: WorkflowFunction) -> bool:
    called: ast.AST | None = function.code.names.definition(given, function.scope)
    if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call):
        inner: FunctionNode = given
        called = function.code.names.definition(given.body.func, function.code.module.functions[inner])
    return isinstance(called, ast.AsyncFunctionDef)


CANCELLED = {"asyncio.CancelledError", "asyncio.exceptions.CancelledError", "concurrent.futures.CancelledError"}
ALL = {"builtins.BaseException", "builtins.BaseExceptionGroup"}
EVICTED = {"perdure.core.errors.Evicted"}


def swallowed_cancellations(function: WorkflowFunction) -> Iterator[Violation]:
    """Handlers that keep a cancellation or an eviction to themselves."""
    for attempt in function.tries:
        for handler in attempt.handlers:
            if not _catches(handler.type, function) or any(isinstance(node, ast.Raise) for node in function.within(handler.body)):
                continue
            if _waits(attempt.body, function) and not _awaits_what_it_cancelled(attempt, handler, function):
                what = f"`except {expression_text(handler.type)}`" if handler.type else "a bare `except`"
                yield Violation("PD501", handler.type or handler, f"{what} keeps cancellation and eviction from ending this code")
    for block in function.all(ast.With):
        for call in (item.context_expr for item in block.items if _suppresses(item.context_expr, function)):
            if _waits(block.body, function):
                yield Violation("PD501", call, f"`{expression_text(call)}` keeps cancellation and eviction from ending this code")


def work_in_cleanup(function: WorkflowFunction) -> Iterator[Violation]:
    """Verbs that wait, in code that runs because everything is to end."""
    for attempt in function.tries:
        for verb in function.verbs_within(attempt.finalbody):
            if verb.name in WAITING:
                yield Violation(
                    "PD502", verb.call, f"`{expression_text(verb.call.func)}` in `finally` also runs when the execution is cancelled, and holds up its end"
                )
        for handler in attempt.handlers:
            if handler.type is not None and _catches(handler.type, function):
                for verb in function.verbs_within(handler.body):
                    if verb.name in WAITING:
                        called, caught = expression_text(verb.call.func), expression_text(handler.type)
                        what = f"`{called}` in `except {caught}` runs when the execution is cancelled, and holds up its end"
                        yield Violation("PD502", verb.call, what)


def _suppresses(call: ast.expr, function: WorkflowFunction) -> bool:
    return isinstance(call, ast.Call) and function.full(call.func) == "contextlib.suppress" and any(_catches(one, function) for one in call.args)


def _catches(kind: ast.expr | None, function: WorkflowFunction) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches(one, function) for one in kind.elts)
    return kind is None or function.full(kind) in CANCELLED | ALL | EVICTED


def _waits(body: list[ast.stmt], function: WorkflowFunction) -> bool:
    """Whether a cancellation can reach these statements."""
    for node in function.within(body):
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        verb = function.code.verb(node, function.scope)
        if verb is not None and verb.context.sync and verb.name in WAITING:
            return True
    return False


def _awaits_what_it_cancelled(attempt: ast.Try | ast.TryStar, handler: ast.ExceptHandler, function: WorkflowFunction) -> bool:
    """`task.cancel()`, and then `await task` with its end caught: that is asyncio's way, and the cancellation is the function's own."""
    match attempt.body:
        case [ast.Expr(value=ast.Await(value=ast.Name(id=task)))] if handler.type is not None and function.full(handler.type) in CANCELLED:
            cancels = (call.func for call in function.all(ast.Call) if isinstance(call.func, ast.Attribute) and call.func.attr == "cancel")
            return any(isinstance(one.value, ast.Name) and one.value.id == task for one in cancels)
        case _:
            return False


COMPARED_MAX = 50
"""How many earlier places one place is compared with."""

LOOPS = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def unnamed_repeats(function: WorkflowFunction) -> Iterator[Violation]:
    """The same operation opened in two places of one scope, without a name in at least one of them."""
    places: dict[tuple[ast.AST, str, str], list[VerbCall]] = defaultdict(list)
    for verb in function.verbs:
        if (operation := _repeatable(verb, function)) is not None:
            places[function.home(verb), *operation].append(verb)
    for (_, name, written), verbs in places.items():
        for number, verb in enumerate(verbs):
            first = next((one for one in verbs[: min(number, COMPARED_MAX)] if not exclusive(one.call, verb.call, function)), None)
            if first is not None:
                what = f"{name} of `{written}`" if name == "step" else f"`{name}({written})`"
                yield Violation("PD310", verb.call, f"this {what} and the one in line {first.call.lineno} differ only by their order")


def _repeatable(verb: VerbCall, function: WorkflowFunction) -> tuple[str, str] | None:
    """The default name of an operation; None if it has an explicit name, or if the default can't be determined."""
    if any(one.arg in ("name", None) for one in verb.call.keywords) or any(isinstance(one, ast.Starred) for one in verb.call.args):
        return None
    match verb.name, verb.call.args:
        case "step" | "attempt", [ast.Call(func=ast.Attribute(value=target, attr="with_"), keywords=options), *_] if _is_function(target, function):
            return None if any(one.arg in ("name", None) for one in options) else ("step", expression_text(target))
        case "step" | "attempt", [target, *_] if _is_function(target, function):
            return "step", expression_text(target)
        case "sleep", [ast.Constant() as duration]:
            return "sleep", expression_text(duration)
        case "listen" | "listen_many", [*wanted] if wanted and all(isinstance(one, ast.Name | ast.Attribute | ast.Constant) for one in wanted):
            return "listen", ", ".join(map(expression_text, wanted))
        case _:
            return None


def _is_function(target: ast.expr, function: WorkflowFunction) -> bool:
    """Whether it is certainly a function, and not a name that precedes one."""
    full_name = function.full(target)
    imported = full_name != "" and "(" not in full_name and "[" not in full_name
    return imported or function.code.is_step(target, function.scope) or function.code.names.definition(target, function.scope) is not None


def repeated_names(function: WorkflowFunction) -> Iterator[Violation]:
    """An explicit name that one scope uses twice, at two places or by going round."""
    places: dict[tuple[ast.AST, str], list[VerbCall]] = defaultdict(list)
    for verb in function.verbs:
        if (name := _explicit_name(verb)) is None:
            continue
        earlier = places[function.home(verb), name]
        first = next((one for one in earlier[:COMPARED_MAX] if not exclusive(one.call, verb.call, function)), None)
        if first is not None:
            yield Violation("PD309", verb.call, f"the name {name!r} is given here and in line {first.call.lineno}, to two operations of one scope")
        elif _goes_round(verb, function):
            yield Violation("PD309", verb.call, f"the name {name!r} is given again in each round of this loop")
        earlier.append(verb)


def _explicit_name(verb: VerbCall) -> str | None:
    match verb.target:
        case ast.Call(func=ast.Attribute(attr="with_"), keywords=options) if verb.name in ("step", "attempt"):
            return next((text_of(one.value) for one in options if one.arg == "name"), None)
        case _:
            return verb.explicit_name


def _goes_round(verb: VerbCall, function: WorkflowFunction) -> bool:
    """Whether a loop comes back to the verb in the same scope."""
    home = function.home(verb)
    if not isinstance(home, ast.For | ast.AsyncFor) and home is not function.node:
        return False
    for outer, part in function.around(verb.call):
        if outer is home or part == "iter" or (not isinstance(outer, ast.Try) and _leaves(outer, part)):
            return False
        if isinstance(outer, LOOPS) and part != "orelse":
            return True
    return False


def exclusive(first: ast.AST, second: ast.AST, function: WorkflowFunction) -> bool:
    """Whether at most one of two nodes is reached in one pass through the code around them; the first comes earlier in the source."""
    around_second = {second: "", **dict(function.around(second))}
    inner: ast.AST = first
    for outer, part in function.around(first):
        if outer in around_second:
            other = around_second[outer]
            apart = isinstance(outer, ast.If | ast.IfExp) and {part, other} == {"body", "orelse"}
            return apart or (part == other and part in ("cases", "handlers"))
        if isinstance(outer, ast.Return | ast.Raise) or _leaves(outer, part, only=(ast.Return, ast.Raise)):
            return not any(isinstance(one, ast.Try) for one, _ in function.around(inner))
        inner = outer
    return isinstance(inner, ast.Return | ast.Raise)


def _leaves(node: ast.AST, part: str, only: tuple[type[ast.stmt], ...] = (ast.Return, ast.Raise, ast.Break)) -> bool:
    """Whether this part of a node ends by leaving the code around it."""
    statements = getattr(node, part, None) if part in ("body", "orelse") and isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) else None
    return isinstance(statements, list) and bool(statements) and isinstance(statements[-1], only)


def unbounded_loops(function: WorkflowFunction) -> Iterator[Violation]:
    """Loops that go on by themselves and open an operation in each round."""
    for loop in function.all(ast.While):
        if isinstance(loop.test, ast.Constant) and loop.test.value:
            yield from _unbounded(loop.test, loop.body, f"`while {expression_text(loop.test)}`", function)
    for each in function.loops:
        if function.full(each.iter) in ("itertools.count()", "itertools.cycle()", "itertools.repeat()"):
            yield from _unbounded(each.iter, each.body, f"`for {expression_text(each.target)} in {expression_text(each.iter)}`", function)


def _unbounded(place: ast.expr, body: list[ast.stmt], what: str, function: WorkflowFunction) -> Iterator[Violation]:
    verb = next((verb for verb in function.verbs_within(body) if verb.name not in ("now", "random", "loop")), None)
    if verb is not None:
        yield Violation("PD311", place, f"{what} adds to the history in every round (`{verb.name}`), without a limit")
