"""State: what a workflow keeps outside of itself is there in one process, and not in the next."""

import ast
from collections.abc import Iterator

from perdure.lint.checks import Found
from perdure.lint.code import Function, Verb, base_name, shown
from perdure.lint.scopes import Assigned, Definition, FunctionNode, Hinted, Imported, Scope

DISPLAYS = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
MUTABLE = {
    *(f"builtins.{name}()" for name in ("list", "dict", "set", "bytearray")),
    *(f"collections.{name}()" for name in ("defaultdict", "deque", "Counter", "OrderedDict", "ChainMap")),
    *("builtins.list[]()", "builtins.dict[]()", "builtins.set[]()", "itertools.count()", "collections.Counter[]()"),
}
HINTS = {"builtins.list", "builtins.dict", "builtins.set", "typing.List", "typing.Dict", "typing.Set", "collections.deque", "collections.defaultdict"}
CHANGES = {
    *("append", "appendleft", "add", "update", "pop", "popleft", "popitem", "setdefault", "extend", "remove", "clear", "insert", "discard", "sort"),
    *("reverse", "subtract", "difference_update", "intersection_update", "symmetric_difference_update"),
}


def declared_elsewhere(function: Function) -> Iterator[Found]:
    """`global`, and `nonlocal` of what is no workflow code, where the name is written."""
    written = {node.id for node in function.all(ast.Name) if not isinstance(node.ctx, ast.Load)}
    for declaration in function.all(ast.Global):
        for name in written.intersection(declaration.names):
            yield Found("PD401", declaration, f"the workflow writes the global `{name}`, which other executions share and replay writes again")
    for outer in function.all(ast.Nonlocal):
        for name in written.intersection(outer.names):
            if _is_outside(function.scope.owner(name), function):
                yield Found("PD401", outer, f"the workflow writes `{name}` of the function around it, which other executions share")


def shared(function: Function) -> Iterator[Found]:
    """Changes of what the module, or a function that is no workflow code, holds."""
    written: list[ast.Attribute | ast.Subscript] = [*function.all(ast.Attribute), *function.all(ast.Subscript)]
    for node in written:
        if not isinstance(node.ctx, ast.Load) and (name := base_name(node)) is not None and _is_shared(name, function):
            yield Found("PD402", node, f"`{shown(node)}` is written, and `{name.id}` is shared by all executions of this process")
    for call in function.all(ast.Call):
        match call.func:
            case ast.Attribute(value=value, attr=method) if method in CHANGES and (name := base_name(value)) is not None and _is_shared(name, function):
                if _is_mutable_name(name, function) or not (isinstance(value, ast.Name) or _is_imported(name, function)):
                    yield Found("PD402", call, f"`{shown(call.func)}()` changes `{name.id}`, which is shared by all executions of this process")
            case ast.Name(id="next") if [function.full(one) for one in call.args] == ["itertools.count()"]:
                if (name := base_name(call.args[0])) is not None and _is_shared(name, function):
                    yield Found("PD402", call, f"`{shown(call)}` counts with `{name.id}`, which is shared by all executions of this process")


def _is_shared(name: ast.Name, function: Function) -> bool:
    owner, bound = function.code.names.bindings(name.id, function.scope)
    return owner is not None and bool(bound) and _is_outside(owner, function)


def _is_imported(name: ast.Name, function: Function) -> bool:
    """Whether it may be a module, whose functions are called whatever they are called."""
    _, bound = function.code.names.bindings(name.id, function.scope)
    return any(isinstance(one, Imported) for one in bound)


def _is_outside(owner: Scope | None, function: Function) -> bool:
    """Whether a scope outlives the execution."""
    if owner is None or isinstance(owner.node, ast.ClassDef):
        return False
    return not isinstance(owner.node, FunctionNode) or owner.node not in function.code.functions


def _is_mutable_name(name: ast.Name, function: Function) -> bool:
    owner, bound = function.code.names.bindings(name.id, function.scope)
    return owner is not None and any(_is_mutable(one, function, owner) for one in bound)


def _is_mutable(binding: object, function: Function, owner: Scope) -> bool:
    match binding:
        case Assigned(value):
            return isinstance(value, DISPLAYS) or function.code.names.full(value, owner) in MUTABLE
        case Hinted(hint):
            return any(found in HINTS for found in function.code.names.hints(hint, owner))
        case _:
            return False


ADDS = {"append", "appendleft", "extend", "extendleft", "insert", "setdefault"}
"""Methods that only containers have."""


def changed_in_steps(function: Function) -> Iterator[Found]:
    """What a step changes of the workflow's variables: it runs once, and a replay has only its result."""
    for verb in function.verbs:
        if verb.name in ("step", "attempt", "keep") and verb.target is not None:
            for node in function.code.functions_in(verb.target, function.scope):
                if node not in function.code.functions:
                    yield from _changed_outside(function.code.module.functions[node], verb, function)


def _changed_outside(scope: Scope, verb: Verb, function: Function) -> Iterator[Found]:
    for node in scope.nodes:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                name, how = base_name(node), f"`{shown(node)}` is written"
            case ast.Call(func=ast.Attribute(value=value, attr=method) as called) if method in CHANGES and (found := base_name(value)) is not None:
                owner = scope.owner(found.id)
                contains = owner is not None and any(_is_mutable(one, function, owner) for one in owner.bindings[found.id])
                name, how = found if contains or method in ADDS else None, f"`{shown(called)}()` is called"
            case _:
                continue
        owner = None if name is None else scope.owner(name.id)
        if name is not None and owner is not None and owner.node in function.code.functions:
            yield Found("PD404", node, f"{how} in what `{verb.name}` runs, and a replay, which does not run it again, has the workflow's `{name.id}` as it was")


def mutable_defaults(function: Function) -> Iterator[Found]:
    """Defaults that one execution leaves changed to the next."""
    if not isinstance(function.node, Definition) or function.scope.parent is None:
        return
    for default in (*function.node.args.defaults, *function.node.args.kw_defaults):
        if default is not None and (isinstance(default, DISPLAYS) or function.code.names.full(default, function.scope.parent) in MUTABLE):
            yield Found("PD403", default, f"the default `{shown(default)}` is one object for all executions of this process")
