"""Running a program of `nodes` on a real context: what each node does, and the world in which its steps have their effects."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.code.durations import duration_text
from perdure.core.errors import Fatal, JoinFailed, RaceFailed, StepFailed, WorkflowError
from perdure.core.paths import Key
from tests.proof import program_nodes as n
from tests.proof.program_nodes import Json, Node, Program

if TYPE_CHECKING:
    from perdure.code.context import Context
    from perdure.code.declarations import CodeWorkflow, Step, UndoHandler
    from perdure.code.declared_queues import Queue

Workflow = Callable[..., Coroutine[Any, Any, Json]]

NEVER_S = 100 * 365 * 86_400.0
"""A time that does not come."""


class ProgramWorld:
    """What the steps of one execution act upon. `effects` counts how often each effect was executed, `needs` says which deploy's code an execution needs."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.needs: dict[Key, int] = {}

    def goes(self, key: Key, deploy: int) -> None:
        """Note that an execution goes a way that code before this deploy does not know."""
        self.needs[key] = max(deploy, self.needs.get(key, 0))

    def begin(self, effect: str, behaviour: n.Behaviour) -> Json:
        """Execute the effect, once more, and behave as is due at this time: return the value, or raise."""
        self.effects[effect] += 1
        match behaviour:
            case n.Answers(value, failures) if self.effects[effect] > failures:
                return value
            case n.Answers(_, failures):
                raise ValueError(f"{effect} fails {failures} times")
            case n.Fails(error):
                raise n.ERRORS[error](f"{effect} fails always")
            case n.GivesUp():
                raise Fatal(f"{effect} gives up")
            case n.Hangs():
                return None

    async def perform(self, effect: str, behaviour: n.Behaviour) -> Json:
        """`begin`, and take the time that the behaviour takes."""
        value = self.begin(effect, behaviour)
        match behaviour:
            case n.Answers(duration_s=duration_s) if duration_s:
                await asyncio.sleep(duration_s)
            case n.Hangs():
                await asyncio.get_running_loop().create_future()
        return value


class Child(NamedTuple):
    """A child's workflow, as `ctx.call` takes it."""

    code: "CodeWorkflow"


class Code(NamedTuple):
    """Which code runs a program: that of which deploy (0 is the first), whether each deploy is a version of its own, which replays all before it, and
    the queues that it declares."""

    deploy: int = 0
    pinned: bool = False
    queues: "Mapping[str, Queue]" = MappingProxyType({})

    def way(self, pinned: int, ways: int) -> int:
        """The latest way that it knows, of so many; of an execution that is pinned to a version, the latest that this one knows."""
        return min(pinned if self.pinned else self.deploy + 1, ways)

    def declared(self, workflow: Workflow, name: str, **options: Any) -> "CodeWorkflow":
        """A workflow of this code."""
        from perdure.code.declarations import CodeWorkflow

        version = self.deploy + 1 if self.pinned else 1
        return CodeWorkflow(workflow, name, version, tuple(range(1, version)), **options)


FIRST = Code()


def as_workflow(program: Program, world: ProgramWorld, code: Code = FIRST) -> Workflow:
    """The program as an async function of a context, which returns {"returned": value} or {"raised": error}."""
    interpreter = _Interpreter(world, children(program, world, code), code)

    async def workflow(ctx: Any) -> Any:
        try:
            return {"returned": await interpreter.value(program.root, ctx, _Scope(ctx.execution.key))}
        except _CAUGHT as error:
            return {"raised": _described(error)}

    return workflow


def children(program: Program, world: ProgramWorld, code: Code = FIRST) -> dict[str, Child]:
    """The workflows of the program's child executions, by name: an engine that runs the program must know them too."""
    from perdure.code.declarations import CallOptions

    found: dict[str, Child] = {}
    interpreter = _Interpreter(world, found, code)

    def child(call: n.Call) -> Child:
        async def workflow(ctx: Any, where: str, turns: int) -> Any:
            return await interpreter.value(call.body, ctx, _Scope(ctx.execution.key, where, "", turns))

        calling = CallOptions(undo=call.undo, queue=call.queue, line=code.queues.get(call.queue), priority=call.priority)
        return Child(code.declared(workflow, call.name, calling=calling, handlers=interpreter.handlers(call.body), deadline_s=call.deadline_s))

    later = {id(node) for one in n.walk(program.root) if isinstance(one, n.Changed) for way in one.ways[code.deploy + 1 :] for node in n.walk(way)}
    found.update((call.name, child(call)) for call in n.walk(program.root) if isinstance(call, n.Call) and id(call) not in later)
    return found


_CAUGHT = (WorkflowError, n.Mishap)


class _Scope(NamedTuple):
    """Where a node is run: in which execution, turns and items (messages are named by the items), after how many turns of the innermost loop."""

    key: Key
    where: str = ""
    items: str = ""
    turns: int = 0


class _Interpreter:
    def __init__(self, world: ProgramWorld, known: dict[str, Child], code: Code) -> None:
        self._world = world
        self._code = code
        self._children = known
        self._steps: dict[str, Any] = {}

    async def value(self, node: Node, ctx: Any, scope: _Scope) -> Json:
        """What comes of `node`, run on `ctx`."""
        match node:
            case n.Step():
                return _shortened(node, await self._verb(node, ctx, scope))
            case n.Attempt(step):
                outcome = await ctx.attempt(*self._call(step, scope))
                return {"failed": _outcome(outcome)} if hasattr(outcome, "kind") else {"ok": _shortened(step, outcome.value)}
            case n.Sleep(duration_s):
                return await ctx.sleep(duration_s)
            case n.Listen(message, timeout_s, default):
                options = {"timeout": timeout_s, "default": default[0]} if default else {} if timeout_s is None else {"timeout": timeout_s}
                return {"heard": await ctx.listen(message + scope.items, **options)}
            case n.Gather(message, limit, timeout_s):
                return {"heard": await ctx.listen_many(message + scope.items, limit=limit, timeout=timeout_s)}
            case n.Send(message, body):
                return await ctx.send(scope.key, message + scope.items, [body, scope.turns])
            case n.Keep(name, value):
                return await ctx.keep(name, lambda: self._world.begin(name + scope.where, n.Answers(value)))
            case n.Tell(key, value):
                _tell(ctx, key, scope.items, value)
            case n.Raise():
                raise n.Mishap
            case n.Stubborn():
                await _wait_stubbornly(ctx)
            case n.Approve(title, timeout_s, approves):
                return {"approved": (await ctx.approve(title, timeout=timeout_s, on_timeout="approve" if approves else "reject")).approved}
            case n.Gate(name, latest):
                return {"way": await ctx.version(name, latest)}
            case n.Changed() | n.Removed():
                return await (self._changed(node, ctx, scope) if isinstance(node, n.Changed) else self._removed(node, ctx, scope))
            case n.Together(nodes):
                return await asyncio.gather(*(self._verb(one, ctx, scope) for one in nodes))
            case n.Beside(besides, body):
                _ = [asyncio.ensure_future(self._verb(one, ctx, scope)) for one in besides]  # the loop keeps them
                return await self.value(body, ctx, scope)
            case n.Call(name):
                return {"child": await ctx.call(self._children[name], scope.where, scope.turns)}
            case n.Sequence(nodes):
                return [await self.value(one, ctx, scope) for one in nodes]
            case n.Guard(body):
                try:
                    return {"fine": await self.value(body, ctx, scope)}
                except _CAUGHT as error:
                    return {"caught": _described(error)}
            case n.Loop():
                return await self._loop(node, ctx, scope)
            case n.Join() | n.Map() | n.Race():
                return await self._branches(node, ctx, scope)
        return None

    async def _changed(self, node: n.Changed, ctx: Any, scope: _Scope) -> Json:
        latest = self._code.way(ctx.execution.version, len(node.ways))
        asks = latest > 1 and not self._code.pinned
        way = await ctx.version(node.name, latest) if asks else latest
        if asks:
            self._world.goes(scope.key, way - 1)
        known = node.ways[:latest]
        _ = await self.value(known[way - 1], ctx, scope)
        return {"changed": node.name}

    async def _removed(self, node: n.Removed, ctx: Any, scope: _Scope) -> Json:
        if (ctx.execution.version if self._code.pinned else self._code.deploy + 1) <= node.by:
            _ = await self.value(node.verb, ctx, scope)
        elif not self._code.pinned:
            if not ctx._instance.replaying:
                self._world.goes(scope.key, node.by)
            await ctx.removed(*_remembered(node.verb, scope.items))
        return None

    async def _branches(self, node: n.Join | n.Map | n.Race, ctx: Any, scope: _Scope) -> Json:
        async def item(c: "Context", number: int) -> Json:
            inner = scope._replace(where=f"{scope.where}[{number}]", items=f"{scope.items}[{number}]")
            return [node.items[number], await self.value(node.body, c, inner)] if isinstance(node, n.Map) else None

        def branch(body: Node) -> Callable[["Context"], Coroutine[Any, Any, Json]]:
            return lambda c: self.value(body, c, scope)

        try:
            match node:
                case n.Map(items, _, limit):
                    return await ctx.map(item, range(len(items)), limit=limit)
                case n.Join(branches):
                    record = await ctx.join(**{name: branch(body) for name, body in branches.items()})
                    return {name: record[name] for name in record.keys()}  # noqa: SIM118  # a record promises no more than its keys
                case n.Race(branches):
                    won = await ctx.race(**{name: branch(body) for name, body in branches.items()})
                    return {"won": won.name, "value": won.value}
        except (JoinFailed, RaceFailed) as failure:
            if not node.catch:
                raise
            errors = {str(name): _described(error) for name, error in failure.errors.items()}
            return {"failed": errors} | ({"outputs": {str(name): value for name, value in failure.outputs.items()}} if isinstance(failure, JoinFailed) else {})

    async def _loop(self, node: n.Loop, ctx: Any, scope: _Scope) -> Json:
        state: Json = None
        async for turn in ctx.loop(node.name, state={"count": 0, "last": []}, **node.options):
            inner = scope._replace(where=f"{scope.where}~{turn.number}", turns=turn.state["count"])
            value = await self.value(node.body, turn, inner)
            state = {"count": turn.state["count"] + 1, "last": [*turn.state["last"], value][-4:]}
            turn.state = state
            if state["count"] >= node.turns:
                break
        return state

    def _verb(self, node: n.Step | n.Sleep, ctx: Any, scope: _Scope) -> Any:
        """The verb that runs `node`, called but not awaited."""
        return ctx.sleep(node.duration_s) if isinstance(node, n.Sleep) else ctx.step(*self._call(node, scope))

    def _call(self, node: n.Step, scope: _Scope) -> tuple[Any, ...]:
        """What a verb is given to run a step: perhaps a name, the function and its arguments."""
        named = (f"{node.name} by name",) if node.form == "named" else ()
        return *named, self._step(node), node.name + scope.where, scope.turns

    def _step(self, node: n.Step) -> Any:
        if node.name not in self._steps:
            self._steps[node.name] = _declared(node, self._world, self._code)
        return self._steps[node.name]

    def handlers(self, body: Node) -> "dict[str, UndoHandler]":
        """What undoes the steps in a node, also if a log that goes on from a later turn never opens these again."""
        undone = [self._step(node) for node in n.walk(body) if isinstance(node, n.Step) and node.undo]
        return {step.name: step.handlers[0] for step in undone}


def _tell(ctx: Any, key: str, items: str, value: Json) -> None:
    ctx.set(key + items, value)
    ctx.set_attributes({"told": key, f"at{len(ctx.execution.attributes) % 8}": None if value is None else len(str(value))})
    ctx.emit(value)


async def _wait_stubbornly(ctx: Any) -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await ctx.sleep(NEVER_S)


def _function(node: n.Step, world: ProgramWorld) -> Callable[[str, int], Any]:
    def answer(value: Json, turns: int) -> Json:
        if isinstance(node.behaviour, n.Answers) and node.behaviour.padding_chars:
            return {"value": value, "padding": "x" * node.behaviour.padding_chars}
        return [value, turns] if node.echo else value

    def at_once(effect: str, turns: int) -> Any:
        return answer(world.begin(effect, node.behaviour), turns)

    async def in_time(effect: str, turns: int) -> Any:
        return answer(await world.perform(effect, node.behaviour), turns)

    function: Callable[[str, int], Any] = at_once if node.sync else in_time
    function.__name__ = function.__qualname__ = node.name
    return function


def as_queue(line: n.Line) -> "Queue":
    """The queue as code declares it. Children and steps are both told in which turn they are, which is the key."""
    from perdure.code.declared_queues import Queue, Rate

    rate = None if line.interval_s is None else Rate(1, line.interval_s, line.burst)
    return Queue(line.name, line.concurrency, "turns", line.per_key, rate, priority=True)


def steps(program: Program, world: ProgramWorld, code: Code) -> "list[Step[Any, Any, Any]]":
    """The steps of the program that workers do."""
    return [_declared(node, world, code) for node in n.walk(program.root) if isinstance(node, n.Step) and node.queue]


def _declared(node: n.Step, world: ProgramWorld, code: Code) -> Any:
    """The function itself if it needs no options, else a declared step, with what undoes it."""
    from perdure.code.declarations import Retry, step

    function = _function(node, world)
    retry = Retry() if node.tries is None else Retry(max=node.tries)
    if not node.undo and not node.queue and node.grace_s is None and node.form in ("plain", "named") and node.tries is None and node.timeout_s is None:
        return function
    place: dict[str, Any] = {"queue": code.queues[node.queue], "priority": node.priority} if node.queue else {}
    place |= {"grace": node.grace_s}
    if node.form == "renamed" and not node.undo:
        return step(function).with_(name=f"{node.name} renamed", retry=retry, timeout=node.timeout_s, **place)
    declared = step(retry=retry, timeout=node.timeout_s, **place)(function)
    if node.undo:
        _ = declared.undo(in_doubt=node.undo == "in_doubt")(lambda result, effect, turns: world.begin(undoing(effect), n.Answers()))
    return declared.with_(name=f"{node.name} renamed") if node.form == "renamed" else declared


def _remembered(verb: n.Verb, items: str) -> tuple[str, str]:
    """The name that a verb has by itself, and its kind, as `ctx.removed` takes them."""
    match verb:
        case n.Step(name, form=form):
            return {"named": f"{name} by name", "renamed": f"{name} renamed"}.get(form, name), "step"
        case n.Sleep(duration_s):
            return f"sleep:{duration_text(duration_s)}", "sleep"
        case n.Listen(message):
            return f"listen:{message}{items}", "listen"
        case n.Keep(name):
            return name, "keep"
        case n.Call(name):
            return f"call:{name}", "call"


def undoing(effect: str) -> str:
    """The effect of undoing an effect."""
    return f"undo {effect}"


def _shortened(node: n.Step, value: Json) -> Json:
    """The value of a step, with its padding as a number of characters."""
    if isinstance(node.behaviour, n.Answers) and node.behaviour.padding_chars:
        return {"value": value["value"], "chars": len(value["padding"])}
    return value


def _described(error: BaseException) -> str:
    """The error in words that do not depend on when things happened."""
    match error:
        case StepFailed():
            return f"StepFailed {_outcome(error)}"
        case JoinFailed(errors=errors) | RaceFailed(errors=errors):
            return f"{type(error).__name__} ({', '.join(sorted(map(_described, errors.values())))})"
        case _:
            return type(error).__name__


def _outcome(failure: Any) -> str:
    """Kind, attempts and type of a step's failure; for a timeout, the kind says it all."""
    last = "" if failure.kind == "timeout" else f" {failure.error.type.rpartition('.')[2]}"
    return f"{failure.kind} {failure.attempts}{last}"
