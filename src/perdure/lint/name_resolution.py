"""Resolves names: the bindings of each scope, found in one pass, and the full name of an expression through imports, aliases and hints.

A full name is dotted, and `()` stands for the result of a call: `datetime.datetime.now`, `pathlib.Path().read_text`. An expression whose meaning is uncertain
has none. A name that a function binds never means a module of the same name. Names in comprehensions count as bound by the function around them, which is too
much: the linter then skips a shadowed name instead of reporting a false finding.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class ImportBinding:
    """A binding by an import, to this full name."""

    name: str


@dataclass(frozen=True, slots=True)
class DefinitionBinding:
    """Bound by a definition."""

    node: Definition | ast.ClassDef


@dataclass(frozen=True, slots=True)
class AssignmentBinding:
    """Bound to the value of an expression."""

    value: ast.expr


@dataclass(frozen=True, slots=True)
class AnnotatedBinding:
    """A parameter or a variable of which no more is known than its type, if that."""

    hint: ast.expr | None


@dataclass(frozen=True, slots=True)
class UnknownBinding:
    """Bound to something that the syntax does not tell."""


Binding = ImportBinding | DefinitionBinding | AssignmentBinding | AnnotatedBinding | UnknownBinding
UNKNOWN = UnknownBinding()


class LexicalScope:
    """A module, a class or a function: the names it binds, and the nodes that are its own and not those of a scope in it."""

    __slots__ = ("bindings", "elsewhere", "node", "nodes", "parent", "stars")

    def __init__(self, node: ast.Module | ast.ClassDef | FunctionNode, parent: "LexicalScope | None") -> None:
        self.node = node
        self.parent = parent
        self.nodes: list[ast.AST] = []
        self.bindings: dict[str, list[Binding]] = {}
        self.elsewhere: dict[str, type[ast.Global | ast.Nonlocal]] = {}
        self.stars: list[str] = []

    @property
    def module(self) -> "LexicalScope":
        """The outermost."""
        return self if self.parent is None else self.parent.module

    def bind(self, name: str, binding: Binding) -> None:
        """Note that `name` is bound here, or where `global` and `nonlocal` say."""
        scope = self.owner(name) or self.module if name in self.elsewhere else self
        scope.bindings.setdefault(name, []).append(binding)

    def owner(self, name: str) -> "LexicalScope | None":
        """The scope whose name it is when it is used here; None if no scope binds it."""
        if self.elsewhere.get(name) is ast.Global:
            return self.module if name in self.module.bindings else None
        if name in self.bindings:
            return self
        scope = self.parent
        while scope is not None and (name not in scope.bindings or isinstance(scope.node, ast.ClassDef)):
            scope = scope.parent
        return scope


class SyntaxModule:
    """A module with its scopes by node, and each node's parent and the field that contains it."""

    def __init__(self, tree: ast.Module) -> None:
        self.scope = LexicalScope(tree, None)
        self.functions: dict[FunctionNode, LexicalScope] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.parts: dict[ast.AST, str] = {}
        left: list[tuple[ast.AST, LexicalScope]] = [(tree, self.scope)]
        while left:  # and no recursion, because generated code nests deeper than Python does
            node, scope = left.pop()
            scope.nodes.append(node)
            _bind(node, scope, self.parents.get(node))
            left.extend(reversed(list(self._children(node, scope))))

    def _children(self, node: ast.AST, scope: LexicalScope) -> Iterator[tuple[ast.AST, LexicalScope]]:
        inner = scope
        if isinstance(node, FunctionNode):
            inner = self.functions[node] = LexicalScope(node, scope)
            _bind_parameters(node.args, inner)
        elif isinstance(node, ast.ClassDef):
            inner = LexicalScope(node, scope)
        for part, child in _parts(node):
            self.parents[child] = node
            self.parts[child] = part
            yield child, inner if part == "body" else scope


_LEAVES = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


def _parts(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The children of a node with their fields; of parameters only the parts that are evaluated."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            yield from ((field, child) for child in value if isinstance(child, ast.AST) and not isinstance(child, _LEAVES))
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            yield field, value


def _bind_parameters(arguments: ast.arguments, scope: LexicalScope) -> None:
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        scope.bind(one.arg, AnnotatedBinding(one.annotation))
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            scope.bind(rest.arg, UNKNOWN)


def _bind(node: ast.AST, scope: LexicalScope, parent: ast.AST | None) -> None:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            scope.bind(name, _bound(node, parent))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.bind(name, DefinitionBinding(node))
        case ast.Import(names=names):
            for alias in names:
                scope.bind(alias.asname or alias.name.split(".")[0], ImportBinding(alias.name if alias.asname else alias.name.split(".")[0]))
        case ast.ImportFrom(module=module, names=names, level=level):
            base = "." * level + (module or "")
            for alias in names:
                if alias.name == "*":
                    scope.stars.append(base)
                else:
                    scope.bind(alias.asname or alias.name, ImportBinding(f"{base}.{alias.name}"))
        case ast.Global(names=declared) | ast.Nonlocal(names=declared):
            scope.elsewhere.update(dict.fromkeys(declared, type(node)))
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            scope.bind(name, UNKNOWN)


def _bound(node: ast.Name, parent: ast.AST | None) -> Binding:
    match parent:
        case ast.Assign(targets=targets, value=value) if node in targets:
            return AssignmentBinding(value)
        case ast.AnnAssign(annotation=hint, value=None):
            return AnnotatedBinding(hint)
        case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
            return AssignmentBinding(value)
        case ast.withitem(context_expr=value):
            return AssignmentBinding(value)
        case _:
            return UNKNOWN


BUILTINS = frozenset(dir(builtins))
NAME_LENGTH_MAX = 300

_PATH = "pathlib.Path()"
_LOOP = "asyncio.AbstractEventLoop()"
_SAME = {
    **dict.fromkeys(("pathlib.PosixPath()", "pathlib.WindowsPath()", "pathlib.Path.cwd()", "pathlib.Path.home()"), _PATH),
    **{f"{_PATH}.{part}": _PATH for part in ("parent", "parents[]", "joinpath()", "with_name()", "with_stem()", "with_suffix()", "resolve()", "absolute()")},
    **dict.fromkeys(("asyncio.get_running_loop()", "asyncio.get_event_loop()", "asyncio.new_event_loop()", "asyncio.events.AbstractEventLoop()"), _LOOP),
}
"""Names of which others are as good."""

PUBLIC = frozenset({"workflow", "step", "Context", "Turn", "SyncContext", "SyncTurn"})
"""The decorators and calls that make or mark functions of workflows."""


def public_name(name: str) -> str:
    """The last word of a full name if it is one of `PUBLIC` of Perdure, wherever it was imported from; else nothing."""
    last = name.rpartition(".")[2]
    return last if last in PUBLIC and name.startswith("perdure.") and "(" not in name else ""


def _written(hint: ast.expr) -> ast.expr | None:
    """A hint that may be text."""
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        try:
            return ast.parse(hint.value.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return None
    return hint


class NameResolver:
    """The names of a module, with a cache of resolved ones."""

    def __init__(self, module: SyntaxModule) -> None:
        self.module = module
        self._known: dict[tuple[LexicalScope, str], str] = {}

    def full(self, expression: ast.expr, scope: LexicalScope) -> str:
        """The full name of what an expression means in a scope, or nothing."""
        match expression:
            case ast.Name(id=name):
                found = self._named(name, scope)
            case ast.Attribute(value=value, attr=part):
                base = self.full(value, scope)
                found = f"{base}.{part}" if base else ""
            case ast.Call(func=function):
                base = self.full(function, scope)
                found = f"{base}()" if base else ""
            case ast.Subscript(value=value):
                base = self.full(value, scope)
                found = f"{base}[]" if base else ""
            case ast.BinOp(left=left, op=ast.Div()):
                found = _PATH if self.full(left, scope) == _PATH else ""
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                found = self.full(value, scope)
            case _:
                found = ""
        return _SAME.get(found, found) if len(found) < NAME_LENGTH_MAX else ""

    def hints(self, hint: ast.expr | None, scope: LexicalScope) -> list[str]:
        """The full names of the types in a hint, also of one that is text: both of `A | B`, the first of `A[B]`; empty text for one that is not known."""
        match hint:
            case ast.Constant(value=str(text)):
                try:
                    return self.hints(ast.parse(text.strip(), mode="eval").body, scope)
                except (SyntaxError, ValueError):
                    return []
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return [*self.hints(left, scope), *self.hints(right, scope)]
            case ast.Subscript(value=value, slice=ast.expr() as inner):
                outer = self.hints(value, scope)
                return self.hints(inner, scope) if outer[:1] in (["typing.Annotated"], ["typing.Optional"]) and not isinstance(inner, ast.Tuple) else outer
            case None | ast.Constant(value=None):
                return []
            case _:
                return [self.full(hint, scope)]

    def bindings(self, name: str, scope: LexicalScope) -> tuple[LexicalScope | None, list[Binding]]:
        """The scope that binds a name, and the bindings there."""
        owner = scope.owner(name)
        return owner, [] if owner is None else owner.bindings[name]

    def definition(self, expression: ast.expr, scope: LexicalScope, depth: int = 0) -> Definition | None:
        """The function of this module that an expression names, directly or through a single assignment."""
        if not isinstance(expression, ast.Name):
            return None
        owner, bound = self.bindings(expression.id, scope)
        match bound:
            case [*_, DefinitionBinding(ast.FunctionDef() | ast.AsyncFunctionDef() as node)] if all(isinstance(one, DefinitionBinding) for one in bound):
                return node
            case [AssignmentBinding(value)] if owner is not None and depth < 8:
                return self.definition(value, owner, depth + 1)
            case _:
                return None

    def method(self, expression: ast.expr, scope: LexicalScope) -> Definition | None:
        """The method of a class of this module that an expression names; for the name of a class, its constructor."""
        match expression:
            case ast.Attribute(value=value, attr=name) if (found := self._class_of(value, scope)) is not None:
                return self._method_in(found, name)
            case ast.Name() if (found := self._class_named(expression, scope)) is not None:
                return self._method_in(found, "__init__") or self._method_in(found, "__post_init__")
            case _:
                return None

    def _class_of(self, expression: ast.expr, scope: LexicalScope, depth: int = 0) -> ast.ClassDef | None:
        """The class of this module that an expression is, or is an instance of."""
        if isinstance(expression, ast.Call):
            return self._class_named(expression.func, scope)
        if not isinstance(expression, ast.Name) or depth == 8:
            return None
        owner, bound = self.bindings(expression.id, scope)
        match owner, bound:
            case LexicalScope() as owner, [AssignmentBinding(value)]:
                return self._class_of(value, owner, depth + 1)
            case LexicalScope(node=ast.FunctionDef() | ast.AsyncFunctionDef() as node, parent=LexicalScope(node=ast.ClassDef() as around)), [
                AnnotatedBinding(None)
            ]:
                positional = [*node.args.posonlyargs, *node.args.args]
                return around if positional and positional[0].arg == expression.id else None
            case LexicalScope() as owner, [AnnotatedBinding(ast.expr() as hint)]:
                return self._class_named(_written(hint), owner.parent or owner)
        return self._class_named(expression, scope)

    def _class_named(self, expression: ast.expr | None, scope: LexicalScope) -> ast.ClassDef | None:
        match self.bindings(expression.id, scope)[1] if isinstance(expression, ast.Name) else []:
            case [DefinitionBinding(ast.ClassDef() as node)]:
                return node
            case _:
                return None

    def _method_in(self, found: ast.ClassDef, name: str, depth: int = 0) -> Definition | None:
        """The method of this name, of the class or else of a class of this module that it is made from."""
        own = next((one for one in found.body if isinstance(one, Definition) and one.name == name), None)
        bases = (self._class_named(base, self.module.scope) for base in found.bases) if own is None and depth < 8 else ()
        inherited = (self._method_in(base, name, depth + 1) for base in bases if base is not None)
        return own or next((one for one in inherited if one is not None), None)

    def _named(self, name: str, scope: LexicalScope) -> str:
        owner = scope.owner(name)
        if owner is None:
            return self._from_nowhere(name)
        key = owner, name
        if key not in self._known:
            self._known[key] = ""  # what is defined by itself has no other meaning
            self._known[key] = self._meaning(owner.bindings[name], owner)
        return self._known[key]

    def _meaning(self, bound: list[Binding], owner: LexicalScope) -> str:
        match bound:
            case [ImportBinding(name), *_] if all(isinstance(one, ImportBinding) for one in bound):
                return name
            case [AssignmentBinding(value)]:
                return self.full(value, owner)
            case [AnnotatedBinding(hint)]:
                found = self.hints(hint, owner.parent or owner)
                return _SAME.get(f"{found[0]}()", f"{found[0]}()") if len(found) == 1 and found[0] else ""
            case _:
                return ""

    def _from_nowhere(self, name: str) -> str:
        """A name that no scope binds: a builtin, or a name of a star import."""
        stars = self.module.scope.stars
        if "perdure" in stars and name in PUBLIC:
            return f"perdure.{name}"
        if name in BUILTINS:
            return f"builtins.{name}"
        return f"{stars[0]}.{name}" if len(stars) == 1 else ""
