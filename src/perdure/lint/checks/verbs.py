"""Verbs: called on the right context, awaited, and given functions and not what these return."""

import ast
from collections.abc import Iterator

from perdure.lint.checks import Found
from perdure.lint.code import BRANCHING, VERBS, WAITING, ContextName, Function, Verb, shown
from perdure.lint.scopes import Assigned, FunctionNode

COLLECTIONS = ast.Tuple | ast.List | ast.Set | ast.Dict | ast.ListComp | ast.IfExp
TAKES_VALUES = {"set", "emit", "send", "step", "attempt", "call", "start"}
"""Verbs whose arguments are data."""

BUILTINS_OF_VALUES = {f"builtins.{name}" for name in ("len", "str", "repr", "int", "float", "bool", "round", "abs", "print")}


def not_awaited(function: Function) -> Iterator[Found]:
    """Verbs whose coroutine is thrown away, or used as if it were the result."""
    for verb in function.verbs:
        if verb.name in WAITING and not verb.context.sync and function.waits and _is_taken_for_result(verb.call, function):
            yield Found("PD301", verb.call, f"`{shown(verb.call.func)}(...)` is not awaited, so it does nothing")


def _is_taken_for_result(call: ast.Call, function: Function) -> bool:
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


def _is_never_awaited(name: ast.Name, call: ast.Call, function: Function) -> bool:
    """Whether a variable holds the coroutine alone, and wherever it is read its result was meant."""
    if function.scope.bindings.get(name.id) != [Assigned(call)]:
        return False
    for scope in function.code.module.functions.values():
        for node in scope.nodes:
            if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load) and scope.owner(name.id) is function.scope:
                used_here = scope is function.scope and _is_misused(node, function)
                if not used_here:
                    return False
    return True


def _is_misused(node: ast.expr, function: Function) -> bool:
    """Whether a coroutine stands where only a result has a meaning."""
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


def _is_returned(node: ast.AST, function: Function) -> bool:
    """Whether it is what the function returns, or a part of that."""
    parent = function.parent(node)
    while isinstance(parent, COLLECTIONS):
        parent = function.parent(parent)
    return isinstance(parent, ast.Return)


def outer_context(function: Function) -> Iterator[Found]:
    """Verbs on a context that is another branch's, or that waits for its loop."""
    has_own = _has_own(function)
    for node in function.all(ast.Name):
        context = function.code.context(node, function.scope)
        if context is None or not isinstance(node.ctx, ast.Load) or not (used := _used(node, function)):
            continue
        if has_own and context.owner is not function.scope:
            yield Found("PD302", node, f"{used} is on the context of another branch than this one")
        elif (turn := _turn_around(node, context, function)) is not None:
            yield Found("PD302", node, f"{used} is on the context around this loop, whose turns have their own, `{turn}`")


def _has_own(function: Function) -> bool:
    """Whether it is a branch: given a context, and not by a call, which may give it the one around it."""
    if function.node in function.code.called:
        return False
    arguments = function.node.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return any(owner is function.scope and name in names for owner, name in function.code.contexts)


def _used(node: ast.Name, function: Function) -> str:
    """How the context is used where its branch matters: a verb of it, or passed to a function that uses one."""
    match function.parent(node):
        case ast.Attribute(attr=name) as verb if name in VERBS:
            return f"`{shown(verb)}`"
        case ast.Call(func=called, args=given) if node in given and function.code.names.definition(called, function.scope) is not None:
            return f"`{shown(node)}`, which `{shown(called)}` is given,"
        case _:
            return ""


def _turn_around(node: ast.Name, context: ContextName, function: Function) -> str | None:
    for loop, part in function.around(node):
        if isinstance(loop, ast.AsyncFor | ast.For) and part == "body" and isinstance(loop.target, ast.Name):
            verb = function.code.verb(loop.iter, function.scope)
            if loop.target.id == node.id:
                return None
            if verb is not None and verb.name == "loop" and verb.context is context:
                return loop.target.id
    return None


def direct_calls(function: Function) -> Iterator[Found]:
    """Steps and workflows that are called as if they were functions."""
    code, scope = function.code, function.scope
    given = {id(verb.target) for verb in function.verbs if verb.name in ("step", "attempt")}
    for call in function.all(ast.Call):
        if id(call) not in given and code.is_step(call.func, scope):
            yield Found("PD303", call, f"`{shown(call.func)}(...)` calls the step directly, so that nothing of it is remembered")
        elif code.is_workflow(call.func, scope):
            yield Found("PD304", call, f"`{shown(call.func)}(...)` calls a workflow as a function")
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("run", "arun") and code.is_workflow(call.func.value, scope):
            yield Found("PD304", call, f"`{shown(call.func)}(...)` starts an engine of its own in a workflow")


def called_too_soon(function: Function) -> Iterator[Found]:
    """What a step or a branch returns, where the function is wanted."""
    for verb in function.verbs:
        if verb.name in ("step", "attempt") and verb.target is not None and _is_result(verb.target, function):
            yield Found("PD305", verb.target, f"`{shown(verb.target)}` calls the function before `{verb.name}` can")
        elif verb.name in BRANCHING:
            given = verb.call.args[:1] if verb.name == "map" else [*verb.call.args, *(one.value for one in verb.call.keywords if one.arg != "name")]
            for one in given:
                if _is_result(one, function):
                    yield Found("PD306", one, f"`{shown(one)}` is no function of a context")


def _is_result(node: ast.expr, function: Function) -> bool:
    if not isinstance(node, ast.Call):
        return False
    definition = function.code.names.definition(node.func, function.scope)
    verb = function.code.verb(node, function.scope)
    return (verb is not None and verb.name in WAITING) or isinstance(definition, ast.AsyncFunctionDef) or function.code.is_step(node.func, function.scope)


def context_in_step(function: Function) -> Iterator[Found]:
    """Contexts that leave the workflow: as arguments, or in a function that runs as a step."""
    for verb in function.verbs:
        if verb.name not in ("step", "attempt", "keep", "call", "start"):
            continue
        for given in (*verb.call.args, *(one.value for one in verb.call.keywords)):
            if isinstance(given, ast.Name) and function.code.context(given, function.scope) is not None:
                yield Found("PD307", given, f"the context `{given.id}` is given to `{verb.name}`, and works in workflow code only")
        if verb.target is not None and verb.name in ("step", "attempt", "keep"):
            yield from _captured(verb, function)


def _captured(verb: Verb, function: Function) -> Iterator[Found]:
    node = verb.target if isinstance(verb.target, ast.Lambda) else function.code.names.definition(verb.target, function.scope) if verb.target else None
    if node is None or node in function.code.functions:
        return
    scope = function.code.module.functions[node]
    for inner in scope.nodes:
        match inner:
            case ast.Attribute(value=ast.Name() as name, attr=used) if used in VERBS and (context := function.code.context(name, scope)) is not None:
                if context.owner is not scope:
                    yield Found("PD307", inner, f"`{shown(inner)}` is used in a function that `{verb.name}` runs outside of the workflow")


def waiting_keep(function: Function) -> Iterator[Found]:
    """A keep that would have to wait."""
    for verb in function.verbs:
        if verb.name == "keep" and verb.target is not None and _is_async(verb.target, function):
            yield Found("PD308", verb.target, f"`{shown(verb.target)}` is async, and `keep` does not wait")


def _is_async(given: ast.expr, function: Function) -> bool:
    called: ast.AST | None = function.code.names.definition(given, function.scope)
    if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call):
        inner: FunctionNode = given
        called = function.code.names.definition(given.body.func, function.code.module.functions[inner])
    return isinstance(called, ast.AsyncFunctionDef)
