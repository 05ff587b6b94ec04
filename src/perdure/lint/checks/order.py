"""Order: where one process goes through the same things in another order than the next, so that verbs come out of step with the log."""

import ast
from collections.abc import Iterator

from perdure.lint.checks import Found
from perdure.lint.checks.outside import DOES
from perdure.lint.code import VERBS, Function, base_name, shown
from perdure.lint.scopes import Assigned, Hinted, Scope

SET_MAKERS = {"builtins.set()", "builtins.frozenset()"}
SET_HINTS = {
    *("builtins.set", "builtins.frozenset", "typing.Set", "typing.FrozenSet", "typing.AbstractSet", "typing.MutableSet"),
    *("collections.abc.Set", "collections.abc.MutableSet"),
}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
ORDERED_BY = {"builtins.list", "builtins.tuple", "builtins.enumerate", "builtins.iter", "builtins.zip", "builtins.map", "builtins.filter", "collections.deque"}
ORDER_IS_LOST_IN = {
    *(f"builtins.{name}" for name in ("sorted", "set", "frozenset", "sum", "min", "max", "any", "all", "len", "bool")),
    *("collections.Counter", "math.fsum"),
}
KEEPS_ORDER = {"append", "extend", "insert", "write", "writelines", "put", "put_nowait", "appendleft"}


def sets(function: Function) -> Iterator[Found]:
    """Places where the order of a set is used."""
    for loop in function.loops:
        if is_set(loop.iter, function) and _order_matters(loop.body, function):
            yield _found(loop.iter, "is walked")
    for node in function.nodes:
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp):
            yield from _in_comprehension(node, function)
    for call in function.all(ast.Call):
        yield from _in_call(call, function)


def _in_comprehension(node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp, function: Function) -> Iterator[Found]:
    waits = any(isinstance(inner, ast.Await) for inner in function.within([node]))
    kept = isinstance(node, ast.ListComp) or (isinstance(node, ast.GeneratorExp) and _is_put_in_order(node, function))
    for part in node.generators:
        if is_set(part.iter, function) and (waits or (kept and not _order_is_lost(node, function))):
            yield _found(part.iter, "is walked")


def _in_call(call: ast.Call, function: Function) -> Iterator[Found]:
    match call.func:
        case ast.Attribute(value=value, attr="pop") if not call.args and is_set(value, function):
            yield _found(value, "gives up one of its members")
            return
        case ast.Attribute(attr="join") if len(call.args) == 1 and not isinstance(call.func.value, ast.Name):
            used = call.args
        case ast.Attribute(attr="map") if (verb := function.code.verb(call, function.scope)) is not None:
            used = verb.call.args[1:2]
        case _:
            used = call.args if function.full(call.func) in ORDERED_BY else []
    for one in used:
        if is_set(one, function) and not _order_is_lost(call, function):
            yield _found(one, "is put in an order")
    for one in call.args:
        if isinstance(one, ast.Starred) and is_set(one.value, function):
            yield _found(one.value, "is put in an order")


def _found(node: ast.expr, how: str) -> Found:
    return Found("PD201", node, f"the set `{shown(node)}` {how}, and its order differs between processes")


def is_set(node: ast.expr, function: Function, depth: int = 0) -> bool:
    """Whether an expression is a set whose order no process repeats; small whole numbers have the same in all."""
    match node:
        case ast.Set(elts=members):
            return not all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in members)
        case ast.SetComp():
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return any(is_set(one, function, depth) or _is_keys(one) for one in (left, right))
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in SET_METHODS and is_set(value, function, depth):
            return True
        case ast.Call(args=given):
            return bool(given) and function.full(node) in SET_MAKERS
        case ast.Name(id=name) if depth < 8:
            owner, bound = function.code.names.bindings(name, function.scope)
            return bool(bound) and owner is not None and all(_binds_set(one, owner, function, depth) for one in bound)
        case _:
            return False


def _binds_set(binding: object, owner: Scope, function: Function, depth: int) -> bool:
    match binding:
        case Assigned(ast.Call(func=ast.Name(id="set" | "frozenset"), args=[])):
            return True  # it is filled later
        case Assigned(value):
            return is_set(value, function, depth + 1)
        case Hinted(ast.Subscript(slice=ast.Name(id="int" | "bool"))):
            return False  # as in `is_set`
        case Hinted(hint) if hint is not None:
            return any(found in SET_HINTS for found in function.code.names.hints(hint, owner.parent or owner))
        case _:
            return False


def _is_keys(node: ast.expr) -> bool:
    """Keys and items of a mapping become a set when an operator of sets is used on them."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items") and not node.args


def _order_matters(body: list[ast.stmt], function: Function) -> bool:
    for node in function.within(body):
        match node:
            case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.Break() | ast.Return():
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in KEEPS_ORDER:
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in VERBS and function.code.context(value, function.scope) is not None:
                return True
    return False


def _is_put_in_order(node: ast.GeneratorExp, function: Function) -> bool:
    match function.parent(node):
        case ast.Call(func=ast.Attribute(attr="join")):
            return True
        case ast.Call(func=called):
            return function.full(called) in ORDERED_BY
        case ast.Starred():
            return True
        case _:
            return False


def _order_is_lost(node: ast.expr, function: Function) -> bool:
    parent = function.parent(node)
    return isinstance(parent, ast.Call) and node in parent.args and function.full(parent.func) in ORDER_IS_LOST_IN


def bare_coroutines(function: Function) -> Iterator[Found]:
    """Coroutines that asyncio makes tasks of in the order of their addresses."""
    for call in function.all(ast.Call):
        if function.full(call.func) in ("asyncio.as_completed", "asyncio.wait") and call.args and _has_coroutines(call.args[0], function):
            yield Found("PD202", call, f"`{shown(call.func)}()` starts bare coroutines in the order of their addresses")


def _has_coroutines(given: ast.expr, function: Function) -> bool:
    match given:
        case ast.List(elts=members) | ast.Tuple(elts=members) | ast.Set(elts=members):
            return any(_is_coroutine(one, function) for one in members)
        case ast.ListComp(elt=member) | ast.SetComp(elt=member) | ast.GeneratorExp(elt=member):
            return _is_coroutine(member, function)
        case ast.Name(id=name):
            _, bound = function.code.names.bindings(name, function.scope)
            return len(bound) == 1 and isinstance(bound[0], Assigned) and not isinstance(bound[0].value, ast.Name) and _has_coroutines(bound[0].value, function)
        case _:
            return False


def _is_coroutine(node: ast.expr, function: Function) -> bool:
    if not isinstance(node, ast.Call):
        return False
    verb = function.code.verb(node, function.scope)
    return verb is not None or isinstance(function.code.names.definition(node.func, function.scope), ast.AsyncFunctionDef)


def identities(function: Function) -> Iterator[Found]:
    """`id` and `hash` given as what to sort by."""
    for call in function.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "key" and function.full(keyword.value) in ("builtins.id", "builtins.hash"):
                yield Found("PD204", keyword.value, f"sorting by `{shown(keyword.value)}` {DOES['PD204']}")


def lost_updates(function: Function) -> Iterator[Found]:
    """A variable of the workflow that is read before a wait and written after it, while other branches write it too."""
    for node in (*function.all(ast.AugAssign), *function.all(ast.Assign)):
        match node:
            case ast.AugAssign(target=target, value=value):
                waits = value
            case ast.Assign(targets=[ast.Name() as target], value=ast.BinOp(left=left, right=waits)):
                if not any(isinstance(inner, ast.Name) and inner.id == target.id for inner in function.within([left])):
                    continue
            case _:
                continue
        name = base_name(target)
        if name is not None and any(isinstance(inner, ast.Await) for inner in function.within([waits])) and _is_written_elsewhere(name, function):
            yield Found("PD205", node, f"`{shown(target)}` is read before this waits and written after it, while other branches write it too")


def _is_written_elsewhere(name: ast.Name, function: Function) -> bool:
    """Whether a name belongs to a function around this one, and another branch, or another run of this one, may write it meanwhile."""
    owner, functions = function.scope.owner(name.id), function.code.functions
    if owner is None or owner is function.scope or owner.node not in functions:
        return False
    others = (one for node, one in functions.items() if node not in (function.node, owner.node))
    return function.node in function.code.overlapping or any(_writes(one, name.id, owner) for one in others)


def _writes(function: Function, name: str, owner: Scope) -> bool:
    written: list[ast.expr] = [*function.all(ast.Name), *function.all(ast.Attribute), *function.all(ast.Subscript)]
    bases = (base_name(node) for node in written if not isinstance(getattr(node, "ctx", None), ast.Load))
    return any(base is not None and base.id == name and function.scope.owner(name) is owner for base in bases)
