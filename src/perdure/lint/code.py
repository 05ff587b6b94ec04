"""Workflow code: a function that is replayed, as checks look at it, with the contexts that it can see and the verbs that it calls."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from perdure.lint.names import Names, ours
from perdure.lint.scopes import Assigned, Definition, FunctionNode, Module, Scope

WAITING = frozenset({"step", "attempt", "sleep", "sleep_until", "listen", "listen_many", "join", "map", "race", "call", "approve", "wait"})
"""The verbs that open an operation and wait until it has settled; on a `Context` they are to be awaited."""

VERBS = WAITING | {"send", "start", "set", "set_attributes", "emit", "commit", "keep", "now", "random", "uuid", "version", "removed", "loop", "as_completed"}
"""All that belongs to one branch or turn; `log` and `execution` are the same everywhere."""

BRANCHING = frozenset({"join", "race", "map"})

Role = Literal["workflow", "branch", "nested", "helper"]
N = TypeVar("N", bound=ast.AST)


@dataclass(eq=False, slots=True)
class ContextName:
    """A name of a context: whose name it is, and of which twin the context is."""

    owner: Scope
    name: str
    sync: bool


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb that is called on a context."""

    name: str
    context: ContextName
    call: ast.Call

    @property
    def target(self) -> ast.expr | None:
        """The function of a step or attempt, of a keep or a map; the workflow of a call."""
        given = self.call.args
        named_first = self.name == "keep" or (self.name in ("step", "attempt") and len(given) > 1 and _is_text(given[0]))
        position = 1 if named_first else 0
        return given[position] if len(given) > position else None

    @property
    def explicit_name(self) -> str | None:
        """The name that it is given, as far as that is a constant."""
        given = self.call.args
        if self.name in ("keep", "loop") or (self.name in ("step", "attempt") and len(given) > 1):
            return text_of(given[0]) if given else None
        named = {"sleep", "sleep_until", "listen", "listen_many", "send", "join", "race", "map"}
        return next((text_of(one.value) for one in self.call.keywords if one.arg == "name"), None) if self.name in named else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or text_of(node) is not None


def text_of(node: ast.expr) -> str | None:
    """The text of a constant that is text."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@dataclass
class Code:
    """What is known of a module: its scopes, names and contexts, and which of its functions are what.

    `steps` holds undo handlers too, `workflows` has their names, `functions` are those that are workflow code, `called` those that it calls,
    `branches` those that it gives to `join`, `race` and `map`, and `overlapping` those of which several runs may go on at a time.
    """

    module: Module
    names: Names
    contexts: dict[tuple[Scope, str], ContextName] = field(default_factory=dict)
    steps: set[ast.AST] = field(default_factory=set)
    workflows: dict[ast.AST, str] = field(default_factory=dict)
    functions: "dict[FunctionNode, Function]" = field(default_factory=dict)
    called: set[FunctionNode] = field(default_factory=set)
    branches: set[FunctionNode] = field(default_factory=set)
    overlapping: set[FunctionNode] = field(default_factory=set)

    def context(self, expression: ast.expr, scope: Scope, depth: int = 0) -> ContextName | None:
        """The context that an expression names in a scope."""
        if not isinstance(expression, ast.Name):
            return None
        owner, bound = self.names.bindings(expression.id, scope)
        if owner is None:
            return None
        if (found := self.contexts.get((owner, expression.id))) is not None:
            return found
        match bound:
            case [Assigned(value)] if depth < 8:
                return self.context(value, owner, depth + 1)
            case _:
                return None

    def verb(self, node: ast.AST, scope: Scope) -> Verb | None:
        """The verb that a node calls."""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in VERBS:
                context = self.context(value, scope)
                return None if context is None else Verb(name, context, node)
            case _:
                return None

    def functions_in(self, given: ast.expr, scope: Scope) -> Iterator[FunctionNode]:
        """The functions of this module that are given, where something like a step or a branch is wanted."""
        match given:
            case ast.Lambda():
                yield given
            case ast.Name():
                if (node := self.names.definition(given, scope)) is not None:
                    yield node
            case ast.Call(func=ast.Attribute(value=value, attr="with_")):
                yield from self.functions_in(value, scope)
            case ast.Call(func=function, args=[first, *_]) if self.names.full(function, scope) == "functools.partial":
                yield from self.functions_in(first, scope)
            case ast.Call(func=function, args=[first, *_]) if ours(self.names.full(function, scope)) == "step":
                yield from self.functions_in(first, scope)

    def is_step(self, expression: ast.expr, scope: Scope) -> bool:
        """Whether it names a step of this module."""
        return self.names.definition(expression, scope) in self.steps or self.names.full(expression, scope) in _MADE["step"]

    def is_workflow(self, expression: ast.expr, scope: Scope) -> bool:
        """Whether it names a workflow of this module."""
        return self.names.definition(expression, scope) in self.workflows or self.names.full(expression, scope) in _MADE["workflow"]


_MADE = {made: {f"perdure.{made}()", f"perdure.{made}()()", f"perdure.{made}().with_()"} for made in ("step", "workflow")}


@dataclass(eq=False)
class Function:
    """A function that is workflow code: in which role, and by which workflow it is reached, if the module shows one."""

    code: Code
    node: FunctionNode
    role: Role
    workflow: str = ""

    @cached_property
    def scope(self) -> Scope:
        """Its names."""
        return self.code.module.functions[self.node]

    @property
    def name(self) -> str:
        """Its name, if it has one."""
        return self.node.name if isinstance(self.node, Definition) else "lambda"

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Its own nodes in the order of the source, those of classes in it included, those of functions in it not."""
        found = list(self.scope.nodes)
        inner = [node for node in found if isinstance(node, ast.ClassDef)]
        for node in inner:
            found += self.within(node.body)
        return found

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        sorted_out = defaultdict(list)
        for node in self.nodes:
            sorted_out[type(node)].append(node)
        return sorted_out

    def all(self, kind: type[N]) -> list[N]:
        """Its own nodes of one type."""
        return self._by_type[kind]  # type: ignore[return-value]  # they are sorted by type

    @property
    def loops(self) -> list[ast.For | ast.AsyncFor]:
        """Its own loops over something."""
        return [*self.all(ast.For), *self.all(ast.AsyncFor)]

    @property
    def tries(self) -> list[ast.Try | ast.TryStar]:
        """Its own tries."""
        return [*self.all(ast.Try), *self.all(ast.TryStar)]

    @cached_property
    def verbs(self) -> list[Verb]:
        """The verbs that it calls."""
        return [verb for call in self.all(ast.Call) if (verb := self.code.verb(call, self.scope)) is not None]

    def full(self, expression: ast.expr) -> str:
        """The full name of what an expression means here, or nothing."""
        return self.code.names.full(expression, self.scope)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node; None at the function itself."""
        found = self.code.module.parents.get(node)
        return None if found is self.node else found

    def around(self, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
        """The nodes around a node, inner ones first, each with the part of it in which the node is."""
        while (parent := self.parent(node)) is not None:
            yield parent, self.code.module.parts[node]
            node = parent

    def home(self, verb: Verb) -> ast.AST:
        """Where names of a verb's context are counted: the loop whose turn the context is, else the function whose it is."""
        return next((node for node, part in self.around(verb.call) if part == "body" and _binds(node, verb.context.name)), verb.context.owner.node)

    def within(self, nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
        """These nodes and those in them, as far as they are this function's own."""
        left = list(nodes)[::-1]
        while left:
            node = left.pop()
            yield node
            if not isinstance(node, FunctionNode):
                left.extend(list(ast.iter_child_nodes(node))[::-1])

    def verbs_within(self, nodes: Iterable[ast.AST]) -> Iterator[Verb]:
        """The verbs that are called in these nodes."""
        return (verb for node in self.within(nodes) if (verb := self.code.verb(node, self.scope)) is not None)

    @property
    def waits(self) -> bool:
        """Whether it is a coroutine, so that its verbs are to be awaited."""
        return isinstance(self.node, ast.AsyncFunctionDef)


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.For | ast.AsyncFor) and isinstance(node.target, ast.Name) and node.target.id == name


def base_name(node: ast.expr) -> ast.Name | None:
    """The name that attributes and items are taken of."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def shown(expression: ast.expr) -> str:
    """An expression as it may stand in a sentence."""
    written = " ".join(ast.unparse(expression).split())
    return written if len(written) <= 60 else f"{written[:59]}…"
