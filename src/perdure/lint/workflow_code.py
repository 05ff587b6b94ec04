"""Finds the functions of a module that are workflow code, with the contexts that they can see and the verbs that they call.

Workflow code is: functions decorated with `@workflow`; functions whose first parameter is annotated as a context or a loop turn; the branches passed to
`join`, `race` and `map`; functions defined in workflow code; and functions and methods of the module that workflow code calls. Steps, their undo handlers and
functions passed to `step`, `attempt` or `keep` run once and are recorded, so they are not workflow code.
"""

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from perdure.lint.name_resolution import AssignmentBinding, Definition, FunctionNode, LexicalScope, NameResolver, SyntaxModule, public_name

WAITING = frozenset({"step", "attempt", "external", "sleep", "sleep_until", "listen", "listen_many", "join", "map", "race", "call", "approve", "wait"})
"""The verbs that open an operation and wait until it has settled; on a `Context` they are to be awaited."""

VERBS = WAITING | {"send", "start", "set", "set_attributes", "emit", "commit", "keep", "now", "random", "uuid", "version", "removed", "loop", "as_completed"}
"""All that belongs to one branch or turn; `log` and `execution` are the same everywhere."""

BRANCHING = frozenset({"join", "race", "map"})

Role = Literal["workflow", "branch", "nested", "helper"]
NodeT = TypeVar("NodeT", bound=ast.AST)


@dataclass(eq=False, slots=True)
class ContextName:
    """A name of a context: the function that binds it, and whether it is a `Context` or a `SyncContext`."""

    owner: LexicalScope
    name: str
    sync: bool


@dataclass(frozen=True, slots=True)
class VerbCall:
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
        """The name argument of a verb, if it is a constant."""
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
class ModuleCode:
    """The facts about a module: its scopes, names and contexts, and which of its functions are what.

    `steps` holds undo handlers too, `workflows` has their names, `functions` are those that are workflow code, `called` those that it calls,
    `branches` those that it gives to `join`, `race` and `map`, and `overlapping` those of which several runs may go on at a time.
    """

    module: SyntaxModule
    names: NameResolver
    contexts: dict[tuple[LexicalScope, str], ContextName] = field(default_factory=dict)
    steps: set[ast.AST] = field(default_factory=set)
    workflows: dict[ast.AST, str] = field(default_factory=dict)
    functions: "dict[FunctionNode, WorkflowFunction]" = field(default_factory=dict)
    called: set[FunctionNode] = field(default_factory=set)
    branches: set[FunctionNode] = field(default_factory=set)
    overlapping: set[FunctionNode] = field(default_factory=set)

    def context(self, expression: ast.expr, scope: LexicalScope, depth: int = 0) -> ContextName | None:
        """The context that an expression names in a scope."""
        if not isinstance(expression, ast.Name):
            return None
        owner, bound = self.names.bindings(expression.id, scope)
        if owner is None:
            return None
        if (found := self.contexts.get((owner, expression.id))) is not None:
            return found
        match bound:
            case [AssignmentBinding(value)] if depth < 8:
                return self.context(value, owner, depth + 1)
            case _:
                return None

    def verb(self, node: ast.AST, scope: LexicalScope) -> VerbCall | None:
        """The verb that a node calls."""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in VERBS:
                context = self.context(value, scope)
                return None if context is None else VerbCall(name, context, node)
            case _:
                return None

    def functions_in(self, given: ast.expr, scope: LexicalScope) -> Iterator[FunctionNode]:
        """The functions of this module among the arguments for a step or a branch."""
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
            case ast.Call(func=function, args=[first, *_]) if public_name(self.names.full(function, scope)) == "step":
                yield from self.functions_in(first, scope)

    def is_step(self, expression: ast.expr, scope: LexicalScope) -> bool:
        """Whether it names a step of this module."""
        return self.names.definition(expression, scope) in self.steps or self.names.full(expression, scope) in _MADE["step"]

    def is_workflow(self, expression: ast.expr, scope: LexicalScope) -> bool:
        """Whether it names a workflow of this module."""
        return self.names.definition(expression, scope) in self.workflows or self.names.full(expression, scope) in _MADE["workflow"]


_MADE = {made: {f"perdure.{made}()", f"perdure.{made}()()", f"perdure.{made}().with_()"} for made in ("step", "workflow")}


@dataclass(eq=False)
class WorkflowFunction:
    """A function that is workflow code: in which role, and by which workflow it is reached, if the module shows one."""

    code: ModuleCode
    node: FunctionNode
    role: Role
    workflow: str = ""

    @cached_property
    def scope(self) -> LexicalScope:
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

    def all(self, kind: type[NodeT]) -> list[NodeT]:
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
    def verbs(self) -> list[VerbCall]:
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

    def home(self, verb: VerbCall) -> ast.AST:
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

    def verbs_within(self, nodes: Iterable[ast.AST]) -> Iterator[VerbCall]:
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


def expression_text(expression: ast.expr) -> str:
    """The source of an expression, for a sentence."""
    written = " ".join(ast.unparse(expression).split())
    return written if len(written) <= 60 else f"{written[:59]}…"


ASYNC_HINTS = {"Context", "Turn"}
SYNC_HINTS = {"SyncContext", "SyncTurn"}


def workflow_code(module: SyntaxModule) -> ModuleCode:
    """The module, with its workflow code found."""
    return _Finder(ModuleCode(module, NameResolver(module))).found()


class _Finder:
    """Goes from the workflows to all that they reach, outer functions before inner ones, so that contexts are known where they are used."""

    def __init__(self, code: ModuleCode) -> None:
        self.code = code
        self.remembered: set[ast.AST] = set()
        self.left: deque[WorkflowFunction] = deque()

    def found(self) -> ModuleCode:
        """All workflow code."""
        hinted = self._sort()
        self._collect_remembered()
        for node, name in self.code.workflows.items():
            if isinstance(node, Definition):
                self._add(node, "workflow", name)
                self._name_first(node, sync=isinstance(node, ast.FunctionDef))
        self._drain()
        for node in hinted:
            self._add(node, "branch", "")
        self._drain()
        return self.code

    def _sort(self) -> list[Definition]:
        """Sort functions by their decorators and hints; return those that are branches by their hints."""
        hinted: list[Definition] = []
        for node, scope in self.code.module.functions.items():
            if isinstance(node, ast.Lambda) or scope.parent is None:
                continue
            for decorator in node.decorator_list:
                self._decorated(node, decorator, scope.parent)
            positional = [*node.args.posonlyargs, *node.args.args]
            for number, one in enumerate(positional):
                sync = self._twin(one.annotation, scope.parent)
                if sync is not None:
                    self._name(scope, one.arg, sync)
                    if number == 0 or (number == 1 and positional[0].arg in ("self", "cls")):
                        hinted.append(node)
        for scope in (self.code.module.scope, *self.code.module.functions.values()):
            for call in scope.nodes:
                if isinstance(call, ast.Call):
                    self._made_by_call(call, scope)
        return [node for node in hinted if node not in self.code.steps]

    def _decorated(self, node: Definition, decorator: ast.expr, scope: LexicalScope) -> None:
        maker = decorator.func if isinstance(decorator, ast.Call) else decorator
        kind = public_name(self.code.names.full(maker, scope))
        if kind == "workflow":
            self.code.workflows[node] = _given_name(decorator) or node.name
        elif kind == "step" or (isinstance(maker, ast.Attribute) and maker.attr == "undo"):
            self.code.steps.add(node)

    def _made_by_call(self, call: ast.Call, scope: LexicalScope) -> None:
        """`order = workflow(order_code)`, and the same with options; `charge = step(charge_it)`."""
        maker = call.func.func if isinstance(call.func, ast.Call) else call.func
        kind = public_name(self.code.names.full(maker, scope))
        if kind in ("workflow", "step") and call.args and (node := self.code.names.definition(call.args[0], scope)):
            if kind == "workflow":
                self.code.workflows.setdefault(node, node.name)
            else:
                self.remembered.add(node)

    def _collect_remembered(self) -> None:
        """Functions that are passed to steps as values."""
        for scope in (self.code.module.scope, *self.code.module.functions.values()):
            for node in scope.nodes:
                match node:
                    case ast.Call(func=ast.Attribute(attr="step" | "attempt" | "keep"), args=given, keywords=named):
                        for one in (*given[:2], *(keyword.value for keyword in named)):
                            self.remembered.update(self.code.functions_in(one, scope))

    def _drain(self) -> None:
        while self.left:
            function = self.left.popleft()
            self._name_turns(function)
            for verb in function.verbs:
                if verb.name in BRANCHING:
                    self._branches(verb, function)
            for call in function.all(ast.Call):
                self._called(call, function)
            for attribute in function.all(ast.Attribute):
                read = self.code.names.method(attribute, function.scope)
                if read is not None and _is_property(read):
                    self._add(read, "helper", function.workflow)
                    self.code.called.add(read)
            if function.role == "helper" and not any(owner is function.scope for owner, _ in self.code.contexts):
                continue  # what it makes without a context may be a step; what it calls of that has been found
            for node in function.nodes:
                if isinstance(node, FunctionNode) and node not in self.remembered and node not in self.code.steps:
                    self._add(node, "nested", function.workflow)

    def _branches(self, verb: VerbCall, function: WorkflowFunction) -> None:
        given = verb.call.args[:1] if verb.name == "map" else verb.call.args
        by_name = [keyword.value for keyword in verb.call.keywords if keyword.arg not in ("name", "limit")]
        for one in (*given, *by_name):
            for node in self.code.functions_in(one, function.scope):
                if node in self.code.steps or node in self.code.workflows:
                    continue  # it runs as a step or as a child, and is no code of this workflow
                if verb.name == "map" or node in self.code.branches:
                    self.code.overlapping.add(node)
                self.code.branches.add(node)
                self._add(node, "branch", function.workflow)
                if isinstance(one, ast.Name | ast.Lambda):
                    self._name_first(node, sync=verb.context.sync and not isinstance(node, ast.AsyncFunctionDef))

    def _called(self, call: ast.Call, function: WorkflowFunction) -> None:
        method = self.code.names.method(call.func, function.scope)
        node = method or self.code.names.definition(call.func, function.scope)
        if node is None or node in self.code.steps or node in self.code.workflows:
            return
        self._add(node, "helper", function.workflow)
        self.code.called.add(node)
        if not isinstance(function.parent(call), ast.Await):
            self.code.overlapping.add(node)
        scope = self.code.module.functions[node]
        positional = [one.arg for one in (*node.args.posonlyargs, *node.args.args)][method is not None and not _is_static(method) :]
        given = [*zip(positional, call.args, strict=False), *((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg)]
        for name, value in given:
            context = self.code.context(value, function.scope)
            if context is not None and len(scope.bindings.get(name, ())) == 1:
                self._name(scope, name, context.sync)

    def _name_turns(self, function: WorkflowFunction) -> None:
        """Names of turns; loops in loops follow their outer ones."""
        for loop in (one for one in function.nodes if isinstance(one, ast.For | ast.AsyncFor)):
            verb = self.code.verb(loop.iter, function.scope)
            if verb is not None and verb.name == "loop" and isinstance(loop.target, ast.Name):
                self._name(function.scope.owner(loop.target.id) or function.scope, loop.target.id, verb.context.sync)

    def _name_first(self, node: FunctionNode, sync: bool) -> None:
        positional = [*node.args.posonlyargs, *node.args.args]
        if positional:
            self._name(self.code.module.functions[node], positional[0].arg, sync)

    def _name(self, scope: LexicalScope, name: str, sync: bool) -> None:
        self.code.contexts.setdefault((scope, name), ContextName(scope, name, sync))

    def _twin(self, hint: ast.expr | None, scope: LexicalScope) -> bool | None:
        """Whether a hint is of the sync twin; None if it is of no context."""
        words = {public_name(found) for found in self.code.names.hints(hint, scope)}
        return None if not words & (ASYNC_HINTS | SYNC_HINTS) else not words & ASYNC_HINTS

    def _add(self, node: FunctionNode, role: Role, workflow: str) -> None:
        if node not in self.code.functions and node not in self.code.steps:
            self.code.functions[node] = function = WorkflowFunction(self.code, node, role, workflow)
            self.left.append(function)


def _is_static(method: Definition) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in method.decorator_list)


def _is_property(method: Definition) -> bool:
    return any(ast.unparse(one).rpartition(".")[2] in ("property", "cached_property") for one in method.decorator_list)


def _given_name(decorator: ast.expr) -> str | None:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return next((text_of(one.value) for one in keywords if one.arg == "name"), None)
