"""Random definitions in the order ports: pieces with one way in and several ways out, which are put one behind the other, side by side, or in a cycle.

Random definitions: `random_case` makes one and the world that it runs in, in which what comes of it is determined.

Every definition ends by itself. What depends on time depends on differences of a second and more; if a reading finds that it does not, another one is drawn.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from perdure.definitions.format.canonical_form import canonical_document
from tests.proof.definitions.blocks import TIMES_MAX, Here, Maker, ReadableName
from tests.proof.definitions.facts import Decision, DefinitionPrediction, Json, OutsideEvents
from tests.proof.definitions.prediction import DefinitionStuck, predict
from tests.proof.definitions.shape import Step

Exit = Callable[[str], None]
"""Leads a way out of a piece to the step with this id."""


class Piece(NamedTuple):
    """A part of a graph: its first step, its ways out, and what can be read behind it."""

    first: str
    exits: Sequence[Exit]
    here: Here


class Wiring:
    """Makes the steps of one graph."""

    def __init__(self, maker: Maker) -> None:
        self._maker, self._random = maker, maker.random
        self._steps: list[Step] = []

    def steps(self, size: int) -> list[Step]:
        """All steps, the first of which begins."""
        piece = self._chain(size, Here(), 2)
        self._maker.readable = [one.name for one in piece.here.known if "." not in one.name]
        for step in self._steps:
            if isinstance(rules := step.get("next"), list):
                step["next"] = [rule for rule in rules if isinstance(rule, str) or "to" in rule]
        return self._steps

    # pieces

    def _chain(self, size: int, here: Here, least: int = 1) -> Piece:
        """Several, one behind the other."""
        pieces: list[Piece] = []
        while size > 0 or len(pieces) < least:
            share = self._random.randint(1, max(1, size))
            piece = self._piece(share, pieces[-1].here if pieces else here)
            if pieces:
                _lead(pieces[-1].exits, piece.first)
            pieces.append(piece)
            size -= share
            if not piece.exits:
                break
        return Piece(pieces[0].first, pieces[-1].exits, pieces[-1].here)

    def _piece(self, size: int, here: Here) -> Piece:
        if size <= 2 or here.depth >= 4:
            return self._one(size, here)
        ways: list[tuple[float, Callable[[int, Here], Piece]]] = [(2, self._one), (3, self._branch), (2, self._ruled), (3, self._fork), (2, self._failing)]
        ways += [(1.5, self._approval), (0.7, self._each_join), (0.7, self._chosen), (5 if here.times < TIMES_MAX / 6 else 0, self._cycle)]
        return self._maker.pick(ways)(size - 1, here)

    def _add(self, step: Step) -> Step:
        self._steps.append(step)
        return step

    def _plain(self, step: Step) -> Exit:
        return lambda target: step.update(next=_and(step.get("next"), target))

    def _port(self, step: Step, port: str) -> Exit:
        def lead(target: str) -> None:
            ports = step.setdefault("next", {})
            ports[port] = _and(ports.get(port), target)

        return lead

    def _rule(self, step: Step, number: int, key: str = "to") -> Exit:
        def lead(target: str) -> None:
            step["next"][number][key] = _and(step["next"][number].get(key), target)

        return lead

    def _one(self, size: int, here: Here) -> Piece:
        """A single step, which may be a block."""
        step, known = self._maker.step(size, here._replace(depth=here.depth + 1))
        self._add(step)
        if "when" in step:  # what follows hangs on it
            known = ()
        return Piece(
            step["id"],
            [self._port(step, "success") if self._maker.chance(0.2) and not {"return", "fail"} & set(step) else self._plain(step)],
            here.knowing(*known),
        )

    def _number(self, here: Here) -> Step:
        step = {"id": self._maker.name("add"), "tool": "ADD", "with": {"value": [self._maker.value(here), 1], "takes_s": self._maker.seconds()}}
        return self._add(step)

    def _merged(self, exits: Sequence[Exit], here: Here, join: Json = "all") -> Piece:
        """A step to which all these ways lead."""
        step = self._number(here)
        if join != "all":
            step["join"] = join
        _lead(exits, step["id"])
        return Piece(step["id"], [self._plain(step)], here.knowing(ReadableName(step["id"], "number")))

    def _behind(self, first: str, branches: Sequence[Piece], here: Here, own: Sequence[Exit] = ()) -> Piece:
        """What comes after branches of which one is taken: they meet again, or each goes its own way."""
        exits = [*own, *(exit for branch in branches for exit in branch.exits)]
        if not exits:
            return Piece(first, [], here)
        if self._maker.chance(0.7):
            merged = self._merged(exits, here, self._random.choice(["all", "all", "any", 1]))
            known = [ReadableName(f"{branch.first}?", "any") for branch in branches if self._maker.chance(0.5)]
            return Piece(first, merged.exits, merged.here.knowing(*known))
        return Piece(first, exits, here)

    def _branch(self, size: int, here: Here) -> Piece:
        """A test, or an if, and what follows from it."""
        step = self._add({"id": self._maker.name("test"), "test": self._maker.condition(here)})
        inner = here._replace(depth=here.depth + 1)
        yes = self._chain(size // 2, inner)
        self._port(step, "true")(yes.first)
        if self._maker.chance(0.3):
            return self._behind(step["id"], [yes], here, [self._port(step, "false")])
        no = self._chain(size // 2, inner)
        self._port(step, "false")(no.first)
        return self._behind(step["id"], [yes, no], here)

    def _ruled(self, size: int, here: Here) -> Piece:
        """Rules, of which the first that holds is taken."""
        step, inner = self._number(here), here._replace(depth=here.depth + 1)
        here = here.knowing(ReadableName(step["id"], "number"))
        one, other = self._chain(size // 2, inner), self._chain(size // 2, inner)
        step["next"] = [{"when": {"ref": "@self", self._random.choice(["gt", "lt"]): self._random.randint(0, 20)}, "to": one.first}]
        if self._maker.chance(0.4):
            step["next"].append({"when": {"ref": "@self", "neq": 5}, "to": [other.first, one.first]})
            step["next"].append({"to": [other.first]})
        else:
            step["next"].append({"to": other.first})
        return self._behind(step["id"], [one, other], here)

    def _chosen(self, size: int, here: Here) -> Piece:
        """A closed list, of which the result names some."""
        step, inner = (
            self._add({"id": self._maker.name("echo"), "tool": "ECHO", "with": {"takes_s": self._maker.seconds()}}),
            here._replace(depth=here.depth + 1),
        )
        pieces = [self._chain(max(1, size // 3), inner) for _ in range(3)]
        names = [piece.first for piece in pieces]
        step["with"]["value"] = self._random.choice([names[0], names[:2], None, []])
        step["next"] = {"choose": names[:2], "default": names[2]}
        return self._behind(step["id"], pieces, here)

    def _fork(self, size: int, here: Here) -> Piece:
        """Several at once, which meet again when all have come, or the first, or some."""
        step, inner = self._number(here), here._replace(depth=here.depth + 1, beside=True)
        branches = [self._chain(max(1, size // 3), inner) for _ in range(self._random.randint(2, 3))]
        step["next"] = [branch.first for branch in branches]
        exits = [exit for branch in branches for exit in branch.exits]
        known = here.knowing(ReadableName(step["id"], "number"))
        if not exits:
            return Piece(step["id"], [], known)
        merged = self._merged(exits, known, self._random.choice(["all", "all", "all", "any", 2]))
        return Piece(step["id"], merged.exits, merged.here)

    def _each_join(self, size: int, here: Here) -> Piece:
        """Several at once, and a step that runs for each of them, with which it ends."""
        step, inner = self._number(here), here._replace(depth=here.depth + 1, beside=True)
        branches = [self._one(1, inner) for _ in range(2)]
        step["next"] = [branch.first for branch in branches]
        last: Step = {"id": self._maker.name("echo"), "tool": "ECHO", "with": {"value": "again", "takes_s": self._maker.seconds()}, "join": "each"}
        self._add(last)
        _lead([exit for branch in branches for exit in branch.exits], last["id"])
        piece = self._chain(max(1, size - 3), inner)
        step["next"].append(piece.first)
        return Piece(step["id"], piece.exits, piece.here)

    def _failing(self, size: int, here: Here) -> Piece:
        """A step that may fail, and what follows if it does."""
        step, inner = self._number(here), here._replace(depth=here.depth + 1)
        if self._maker.chance(0.7):
            step["with"]["fails"] = 99
        behind = [ReadableName("error.kind", "any")] if self._maker.chance(0.5) else []
        good, bad = self._chain(size // 2, inner), self._chain(size // 2, inner.knowing(*behind))
        self._port(step, "success")(good.first)
        self._port(step, "error")(bad.first)
        return self._behind(step["id"], [good, bad], here)

    def _approval(self, size: int, here: Here) -> Piece:
        """An approval with a way for each answer."""
        name, inner = self._maker.name("ask"), here._replace(depth=here.depth + 1)
        step = self._add(
            {
                "id": name,
                "approve": {"title": f"{name}?", "timeout": self._maker.seconds(30.0), "on_timeout": self._random.choice(["fail", "approve", "reject"])},
            }
        )
        pieces = [self._chain(max(1, size // 3), inner) for _ in range(3)]
        for port, piece in zip(("approved", "rejected", "timeout"), pieces, strict=True):
            self._port(step, port)(piece.first)
        if self._maker.chance(0.8):
            self._maker.decisions[f"{name}?"] = Decision(self._maker.seconds(), self._maker.chance(0.5))
        return self._behind(step["id"], pieces, here)

    # cycles

    def _cycle(self, size: int, here: Here) -> Piece:
        """A head that counts, what is done in a turn, and a way back or on."""
        name, inner = f"c{len(self._maker.variables)}", here._replace(depth=here.depth + 1, times=here.times * 4)
        self._maker.variables[name] = 0
        head_id, own = self._maker.name("add"), self._maker.chance(0.5)
        counted: Json = f"@{head_id}?" if own else f"@vars.{name}"
        head = self._add({"id": head_id, "tool": "ADD", "with": {"value": [counted, 1], "takes_s": self._maker.seconds()}})
        inner = inner.knowing(ReadableName(head_id, "number"))
        turns = self._random.randint(1, 3)
        body = self._alternating(head_id, turns, inner) if self._maker.chance(0.3) else self._chain(max(1, size - 3), inner)
        _lead([self._plain(head)], body.first)
        if not body.exits:
            return Piece(head_id, [], here.knowing(ReadableName(head_id, "number")))
        tail = self._tail(head_id, name, turns)
        if self._maker.chance(0.4):  # a way out in the middle of a turn
            middle = self._add({"id": self._maker.name("test"), "test": {"ref": f"@{head_id}", "lt": self._random.randint(1, 4)}})
            _lead(body.exits, middle["id"])
            self._port(middle, "true")(tail[0])
            return Piece(head_id, [*tail[1], self._port(middle, "false")], here.knowing(ReadableName(head_id, "number")))
        _lead(body.exits, tail[0])
        return Piece(head_id, tail[1], here.knowing(ReadableName(head_id, "number")))

    def _alternating(self, head: str, turns: int, here: Here) -> Piece:
        """Branches of which the first turns take one and the later ones the other, and a step that reads both."""
        step = self._add({"id": self._maker.name("test"), "test": {"ref": f"@{head}", "lte": self._random.randint(1, turns + 1)}})
        early, late = self._one(1, here), self._one(1, here)
        self._port(step, "true")(early.first)
        self._port(step, "false")(late.first)
        seen: Step = {
            "id": self._maker.name("echo"),
            "tool": "ECHO",
            "with": {"value": [f"@{early.first}?", f"@{late.first}?"], "takes_s": self._maker.seconds()},
        }
        self._add(seen)
        _lead([*early.exits, *late.exits], seen["id"])
        return Piece(step["id"], [self._plain(seen)] if early.exits or late.exits else [], here)

    def _tail(self, head: str, variable: str, turns: int) -> tuple[str, list[Exit]]:
        """The step at the end of a turn: its id, and the ways out of the cycle."""
        on, condition = self._add({"id": self._maker.name("set"), "set": {variable: f"@{head}"}}), {"ref": f"@{head}", "lt": turns}
        match self._random.randrange(4):
            case 0:
                test = self._add({"id": self._maker.name("test"), "test": condition, "next": {"true": {"to": head, "max": 12}}})
                on["next"] = test["id"]
                return on["id"], [self._port(test, "false")]
            case 1:
                on["next"] = [{"when": condition, "to": head, "max": 12}, {}]
                return on["id"], [self._rule(on, 1)]
            case 2:
                on["next"] = [{"when": {"ref": f"@{head}", "lt": 999}, "to": head, "max": turns}, {}]
                return on["id"], [self._rule(on, 1)]
        on["next"] = [{"to": head, "max": turns}]
        return on["id"], [self._rule(on, 0, "on_max")]


def _lead(exits: Sequence[Exit], target: str) -> None:
    for exit in exits:
        exit(target)


def _and(targets: Json, target: str) -> Json:
    """One more target."""
    if targets is None:
        return target
    return [*(targets if isinstance(targets, list) else [targets]), target]


TRIES_MAX = 200

ORDERS = ("refs", "listed", "ports")


class GeneratedCase(NamedTuple):
    """A definition, the world that it runs in, and what comes of it."""

    definition: dict[str, Json]
    script: OutsideEvents
    prediction: DefinitionPrediction


def random_case(random: Random, size: int = 12, order: str = "") -> GeneratedCase:
    """A definition of about `size` steps, in this order or any. The same `random` gives the same one in every process."""
    for _ in range(TRIES_MAX):
        definition, script = _drawn(random, size, order or random.choice(ORDERS))
        try:
            prediction = predict(definition, script)
        except DefinitionStuck:  # a message that a branch was to send is never sent
            continue
        if not prediction.doubts:
            return GeneratedCase(definition, script, prediction)
    raise DefinitionStuck(f"each of {TRIES_MAX} definitions hangs on a moment, or does not end")


def random_definition(random: Random, size: int = 12, order: str = "") -> dict[str, Json]:
    """The definition of a `random_case`."""
    return random_case(random, size, order).definition


def _drawn(random: Random, size: int, order: str) -> tuple[dict[str, Json], OutsideEvents]:
    maker = Maker(random, order)
    steps = Wiring(maker).steps(size) if order == "ports" else maker.whole(size)
    definition: dict[str, Json] = {"perdure": 1, "name": "random", "input": {"n": {"type": "integer"}, "many": {"type": "array"}}}
    definition |= {"order": order} if order != "refs" else {}
    definition |= {"vars": maker.variables} if maker.variables else {}
    definition |= {"on_failure": {"undo": False}} if random.random() < 0.1 else {}
    definition |= {"retry": {"max": 2, "wait": 0}, "steps": steps}
    if readable := [name for name in maker.readable if random.random() < 0.4]:
        definition["output"] = {name: f"@{name}" for name in readable[:6]} | {"n": "@input.n"}
    given = {"n": random.randint(0, 9), "many": [random.randint(0, 9) for _ in range(random.randint(0, 5))]}
    return canonical_document(definition), OutsideEvents(given, maker.messages, maker.decisions)
