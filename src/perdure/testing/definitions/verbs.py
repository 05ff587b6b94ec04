"""What each verb does, for `sequential`: a function from the moment at which it begins to its outcome. What takes work leaves a trace of it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perdure.testing.definitions.facts import Json
from perdure.testing.definitions.outcomes import NEVER, Ended, Failed, Moment, Outcome, Settled, Trace, Where, after, error, near
from perdure.testing.definitions.passages import passage
from perdure.testing.definitions.shape import Step, listed
from perdure.testing.definitions.tools import Answer, Failure, behave

if TYPE_CHECKING:
    from perdure.testing.definitions.sequential import Reading

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
                return Failed(outcome.at, error("fatal", "Rejected"))
            case "cancel":
                return Ended(outcome.at, "cancelled", None)
    if isinstance(outcome, Settled) and verb in ("approve", "listen") and outcome.port == "timeout" and "timeout" not in routed:
        return Failed(outcome.at, error("timeout", "Timeout"))
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
            return Failed(now, error(kind, "Fatal" if not late and isinstance(answer, Failure) and answer.fatal else name))
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
