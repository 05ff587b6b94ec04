"""What an expression means: the full name of what it refers to, through imports, aliases and hints; or nothing, if that is not sure.

A full name is dotted, and `()` stands for what a call returns: `datetime.datetime.now`, `pathlib.Path().read_text`.
"""

import ast
import builtins

from perdure.lint.scopes import Assigned, Binding, Defined, Definition, Hinted, Imported, Module, Scope

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
"""What makes functions of workflows, or marks them."""


def ours(name: str) -> str:
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


class Names:
    """The names of a module, with what was found of them."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[tuple[Scope, str], str] = {}

    def full(self, expression: ast.expr, scope: Scope) -> str:
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

    def hints(self, hint: ast.expr | None, scope: Scope) -> list[str]:
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

    def bindings(self, name: str, scope: Scope) -> tuple[Scope | None, list[Binding]]:
        """The scope whose name it is, and what it is bound to there."""
        owner = scope.owner(name)
        return owner, [] if owner is None else owner.bindings[name]

    def definition(self, expression: ast.expr, scope: Scope, depth: int = 0) -> Definition | None:
        """The function of this module that an expression names, by its own name or by one that was given to it once."""
        if not isinstance(expression, ast.Name):
            return None
        owner, bound = self.bindings(expression.id, scope)
        match bound:
            case [*_, Defined(ast.FunctionDef() | ast.AsyncFunctionDef() as node)] if all(isinstance(one, Defined) for one in bound):
                return node
            case [Assigned(value)] if owner is not None and depth < 8:
                return self.definition(value, owner, depth + 1)
            case _:
                return None

    def method(self, expression: ast.expr, scope: Scope) -> Definition | None:
        """The method of a class of this module that an expression names; of the name of a class, what runs when it is called."""
        match expression:
            case ast.Attribute(value=value, attr=name) if (found := self._class_of(value, scope)) is not None:
                return self._method_in(found, name)
            case ast.Name() if (found := self._class_named(expression, scope)) is not None:
                return self._method_in(found, "__init__") or self._method_in(found, "__post_init__")
            case _:
                return None

    def _class_of(self, expression: ast.expr, scope: Scope, depth: int = 0) -> ast.ClassDef | None:
        """The class of this module that an expression is, or is an instance of."""
        if isinstance(expression, ast.Call):
            return self._class_named(expression.func, scope)
        if not isinstance(expression, ast.Name) or depth == 8:
            return None
        owner, bound = self.bindings(expression.id, scope)
        match owner, bound:
            case Scope() as owner, [Assigned(value)]:
                return self._class_of(value, owner, depth + 1)
            case Scope(node=ast.FunctionDef() | ast.AsyncFunctionDef() as node, parent=Scope(node=ast.ClassDef() as around)), [Hinted(None)]:
                positional = [*node.args.posonlyargs, *node.args.args]
                return around if positional and positional[0].arg == expression.id else None
            case Scope() as owner, [Hinted(ast.expr() as hint)]:
                return self._class_named(_written(hint), owner.parent or owner)
        return self._class_named(expression, scope)

    def _class_named(self, expression: ast.expr | None, scope: Scope) -> ast.ClassDef | None:
        match self.bindings(expression.id, scope)[1] if isinstance(expression, ast.Name) else []:
            case [Defined(ast.ClassDef() as node)]:
                return node
            case _:
                return None

    def _method_in(self, found: ast.ClassDef, name: str, depth: int = 0) -> Definition | None:
        """The method of this name, of the class or else of a class of this module that it is made from."""
        own = next((one for one in found.body if isinstance(one, Definition) and one.name == name), None)
        bases = (self._class_named(base, self.module.scope) for base in found.bases) if own is None and depth < 8 else ()
        inherited = (self._method_in(base, name, depth + 1) for base in bases if base is not None)
        return own or next((one for one in inherited if one is not None), None)

    def _named(self, name: str, scope: Scope) -> str:
        owner = scope.owner(name)
        if owner is None:
            return self._from_nowhere(name)
        key = owner, name
        if key not in self._known:
            self._known[key] = ""  # what is defined by itself has no other meaning
            self._known[key] = self._meaning(owner.bindings[name], owner)
        return self._known[key]

    def _meaning(self, bound: list[Binding], owner: Scope) -> str:
        match bound:
            case [Imported(name), *_] if all(isinstance(one, Imported) for one in bound):
                return name
            case [Assigned(value)]:
                return self.full(value, owner)
            case [Hinted(hint)]:
                found = self.hints(hint, owner.parent or owner)
                return _SAME.get(f"{found[0]}()", f"{found[0]}()") if len(found) == 1 and found[0] else ""
            case _:
                return ""

    def _from_nowhere(self, name: str) -> str:
        """A name that no scope binds: a builtin, or what a star brought."""
        stars = self.module.scope.stars
        if "perdure" in stars and name in PUBLIC:
            return f"perdure.{name}"
        if name in BUILTINS:
            return f"builtins.{name}"
        return f"{stars[0]}.{name}" if len(stars) == 1 else ""
