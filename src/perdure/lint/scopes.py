"""Scopes: which names each function of a module binds, and to what; read from the syntax in one pass.

A name that a function binds means what it is bound to there, and no module that happens to have the same name. Comprehensions bind in
the function around them, which is more than they do: a name that one shadows is then not looked into, and nothing is raised by mistake.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Imported:
    """Bound by an import, to what has this full name."""

    name: str


@dataclass(frozen=True, slots=True)
class Defined:
    """Bound by a definition."""

    node: Definition | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Assigned:
    """Bound to the value of an expression."""

    value: ast.expr


@dataclass(frozen=True, slots=True)
class Hinted:
    """A parameter or a variable of which no more is known than its type, if that."""

    hint: ast.expr | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Bound to something that the syntax does not tell."""


Binding = Imported | Defined | Assigned | Hinted | Unknown
UNKNOWN = Unknown()


class Scope:
    """A module, a class or a function: the names it binds, and the nodes that are its own and not those of a scope in it."""

    __slots__ = ("bindings", "elsewhere", "node", "nodes", "parent", "stars")

    def __init__(self, node: ast.Module | ast.ClassDef | FunctionNode, parent: "Scope | None") -> None:
        self.node = node
        self.parent = parent
        self.nodes: list[ast.AST] = []
        self.bindings: dict[str, list[Binding]] = {}
        self.elsewhere: dict[str, type[ast.Global | ast.Nonlocal]] = {}
        self.stars: list[str] = []

    @property
    def module(self) -> "Scope":
        """The outermost."""
        return self if self.parent is None else self.parent.module

    def bind(self, name: str, binding: Binding) -> None:
        """Note that `name` is bound here, or where `global` and `nonlocal` say."""
        scope = self.owner(name) or self.module if name in self.elsewhere else self
        scope.bindings.setdefault(name, []).append(binding)

    def owner(self, name: str) -> "Scope | None":
        """The scope whose name it is when it is used here; None if no scope binds it."""
        if self.elsewhere.get(name) is ast.Global:
            return self.module if name in self.module.bindings else None
        if name in self.bindings:
            return self
        scope = self.parent
        while scope is not None and (name not in scope.bindings or isinstance(scope.node, ast.ClassDef)):
            scope = scope.parent
        return scope


class Module:
    """A module as it is read: its scopes by their nodes, and of each node its parent and the part of that in which it stands."""

    def __init__(self, tree: ast.Module) -> None:
        self.scope = Scope(tree, None)
        self.functions: dict[FunctionNode, Scope] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.parts: dict[ast.AST, str] = {}
        left: list[tuple[ast.AST, Scope]] = [(tree, self.scope)]
        while left:  # and no recursion, because generated code nests deeper than Python does
            node, scope = left.pop()
            scope.nodes.append(node)
            _bind(node, scope, self.parents.get(node))
            left.extend(reversed(list(self._children(node, scope))))

    def _children(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        inner = scope
        if isinstance(node, FunctionNode):
            inner = self.functions[node] = Scope(node, scope)
            _bind_parameters(node.args, inner)
        elif isinstance(node, ast.ClassDef):
            inner = Scope(node, scope)
        for part, child in _parts(node):
            self.parents[child] = node
            self.parts[child] = part
            yield child, inner if part == "body" else scope


_LEAVES = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


def _parts(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The children of a node with the field that each is in; of parameters only what is evaluated."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            yield from ((field, child) for child in value if isinstance(child, ast.AST) and not isinstance(child, _LEAVES))
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            yield field, value


def _bind_parameters(arguments: ast.arguments, scope: Scope) -> None:
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        scope.bind(one.arg, Hinted(one.annotation))
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            scope.bind(rest.arg, UNKNOWN)


def _bind(node: ast.AST, scope: Scope, parent: ast.AST | None) -> None:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            scope.bind(name, _bound(node, parent))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.bind(name, Defined(node))
        case ast.Import(names=names):
            for alias in names:
                scope.bind(alias.asname or alias.name.split(".")[0], Imported(alias.name if alias.asname else alias.name.split(".")[0]))
        case ast.ImportFrom(module=module, names=names, level=level):
            base = "." * level + (module or "")
            for alias in names:
                if alias.name == "*":
                    scope.stars.append(base)
                else:
                    scope.bind(alias.asname or alias.name, Imported(f"{base}.{alias.name}"))
        case ast.Global(names=declared) | ast.Nonlocal(names=declared):
            scope.elsewhere.update(dict.fromkeys(declared, type(node)))
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            scope.bind(name, UNKNOWN)


def _bound(node: ast.Name, parent: ast.AST | None) -> Binding:
    match parent:
        case ast.Assign(targets=targets, value=value) if node in targets:
            return Assigned(value)
        case ast.AnnAssign(annotation=hint, value=None):
            return Hinted(hint)
        case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
            return Assigned(value)
        case ast.withitem(context_expr=value):
            return Assigned(value)
        case _:
            return UNKNOWN
