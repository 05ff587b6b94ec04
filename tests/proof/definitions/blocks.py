"""Random steps and lists of steps, in the orders refs and listed, and within blocks of any. `Maker` keeps what all parts of a definition share."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from tests.proof.definitions.facts import Decision, Json, ScheduledMessage
from tests.proof.definitions.shape import Step
from tests.proof.definitions.tools import ALWAYS

T = TypeVar("T")

DEPTH_MAX = 4
TIMES_MAX = 40
"""How often a step runs at most, in items and turns."""
IN_DOUBT = 0.5
"""How many of the steps that are to be undone are so also in doubt."""
UNDO_FAILS = 0.25
"""How many of them can't be undone, which keeps none of the others from being undone."""


class ReadableName(NamedTuple):
    """A step, or a name, whose value can be read: "number" and "list" are always that; "any" may be null."""

    name: str
    kind: str


class Here(NamedTuple):
    """Where a step will stand: how deep, how often it runs, what it can read, whether it runs beside itself, and whether failing is caught around it."""

    depth: int = 0
    times: int = 1
    known: tuple[ReadableName, ...] = (ReadableName("input.n", "number"), ReadableName("input.many", "list"))
    beside: bool = False
    caught: bool = False
    calm: bool = False

    def within(self, **changes: Json) -> "Here":
        """One deeper."""
        return self._replace(depth=self.depth + 1, **changes)

    def after_error(self, *more: str) -> "Here":
        """In the steps that stand in for what failed: of its error can be read the kind, and what else is said."""
        known = [one for one in self.known if not one.name.startswith("error.")]
        return self.within(calm=True, caught=False, known=(*known, *(ReadableName(f"error.{part}", "any") for part in ("kind", *more))))

    def knowing(self, *more: ReadableName) -> "Here":
        """With more that can be read."""
        return self._replace(known=(*self.known, *more))


class Maker:
    """Makes steps. `readable` are steps that the output may read, as they stand in no list but the outermost."""

    def __init__(self, random: Random, order: str) -> None:
        self.random, self.order = random, order
        self.messages: list[ScheduledMessage] = []
        self.decisions: dict[str, Decision] = {}
        self.variables: dict[str, Json] = {}
        self.readable: list[str] = []
        self._names = 0

    # numbers and names

    def chance(self, probability: float) -> bool:
        """Whether it happens."""
        return self.random.random() < probability

    def pick(self, weighted: Sequence[tuple[float, T]]) -> T:
        """One of them, by weight."""
        return self.random.choices([one for _, one in weighted], [weight for weight, _ in weighted])[0]

    def name(self, verb: str) -> str:
        """An id that no other step has."""
        self._names += 1
        return f"{verb}{self._names}"

    def seconds(self, least: float = 1.0) -> float:
        """How long something takes: two of them are hardly ever the same."""
        return round(self.random.uniform(least, least + 60.0), 3)

    def value(self, here: Here) -> Json:
        """A template: mostly references to what is known."""
        known = [one.name for one in here.known]
        match self.random.randrange(6):
            case 0:
                return self.random.choice([0, 7, None, True, "text", [1, [None]], {"a": {"b": 2}}, "a @@ sign"])
            case 1:
                return {"a": f"@{self.random.choice(known)}", "b": [f"@{self.random.choice(known)}", 3]}
            case 2 if numbers := [one.name for one in here.known if one.kind == "number"]:
                return f"with @{{{self.random.choice(numbers)}}} of them"
        return f"@{self.random.choice(known)}"

    def condition(self, here: Here, depth: int = 0) -> Json:
        """A condition about what is known."""
        roll = self.random.randrange(8)
        if roll < 3 and depth < 2:
            parts = [self.condition(here, depth + 1) for _ in range(self.random.randint(1, 3))]
            return [{"all": parts}, {"any": parts}, {"not": parts[0]}][roll]
        numbers = [one.name for one in here.known if one.kind == "number"]
        if roll < 7 and numbers:
            operator = self.random.choice(["eq", "neq", "gt", "gte", "lt", "lte"])
            return {"ref": f"@{self.random.choice(numbers)}", operator: self.random.choice([self.random.randint(0, 12), f"@{self.random.choice(numbers)}"])}
        return {"ref": f"@{self.random.choice(here.known).name}"}

    # lists

    def whole(self, size: int) -> list[Step]:
        """The steps of a definition that is not in the order ports."""
        steps, _ = self.steps(size, Here(), 2)
        self.readable = [step["id"] for step in steps]
        return steps

    def steps(self, size: int, here: Here, least: int = 1) -> tuple[list[Step], Here]:
        """At least so many steps, and what can be read behind them."""
        made: list[Step] = []
        while size > 0 or len(made) < least:
            share = self.random.randint(1, max(1, size))
            step, known = self.step(share, here, made)
            made.append(step)
            here = here.knowing(*known)
            size -= share
        return made, here

    def step(self, size: int, here: Here, before: Sequence[Step] = ()) -> tuple[Step, tuple[ReadableName, ...]]:
        """A step of about this size, and what can be read of it behind it."""
        block = size > 1 and here.depth < DEPTH_MAX
        step, kind = (self.block if block else self.leaf)(size, here)
        skippable = not (here.calm or {"return", "race"} & set(step))
        if skippable and self.chance(0.12):
            step, kind = self._guarded(step, here), "any"
        if before and not {"when", "repeat", "return", "fail"} & set(before[-1]) and self.chance(0.15):
            step["needs"] = [before[-1]["id"]]
        return step, (ReadableName(step["id"], kind),)

    def _guarded(self, step: Step, here: Here) -> Step:
        return {"id": step["id"], "when": self.condition(here), **{key: value for key, value in step.items() if key != "id"}}

    # single steps

    def leaf(self, _: int, here: Here) -> tuple[Step, str]:
        """One step without steps in it."""
        ways: list[tuple[float, Callable[[Here], tuple[Step, str]]]] = [(8, self.tool), (2, self.failing), (1.5, self.sleep), (1.5, self.asked)]
        ways += [(1, self.test), (1, self.heard), (1, self.emitted), (1, self.tried), (2 if here.times < TIMES_MAX / 6 else 0, self.many)]
        ways += [(0 if here.beside else 1, self.assigned), (0.25 if not here.calm else 0, self.ending)]
        return self.pick(ways)(here)

    def tool(self, here: Here) -> tuple[Step, str]:
        """A tool that answers; some have to be undone, and some of those also if it is in doubt whether they have done anything."""
        tool, kind = self.pick([(6, ("ADD", "number")), (3, ("ECHO", "any")), (1, ("EVEN", "any")), (2, ("LIST", "list")), (1, ("RECORD", "any"))])
        step: Step = {"id": self.name(tool.lower()), "tool": tool, "with": {"value": self.value(here), "takes_s": self.seconds()}}
        if tool == "RECORD" and self.chance(0.5):
            step["with"]["value"] = {"deep": f"@{here.known[-1].name}"}
        if self.chance(0.25):
            in_doubt = {"in_doubt": True} if Random(step["id"]).random() < IN_DOUBT else {}
            fails = Random(f"undo of {step['id']}").random() < UNDO_FAILS
            given = {"value": "@self", **({"fails": 1, "fatal": True} if fails else {})}
            step["undo"] = {"tool": "UNDO", "with": given, **in_doubt, **({"on_error": "continue"} if fails else {})}
        return step, kind

    def tried(self, here: Here) -> tuple[Step, str]:
        """A tool that recovers before its tries are used up, or is too slow at all times, which is caught."""
        step, kind = self.tool(here)
        if self.chance(0.3):
            step |= {"timeout": self.seconds(), "on_error": "go_on"}
            step["with"]["takes_s"] += step["timeout"]
            return {key: value for key, value in step.items() if key != "undo"}, "any"
        tries = self.random.randint(2, 4)
        step["with"]["fails"] = self.random.randint(1, tries - 1)
        if self.chance(0.3):
            kinds = {self.random.choice(["only", "fatal"]): [self.random.choice(["ValueError", "OSError"])]}
            return {**step, "retry": {"max": tries, "wait": 0, **kinds}, "on_error": "go_on"}, "any"
        return {**step, "retry": {"max": tries, "wait": 0}}, kind

    def failing(self, here: Here) -> tuple[Step, str]:
        """A tool that fails always; in most places it is caught, here or around it."""
        step, _ = self.tool(here)
        step["with"] |= {"fails": ALWAYS, "error": self.random.choice(["ValueError", "OSError"])} | ({"fatal": True} if self.chance(0.2) else {})
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3:
                step["on_error"] = "go_on"
            case 4 | 5 | 6:
                step["on_error"] = self.steps(1, here.after_error("type"))[0]
            case 7 if not here.calm:
                pass
            case _ if here.caught:
                pass
            case _:
                step["on_error"] = "go_on"
        return step, "any"

    def sleep(self, here: Here) -> tuple[Step, str]:
        """A sleep."""
        return {"id": self.name("sleep"), "sleep": self.seconds()}, "any"

    def asked(self, here: Here) -> tuple[Step, str]:
        """An approval that somebody gives, or that time decides; a rejection ends it all, unless the step goes on or fails by it."""
        name = self.name("ask")
        asked: dict[str, Json] = {"title": f"{name}?"}
        if self.chance(0.4):
            asked |= {"timeout": self.seconds(70.0), "on_timeout": "approve"}
        if "timeout" not in asked or self.chance(0.4):
            self.decisions[f"{name}?"] = Decision(self.seconds(), here.calm or self.chance(0.93))
        step: Step = {"id": name, "approve": asked}
        if f"{name}?" in self.decisions and not here.calm and self.chance(0.3):
            self.decisions[f"{name}?"] = Decision(self.seconds(), self.chance(0.3))
            step |= {"on_rejected": "go_on"} if self.chance(0.6) else {"on_rejected": "fail", "on_error": "go_on"}
        return step, "any"

    def test(self, here: Here) -> tuple[Step, str]:
        """A test whose answer is read."""
        return {"id": self.name("test"), "test": self.condition(here)}, "any"

    def heard(self, here: Here) -> tuple[Step, str]:
        """A message from outside, one for each time that it can run; or none, and time is over."""
        name = self.name("hear")
        step: Step = {"id": name, "listen": name}
        if here.times > 1 or here.beside or self.chance(0.3):
            step = {"id": name, "listen": {"names": [name], "timeout": self.seconds()}, "on_error": "go_on"}
            return step, "any"
        if self.chance(0.6):
            self.messages.append(ScheduledMessage(self.seconds(0.0) * self.random.choice([0, 1, 5]), name, {"n": name}))
            return step, "any"
        count = self.random.randint(2, 3)
        self.messages += [ScheduledMessage(round(0.1 * number, 3), name, {"n": number}) for number in range(count)]
        first: Step = {"id": self.name("sleep"), "sleep": self.seconds()}
        return {"id": self.name("do"), "do": [first, {"id": name, "needs": [first["id"]], "listen": {"names": [name], "limit": count}}]}, "any"

    def emitted(self, here: Here) -> tuple[Step, str]:
        """An item of the stream."""
        return {"id": self.name("emit"), "emit": {"body": self.value(here)}}, "any"

    def assigned(self, here: Here) -> tuple[Step, str]:
        """A variable."""
        name = f"v{len(self.variables)}"
        self.variables[name] = self.random.randint(0, 9)
        return {"id": self.name("set"), "set": {name: self.value(here)}}, "any"

    def many(self, here: Here) -> tuple[Step, str]:
        """A tool for each of a list, or turn by turn."""
        step, _ = self.tool(here)
        if self.chance(0.15):  # over no list, or without an end that comes
            wrong: Step = {"each": {"in": "@input.n"}} if self.chance(0.5) else {"repeat": {"until": {"ref": "@index", "gt": 9}, "max": 2}}
            return {**step, **wrong, "on_error": self.steps(1, here.after_error())[0]}, "any"
        return (self.each(step, here), "any") if self.chance(0.6) else (self.repeat(step, here), "any")

    def each(self, step: Step, here: Here) -> Step:
        """The tool, for each of a list."""
        lists = [one.name for one in here.known if one.kind == "list"]
        each: dict[str, Json] = {"in": f"@{self.random.choice(lists)}"}
        if self.chance(0.3):
            each |= {"as": "one", "index": "place"}
        item, place = each.get("as", "item"), each.get("index", "index")
        step["with"] |= {"value": [f"@{item}", f"@{place}"], "nth": f"@{place}"}
        if self.chance(0.5):
            each["concurrency"] = self.random.randint(1, 3)
        match self.random.randrange(6):
            case 0:
                each["batch"] = self.random.randint(1, 3)
            case 1 | 2:
                each["on_error"] = self.random.choice(["skip", "null"])
                step["with"]["fails"] = sorted(self.random.sample(range(5), 2))
            case 3 if here.caught or (not here.calm and self.chance(0.3)):
                step["with"]["fails"] = [self.random.randint(1, 4)]
            case 4:
                each |= {"in": [5, 3, 8, "@input.n"], "enough": self.random.randint(1, 3)}
        return {**step, "each": each}

    def repeat(self, step: Step, here: Here) -> Step:
        """The step, turn by turn."""
        turns = self.random.randint(1, 3)
        repeat: dict[str, Json] = self.random.choice(
            [
                {"until": {"ref": "@index", "gte": turns}, "max": turns + 2},
                {"while": {"ref": "@index", "lt": turns}, "max": 9},
                {"until": {"ref": "@index", "gt": 9}, "max": turns, "on_max": "go_on"},
            ]
        )
        if self.chance(0.4):
            repeat["delay"] = self.seconds()
        return {**step, "repeat": repeat}

    def ending(self, here: Here) -> tuple[Step, str]:
        """A return, or a failure, if some condition holds."""
        if self.chance(0.6):
            return {"id": self.name("return"), "when": self.condition(here), "return": self.value(here)}, "any"
        return {"id": self.name("fail"), "when": self.condition(here), "fail": "it was to fail"}, "any"

    # blocks

    def block(self, size: int, here: Here) -> tuple[Step, str]:
        """One step with steps in it."""
        ways: list[tuple[float, Callable[[int, Here], tuple[Step, str]]]] = [(4, self.branch), (4, self.together), (2, self.race), (3, self.group)]
        ways += [(0 if here.beside or here.times > 1 else 1.5, self.talk)]
        ways += [(3 if here.times < TIMES_MAX / 6 else 0, self.repeated)]
        return self.pick(ways)(size - 1, here)

    def branch(self, size: int, here: Here) -> tuple[Step, str]:
        """An if."""
        step: Step = {"id": self.name("if"), "if": self.condition(here), "then": self.steps(max(1, size // 2), here.within())[0]}
        if self.chance(0.7):
            step["else"] = self.steps(max(1, size // 2), here.within())[0]
        return step, "any"

    def together(self, size: int, here: Here) -> tuple[Step, str]:
        """A parallel: branches that read nothing of one another, or a few that do."""
        count, inner, apart = self.random.randint(2, 3), here.within(beside=True), self.chance(0.4)
        block: dict[str, Json] = {}
        if apart and self.chance(0.6):
            block["concurrency"] = self.random.randint(1, 2)
        if apart and (not block or self.chance(0.5)):
            block["on_error"] = "go_on"
            inner = inner._replace(caught=True)
        branches: list[Step] = []
        for _ in range(count):
            step, known = self.step(max(1, size // count), inner)
            step.pop("needs", None)
            branches.append(step)
            if not block and self.chance(0.3):
                inner = inner.knowing(*known)
        value: Json = {**block, "steps": branches} if block else branches
        return {"id": self.name("parallel"), "parallel": value}, "any"

    def talk(self, size: int, here: Here) -> tuple[Step, str]:
        """Branches of which one sends the other a message, sooner or later."""
        word, inner = self.name("word"), here.within(beside=True, calm=True)
        first, known = self.step(max(1, size - 2), inner)
        pause: Step = (
            {"id": self.name("sleep"), "needs": [first["id"]], "sleep": self.seconds()} if "when" not in first else {"id": self.name("sleep"), "sleep": 7.5}
        )
        said: Step = {"name": word, "body": self.value(here.knowing(*known)), "to": {"workflow": "random", "id": "@execution.id"}}
        says: Step = {"id": self.name("do"), "do": [first, pause, {"id": self.name("emit"), "needs": [pause["id"]], "emit": said}]}
        hears: Step = {"id": self.name("hear"), "listen": {"names": [word]}}
        if self.chance(0.3):
            hears |= {"listen": {"names": [word], "timeout": self.seconds()}, "on_error": "go_on"}
        branches = [says, hears] if self.chance(0.5) else [hears, says]
        return {"id": self.name("parallel"), "parallel": branches}, "any"

    def race(self, size: int, here: Here) -> tuple[Step, str]:
        """A race: one branch surely succeeds."""
        inner = here.within(beside=True, caught=True, calm=True)
        branches = [self.step(max(1, size // 2), inner)[0] for _ in range(self.random.randint(1, 2))]
        branches = [step for step in branches if "when" not in step] + [self.tool(inner)[0]]
        self.random.shuffle(branches)
        return {"id": self.name("race"), "race": branches}, "any"

    def group(self, size: int, here: Here) -> tuple[Step, str]:
        """A do, perhaps with a timeout, and with a way out of failure."""
        caught = self.chance(0.5)
        step: Step = {"id": self.name("do"), "do": self.steps(size, here.within(caught=here.caught or caught))[0]}
        if caught:
            step["on_error"] = "go_on" if self.chance(0.5) else self.steps(1, here.after_error())[0]
            if self.chance(0.3):
                step["timeout"] = self.seconds(20.0)
        return step, "any"

    def alternating(self, here: Here) -> list[Step]:
        """Branches of which the first turns take one and the later ones the other, and a step that reads both."""
        early, late = self.tool(here)[0], self.tool(here)[0]
        branch: Step = {"id": self.name("if"), "if": {"ref": "@index", "lt": self.random.randint(1, 2)}, "then": [early], "else": [late]}
        value = [f"@{early['id']}?", f"@{late['id']}?"]
        return [branch, {"id": self.name("echo"), "tool": "ECHO", "with": {"value": value, "takes_s": self.seconds()}}]

    def repeated(self, size: int, here: Here) -> tuple[Step, str]:
        """A do, turn by turn or for each of a list."""
        times, name = here.times * 4, self.name("do")
        if self.chance(0.5):
            steps = self.steps(size, here.within(times=times))[0]
            return self.repeat({"id": name, "do": [*steps, *(self.alternating(here) if self.chance(0.4) else ())]}, here), "any"
        item, place = f"{name}_item", f"{name}_at"
        lists = [one.name for one in here.known if one.kind == "list"]
        inner = here.within(times=times, beside=True).knowing(ReadableName(item, "any"), ReadableName(place, "number"))
        paced: Step = {"id": self.name("sleep"), "sleep": self.seconds()}
        body = [{"id": self.name("add"), "tool": "ADD", "with": {"value": [f"@{item}"], "nth": f"@{place}", "takes_s": self.seconds()}}, paced]
        each: dict[str, Json] = {"in": f"@{self.random.choice(lists)}", "as": item, "index": place}
        if self.chance(0.5):
            each["concurrency"] = self.random.randint(1, 2)
        return {"id": name, "do": [*body, *self.steps(size, inner)[0]], "each": each}, "any"
