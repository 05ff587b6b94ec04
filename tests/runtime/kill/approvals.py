"""Approvals under kill -9: rivals who decide at once, a quorum, reminders, and time that decides; who decides is killed as well."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from perdure import Context, DecisionRefused, HasEnded, NotFound, Notice, step, workflow
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Key
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import doing, write
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

KINDS = ("rivals", "quorum", "reminded", "late")
REMINDERS = 2


@step(retry=PATIENT)
async def tell(notice: Notice) -> None:
    with doing([int(notice.title), notice.kind]):
        pass


@step(retry=PATIENT)
async def act(number: int, approved: bool) -> None:
    with doing([number, approved]):
        pass


def on_timeout(number: int) -> Literal["approve", "reject"]:
    """What time decides."""
    return "approve" if number % 8 == 3 else "reject"


@workflow
async def asks(ctx: Context, number: int) -> list[Any]:
    title = str(number)
    match KINDS[number % 4]:
        case "rivals":
            decision = await ctx.approve(title, assignees=["ada", "bob"])
        case "quorum":
            decision = await ctx.approve(title, assignees=["ada", "bob", "carl"], quorum=2)
        case "reminded":
            decision = await ctx.approve(title, form=int, assignees=["ada"], remind="50ms", notify=tell)
        case _:
            decision = await ctx.approve(title, assignees=["ada"], timeout="120ms", on_timeout=on_timeout(number))
    await ctx.step(act, number, bool(decision))
    return [bool(decision), decision.by, [vote.by for vote in decision.votes], decision.expired, decision.value]


def decide(client: Client, who: str, approves: bool, numbers: list[int]) -> None:
    """Give this answer to each, and write down what came of it; killed and begun again, give it again."""
    for number in numbers:
        for handle in asked(client, number):
            with suppress(NotFound):  # which says that it has not come to that yet
                try:
                    if KINDS[number % 4] == "reminded" and not (handle.status().status == "waiting_approval" and is_reminded(client, number)):
                        continue
                    answer: Any = client.approve if approves else client.reject
                    answer(str(number), by=who, timeout="30s", **({"value": number} if KINDS[number % 4] == "reminded" else {}))
                    write("won", str(number), about=who)
                except (HasEnded, DecisionRefused):
                    write("lost", str(number), about=who)
                    break


def asked(client: Client, number: int) -> Iterator[Any]:
    """An execution, again and again, until it has ended or `number` was won."""
    handle = client.get(str(number), asks)
    while handle.status().status not in ("completed", "failed"):
        yield handle
        time.sleep(0.01)


def is_reminded(client: Client, number: int) -> bool:
    """Whether people have been reminded often enough."""
    one = client.approval(str(number))
    reminders: int = sum(said.value["kind"] == "reminder" for said in client.get(one.key).stream(follow=False))
    return reminders >= REMINDERS


def drive(run: ScenarioRun) -> None:
    """Ask, and have operators decide."""
    with run.client() as client:
        run.begin()
        mine = list(range(run.size.executions))
        wanted: list[tuple[Any, ...]] = []
        some = run.numbers()
        for group in [mine[first : first + GROUP] for first in range(0, len(mine), GROUP)]:
            for number in group:
                next(some)
                client.start(asks.with_(id=str(number)), number)
            by = {kind: [number for number in group if KINDS[number % 4] == kind] for kind in KINDS}
            wanted = [("decide", "ada", True, by["rivals"] + by["quorum"] + by["reminded"]), ("decide", "bob", False, by["rivals"])]
            wanted += [("decide", "bob", True, by["quorum"]), ("decide", "carl", True, by["quorum"])]
            run.operators(*wanted, kills=2)


GROUP = 12


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """One of two won, and what it said was done; nobody voted twice; people were told as often as it says; time decided what nobody did."""
    with run.client() as client:
        results = {number: client.get(str(number), asks).result(1.0) for number in range(run.size.executions)}
    won = {(effect.key, effect.about) for effect in run.ledger.of("won")}
    acts = {effect.about[0]: effect.about[1] for effect in run.ledger.of("ended") if not isinstance(effect.about[1], str)}
    told = Counter((effect.about[0], effect.about[1], effect.key) for effect in run.ledger.of("ended") if isinstance(effect.about[1], str))
    winners = Counter[str]()
    for number, (approved, by, votes, expired, value) in results.items():
        assert acts[number] == approved and len(set(votes)) == len(votes)
        assert {who for key, who in won if key == str(number)} <= set(votes), f"{number}: who won did not vote: {votes}"
        match KINDS[number % 4]:
            case "rivals":
                assert votes == [by] and approved == (by == "ada")
                winners[by] += 1
            case "quorum":
                assert len(votes) == 2 and approved
            case "reminded":
                assert (approved, votes, value) == (True, ["ada"], number)
                kinds = Counter(kind for one, kind, _ in told if one == number)
                assert kinds["asked"] == 1 and kinds["reminder"] >= REMINDERS - 1, f"{number}: {kinds}"
            case _:
                assert (approved, votes, expired) == (on_timeout(number) == "approve", [], True)
    assert all(history.head.status == "completed" for history in histories.values())
    assert sum(key.workflow == APPROVAL_WORKFLOW for key in histories) == run.size.executions
    return f"of the rivals {winners['ada']} times the one and {winners['bob']} times the other was first"


SCENARIO = Scenario(lambda _: (asks,), drive, check, Size(16, 14), Size(240, 150), operators={"decide": decide})
