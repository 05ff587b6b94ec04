"""Claims about random programs and their oracle: the same seed is the same program everywhere, and predictions are right, by hand and by running."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest

from perdure.code.declarations import Step
from perdure.code.results import Ok, Record, Won
from perdure.code.version_gates import REMOVABLE_OPERATIONS
from perdure.core.errors import ChildFailed, ErrorInfo, Fatal, JoinFailed, RaceFailed, StepFailed, Timeout
from perdure.core.operations import Failure
from perdure.core.paths import Key
from perdure.testing.virtual_time import run
from tests.proof import program_nodes as n
from tests.proof.program_generator import Child, Program, ProgramWorld, as_workflow, children, generate
from tests.proof.program_interpreter import FIRST, Code
from tests.proof.program_oracle import CENTURY_S, ProgramPrediction, ProgramStuck, predict
from tests.proof.program_variations import changed, queued, with_losers

SEEDS = range(200)
LINES = [n.Line("narrow", concurrency=1), n.Line("wide")]
DIGEST = """
from hashlib import sha256
from random import Random
import msgspec
from tests.proof.program_oracle import predict
from tests.proof.program_generator import generate
programs = [generate(Random(seed), 25) for seed in range(40)]
print(sha256(msgspec.json.encode([programs, [predict(program) for program in programs]])).hexdigest())
"""


# the generator


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_gives_the_same_program_in_every_process(hash_seed: str) -> None:
    programs = [generate(Random(seed), 25) for seed in range(40)]
    here = sha256(msgspec.json.encode([programs, [predict(program) for program in programs]])).hexdigest()
    environment = {**os.environ, "PYTHONPATH": str(Path(n.__file__).parents[2]), "PYTHONHASHSEED": hash_seed}
    there = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_a_hundred_seeds_have_everything() -> None:
    nodes = [node for seed in range(100) for node in n.walk(changed(generate(Random(seed), 20), Random(seed)).root)]
    steps = [node for node in nodes if isinstance(node, n.Step)]
    assert {type(node) for node in nodes} == set(get_args(n.Node)) - {n.Beside, n.Stubborn}, "which only endings have"
    assert {type(step.behaviour) for step in steps} == set(get_args(n.Behaviour))
    assert {step.form for step in steps} == set(get_args(n.Form))
    assert {step.sync for step in steps} == {step.echo for step in steps} == {True, False}
    assert {node.catch for node in nodes if isinstance(node, n.Join | n.Map | n.Race)} == {True, False}
    assert {option for node in nodes if isinstance(node, n.Loop) for option in node.options} == {"commit_every", "keep", "trim_every"}
    assert max(node.turns for node in nodes if isinstance(node, n.Loop)) > 15


def test_a_hundred_seeds_send_messages_at_all_times_and_some_twice() -> None:
    programs = [generate(Random(seed), 20) for seed in range(100)]
    assert {message.at_s > 0 for program in programs for message in program.messages} == {True, False}
    assert any(len({message.key for message in program.messages}) < len(program.messages) for program in programs)
    assert all(list(program.messages) == sorted(program.messages, key=lambda message: message.at_s) for program in programs)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 10, 50])
def test_sizes_are_bounded(size: int) -> None:
    for seed in SEEDS:
        program = generate(Random(seed), size)
        assert sum(1 for _ in n.walk(program.root)) <= 2 * size + 8, f"seed {seed}"
        assert sum(predict(program).effects.values()) <= 40 * (size + 2), f"seed {seed}"


@pytest.mark.parametrize("kind", [kind for kind in get_args(n.Node) if kind not in (n.Step, n.Sequence, n.Guard)])
def test_kinds_can_be_left_out(kind: type) -> None:
    for seed in range(40):
        program = generate(Random(seed), 20, without=(kind,))
        assert not any(isinstance(node, kind) for node in n.walk(program.root)), f"seed {seed}"


@pytest.mark.slow
def test_a_program_is_json_and_back() -> None:
    for seed in SEEDS:
        program = queued(changed(generate(Random(seed), 20), Random(seed)), Random(seed), LINES)
        assert msgspec.json.decode(msgspec.json.encode(program), type=Program) == program, f"seed {seed}"


@pytest.mark.slow
def test_queues_change_nothing_of_what_comes_of_a_program() -> None:
    for seed in SEEDS:
        program = generate(Random(seed), 20)
        before, after = predict(program), predict(queued(program, Random(seed), LINES))
        assert after.result == before.result, f"seed {seed}"
        assert after.effects + Counter(after.maybe) == before.effects + Counter(before.maybe), f"seed {seed}"


@pytest.mark.slow
def test_what_hangs_for_ever_is_in_no_queue_and_holds_none_of_its_few_places() -> None:
    for seed in SEEDS:
        program = queued(generate(Random(seed), 20), Random(seed), LINES)
        endless = [node for node in n.walk(program.root) if isinstance(node, n.Step) and node.behaviour == n.Hangs() and node.timeout_s is None]
        begun = {program.queue, *(node.queue for node in n.walk(program.root) if isinstance(node, n.Call))}
        assert not any(node.queue for node in endless) and not (endless and "narrow" in begun), f"seed {seed}"


# the oracle


@pytest.mark.slow
def test_predictions_are_json_and_do_not_change() -> None:
    for seed in SEEDS:
        program = generate(Random(seed), 20)
        prediction = predict(program)
        assert msgspec.json.decode(msgspec.json.encode(prediction.result)) == prediction.result, f"seed {seed}"
        assert predict(program) == prediction, f"seed {seed}"
        assert program == generate(Random(seed), 20), f"seed {seed}"
        assert not set(prediction.effects) & set(prediction.maybe), f"seed {seed}"


def ok(name: str, value: Any = None, **options: Any) -> n.Step:
    return n.Step(name, n.Answers(value), **options)


def bad(name: str, **options: Any) -> n.Step:
    return n.Step(name, n.Fails("ValueError"), **options)


NEVER = n.Listen("never")
EXHAUSTED = "StepFailed exhausted 3 ValueError"

BY_HAND: dict[str, tuple[Program, ProgramPrediction]] = {
    "tries": (
        Program(
            n.Sequence(
                (
                    n.Step("a", n.Answers(1, failures=2)),
                    n.Guard(n.Step("b", n.Hangs(), timeout_s=5.0)),
                    n.Attempt(n.Step("c", n.GivesUp())),
                    n.Attempt(n.Step("d", n.Fails("RuntimeError"), tries=2)),
                    n.Attempt(n.Step("e", n.Answers(None, padding_chars=9))),
                    bad("f"),
                    ok("never reached"),
                )
            )
        ),
        ProgramPrediction({"raised": EXHAUSTED}, Counter(a=3, b=3, c=1, d=2, e=1, f=3), {}),
    ),
    "failures as values": (
        Program(
            n.Sequence(
                (
                    n.Guard(n.Step("b", n.Hangs(), timeout_s=5.0)),
                    n.Attempt(n.Step("c", n.GivesUp())),
                    n.Attempt(ok("e", 5)),
                    n.Guard(n.Race({"x": bad("f"), "y": n.Raise()}, catch=False)),
                )
            )
        ),
        ProgramPrediction(
            {"returned": [{"caught": "StepFailed timeout 3"}, {"failed": "fatal 1 fatal"}, {"ok": 5}, {"caught": f"RaceFailed (Mishap, {EXHAUSTED})"}]},
            Counter(b=3, c=1, e=1, f=3),
            {},
        ),
    ),
    "messages": (
        Program(
            n.Sequence((n.Listen("m", 3600.0), n.Listen("m"), n.Listen("none", 1.0, (None,)), n.Gather("g", 2), n.Gather("g", 9, 60.0), n.Listen("none", 1.0))),
            (
                n.Message(0.0, "m", "first", "k1"),
                n.Message(0.0, "m", "first", "k1"),
                n.Message(0.0, "g", 1, "k2"),
                n.Message(0.0, "g", 2, "k3"),
                n.Message(0.0, "g", 3, "k4"),
                n.Message(50.0, "m", "second", "k5"),
            ),
        ),
        ProgramPrediction({"raised": "Timeout"}, Counter(), {}),
    ),
    "heard": (
        Program(
            n.Sequence((n.Listen("m", 3600.0), n.Listen("m"), n.Listen("none", 1.0, (0,)), n.Gather("g", 2), n.Gather("g", 9, 60.0))),
            (
                n.Message(0.0, "m", "first", "k1"),
                n.Message(0.0, "m", "first", "k1"),
                n.Message(0.0, "g", 1, "k2"),
                n.Message(0.0, "g", 2, "k3"),
                n.Message(0.0, "g", 3, "k4"),
                n.Message(50.0, "m", "second", "k5"),
            ),
        ),
        ProgramPrediction({"returned": [{"heard": "first"}, {"heard": "second"}, {"heard": 0}, {"heard": [1, 2]}, {"heard": [3]}]}, Counter(), {}),
    ),
    "a join waits for all, and a listener for its later sibling": (
        Program(
            n.Join(
                {
                    "a": n.Sequence((n.Listen("x"), n.Send("y", "pong"))),
                    "b": n.Sequence((ok("s"), n.Send("x", "ping"), n.Listen("y"))),
                    "c": bad("f"),
                    "d": n.Join({"e": n.Raise(), "g": ok("h", 1)}, catch=False),
                }
            )
        ),
        ProgramPrediction(
            {
                "returned": {
                    "failed": {"c": EXHAUSTED, "d": "JoinFailed (Mishap)"},
                    "outputs": {"a": [{"heard": ["ping", 0]}, None], "b": [None, None, {"heard": ["pong", 0]}]},
                }
            },
            Counter(s=1, f=3, h=1),
            {},
        ),
    ),
    "a race has one that returns": (
        Program(
            n.Race(
                {
                    "years": n.Sequence((ok("r"), n.Sleep(CENTURY_S))),
                    "fails": bad("f"),
                    "wins": n.Sequence((n.Sleep(3600.0), n.Keep("k", 7))),
                    "hangs": n.Step("h", n.Hangs()),
                    "joins": n.Join({"a": NEVER, "b": ok("j")}),
                }
            )
        ),
        ProgramPrediction({"returned": {"won": "wins", "value": [None, 7]}}, Counter(k=1), {"r": 1, "f": 3, "h": 1, "j": 1}),
    ),
    "turns and items": (
        Program(
            n.Loop(
                "l",
                5,
                n.Sequence((ok("s", "v", echo=True), n.Map((None, "i"), n.Sequence((n.Listen("m"), n.Keep("k", 0)))))),
                {"commit_every": 2, "keep": 1},
            ),
            tuple(n.Message(float(turn), f"m[{item}]", [turn, item], f"{turn} {item}") for turn in range(5) for item in range(2)),
        ),
        ProgramPrediction(
            {
                "returned": {
                    "count": 5,
                    "last": [[["v", turn], [[None, [{"heard": [turn, 0]}, 0]], ["i", [{"heard": [turn, 1]}, 0]]]] for turn in (1, 2, 3, 4)],
                }
            },
            Counter({f"s~{turn}": 1 for turn in range(5)} | {f"k~{turn}[{item}]": 1 for turn in range(5) for item in range(2)}),
            {},
        ),
    ),
    "what a child has done is undone if it fails, and what its own children have done if that is wanted": (
        Program(
            n.Sequence(
                (
                    n.Call("fine", ok("a", undo="done")),
                    n.Guard(
                        n.Call(
                            "fails",
                            n.Sequence(
                                (
                                    ok("b", undo="done"),
                                    n.Guard(bad("c", undo="in_doubt")),
                                    n.Guard(bad("d", undo="done")),
                                    n.Call("inner", ok("e", undo="done"), undo=True),
                                    n.Call("other", ok("f", undo="done")),
                                    n.Raise(),
                                )
                            ),
                        )
                    ),
                    n.Approve("a?", 5.0, True),
                    n.Gate("g", 3),
                )
            )
        ),
        ProgramPrediction(
            {"returned": [{"child": None}, {"caught": "ChildFailed"}, {"approved": True}, {"way": 3}]},
            Counter({"a": 1, "b": 1, "c": 3, "d": 3, "e": 1, "f": 1, "undo b": 1, "undo c": 1, "undo e": 1}),
            {},
        ),
    ),
    "children have mailboxes of their own": (
        Program(
            n.Sequence(
                (
                    n.Loop("l", 2, n.Call("c1", n.Sequence((n.Send("m", "in"), n.Listen("m"), ok("s", echo=True))))),
                    n.Guard(n.Call("c2", bad("f"))),
                    n.Together((ok("t", 1), n.Sleep(1.0))),
                    n.Tell("t", 1),
                    n.Map((), NEVER),
                )
            ),
            (n.Message(0.0, "m", "out", "k"),),
        ),
        ProgramPrediction(
            {
                "returned": [
                    {"count": 2, "last": [{"child": [None, {"heard": ["in", 0]}, [None, 0]]}, {"child": [None, {"heard": ["in", 1]}, [None, 1]]}]},
                    {"caught": "ChildFailed"},
                    [1, None],
                    None,
                    [],
                ]
            },
            Counter({"s~0": 1, "s~1": 1, "f": 3, "t": 1}),
            {},
        ),
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_the_oracle_says_what_was_found_by_hand(case: str) -> None:
    program, expected = BY_HAND[case]
    assert predict(program) == expected


@pytest.mark.parametrize("root", [NEVER, n.Step("h", n.Hangs()), n.Sleep(CENTURY_S), n.Join({"a": ok("s"), "b": NEVER}), n.Race({"a": NEVER, "b": bad("f")})])
def test_what_never_ends_is_stuck(root: n.Node) -> None:
    with pytest.raises(ProgramStuck):
        predict(Program(root))


# the interpreter, on verbs that remember nothing


@pytest.mark.parametrize("case", BY_HAND)
def test_a_program_does_what_was_found_by_hand(case: str) -> None:
    program, expected = BY_HAND[case]
    world, result = executed(program, "0")
    assert (result, unexpected(world, expected)) == (expected.result, {})


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 12, 40])
def test_a_program_does_what_the_oracle_predicts(size: int) -> None:
    for seed in SEEDS:
        program = generate(Random(seed), size)
        expected = predict(program)
        world, result = executed(program, f"schedule {seed}")
        assert (result, unexpected(world, expected)) == (expected.result, {}), f"seed {seed}, size {size}"


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 12, 40])
def test_a_loser_gives_back_what_the_oracle_predicts(size: int) -> None:
    for seed in SEEDS:
        program = with_losers(generate(Random(seed), size), Random(seed))
        expected = predict(program)
        _, result = executed(program, f"schedule {seed}", Random(seed) if seed % 2 else None)
        assert result == expected.result, f"seed {seed}, size {size}"


def test_no_later_wait_depends_on_how_many_messages_an_open_ended_wait_received() -> None:
    waits = 0
    for seed in range(600):
        root = with_losers(generate(Random(seed), 4), Random(seed)).root
        for sequence in (node for node in n.walk(root) if isinstance(node, n.Sequence) and node.fixed):
            received: set[str] = set()
            for node in sequence.nodes:
                assert not isinstance(node, n.Listen | n.Gather) or node.message not in received, f"seed {seed}: {sequence}"
                if isinstance(node, n.Gather) and node.timeout_s is None and node.limit > 1:
                    received.add(node.message)
                    waits += 1
    assert waits > 10


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 12, 40])
def test_interruptions_and_delays_do_not_change_what_comes_out(size: int) -> None:
    for seed in SEEDS:
        program = generate(Random(seed), size)
        expected = predict(program)
        world, result = executed(program, f"schedule {seed}", Random(seed))
        assert result == expected.result, f"seed {seed}, size {size}"
        assert not expected.effects - world.effects, f"seed {seed}, size {size}"
        assert set(world.effects) <= set(expected.effects) | set(expected.maybe), f"seed {seed}, size {size}"


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [False, True], ids=["gates", "versions"])
@pytest.mark.parametrize("deploy", range(3))
def test_whatever_deploys_change_the_code_of_each_does_what_the_oracle_predicts(deploy: int, pinned: bool) -> None:
    for seed in range(60):
        program = changed(generate(Random(seed), 12), Random(seed))
        expected = predict(program)
        world, result = executed(program, f"schedule {seed}", code=Code(deploy, pinned))
        assert (result, unexpected(world, expected)) == (expected.result, {}), f"seed {seed}"
        assert (max(world.needs.values(), default=0) > 0) <= (deploy > 0 and not pinned), f"seed {seed}"


@pytest.mark.parametrize(("deploy", "effects"), [(0, {"a", "gone"}), (1, {"b", "gone"}), (2, {"c"})])
def test_code_of_a_deploy_goes_the_latest_way_that_it_knows_and_has_what_is_not_yet_removed(deploy: int, effects: set[str]) -> None:
    program = Program(n.Sequence((n.Changed("gate", (ok("a"), ok("b"), ok("c"))), n.Removed(ok("gone"), 2))))
    for pinned in (False, True):
        world, _ = executed(program, "0", code=Code(deploy, pinned))
        assert set(world.effects) == effects
        assert world.needs == ({} if pinned or not deploy else {Key("", "program", "1"): deploy})


def unexpected(world: ProgramWorld, expected: ProgramPrediction) -> dict[str, int]:
    """The effects that were executed more or less often than was predicted."""
    certain = {effect: count for effect, count in world.effects.items() if not 0 < count <= expected.maybe.get(effect, 0)}
    return {effect: certain.get(effect, 0) for effect in certain.keys() | expected.effects.keys() if certain.get(effect, 0) != expected.effects[effect]}


def executed(program: Program, schedule: str, troubles: Random | None = None, code: Code = FIRST) -> tuple[ProgramWorld, Any]:
    """The world and the result after this code of `program` has run in virtual time, ready callbacks in an order drawn from `schedule`."""

    async def main() -> tuple[ProgramWorld, Any]:
        world, mailbox = ProgramWorld(), Mailbox()
        for message in (one for one in program.messages if not one.at_s):
            mailbox.post(message)
        sending = asyncio.create_task(send([one for one in program.messages if one.at_s], mailbox))
        assert all(isinstance(child, Child) for child in children(program, world, code).values())
        plain = Plain(Key("", "program", "1"), mailbox, troubles, code.deploy + 1)
        result = await as_workflow(program, world, code)(plain)
        sending.cancel()
        return world, result

    return run(main, seed=schedule)


async def send(messages: list[n.Message], mailbox: "Mailbox") -> None:
    """Send each in its time."""
    now_s = 0.0
    for message in messages:
        await asyncio.sleep(message.at_s - now_s)
        now_s = message.at_s
        mailbox.post(message)


class Mailbox:
    """Messages by name, first in first out, each with its number."""

    def __init__(self) -> None:
        self.waiting: defaultdict[str, deque[tuple[int, Any]]] = defaultdict(deque)
        self.count = 0
        self.known: set[str] = set()
        self.arrived = asyncio.Event()

    def post(self, message: n.Message) -> None:
        if message.key not in self.known:
            self.known.add(message.key)
            self.put(message.name, message.body)

    def put(self, name: str, body: Any) -> None:
        self.count += 1
        self.put_back(name, [(self.count, kept(body))])

    def put_back(self, name: str, messages: list[tuple[int, Any]]) -> None:
        self.waiting[name] = deque(sorted([*self.waiting[name], *messages], key=lambda message: message[0]))
        self.arrived.set()
        self.arrived = asyncio.Event()

    async def wait(self, name: str, enough: int, timeout_s: float | None) -> deque[tuple[int, Any]]:
        try:
            async with asyncio.timeout(timeout_s):
                while len(self.waiting[name]) < enough:
                    await self.arrived.wait()
        except TimeoutError:
            return self.waiting[name]
        return self.waiting[name]


def kept(value: Any) -> Any:
    """The value as it comes back from a log."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


class Plain:
    """The verbs of a context on plain asyncio: nothing is remembered. With `troubles`, verbs are delayed and steps interrupted at random."""

    def __init__(self, key: Key, mailbox: Mailbox, troubles: Random | None, version: int = 1) -> None:
        self.execution = SimpleNamespace(key=key, attributes=dict[str, Any](), version=version)
        self._instance = SimpleNamespace(replaying=False)
        self.done: list[Callable[[], Any]] = []
        self._mailbox = mailbox
        self._troubles = troubles
        self._caller: Plain | None = None
        self._inner: list[Plain] = []
        self._unused: list[tuple[str, list[tuple[int, Any]]]] = []

    def _use(self) -> None:
        """Something was settled that uses what was received before."""
        self._unused.clear()
        if self._caller is not None:
            self._caller._use()

    def _lose(self) -> None:
        """What was received and not used goes back."""
        for name, messages in self._unused:
            self._mailbox.put_back(name, messages)
        self._unused.clear()
        for branch in self._inner:
            branch._lose()

    def _take(self, name: str, waiting: deque[tuple[int, Any]], limit: int) -> list[Any]:
        messages = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        self._unused.append((name, messages))
        return [body for _, body in messages]

    async def _delay(self, at_most_s: float = 120.0) -> None:
        if self._troubles is not None and self._troubles.random() < 0.3:
            await asyncio.sleep(self._troubles.random() * at_most_s)

    async def step(self, *args: Any) -> Any:
        outcome = await self.attempt(*args)
        if isinstance(outcome, Ok):
            return outcome.value
        raise StepFailed("step", outcome.kind, outcome.attempts, outcome.error)

    async def attempt(self, *args: Any) -> Any:
        fn, *rest = args[1:] if isinstance(args[0], str) else args
        declared = fn if isinstance(fn, Step) else Step(fn, "plain")
        handler = next(iter(declared.handlers), None)
        if handler is not None and handler.in_doubt:
            self.done.append(lambda: handler.step.fn(None, *rest))
        outcome = await self._outcome(declared, rest)
        self._use()
        if handler is not None and not handler.in_doubt and isinstance(outcome, Ok):
            self.done.append(lambda: handler.step.fn(outcome.value, *rest))
        return outcome

    async def _outcome(self, declared: Step[Any, Any, Any], rest: list[Any]) -> Any:
        for failures in range(1, declared.retry.max + 1):
            await self._interruptions(declared, rest)
            try:
                return Ok(kept(await self._tried(declared, rest, declared.timeout_s)))
            except Fatal as error:
                return Failure("fatal", failures, ErrorInfo("fatal", str(error)))
            except Exception as error:
                kind = "timeout" if isinstance(error, TimeoutError) else "exhausted"
                failed = Failure(kind, failures, ErrorInfo(type(error).__name__, str(error)))
                await asyncio.sleep(2.0 ** (failures - 1))
        return failed

    async def _tried(self, declared: Step[Any, Any, Any], args: list[Any], timeout_s: float | None) -> Any:
        async with asyncio.timeout(timeout_s):
            answer = declared.fn(*args)
            return await answer if isinstance(answer, Awaitable) else answer

    async def _interruptions(self, declared: Step[Any, Any, Any], args: list[Any]) -> None:
        """Begin tries and forget them."""
        while self._troubles is not None and self._troubles.random() < 0.2:
            with contextlib.suppress(Fatal, *n.ERRORS.values(), TimeoutError):
                await self._tried(declared, args, self._troubles.random() * 3)
            await self._delay()

    async def approve(self, title: str, timeout: float, on_timeout: str) -> Any:
        await self._delay()
        await asyncio.sleep(timeout)
        self._use()
        return SimpleNamespace(approved=on_timeout == "approve")

    async def version(self, name: str, latest: int) -> int:
        return latest

    async def removed(self, name: str, kind: str) -> None:
        assert name and kind in REMOVABLE_OPERATIONS

    async def sleep(self, duration_s: float) -> None:
        await self._delay()
        await asyncio.sleep(duration_s)

    async def listen(self, name: str, **options: Any) -> Any:
        await self._delay()
        waiting = await self._mailbox.wait(name, 1, options.get("timeout"))
        if waiting:
            return self._take(name, waiting, 1)[0]
        if "default" in options:
            return options["default"]
        raise Timeout(name, options["timeout"])

    async def listen_many(self, name: str, limit: int, timeout: float | None) -> list[Any]:
        await self._delay()
        waiting = await self._mailbox.wait(name, 1 if timeout is None else limit, timeout)
        return self._take(name, waiting, limit)

    async def send(self, key: Key, name: str, body: Any) -> None:
        assert key == self.execution.key
        self._mailbox.put(name, body)
        self._use()

    async def keep(self, name: str, fn: Callable[[], Any]) -> Any:
        return kept(fn())

    def set(self, key: str, value: Any) -> None:
        kept(value)

    def set_attributes(self, changes: dict[str, Any]) -> None:
        self.execution.attributes |= changes

    def emit(self, value: Any) -> None:
        kept(value)

    async def call(self, child: Child, *args: Any) -> Any:
        await self._delay()
        plain = Plain(self.execution.key._replace(workflow=child.code.name), Mailbox(), self._troubles, child.code.version)
        try:
            result = kept(await child.code.fn(plain, *args))
            self.done += plain.done if child.code.calling.undo else []
            return result
        except Exception as error:
            for undo in reversed(plain.done):
                undo()
            raise ChildFailed(child.code.name, "failed", ErrorInfo(type(error).__name__, str(error))) from error
        finally:
            self._use()

    def _branch(self) -> "Plain":
        branch = Plain(self.execution.key, self._mailbox, self._troubles, self.execution.version)
        branch.done = self.done
        branch._caller = self
        self._inner.append(branch)
        return branch

    async def join(self, **branches: Callable[["Plain"], Awaitable[Any]]) -> Record:
        return Record(await self._joined(branches, len(branches)))

    async def map(self, fn: Callable[["Plain", Any], Awaitable[Any]], items: Iterable[Any], limit: int | None) -> list[Any]:
        branches = {str(number): (lambda c, item=item: fn(c, item)) for number, item in enumerate(items)}
        return list((await self._joined(branches, limit or len(branches))).values())

    async def _joined(self, branches: Mapping[str, Callable[["Plain"], Awaitable[Any]]], limit: int) -> dict[str, Any]:
        places = asyncio.Semaphore(max(limit, 1))
        begun: list[Plain] = []

        async def placed(branch: Callable[["Plain"], Awaitable[Any]]) -> Any:
            async with places:
                begun.append(self._branch())
                return await branch(begun[-1])

        answers = dict(zip(branches, await asyncio.gather(*map(placed, branches.values()), return_exceptions=True), strict=True))
        for branch in begun:
            self._unused += branch._unused
            branch._unused.clear()
        errors = {name: answer for name, answer in answers.items() if isinstance(answer, Exception)}
        if errors:
            raise JoinFailed("failed", errors, {name: answer for name, answer in answers.items() if name not in errors})
        return answers

    async def race(self, **branches: Callable[["Plain"], Awaitable[Any]]) -> Won[Any]:
        contexts = {name: self._branch() for name in branches}
        tasks = {name: asyncio.ensure_future(branch(contexts[name])) for name, branch in branches.items()}
        live: set[asyncio.Future[Any]] = set(tasks.values())
        won: list[str] = []
        try:
            while live:
                _, live = await asyncio.wait(live, return_when=asyncio.FIRST_COMPLETED)
                won = [name for name, task in tasks.items() if task.done() and task.exception() is None]
                if won:
                    assert len(won) == 1
                    return Won(won[0], tasks[won[0]].result())
        finally:
            for task in live:
                task.cancel()
            await asyncio.gather(*live, return_exceptions=True)
            for name, context in contexts.items():
                if won and name not in won:
                    context._lose()
                self._unused += context._unused
                context._unused.clear()
        errors = {name: task.exception() for name, task in tasks.items()}
        raise RaceFailed("failed", {name: error for name, error in errors.items() if isinstance(error, Exception)})

    def loop(self, name: str, state: Any, **options: int) -> "Turns":
        return Turns(self, state, options.get("commit_every", 1))


class Turn(Plain):
    """A turn of a loop."""

    state: Any
    number = -1


class Turns:
    """The turns of a loop."""

    def __init__(self, plain: Plain, state: Any, commit_every: int) -> None:
        self._turn = Turn(plain.execution.key, plain._mailbox, plain._troubles, plain.execution.version)
        self._turn._caller, self._turn._inner, self._turn._unused = plain._caller, plain._inner, plain._unused
        self._turn.state = state
        self._commit_every = commit_every

    def __aiter__(self) -> "Turns":
        return self

    async def __anext__(self) -> Turn:
        self._turn.number += 1
        if self._turn.number % self._commit_every == 0:
            self._turn._use()
        self._turn.state = kept(self._turn.state)
        return self._turn
