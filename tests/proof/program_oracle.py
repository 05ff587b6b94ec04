"""What must come of a program, found without an engine: a sequential reading of `nodes`, in which nothing crashes and time has no length.

It relies on what `programs` promises of its programs: nothing depends on when things happen. All messages from outside are
there from the beginning; a sleep of a century, a step that hangs without a timeout, and a listen without one for a message that
nobody has sent are points that a branch does not get past, and it says so by yielding. A race is won by the branch that returns.
"""

from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from tests.proof import program_nodes as n
from tests.proof.program_interpreter import undoing
from tests.proof.program_nodes import Json, Node, Program

CENTURY_S = 100 * 365 * 86_400.0
TRIES = 3

Reading = Generator[None, None, Json]
"""The reading of a node: yields as often as it can't go on, and returns the node's value."""


class ProgramPrediction(NamedTuple):
    """The result, how often each effect is executed if nothing crashes, and how often at most those of branches that lose a race, and of what
    only some code does."""

    result: Json
    effects: Counter[str]
    maybe: dict[str, int]


class ProgramStuck(Exception):
    """The program waits for something that never comes."""


def predict(program: Program) -> ProgramPrediction:
    """Read `program` to its end.

    Raises:
        Stuck: it has none.
    """
    oracle = _Oracle()
    seen: set[str] = set()
    mailbox = _Mailbox()
    for _, name, body, key in sorted(program.messages, key=lambda message: message.at_s):
        if key not in seen:
            seen.add(key)
            mailbox.put(name, body)
    effects: Counter[str] = Counter()
    reading = oracle.read(program.root, _Scope(mailbox, effects, Counter(), _Branch(None)))
    try:
        while True:
            before = oracle.sent
            next(reading)
            if oracle.sent == before:
                raise ProgramStuck(f"after {sum(effects.values())} effects")
    except StopIteration as end:
        result = {"returned": end.value}
    except _Failure as failure:
        result = {"raised": str(failure)}
    return ProgramPrediction(result, effects, dict(sum(oracle.lost, Counter[str]())))


class _Failure(Exception):
    """What the program sees as an error, in the words of its result."""


class _Mailbox:
    """Messages by name, in the order in which they came; one that goes back has its old place."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, list[tuple[int, Json]]] = defaultdict(list)
        self._count = 0

    def put(self, name: str, body: Json) -> None:
        self._count += 1
        self._waiting[name].append((self._count, body))

    def has(self, name: str) -> bool:
        return bool(self._waiting[name])

    def take(self, name: str, limit: int) -> list[tuple[int, Json]]:
        waiting = self._waiting[name]
        self._waiting[name] = waiting[limit:]
        return waiting[:limit]

    def give_back(self, name: str, messages: list[tuple[int, Json]]) -> None:
        self._waiting[name] = sorted([*self._waiting[name], *messages], key=lambda message: message[0])


class _Branch:
    """What a branch has received and not used, and the branches in it that have not handed over what they have."""

    def __init__(self, caller: "_Branch | None") -> None:
        self.caller = caller
        self.unused: list[tuple[str, list[tuple[int, Json]]]] = []
        self.inner: list[_Branch] = []
        if caller is not None:
            caller.inner.append(self)

    def use(self) -> None:
        """It has settled what uses messages, and so have those around it."""
        branch: _Branch | None = self
        while branch is not None:
            branch.unused = []
            branch = branch.caller

    def hand_over(self) -> None:
        """It has ended: what it has not used is its caller's."""
        assert self.caller is not None
        self.caller.unused += self.unused
        self.unused = []

    def lose(self, mailbox: _Mailbox) -> None:
        """It and all in it have lost: what they have not used goes back."""
        for name, messages in self.unused:
            mailbox.give_back(name, messages)
        self.unused = []
        for branch in self.inner:
            branch.lose(mailbox)


class _Scope(NamedTuple):
    mailbox: _Mailbox
    effects: Counter[str]
    done: Counter[str]
    branch: _Branch
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
            case n.Sleep() | n.Stubborn():
                while isinstance(node, n.Stubborn) or node.duration_s >= CENTURY_S:
                    yield
            case n.Listen() | n.Gather():
                return {"heard": (yield from self._receive(node, scope))}
            case n.Send(message, body):
                self._send(message + scope.items, [body, scope.turns], scope)
            case n.Keep(name, value):
                scope.effects[name + scope.where] += 1
                return value
            case n.Raise():
                raise _Failure("Mishap")
            case n.Call():
                return (yield from self._call(node, scope))
            case n.Beside():
                return (yield from self._beside(node, scope))
            case n.Approve(approves=approves):
                scope.branch.use()
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
            case n.Join() | n.Map() | n.Race():
                return (yield from self._race(node, scope) if isinstance(node, n.Race) else self._join(node, scope))
        return None

    def _send(self, name: str, body: Json, scope: _Scope) -> None:
        scope.mailbox.put(name, body)
        scope.branch.use()
        self.sent += 1

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

    def _beside(self, node: n.Beside, scope: _Scope) -> Reading:
        """How far the steps beside it come depends on when it ends."""
        for step in node.steps:
            effect, failures = step.name + scope.where, step.behaviour.failures if isinstance(step.behaviour, n.Answers) else 0
            self.lost.append(Counter({effect: failures + 1, undoing(effect): 1 if step.undo else 0}))
        return (yield from self.read(node.body, scope))

    def _call(self, node: n.Call, scope: _Scope) -> Reading:
        """A child undoes what it has done if it fails; what it has done by completing may be undone with its parent."""
        done: Counter[str] = Counter()
        reading = self.read(node.body, scope._replace(mailbox=_Mailbox(), items="", done=done, branch=_Branch(None)))
        try:
            if node.deadline_s is not None:
                next(reading)  # and it never comes further
                raise _Failure("DeadlineExceeded")
            value = yield from reading
        except _Failure as failure:
            scope.branch.use()
            scope.effects.update(done)
            raise _Failure("ChildFailed") from failure
        scope.branch.use()
        scope.done.update(done if node.undo else ())
        return {"child": value}

    def _step(self, node: n.Step, scope: _Scope) -> Reading:
        effect, tries = node.name + scope.where, TRIES if node.tries is None else node.tries
        if not isinstance(node.behaviour, n.Hangs) or node.timeout_s is not None:
            scope.branch.use()
        match node.behaviour:
            case n.Answers(value, failures, _, padding_chars) if failures < tries:
                scope.effects[effect] += failures + 1
                scope.done.update([undoing(effect)] if node.undo else ())
                return {"value": value, "chars": padding_chars} if padding_chars else [value, scope.turns] if node.echo else value
            case n.GivesUp():
                scope.effects[effect] += 1
                scope.done.update([undoing(effect)] if node.undo == "in_doubt" else ())
                raise _Failure("StepFailed fatal 1 fatal")
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

    def _receive(self, node: n.Listen | n.Gather, scope: _Scope) -> Reading:
        name = node.message + scope.items
        while not scope.mailbox.has(name) and node.timeout_s is None:
            yield
        taken = scope.mailbox.take(name, node.limit if isinstance(node, n.Gather) else 1)
        scope.branch.unused.append((name, taken))
        if isinstance(node, n.Gather):
            return [body for _, body in taken]
        if taken:
            return taken[0][1]
        if node.default:
            return node.default[0]
        raise _Failure("Timeout")

    def _loop(self, node: n.Loop, scope: _Scope) -> Reading:
        values: list[Json] = []
        for turn in range(node.turns):
            if turn % node.options.get("commit_every", 1) == 0:
                scope.branch.use()
            values += [(yield from self.read(node.body, scope._replace(where=f"{scope.where}~{turn}", turns=turn)))]
        return {"count": node.turns, "last": values[-4:]}

    def _join(self, node: n.Join | n.Map, scope: _Scope) -> Reading:
        readings: dict[str, Reading] = {}
        branches: list[_Branch] = []
        if isinstance(node, n.Join):
            for name, body in node.branches.items():
                branches.append(_Branch(scope.branch))
                readings[name] = self.read(body, scope._replace(branch=branches[-1]))
        else:
            for item in range(len(node.items)):
                branches.append(_Branch(scope.branch))
                inner = scope._replace(branch=branches[-1], where=f"{scope.where}[{item}]", items=f"{scope.items}[{item}]")
                readings[str(item)] = self._item(node, item, inner)
        outputs: dict[str, Json] = {}
        errors: dict[str, str] = {}
        while self._advance(readings, outputs, errors):
            yield
        for branch in branches:
            branch.hand_over()
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
        branches = {name: _Branch(scope.branch) for name in node.branches}
        scopes = {name: scope._replace(effects=effects[name], done=done[name], branch=branches[name]) for name in node.branches}
        readings = {name: self.read(body, scopes[name]) for name, body in node.branches.items()}
        outputs: dict[str, Json] = {}
        errors: dict[str, str] = {}
        while self._advance(readings, outputs, errors) and not outputs:
            yield
        for name, branch in branches.items():
            if name in (outputs or errors):
                branch.hand_over()
            else:
                branch.lose(scope.mailbox)
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
