"""Checks of order and state: iteration orders that differ between processes, and state that a workflow keeps outside of itself."""

import ast
from collections.abc import Iterator

from perdure.lint.checks import Violation
from perdure.lint.checks.external_checks import DOES
from perdure.lint.name_resolution import AnnotatedBinding, AssignmentBinding, Definition, FunctionNode, ImportBinding, LexicalScope
from perdure.lint.workflow_code import VERBS, VerbCall, WorkflowFunction, base_name, expression_text

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


def unordered_sets(function: WorkflowFunction) -> Iterator[Violation]:
    """Places where the order of a set is used."""
    for loop in function.loops:
        if is_set(loop.iter, function) and _order_matters(loop.body, function):
            yield _found(loop.iter, "is walked")
    for node in function.nodes:
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp):
            yield from _in_comprehension(node, function)
    for call in function.all(ast.Call):
        yield from _in_call(call, function)


def _in_comprehension(node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp, function: WorkflowFunction) -> Iterator[Violation]:
    waits = any(isinstance(inner, ast.Await) for inner in function.within([node]))
    kept = isinstance(node, ast.ListComp) or (isinstance(node, ast.GeneratorExp) and _is_put_in_order(node, function))
    for part in node.generators:
        if is_set(part.iter, function) and (waits or (kept and not _order_is_lost(node, function))):
            yield _found(part.iter, "is walked")


def _in_call(call: ast.Call, function: WorkflowFunction) -> Iterator[Violation]:
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


def _found(node: ast.expr, how: str) -> Violation:
    return Violation("PD201", node, f"the set `{expression_text(node)}` {how}, and its order differs between processes")


def is_set(node: ast.expr, function: WorkflowFunction, depth: int = 0) -> bool:
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


def _binds_set(binding: object, owner: LexicalScope, function: WorkflowFunction, depth: int) -> bool:
    match binding:
        case AssignmentBinding(ast.Call(func=ast.Name(id="set" | "frozenset"), args=[])):
            return True  # it is filled later
        case AssignmentBinding(value):
            return is_set(value, function, depth + 1)
        case AnnotatedBinding(ast.Subscript(slice=ast.Name(id="int" | "bool"))):
            return False  # as in `is_set`
        case AnnotatedBinding(hint) if hint is not None:
            return any(found in SET_HINTS for found in function.code.names.hints(hint, owner.parent or owner))
        case _:
            return False


def _is_keys(node: ast.expr) -> bool:
    """Keys and items of a mapping become a set when an operator of sets is used on them."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items") and not node.args


def _order_matters(body: list[ast.stmt], function: WorkflowFunction) -> bool:
    for node in function.within(body):
        match node:
            case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.Break() | ast.Return():
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in KEEPS_ORDER:
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in VERBS and function.code.context(value, function.scope) is not None:
                return True
    return False


def _is_put_in_order(node: ast.GeneratorExp, function: WorkflowFunction) -> bool:
    match function.parent(node):
        case ast.Call(func=ast.Attribute(attr="join")):
            return True
        case ast.Call(func=called):
            return function.full(called) in ORDERED_BY
        case ast.Starred():
            return True
        case _:
            return False


def _order_is_lost(node: ast.expr, function: WorkflowFunction) -> bool:
    parent = function.parent(node)
    return isinstance(parent, ast.Call) and node in parent.args and function.full(parent.func) in ORDER_IS_LOST_IN


def bare_coroutines(function: WorkflowFunction) -> Iterator[Violation]:
    """Coroutines that asyncio makes tasks of in the order of their addresses."""
    for call in function.all(ast.Call):
        if function.full(call.func) in ("asyncio.as_completed", "asyncio.wait") and call.args and _has_coroutines(call.args[0], function):
            yield Violation("PD202", call, f"`{expression_text(call.func)}()` starts bare coroutines in the order of their addresses")


def _has_coroutines(given: ast.expr, function: WorkflowFunction) -> bool:
    match given:
        case ast.List(elts=members) | ast.Tuple(elts=members) | ast.Set(elts=members):
            return any(_is_coroutine(one, function) for one in members)
        case ast.ListComp(elt=member) | ast.SetComp(elt=member) | ast.GeneratorExp(elt=member):
            return _is_coroutine(member, function)
        case ast.Name(id=name):
            _, bound = function.code.names.bindings(name, function.scope)
            return (
                len(bound) == 1
                and isinstance(bound[0], AssignmentBinding)
                and not isinstance(bound[0].value, ast.Name)
                and _has_coroutines(bound[0].value, function)
            )
        case _:
            return False


def _is_coroutine(node: ast.expr, function: WorkflowFunction) -> bool:
    if not isinstance(node, ast.Call):
        return False
    verb = function.code.verb(node, function.scope)
    return verb is not None or isinstance(function.code.names.definition(node.func, function.scope), ast.AsyncFunctionDef)


def identity_order(function: WorkflowFunction) -> Iterator[Violation]:
    """`id` and `hash` as sort keys."""
    for call in function.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "key" and function.full(keyword.value) in ("builtins.id", "builtins.hash"):
                yield Violation("PD204", keyword.value, f"sorting by `{expression_text(keyword.value)}` {DOES['PD204']}")


def lost_updates(function: WorkflowFunction) -> Iterator[Violation]:
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
            yield Violation("PD205", node, f"`{expression_text(target)}` is read before this waits and written after it, while other branches write it too")


def _is_written_elsewhere(name: ast.Name, function: WorkflowFunction) -> bool:
    """Whether a name belongs to a function around this one, and another branch, or another run of this one, may write it meanwhile."""
    owner, functions = function.scope.owner(name.id), function.code.functions
    if owner is None or owner is function.scope or owner.node not in functions:
        return False
    others = (one for node, one in functions.items() if node not in (function.node, owner.node))
    return function.node in function.code.overlapping or any(_writes(one, name.id, owner) for one in others)


def _writes(function: WorkflowFunction, name: str, owner: LexicalScope) -> bool:
    written: list[ast.expr] = [*function.all(ast.Name), *function.all(ast.Attribute), *function.all(ast.Subscript)]
    bases = (base_name(node) for node in written if not isinstance(getattr(node, "ctx", None), ast.Load))
    return any(base is not None and base.id == name and function.scope.owner(name) is owner for base in bases)


MUTABLE_DISPLAYS = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
MUTABLE = {
    *(f"builtins.{name}()" for name in ("list", "dict", "set", "bytearray")),
    *(f"collections.{name}()" for name in ("defaultdict", "deque", "Counter", "OrderedDict", "ChainMap")),
    *("builtins.list[]()", "builtins.dict[]()", "builtins.set[]()", "itertools.count()", "collections.Counter[]()"),
}
MUTABLE_HINTS = {"builtins.list", "builtins.dict", "builtins.set", "typing.List", "typing.Dict", "typing.Set", "collections.deque", "collections.defaultdict"}
CHANGES = {
    *("append", "appendleft", "add", "update", "pop", "popleft", "popitem", "setdefault", "extend", "remove", "clear", "insert", "discard", "sort"),
    *("reverse", "subtract", "difference_update", "intersection_update", "symmetric_difference_update"),
}


def declared_elsewhere(function: WorkflowFunction) -> Iterator[Violation]:
    """`global`, and `nonlocal` of a function that is not workflow code, where the name is written."""
    written = {node.id for node in function.all(ast.Name) if not isinstance(node.ctx, ast.Load)}
    for declaration in function.all(ast.Global):
        for name in written.intersection(declaration.names):
            yield Violation("PD401", declaration, f"the workflow writes the global `{name}`, which other executions share and replay writes again")
    for outer in function.all(ast.Nonlocal):
        for name in written.intersection(outer.names):
            if _is_outside(function.scope.owner(name), function):
                yield Violation("PD401", outer, f"the workflow writes `{name}` of the function around it, which other executions share")


def shared_state(function: WorkflowFunction) -> Iterator[Violation]:
    """Changes of state that the module holds, or a function that is not workflow code."""
    written: list[ast.Attribute | ast.Subscript] = [*function.all(ast.Attribute), *function.all(ast.Subscript)]
    for node in written:
        if not isinstance(node.ctx, ast.Load) and (name := base_name(node)) is not None and _is_shared(name, function):
            yield Violation("PD402", node, f"`{expression_text(node)}` is written, and `{name.id}` is shared by all executions of this process")
    for call in function.all(ast.Call):
        match call.func:
            case ast.Attribute(value=value, attr=method) if method in CHANGES and (name := base_name(value)) is not None and _is_shared(name, function):
                if _is_mutable_name(name, function) or not (isinstance(value, ast.Name) or _is_imported(name, function)):
                    yield Violation("PD402", call, f"`{expression_text(call.func)}()` changes `{name.id}`, which is shared by all executions of this process")
            case ast.Name(id="next") if [function.full(one) for one in call.args] == ["itertools.count()"]:
                if (name := base_name(call.args[0])) is not None and _is_shared(name, function):
                    yield Violation("PD402", call, f"`{expression_text(call)}` counts with `{name.id}`, which is shared by all executions of this process")


def _is_shared(name: ast.Name, function: WorkflowFunction) -> bool:
    owner, bound = function.code.names.bindings(name.id, function.scope)
    return owner is not None and bool(bound) and _is_outside(owner, function)


def _is_imported(name: ast.Name, function: WorkflowFunction) -> bool:
    """Whether it may be a module, whose functions are called whatever they are called."""
    _, bound = function.code.names.bindings(name.id, function.scope)
    return any(isinstance(one, ImportBinding) for one in bound)


def _is_outside(owner: LexicalScope | None, function: WorkflowFunction) -> bool:
    """Whether a scope outlives the execution."""
    if owner is None or isinstance(owner.node, ast.ClassDef):
        return False
    return not isinstance(owner.node, FunctionNode) or owner.node not in function.code.functions


def _is_mutable_name(name: ast.Name, function: WorkflowFunction) -> bool:
    owner, bound = function.code.names.bindings(name.id, function.scope)
    return owner is not None and any(_is_mutable(one, function, owner) for one in bound)


def _is_mutable(binding: object, function: WorkflowFunction, owner: LexicalScope) -> bool:
    match binding:
        case AssignmentBinding(value):
            return isinstance(value, MUTABLE_DISPLAYS) or function.code.names.full(value, owner) in MUTABLE
        case AnnotatedBinding(hint):
            return any(found in MUTABLE_HINTS for found in function.code.names.hints(hint, owner))
        case _:
            return False


ADDS = {"append", "appendleft", "extend", "extendleft", "insert", "setdefault"}
"""Methods that only containers have."""


def changed_in_steps(function: WorkflowFunction) -> Iterator[Violation]:
    """Changes of the workflow's variables in a step: a step runs once, and a replay only has its result."""
    for verb in function.verbs:
        if verb.name in ("step", "attempt", "keep") and verb.target is not None:
            for node in function.code.functions_in(verb.target, function.scope):
                if node not in function.code.functions:
                    yield from _changed_outside(function.code.module.functions[node], verb, function)


def _changed_outside(scope: LexicalScope, verb: VerbCall, function: WorkflowFunction) -> Iterator[Violation]:
    for node in scope.nodes:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                name, how = base_name(node), f"`{expression_text(node)}` is written"
            case ast.Call(func=ast.Attribute(value=value, attr=method) as called) if method in CHANGES and (found := base_name(value)) is not None:
                owner = scope.owner(found.id)
                contains = owner is not None and any(_is_mutable(one, function, owner) for one in owner.bindings[found.id])
                name, how = found if contains or method in ADDS else None, f"`{expression_text(called)}()` is called"
            case _:
                continue
        owner = None if name is None else scope.owner(name.id)
        if name is not None and owner is not None and owner.node in function.code.functions:
            yield Violation(
                "PD404", node, f"{how} in what `{verb.name}` runs, and a replay, which does not run it again, has the workflow's `{name.id}` as it was"
            )


def mutable_defaults(function: WorkflowFunction) -> Iterator[Violation]:
    """Defaults that one execution leaves changed to the next."""
    if not isinstance(function.node, Definition) or function.scope.parent is None:
        return
    for default in (*function.node.args.defaults, *function.node.args.kw_defaults):
        if default is not None and (isinstance(default, MUTABLE_DISPLAYS) or function.code.names.full(default, function.scope.parent) in MUTABLE):
            yield Violation("PD403", default, f"the default `{expression_text(default)}` is one object for all executions of this process")
