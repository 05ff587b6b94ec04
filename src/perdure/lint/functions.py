"""Which functions of a module are workflow code.

These are: functions decorated with `@workflow`; those whose first parameter is hinted at as a context or a turn; the branches that are given to
`join`, `race` and `map`; functions defined in workflow code; and functions and methods of the module that workflow code calls. Steps, their undo handlers and
what is handed to `step`, `attempt` or `keep` run once and are remembered, so these are not.
"""

import ast
from collections import deque

from perdure.lint.code import BRANCHING, Code, ContextName, Function, Role, Verb, text_of
from perdure.lint.names import Names, ours
from perdure.lint.scopes import Definition, FunctionNode, Module, Scope

ASYNC_HINTS = {"Context", "Turn"}
SYNC_HINTS = {"SyncContext", "SyncTurn"}


def workflow_code(module: Module) -> Code:
    """The module, with its workflow code found."""
    return _Finder(Code(module, Names(module))).found()


class _Finder:
    """Goes from the workflows to all that they reach, outer functions before inner ones, so that contexts are known where they are used."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.remembered: set[ast.AST] = set()
        self.left: deque[Function] = deque()

    def found(self) -> Code:
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

    def _decorated(self, node: Definition, decorator: ast.expr, scope: Scope) -> None:
        maker = decorator.func if isinstance(decorator, ast.Call) else decorator
        kind = ours(self.code.names.full(maker, scope))
        if kind == "workflow":
            self.code.workflows[node] = _given_name(decorator) or node.name
        elif kind == "step" or (isinstance(maker, ast.Attribute) and maker.attr == "undo"):
            self.code.steps.add(node)

    def _made_by_call(self, call: ast.Call, scope: Scope) -> None:
        """`order = workflow(order_code)`, and the same with options; `charge = step(charge_it)`."""
        maker = call.func.func if isinstance(call.func, ast.Call) else call.func
        kind = ours(self.code.names.full(maker, scope))
        if kind in ("workflow", "step") and call.args and (node := self.code.names.definition(call.args[0], scope)):
            if kind == "workflow":
                self.code.workflows.setdefault(node, node.name)
            else:
                self.remembered.add(node)

    def _collect_remembered(self) -> None:
        """Functions that are given to something like a step as values."""
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

    def _branches(self, verb: Verb, function: Function) -> None:
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

    def _called(self, call: ast.Call, function: Function) -> None:
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

    def _name_turns(self, function: Function) -> None:
        """Names of turns; loops in loops follow their outer ones."""
        for loop in (one for one in function.nodes if isinstance(one, ast.For | ast.AsyncFor)):
            verb = self.code.verb(loop.iter, function.scope)
            if verb is not None and verb.name == "loop" and isinstance(loop.target, ast.Name):
                self._name(function.scope.owner(loop.target.id) or function.scope, loop.target.id, verb.context.sync)

    def _name_first(self, node: FunctionNode, sync: bool) -> None:
        positional = [*node.args.posonlyargs, *node.args.args]
        if positional:
            self._name(self.code.module.functions[node], positional[0].arg, sync)

    def _name(self, scope: Scope, name: str, sync: bool) -> None:
        self.code.contexts.setdefault((scope, name), ContextName(scope, name, sync))

    def _twin(self, hint: ast.expr | None, scope: Scope) -> bool | None:
        """Whether a hint is of the sync twin; None if it is of no context."""
        words = {ours(found) for found in self.code.names.hints(hint, scope)}
        return None if not words & (ASYNC_HINTS | SYNC_HINTS) else not words & ASYNC_HINTS

    def _add(self, node: FunctionNode, role: Role, workflow: str) -> None:
        if node not in self.code.functions and node not in self.code.steps:
            self.code.functions[node] = function = Function(self.code, node, role, workflow)
            self.left.append(function)


def _is_static(method: Definition) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in method.decorator_list)


def _is_property(method: Definition) -> bool:
    return any(ast.unparse(one).rpartition(".")[2] in ("property", "cached_property") for one in method.decorator_list)


def _given_name(decorator: ast.expr) -> str | None:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return next((text_of(one.value) for one in keywords if one.arg == "name"), None)
