"""What must come of a program, found without an engine: a sequential reading of `nodes`, in which nothing crashes and time has no length.

It relies on what `programs` promises of its programs: nothing depends on when things happen. All messages from outside are
there from the beginning; a sleep of a century, a step that hangs without a timeout, and a listen without one for a message that
nobody has sent are points that a branch does not get past, and it says so by yielding. A race is won by the branch that returns.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from perdure.testing import nodes as n
from perdure.testing.interpreter import undoing
from perdure.testing.nodes import Json, Node, Program

CENTURY_S = 100 * 365 * 86_400.0
TRIES = 3

Reading = Generator[None, None, Json]
"""The reading of a node: yields as often as it can't go on, and returns the node's value."""


class Prediction(NamedTuple):
    """The result, how often each effect is executed if nothing crashes, and how often at most those of branches that lose a race, and of what
    only some code does."""

    result: Json
    effects: Counter[str]
    maybe: dict[str, int]


class Stuck(Exception):
    """The program waits for something that never comes."""


def predict(program: Program) -> Prediction:
    """Read `program` to its end.

    Raises:
        Stuck: it has none.
    """
    oracle = _Oracle()
    seen: set[str] = set()
    mailbox: defaultdict[str, deque[Json]] = defaultdict(deque)
    for _, name, body, key in sorted(program.messages, key=lambda message: message.at_s):
        if key not in seen:
            seen.add(key)
            mailbox[name].append(body)
    effects: Counter[str] = Counter()
    reading = oracle.read(program.root, _Scope(mailbox, effects, Counter()))
    try:
        while True:
            before = oracle.sent
            next(reading)
            if oracle.sent == before:
                raise Stuck(f"after {sum(effects.values())} effects")
    except StopIteration as end:
        result = {"returned": end.value}
    except _Failure as failure:
        result = {"raised": str(failure)}
    return Prediction(result, effects, dict(sum(oracle.lost, Counter[str]())))


class _Failure(Exception):
    """What the program sees as an error, in the words of its result."""


class _Scope(NamedTuple):
    mailbox: defaultdict[str, deque[Json]]
    effects: Counter[str]
    done: Counter[str]
    where: str = ""
    items: str = ""
    turns: int = 0


class _Oracle:
    def __init__(self) -> None:
        self.lost: list[Counter[str]] = []
        self.sent = 0

    def read(self, node: Node, scope: _Scope) -> Reading:
        """The reading of `node`.

        Raises:
            _Failure: the node fails.
        """
        match node:
            case n.Step():
                return (yield from self._step(node, scope))
            case n.Attempt(step):
                try:
                    return {"ok": (yield from self._step(step, scope))}
                except _Failure as failure:
                    return {"failed": str(failure).removeprefix("StepFailed ")}
            case n.Sleep(duration_s):
                while duration_s >= CENTURY_S:
                    yield
            case n.Listen() | n.Gather():
                return {"heard": (yield from self._receive(node, scope.mailbox[node.message + scope.items]))}
            case n.Send(message, body):
                scope.mailbox[message + scope.items].append([body, scope.turns])
                self.sent += 1
            case n.Keep(name, value):
                scope.effects[name + scope.where] += 1
                return value
            case n.Raise():
                raise _Failure("Mishap")
            case n.Call():
                return (yield from self._call(node, scope))
            case n.Approve(approves=approves):
                return {"approved": approves}
            case n.Gate(_, latest):
                return {"way": latest}
            case n.Removed() | n.Changed():
                return (yield from self._changed(node, scope))
            case n.Guard(body):
                try:
                    return {"fine": (yield from self.read(body, scope))}
                except _Failure as failure:
                    return {"caught": str(failure)}
            case n.Sequence(nodes) | n.Together(nodes):
                return (yield from self._each(nodes, scope))
            case n.Loop():
                return (yield from self._loop(node, scope))
            case n.Join() | n.Map():
                return (yield from self._join(node, scope))
            case n.Race():
                return (yield from self._race(node, scope))
        return None

    def _each(self, nodes: Sequence[Node], scope: _Scope) -> Reading:
        values: list[Json] = []
        for one in nodes:
            values += [(yield from self.read(one, scope))]
        return values

    def _changed(self, node: n.Removed | n.Changed, scope: _Scope) -> Reading:
        """Each way is gone by some code, and not by other."""
        for way in (node.verb,) if isinstance(node, n.Removed) else node.ways:
            effects, done = Counter[str](), Counter[str]()
            self.lost += [effects, done]
            yield from self.read(way, scope._replace(effects=effects, done=done))
        return None if isinstance(node, n.Removed) else {"changed": node.name}

    def _call(self, node: n.Call, scope: _Scope) -> Reading:
        """A child undoes what it has done if it fails; what it has done by completing may be undone with its parent."""
        done: Counter[str] = Counter()
        try:
            value = yield from self.read(node.body, scope._replace(mailbox=defaultdict(deque), items="", done=done))
        except _Failure as failure:
            scope.effects.update(done)
            raise _Failure("ChildFailed") from failure
        scope.done.update(done if node.undo else ())
        return {"child": value}

    def _step(self, node: n.Step, scope: _Scope) -> Reading:
        effect, tries = node.name + scope.where, TRIES if node.tries is None else node.tries
        match node.behaviour:
            case n.Answers(value, failures, _, padding_chars) if failures < tries:
                scope.effects[effect] += failures + 1
                scope.done.update([undoing(effect)] if node.undo else ())
                return {"value": value, "chars": padding_chars} if padding_chars else [value, scope.turns] if node.echo else value
            case n.GivesUp():
                scope.effects[effect] += 1
                scope.done.update([undoing(effect)] if node.undo == "in_doubt" else ())
                raise _Failure("StepFailed fatal 1 Fatal")
            case n.Hangs() if node.timeout_s is None:
                scope.effects[effect] += 1
                scope.done.update([undoing(effect)] if node.undo == "in_doubt" else ())
                while True:
                    yield
        if isinstance(node.behaviour, n.Hangs) and node.queue:
            self.lost.append(Counter({effect: tries}))  # its time may be over before its turn comes
        else:
            scope.effects[effect] += tries
        scope.done.update([undoing(effect)] if node.undo == "in_doubt" else ())
        kind, error = ("timeout", "") if isinstance(node.behaviour, n.Hangs) else ("exhausted", " " + getattr(node.behaviour, "error", "ValueError"))
        raise _Failure(f"StepFailed {kind} {tries}{error}")

    def _receive(self, node: n.Listen | n.Gather, waiting: deque[Json]) -> Reading:
        while not waiting and node.timeout_s is None:
            yield
        if isinstance(node, n.Gather):
            return [waiting.popleft() for _ in range(min(node.limit, len(waiting)))]
        if waiting:
            return waiting.popleft()
        if node.default:
            return node.default[0]
        raise _Failure("Timeout")

    def _loop(self, node: n.Loop, scope: _Scope) -> Reading:
        values: list[Json] = []
        for turn in range(node.turns):
            values += [(yield from self.read(node.body, scope._replace(where=f"{scope.where}~{turn}", turns=turn)))]
        return {"count": node.turns, "last": values[-4:]}

    def _join(self, node: n.Join | n.Map, scope: _Scope) -> Reading:
        readings: dict[str, Reading] = {}
        if isinstance(node, n.Join):
            readings = {name: self.read(body, scope) for name, body in node.branches.items()}
        else:
            for item in range(len(node.items)):
                inner = scope._replace(where=f"{scope.where}[{item}]", items=f"{scope.items}[{item}]")
                readings[str(item)] = self._item(node, item, inner)
        outputs: dict[str, Json] = {}
        errors: dict[str, str] = {}
        while self._advance(readings, outputs, errors):
            yield
        if errors:
            return self._failed("JoinFailed", node, errors, {"outputs": outputs})
        in_order = {name: outputs[name] for name in readings}
        return in_order if isinstance(node, n.Join) else list(in_order.values())

    def _item(self, node: n.Map, item: int, scope: _Scope) -> Reading:
        return [node.items[item], (yield from self.read(node.body, scope))]

    def _race(self, node: n.Race, scope: _Scope) -> Reading:
        effects: dict[str, Counter[str]] = {name: Counter() for name in node.branches}
        done: dict[str, Counter[str]] = {name: Counter() for name in node.branches}
        self.lost += [*effects.values(), *done.values()]
        readings = {name: self.read(body, scope._replace(effects=effects[name], done=done[name])) for name, body in node.branches.items()}
        outputs: dict[str, Json] = {}
        errors: dict[str, str] = {}
        while self._advance(readings, outputs, errors) and not outputs:
            yield
        for name in outputs or errors:
            scope.effects.update(effects[name])
            scope.done.update(done[name])
            effects[name].clear()
            done[name].clear()
        if not outputs:
            return self._failed("RaceFailed", node, errors, {})
        ((winner, value),) = outputs.items()
        return {"won": winner, "value": value}

    def _advance(self, readings: dict[str, Any], outputs: dict[str, Json], errors: dict[str, str]) -> bool:
        """Take each reading as far as it goes, again and again while that has messages sent; say whether any has not ended."""
        while True:
            before = self.sent
            for name, reading in readings.items():
                try:
                    if name not in outputs and name not in errors:
                        next(reading)
                except StopIteration as end:
                    outputs[name] = end.value
                except _Failure as failure:
                    errors[name] = str(failure)
            if self.sent == before or len(outputs) + len(errors) == len(readings):
                return len(outputs) + len(errors) < len(readings)

    def _failed(self, kind: str, node: n.Join | n.Map | n.Race, errors: dict[str, str], rest: dict[str, Json]) -> Json:
        if not node.catch:
            raise _Failure(f"{kind} ({', '.join(sorted(errors.values()))})")
        return {"failed": errors} | rest
