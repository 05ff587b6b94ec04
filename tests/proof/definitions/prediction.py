"""What each verb does, for `sequential`: a function from the moment at which it begins to its outcome. What takes work leaves a trace of it.

What must come of a definition, found without an engine: a reading of the document from the rules of how a graph runs, in the most obvious code.

There are no tokens, no state that is carried along, and no queue of things to come: each step, list and cycle is a function from the moment at which it
begins to the moment at which it ends, and with what. Whatever is dropped is computed to its end; then all that had not happened by then is struck out.
What other branches do meanwhile (messages, variables) is read from the reading before this one, until two readings agree.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.proof.definitions.facts import DefinitionPrediction, Facts, Json, OutsideEvents, Ran, Status, Undone
from tests.proof.definitions.outcomes import NEVER, SLACK_S, DefinitionStuck, Ended, Failed, Moment, Outcome, Settled, Trace, Where, after, error, near
from tests.proof.definitions.passages import passage
from tests.proof.definitions.references import ROOTS, Missing, Root, evaluate, holds
from tests.proof.definitions.shape import Shape, Step, inside, is_to_be_undone, listed, shaped
from tests.proof.definitions.tools import Answer, Failure, behave

if TYPE_CHECKING:
    pass

ACTIONS = ("tool", "task", "call")
"""The verbs of which a timeout bounds each try."""

TRIES = 3
OUT = ("skipped", "error", "rejected", "timeout")
"""The ports of a branch that does not win."""


def run(reading: "Reading", step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
    """The step's verb, once."""
    verb = next(verb for verb in _VERBS if verb in step)
    outcome = _VERBS[verb](reading, step, at, where)
    if isinstance(outcome, Settled) and verb == "approve" and outcome.port == "rejected" and "rejected" not in routed:
        match step.get("on_rejected", "cancel"):
            case "fail":
                return Failed(outcome.at, error("fatal", "rejected"))
            case "cancel":
                return Ended(outcome.at, "cancelled", None)
    if isinstance(outcome, Settled) and verb in ("approve", "listen") and outcome.port == "timeout" and "timeout" not in routed:
        return Failed(outcome.at, error("timeout", "timeout"))
    return outcome


def _tool(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    arguments = reading.evaluate(step.get("with", {}), at, where)
    retry = {**reading.definition.get("retry", {}), **step.get("retry", {})}
    most, now = retry.get("max", TRIES), at
    for attempt in range(1, most + 1):
        answer, limit_s = behave(step["tool"], arguments, attempt), step.get("timeout")
        late = limit_s is not None and answer.takes_s > limit_s
        now = after(now, limit_s if limit_s is not None and late else answer.takes_s)
        if isinstance(answer, Answer) and not late:
            reading.trace.append(Trace("work", step["id"], where.place, at, now, answer.value, tries=attempt))
            return Settled(now, "success", answer.value)
        name = "TimeoutError" if late or isinstance(answer, Answer) else answer.error
        fatal = not late and not isinstance(answer, Answer) and answer.fatal
        fatal = fatal or name in retry.get("fatal", ()) or ("only" in retry and name not in retry["only"])
        if fatal or attempt == most:
            kind = "fatal" if fatal else "timeout" if late else "exhausted"
            reading.trace.append(Trace("work", step["id"], where.place, at, now, None, kind, attempt))
            return Failed(now, error(kind, "fatal" if not late and isinstance(answer, Failure) and answer.fatal else name))
        wait_s = min(retry.get("wait", 1.0) * retry.get("factor", 2.0) ** (attempt - 1), retry.get("max_wait", max(60.0, retry.get("wait", 1.0))))
        now = (now[0] + wait_s, now[1])
    raise AssertionError(most)


def _approve(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    asked = step["approve"]
    title = reading.evaluate(asked["title"], at, where)
    decision, limit_s = reading.script.decisions.get(title), asked.get("timeout")
    due = NEVER if limit_s is None else after(at, limit_s)
    decided = NEVER if decision is None else after(at, decision.after_s)
    if near(due, decided):
        reading.doubts.append(f"{step['id']} is decided when its time is over")
    if decision is not None and decided <= due:
        port, told = (
            "approved" if decision.approved else "rejected",
            {"form": decision.form, "by": decision.by, "comment": decision.comment, "means": "message"},
        )
    elif due == NEVER:
        return Settled(NEVER, "", None)
    else:
        port = {"approve": "approved", "reject": "rejected", "fail": "timeout"}[asked.get("on_timeout", "fail")]
        told = {"form": None, "by": "", "comment": "", "means": "timeout"}
    value = {"approved": port == "approved", "expired": decided > due}
    end, failed = min(due, decided), "timeout" if port == "timeout" else ""
    reading.trace.append(Trace("work", step["id"], where.place, at, end, None if failed else value, failed))
    return Settled(end, port, value | told)


def _listen(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    """The next message of one of these names that nobody has taken; messages come in the order in which they are sent."""
    given = step["listen"] if isinstance(step["listen"], dict) else {"names": step["listen"]}
    names = reading.evaluate(given["names"], at, where)
    names = [names] if isinstance(names, str) else names
    due = NEVER if "timeout" not in given else after(at, given["timeout"])
    end, bodies = at, list[Json]()
    for _ in range(given.get("limit", 1)):
        coming = [(arrives, name, body) for name in names for arrives, body in _messages(reading, name)[reading.heard[name] :][:1]]
        arrives, name, body = min(coming, key=lambda one: one[0], default=(NEVER, "", None))
        end = max(end, arrives)
        if near(end, due) or len(coming) > 1:
            reading.doubts.append(f"a message comes to {step['id']} at {end[0]} s, when its time is over or another comes")
        if end > due or end == NEVER:
            break
        reading.heard[name] += 1
        bodies.append(body)
    else:
        value = bodies[0] if given.get("limit", 1) == 1 else bodies
        end = after(at, end[0] - at[0])
        reading.trace.append(Trace("work", step["id"], where.place, at, end, value))
        return Settled(end, "success", value)
    if due == NEVER:
        return Settled(NEVER, "", None)
    reading.trace.append(Trace("work", step["id"], where.place, at, due, None, "timeout"))
    return Settled(due, "timeout", None)


def _messages(reading: "Reading", name: str) -> list[tuple[Moment, Json]]:
    from_outside = [((message.at_s, 0), message.body) for message in reading.script.messages if message.name == name]
    return sorted([*from_outside, *((one.ended, one.value) for one in reading.before if one.what == "said" and one.name == name)], key=lambda one: one[0])


def _emit(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    said, end = step["emit"], after(at, 0)
    body = reading.evaluate(said.get("body"), at, where)
    name = reading.evaluate(said.get("name", ""), at, where)
    reading.trace.append(Trace("said" if "to" in said else "emitted", name, where.place, at, end, body))
    reading.trace.append(Trace("work", step["id"], where.place, at, end))
    return Settled(end, "success", None)


def _sleep(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    end = after(at, reading.evaluate(step["sleep"], at, where))
    reading.trace.append(Trace("work", step["id"], where.place, at, end))
    return Settled(end, "success", None)


def _set(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    values = reading.evaluate(step["set"], at, where)
    reading.trace += [Trace("set", name, where.place, at, at, value) for name, value in values.items()]
    return Settled(at, "success", values)


def _test(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    found = reading.holds(step["test"], at, where)
    return Settled(at, "true" if found else "false", found)


def _if(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    found = reading.holds(step["if"], at, where)
    outcome = reading.body(step.get("then" if found else "else", []), at, where)
    return outcome._replace(port="true" if found else "false") if isinstance(outcome, Settled) else outcome


def _do(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    return reading.body(step["do"], at, where)


def _parallel(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    """All branches; with `concurrency` so many at a time, in the order in which they are written."""
    given: Mapping[str, Json] = step["parallel"] if isinstance(step["parallel"], dict) else {}
    block = {key: value for key, value in given.items() if key != "steps"}
    steps, mark = listed(step["parallel"]), len(reading.trace)
    values: dict[str, Json] = {}
    if not block:
        outcome = passage(reading, reading.shape(steps, apart=True), at, where).outcome
        if not isinstance(outcome, Settled) or outcome.at == NEVER:
            return outcome
        return outcome._replace(value={one["id"]: reading.latest(one["id"], outcome.at, where) for one in steps})
    free, stops = [at] * (block.get("concurrency") or len(steps)), list[Outcome]()
    for one in steps:
        begin = min(free)
        outcome = reading.step(one, begin, where, frozenset()) if begin != NEVER else Settled(NEVER, "", None)
        free[free.index(begin)] = outcome.at
        values[one["id"]] = outcome.value if isinstance(outcome, Settled) else None
        if isinstance(outcome, Ended) or (isinstance(outcome, Failed) and block.get("on_error", "fail") == "fail"):
            stops.append(outcome)
    return reading.first(mark, stops) if stops else Settled(max(free), "success", values)


def _race(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    """The first that succeeds wins; what fails, goes on after failing or is skipped is out."""
    steps, mark = listed(step["race"]), len(reading.trace)
    outcomes = {one["id"]: reading.step(one, at, where, frozenset()) for one in steps}
    stops = [one for one in outcomes.values() if isinstance(one, Ended) or (isinstance(one, Settled) and one.port not in OUT and one.at != NEVER)]
    if stops:
        stop = reading.first(mark, stops)
        winner = next(name for name, one in outcomes.items() if one is stop)
        return stop._replace(port="success", value={"winner": winner, "value": stop.value}) if isinstance(stop, Settled) else stop
    if any(one.at == NEVER for one in outcomes.values()):
        return Settled(NEVER, "", None)
    last = max(outcomes.values(), key=lambda one: one.at)
    return last if isinstance(last, Failed) else Settled(last.at, "success", {"winner": None, "value": None})


def _return(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    return Ended(at, "completed", reading.evaluate(step["return"], at, where))


def _fail(reading: "Reading", step: Step, at: Moment, where: Where) -> Outcome:
    given = reading.evaluate(step["fail"], at, where)
    told = given if isinstance(given, dict) else {"message": given}
    return Failed(at, error("fatal", str(told.get("type", "Fail")), str(told.get("message", ""))))


_VERBS: dict[str, Callable[["Reading", Step, Moment, Where], Outcome]] = {
    "tool": _tool,
    "approve": _approve,
    "listen": _listen,
    "emit": _emit,
    "sleep": _sleep,
    "set": _set,
    "test": _test,
    "if": _if,
    "do": _do,
    "parallel": _parallel,
    "race": _race,
    "return": _return,
    "fail": _fail,
}


__all__ = ["DefinitionStuck", "predict"]

READINGS_MAX = 60
TURNS_MAX = 500
INSTANT = ("step", "dead", "set", "turn")


def predict(definition: dict[str, Json], script: OutsideEvents) -> DefinitionPrediction:
    """Read `definition` to its end, in the world of `script`.

    Raises:
        Stuck: it has none.
    """
    before: list[Trace] = []
    for _ in range(READINGS_MAX):
        reading = Reading(definition, script, before)
        outcome = reading.whole()
        if reading.shared == before:
            if outcome.at == NEVER:
                raise DefinitionStuck("something in it never settles")
            return reading.prediction(outcome)
        before = reading.shared
    raise DefinitionStuck("what its branches tell one another does not settle")


class Reading:
    """One reading. `before` are the variables and messages of the one before; `trace` is all that happens, in no order."""

    def __init__(self, definition: dict[str, Json], script: OutsideEvents, before: Sequence[Trace]) -> None:
        self.trace: list[Trace] = []
        self.definition, self.script, self.before = definition, script, before
        self.heard = Counter[str]()
        self.doubts: list[str] = []
        self.by_id: dict[str, Step] = {one["id"]: one for step in definition["steps"] for one in (step, *inside(step))}
        self._order = definition.get("order", "refs")
        self._shapes: dict[int, Shape] = {}

    @property
    def shared(self) -> list[Trace]:
        """What branches can see of one another while they run."""
        return [trace for trace in self.trace if trace.what in ("set", "said")]

    def whole(self) -> Outcome:
        """From the start to the end."""
        shape = shaped(self.definition["steps"], self._order)
        outcome = passage(self, shape, (0.0, 0), Where()).outcome
        if not isinstance(outcome, Settled) or outcome.at == NEVER:
            return outcome
        if "output" in self.definition:
            try:
                return Ended(outcome.at, "completed", evaluate(self.definition["output"], self.root(outcome.at, Where())))
            except Missing as missing:
                return Failed(outcome.at, error("fatal", "expression_failed", str(missing)))
        last = [name for name in shape.steps if not any(edge.source == name for edge in shape.edges)]
        if len(last) < 2:
            return Ended(outcome.at, "completed", self.latest(last[0], outcome.at, Where()) if last else None)
        ran = {trace.name for trace in self.trace if trace.what == "step" and not trace.skipped}
        return Ended(outcome.at, "completed", {name: self.latest(name, outcome.at, Where()) for name in last if name in ran})

    def prediction(self, outcome: Outcome) -> DefinitionPrediction:
        """What follows from how the whole ended."""
        work = [trace for trace in self.trace if trace.what == "work"]
        status: Status = outcome.status if isinstance(outcome, Ended) else "failed"
        undoes = status != "completed" and self.definition.get("on_failure", {}).get("undo", True)
        done = [trace for trace in work if undoes and is_to_be_undone(self.by_id[trace.name], trace.failed)]
        done.sort(key=lambda trace: trace.ended, reverse=True)
        together = [number for number, (one, other) in enumerate(pairwise(done)) if one.ended[0] - other.ended[0] < SLACK_S]
        facts = Facts(
            status,
            outcome.value if isinstance(outcome, Ended) else None,
            outcome.error["kind"] if isinstance(outcome, Failed) else "",
            [Ran(trace.name, trace.place, trace.value, trace.failed, trace.tries) for trace in work],
            [Undone(trace.name, trace.place, trace.value, "on_error" in self.by_id[trace.name]["undo"]) for trace in done],
            [trace.value for trace in self.trace if trace.what == "emitted"],
        )
        return DefinitionPrediction(facts, outcome.at[0], together, tuple(dict.fromkeys(self.doubts)))

    # what stops

    def first(self, mark: int, stops: Sequence[Outcome]) -> Outcome:
        """The first of what stops all that was traced since `mark`; the rest did not happen."""
        stop = min(stops, key=lambda one: one.at)
        if any(other is not stop and abs(other.at[0] - stop.at[0]) < SLACK_S for other in stops):
            self.doubts.append(f"two things end it at {stop.at[0]} s")
        self.cut(mark, stop.at)
        return stop

    def cut(self, mark: int, at: Moment) -> None:
        """Nothing of what was traced since `mark` goes on after this moment, nor is any work opened at it."""
        ends = [trace for trace in self.trace[mark:] if trace.what == "work" and abs(trace.ended[0] - at[0]) < SLACK_S]
        begins = [trace for trace in self.trace[mark:] if trace.what not in INSTANT and near(trace.began, at) and trace not in ends]
        if len(ends) > 1 or begins:
            self.doubts.append(f"{', '.join(sorted({trace.name for trace in (*ends, *begins)}))} at {at[0]} s, when all that is dropped")
        kept = [trace for trace in self.trace[mark:] if trace.ended <= at and (trace.began < at or trace.what in INSTANT)]
        self.trace[mark:] = kept

    # what can be read

    def root(self, at: Moment, where: Where) -> Root:
        """What stands behind a name then and there."""

        def value(name: str) -> Json:
            if name in where.names:
                return where.names[name]
            match name:
                case "input":
                    given = {name: schema["default"] for name, schema in self.definition.get("input", {}).items() if "default" in schema}
                    return {**given, **self.script.input}
                case "vars":
                    return {**self.definition.get("vars", {}), **self._variables(at)}
            if name in ROOTS:
                raise KeyError(name)
            return self.latest(name, at, where)

        return value

    def _variables(self, at: Moment) -> dict[str, Json]:
        mine = self.shared
        others = [trace for trace in self.before if trace not in mine and trace.ended < at]
        written = sorted((trace for trace in (*others, *mine) if trace.what == "set"), key=lambda trace: trace.ended)
        if any(near(trace.ended, at) for trace in written):
            self.doubts.append(f"a variable is written at {at[0]} s, when one is read")
        return {trace.name: trace.value for trace in written if trace.ended <= at}

    def latest(self, name: str, at: Moment, where: Where) -> Json:
        """The last result of a step that can be seen from there; None if it never ran, or will not, or if a turn around there has passed it by.

        Raises:
            KeyError: it has none yet.
        """
        seen = [trace for trace in self.trace if trace.ended <= at and _visible(trace, where)]
        holders = {holder for holder, step in self.by_id.items() if any(one["id"] == name for one in inside(step))}
        if found := [trace for trace in seen if trace.what == "step" and trace.name == name]:
            last = max(found, key=lambda trace: trace.ended)
            return None if self._passed_by(name, holders, last, seen, where) else last.value
        if any(trace.what == "dead" and trace.name == name for trace in seen) or any(trace.name in holders and trace.what in INSTANT for trace in seen):
            return None
        raise KeyError(name)

    def _passed_by(self, name: str, holders: Collection[str], last: Trace, seen: Sequence[Trace], where: Where) -> bool:
        """Whether some turn around there has passed a step by, whose last result is of an earlier turn."""
        for end, frame in enumerate(where.place, 1):
            turn = where.place[:end]
            if "~" in frame and last.place[: end - 1] == turn[:-1] and last.place[:end] != turn:
                here = [trace for trace in seen if trace.place[:end] == turn]
                dead = any(trace.what == "dead" and trace.name == name for trace in here)
                return dead or any(trace.what in ("step", "dead", "turn") and trace.name in holders for trace in here)
        return False

    def holds(self, condition: Json, at: Moment, where: Where) -> bool:
        """Whether a condition holds then and there."""
        return holds(condition, self.root(at, where))

    def evaluate(self, value: Json, at: Moment, where: Where) -> Json:
        """A template's value then and there."""
        return evaluate(value, self.root(at, where))

    # one step

    def shape(self, steps: Sequence[Step], apart: bool = False) -> Shape:
        """The shape of a list in a block."""
        if id(steps) not in self._shapes:
            nested = "refs" if self._order == "refs" else "listed"
            self._shapes[id(steps)] = shaped(steps, "apart" if apart else nested)
        return self._shapes[id(steps)]

    def dead(self, name: str, at: Moment, where: Where) -> None:
        """A step is known never to run."""
        self.trace.append(Trace("dead", name, where.place, at, at))

    def step(self, step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
        """A step that fires: `when`, then each > repeat > the verb, then what comes of a failure."""
        try:
            if "when" in step and not self.holds(step["when"], at, where):
                self.trace.append(Trace("step", step["id"], where.place, at, at, skipped=True))
                return Settled(at, "skipped", None)
            outcome = self._bounded(step, at, where, routed)
        except Missing as missing:
            outcome = Failed(at, error("fatal", "expression_failed", str(missing)))
        if isinstance(outcome, Failed):
            outcome = self._rescued(step, outcome, where, routed)
        if isinstance(outcome, Settled) and outcome.at != NEVER:
            self.trace.append(Trace("step", step["id"], where.place, at, outcome.at, outcome.value))
        return outcome

    def _rescued(self, step: Step, failed: Failed, where: Where, routed: frozenset[str]) -> Outcome:
        match step.get("on_error", "fail"):
            case "go_on":
                return Settled(failed.at, "error", None)
            case list(steps):
                return self.body(steps, failed.at, where.naming(error=failed.error))
        return Settled(failed.at, "error", failed.error) if "error" in routed else failed

    def body(self, steps: list[Step], at: Moment, where: Where) -> Outcome:
        """The steps of a block, and the result of the last of them."""
        if not steps:
            return Settled(at, "success", None)
        outcome = passage(self, self.shape(steps), at, where).outcome
        if not isinstance(outcome, Settled) or outcome.at == NEVER:
            return outcome
        here = [
            trace for trace in self.trace if trace.what == "step" and trace.name == steps[-1]["id"] and trace.place == where.place and trace.ended <= outcome.at
        ]
        last = max(here, key=lambda trace: trace.ended, default=None)
        return outcome._replace(value=last.value if last is not None and last.began >= at else None)

    def _bounded(self, step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
        """With the timeout of a block; that of work bounds each of its tries."""
        mark = len(self.trace)
        outcome = self._each(step, at, where, routed)
        if "timeout" not in step or any(verb in step for verb in ACTIONS):
            return outcome
        end = after(at, step["timeout"])
        if near(outcome.at, end):
            self.doubts.append(f"{step['id']} ends at {end[0]} s, when its time is over")
        if outcome.at <= end:
            return outcome
        self.cut(mark, end)
        return Settled(end, "timeout", None) if "timeout" in routed else Failed(end, error("timeout", "timeout"))

    def _each(self, step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
        each = step.get("each")
        if each is None:
            return self._repeated(step, at, where, routed)
        items = self.evaluate(each["in"], at, where)
        if not isinstance(items, list):
            return Failed(at, error("fatal", "expression_failed", "no list"))
        if size := each.get("batch"):
            items = [items[start : start + size] for start in range(0, len(items), size)]
        if not items:
            return Settled(at, "success", [])
        mark, outcomes, free = len(self.trace), list[Outcome](), [at] * (each.get("concurrency") or len(items))
        for number, item in enumerate(items):
            begin = min(free)
            names = {each.get("as", "item"): item, each.get("index", "index"): number}
            one = NEVER_SETTLES if begin == NEVER else self._item(step, begin, where.within(f"{step['id']}[{number}]", **names), routed)
            free[free.index(begin)] = one.at
            outcomes.append(one)
        return self._gathered(step, mark, outcomes)

    def _item(self, step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
        try:
            return self._repeated(step, at, where, routed)
        except Missing as missing:
            return Failed(at, error("fatal", "expression_failed", str(missing)))

    def _gathered(self, step: Step, mark: int, outcomes: list[Outcome]) -> Outcome:
        """What the items of an `each` come to together."""
        how, enough = step["each"].get("on_error", "fail"), step["each"].get("enough", 0)
        good = sorted(one.at for one in outcomes if isinstance(one, Settled))
        end = good[enough - 1] if enough and len(good) >= enough else max(one.at for one in outcomes)
        stops = [one for one in outcomes if one.at < end or not enough if isinstance(one, Ended) or (isinstance(one, Failed) and how == "fail")]
        if stops:
            return self.first(mark, stops)
        if enough and len(good) < enough:
            return Failed(end, error("exhausted", "TooFew"))
        if enough and len(outcomes) > enough:
            self.cut(mark, end)
        kept = [one for one in outcomes if one.at <= end and (isinstance(one, Settled) or how == "null")]
        return Settled(end, "success", [one.value if isinstance(one, Settled) else None for one in kept])

    def _repeated(self, step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
        repeat = step.get("repeat")
        if repeat is None:
            return run(self, step, at, where, routed)
        for turn in range(TURNS_MAX):
            inner = where.within(f"{step['id']}~{turn}", index=turn)
            outcome = run(self, step, at, inner, routed)
            if not isinstance(outcome, Settled) or outcome.at == NEVER:
                return outcome
            self.trace.append(Trace("turn", step["id"], inner.place, at, outcome.at))
            seen = inner.naming(self=outcome.value)
            if not (self.holds(repeat["while"], outcome.at, seen) if "while" in repeat else not self.holds(repeat["until"], outcome.at, seen)):
                return outcome
            if turn + 1 == repeat.get("max"):
                match repeat.get("on_max", "fail"):
                    case "fail":
                        return Failed(outcome.at, error("exhausted", "TooManyTurns"))
                    case _:
                        return outcome._replace(port="max")
            at = after(outcome.at, repeat["delay"]) if repeat.get("delay") else outcome.at
        raise DefinitionStuck(f"{step['id']} repeats for ever")


NEVER_SETTLES = Settled(NEVER, "", None)


def _visible(trace: Trace, where: Where) -> bool:
    """From inside its own items; of turns, every one."""
    return all(frame in where.place for frame in trace.place if frame.endswith("]"))
