"""Asking for an approval: a child execution, whose verdict says by which port the step settles. What does not fit the form is asked for again."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from perdure.core import values
from perdure.core.ops import APPROVAL, Err, Op, Spawn
from perdure.core.paths import Path, idempotency_key
from perdure.core.promise import Settlement
from perdure.programs.code.approval import Request, Verdict
from perdure.programs.code.children import own_id
from perdure.programs.code.durations import seconds
from perdure.programs.code.results import Decision
from perdure.programs.graph.doing import Doing
from perdure.programs.graph.names import Done, Output, shape, unfit

MERGING = "004"
"""The dialect in which a decision is merged into the payload that the step was given."""

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance


def approve(run: "Instance", doing: Doing) -> None:
    """Ask, and settle as what was decided."""
    _ask(run, doing, doing.path, 1, "")


def _ask(run: "Instance", doing: Doing, path: Path, times: int, refused: str) -> None:
    def made() -> Op:
        raw = values.encode(((_request(run, doing, refused),), {}), "what is asked", path)
        return Spawn(APPROVAL, own_id(idempotency_key(run.execution.key, path)), 1, raw)

    def decided(settlement: Settlement) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Err):
            doing.then(how)
            return
        verdict: Verdict = values.decode(how.output.raw, Verdict, "the verdict of", path)
        decision = verdict.decision()
        again = (*doing.path, ("again", times + 1))
        if decision.approved and not decision.expired and (why := _unfit(run, doing, again, decision.value)):
            _ask(run, doing, again, times + 1, why)
            return
        told = merged(verdict.details, decision) if run.dialect == MERGING else _told(decision)
        doing.then(Done(_port(doing, verdict), Output.of(told, "the decision")))

    op = run.log.attempted(path, made)
    if isinstance(op, Err):
        doing.then(op)
    else:
        run.log.wait(path, decided)


def _told(decision: Decision[Any]) -> dict[str, Any]:
    """The result of the step: the record of the decision."""
    return {
        "approved": decision.approved,
        "form": decision.value,
        "by": decision.by,
        "comment": decision.comment,
        "expired": decision.expired,
        "at_s": decision.at_s,
        "means": decision.means,
    }


def merged(details: Any, decision: Decision[Any]) -> dict[str, Any]:
    """The result of the step where tokens carry a payload: that, with the record of the decision in it, in the words of that dialect."""
    payload = details if isinstance(details, dict) else {} if details is None else {"payload": details}
    return {
        **payload,
        **({} if decision.value is None else {"form": decision.value}),
        "decision": "approve" if decision.approved else "timeout" if decision.expired else "reject",
        "comments": decision.comment,
        "decided_by": decision.by or "system",
        "decided_at": datetime.fromtimestamp(decision.at_s, UTC).isoformat().replace("+00:00", "Z"),
        "means": decision.means,
    }


def _port(doing: Doing, verdict: Verdict) -> str:
    if verdict.expired and _config(doing).get("on_timeout", "fail") == "fail":
        return "timeout"
    return "approved" if verdict.approved else "rejected"


def _config(doing: Doing) -> dict[str, Any]:
    config = doing.node.config
    return config if isinstance(config, dict) else {"title": config}


def _unfit(run: "Instance", doing: Doing, again: Path, filled: Any) -> str:
    """Why what was filled in is of no use; empty, if it is. On replay, it was of none if it was asked for again."""
    form = shape(_config(doing).get("form"))
    if form is None:
        return ""
    if run.log.replaying:
        return "as before" if run.log.upcoming(again) is not None else ""
    return unfit(form, filled)


def _request(run: "Instance", doing: Doing, refused: str) -> Request:
    given = _config(doing)
    form = given.get("form")
    said: dict[str, Any] = run.evaluated({name: value for name, value in given.items() if name != "form"}, doing.names)

    def times_s(name: str) -> float | None:
        return None if said.get(name) is None else seconds(said[name], f"approve({name})")

    timeout_s = times_s("timeout")
    try:
        return Request(
            str(said.get("title") or doing.node.name or doing.node.id),
            said.get("details"),
            shape(form),
            tuple(map(str, said.get("assignees") or ())),
            int(said.get("quorum") or 1),
            times_s("remind"),
            times_s("escalate"),
            tuple(map(str, said.get("escalate_to") or ())),
            doing.node.timeout_s if timeout_s is None else timeout_s,
            said.get("on_timeout", "fail"),
            refused=refused,
            returns_details=run.dialect == MERGING,
        )
    except (TypeError, ValueError) as error:
        raise run.failure(f"{doing.node.id} asks for something that can't be asked: {error}") from error
