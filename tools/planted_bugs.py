"""Planted bugs: each guard of the rules, the engine and the store is taken away, one by one, and the ordinary suite must notice.

    python tools/planted_bugs.py [--only NAME]

A bug is a piece of source, replaced in a copy of the package; what must fail is a part of the suite, run on that copy.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIMIT_S = 300.0

SIMULATOR = ("-m", "perdure.testing.simulator", "--worlds", "200", "--seed")
FAULTS = (*SIMULATOR, "0")
SUSPEND = (*SIMULATOR, "0", "--always-suspend")
IN_FILES = ("-m", "perdure.testing.simulator", "--worlds", "40", "--seed", "0", "--store", "sqlite")
CALM = (*SIMULATOR, "0", "--no-faults")
DEFINITIONS = ("-m", "perdure.testing.simulator", "--definitions", "--worlds", "100", "--seed", "0")
CALM_SUSPEND = (*SIMULATOR, "0", "--no-faults", "--always-suspend")
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
CONFORMANCE = (*PYTEST, "tests/stores/test_memory.py")
CONFORMANCE_IN_FILES = (*PYTEST, "tests/stores/sqlite/test_store.py")
DIES = (*PYTEST, "tests/testing/test_simulator.py", "-k", "not_late or parked")
NOTHING_FAILS = (*PYTEST, "tests/testing/test_simulator.py", "-k", "where_nothing_fails")
WEATHER = (*PYTEST, "tests/testing/test_simulator.py", "-k", "weather")
BLACKOUT = (*PYTEST, "tests/testing/test_simulator.py", "-k", "wins_over_a_timeout")
DEPLOYS = (*PYTEST, "tests/testing/test_simulator.py", "-k", "newer_code or between_deploys")
BRACES = (*PYTEST, "tests/expr/test_braces.py")
AS_PREDICTED = (*PYTEST, "tests/testing/definitions/test_running.py")
PREDICTING = (*PYTEST, "tests/testing/definitions/test_sequential.py")
TICKS = (*PYTEST, "tests/programs/graph/test_ticks.py")
DEFINED = (*PYTEST, "tests/cli/test_definitions.py")
SEEDS = (*PYTEST, "tests/seeds/test_runs.py", "tests/seeds/test_run_000.py", "tests/seeds/test_run_001.py")
AGENTS = (*PYTEST, "tests/steps/agents")
EVERY_KIND = (*PYTEST, "tests/steps/test_every_kind.py")
SECRETS = (*PYTEST, "tests/programs/graph/test_secrets.py")
CANARIES = (*PYTEST, "tests/service/secrets/test_canaries.py")
QUEUES = (*PYTEST, "tests/testing/test_simulator.py", "-k", "no_limit_is_exceeded")
HTTP_NETWORK, HTTP_SENDING = "steps/http/network.py", "steps/http/sending.py"


def core(module: str) -> tuple[str, ...]:
    """The tests of a module of the core."""
    return (*PYTEST, f"tests/core/test_{module}.py")


def code(module: str) -> tuple[str, ...]:
    """The tests of a module of code programs."""
    return (*PYTEST, f"tests/programs/code/test_{module}.py")


def walks(noun: str) -> tuple[str, ...]:
    """The rows of a noun in the table of what definitions do."""
    return (*PYTEST, "tests/graph/semantics/test_semantics.py", "-k", f"row_says and {noun}:")


def formats(module: str) -> tuple[str, ...]:
    """The tests of a module of the definition format."""
    return (*PYTEST, f"tests/programs/format/test_{module}.py")


def runtime(module: str) -> tuple[str, ...]:
    """The tests of some of the runtime's claims."""
    return (*PYTEST, f"tests/runtime/test_{module}.py")


def lending(claim: str) -> tuple[str, ...]:
    """One of the claims about lending."""
    return (*PYTEST, "tests/runtime/test_lending.py", "-k", claim)


def definitions(module: str) -> tuple[str, ...]:
    """The tests of a part of the definition format."""
    return (*PYTEST, f"tests/programs/format/test_{module}.py")


def dialect(module: str) -> tuple[str, ...]:
    """The tests of a part of the dialects."""
    return (*PYTEST, f"tests/programs/format/dialects/test_{module}.py")


def service(module: str) -> tuple[str, ...]:
    """The tests of some of the claims about use."""
    return (*PYTEST, f"tests/service/test_{module}.py")


def expr(module: str) -> tuple[str, ...]:
    """The tests of a kind of expressions."""
    return (*PYTEST, f"tests/expr/test_{module}.py")


def bash(module: str, claim: str) -> tuple[str, ...]:
    """The tests of a claim about shell commands."""
    return (*PYTEST, f"tests/steps/bash/test_{module}.py", "-k", claim)


class Bug(NamedTuple):
    """A guard taken away: its name, what it protects, the file, the source that is replaced and by what, and what must fail then."""

    guard: str
    protects: str
    file: str
    old: str
    new: str
    catcher: tuple[str, ...]
    quick: bool = False


class Caught(NamedTuple):
    """What came of a bug: whether it was noticed, after how long, and the last words of what noticed it."""

    bug: Bug
    caught: bool
    seconds: float
    words: str


TABLES = "stores/sqlite/tables.py"
POSTGRES_TRANSACTIONS = "stores/postgres_transactions.py"
FAIRNESS = "stores/fairness.py"
ANSWERABLE = 'if promise is None or promise.attempt != message.attempt or promise.state not in ("waiting", "performing")'
WALK = "programs/graph/walk.py"
MEMORY, DECIDE, EXECUTION, ADVANCE, ENGINE = "stores/memory.py", "core/decide.py", "core/execution.py", "runtime/advance.py", "runtime/engine.py"
INSTANCE, REBUILD, GATES = "programs/code/instance.py", "core/rebuild.py", "programs/code/gates.py"

BUGS = [
    # the store
    Bug("version in commit", "of two decisions at one version, one counts", MEMORY, " or execution.head.version != commit.version:", ":", FAULTS),
    Bug("epoch in commit", "what was decided before a recovery is void", MEMORY, "if commit.epoch != self._epoch:", "if False:", FAULTS),
    Bug("epoch in claim", "who has not heard of a recovery gets nothing", MEMORY, "if claim.epoch != self._epoch or self", "if self", CONFORMANCE, quick=True),
    Bug(
        "dead claimer",
        "who is dead gets nothing",
        MEMORY,
        "if claim.epoch != self._epoch or self._is_dead(claim.holder, now_s):",
        "if claim.epoch != self._epoch:",
        CONFORMANCE,
        quick=True,
    ),
    Bug(
        "holder in claim",
        "one process at a time holds an execution",
        "stores/lines.py",
        "            elif is_dead(holder):\n",
        "            else:\n",
        CALM,
    ),
    Bug("key in the mail", "sending twice is sending once", MEMORY, "        if send.key not in box:\n", "        if True:\n", FAULTS),
    Bug(
        "sends of a stale commit",
        "a refused commit changes nothing",
        MEMORY,
        "            return Conflict(execution.head if execution else None)\n",
        "            self._carry_out(commit, self._reach(commit.key), now_s)\n            return Conflict(execution.head if execution else None)\n",
        CONFORMANCE,
        quick=True,
    ),
    Bug(
        "mail_at_s at release", "mail that was not dealt with wakes", MEMORY, "        if released or commit.creates:\n", "        if commit.creates:\n", FAULTS
    ),
    Bug(
        "rings",
        "whoever waits is rung when something becomes ready",
        MEMORY,
        "        if any(self._may_wake(change, now_s) for change in done):\n",
        "        if False:\n",
        CALM,
    ),
    # the store in a file
    Bug(
        "version in a commit to a file",
        "of two decisions at one version, one counts",
        TABLES,
        "            return row is not None and row[0] == commit.version\n",
        "            return row is not None\n",
        CONFORMANCE_IN_FILES,
    ),
    Bug(
        "epoch in a commit to a file",
        "what was decided before a recovery is void",
        TABLES,
        "        if commit.epoch != self.epoch:\n",
        "        if False:\n",
        IN_FILES,
    ),
    Bug(
        "the dead, in a file",
        "what the dead held goes on elsewhere",
        TABLES,
        "        found = ready(self._execute, claim, stands, now_s)\n",
        "        found = ready(self._execute, claim, stands._replace(dead=[]), now_s)\n",
        IN_FILES,
    ),
    Bug(
        "mail_at_s at release, in a file",
        "mail that was not dealt with wakes",
        TABLES,
        "    mail_at_s = iif(holder = ?, {_FIRST_DUE}, mail_at_s) WHERE",
        "    mail_at_s = iif(holder = ?, mail_at_s, mail_at_s) WHERE",
        IN_FILES,
    ),
    Bug(
        "rings of a file",
        "whoever waits is rung when something becomes ready",
        TABLES,
        "            if limited or (ready_at_s is not None and ready_at_s <= now_s):",
        "            if False:",
        IN_FILES,
    ),
    # the rules
    Bug(
        "attempt of an answer",
        "the answer to an earlier try does not count",
        DECIDE,
        f"{ANSWERABLE}:\n            return\n        if isinstance",
        'if promise is None or promise.state not in ("waiting", "performing"):\n            return\n        if isinstance',
        FAULTS,
    ),
    Bug(
        "state of a promise",
        "a try that has failed or was given up is not answered",
        DECIDE,
        f"{ANSWERABLE}:\n            return\n        if isinstance",
        "if promise is None or promise.attempt != message.attempt:\n            return\n        if isinstance",
        FAULTS,
    ),
    Bug(
        "settled promises",
        "repeated answers to what has settled do nothing",
        DECIDE,
        f"{ANSWERABLE}:\n            return\n        if isinstance",
        "promise = promise or next(iter(self.execution.open.values()), None)\n        if promise is None:\n            return\n        if isinstance",
        FAULTS,
    ),
    Bug("key of a message", "a message sent twice from outside comes once", "core/seen.py", "return bool(key) and key in self.keys", "return False", FAULTS),
    Bug(
        "watermark",
        "a message of an execution that arrives twice comes once",
        "core/seen.py",
        "return watermark is not None and watermark.knows(sent)",
        "return False",
        FAULTS,
    ),
    Bug(
        "interruptions apart from tries",
        "crashes do not eat the tries of an innocent step",
        EXECUTION,
        '        self._wait_again(event, "interrupted").interruptions += not event.given_back\n',
        '        promise = self._wait_again(event, "interrupted")\n        promise.failures += 1\n',
        FAULTS,
    ),
    Bug(
        "one interruption at a time",
        "what is interrupted is not taken for late",
        DECIDE,
        "            yield self._due(promise)  # this one alone",
        "            yield from self.tick(messages.Tick())  # this one alone",
        DIES,
    ),
    Bug(
        "all that is parked resumes",
        "of several steps parked at once, each goes on",
        "core/opened.py",
        "                self.timers.set(promise, at_s)\n",
        "                self.timers.set(promise, at_s)\n                break\n",
        DIES,
    ),
    Bug(
        "message before timeout",
        "a message that is there wins over a timeout",
        ENGINE,
        "        warm.undecided.append(Item(messages.Tick()))\n",
        "        warm.undecided.appendleft(Item(messages.Tick()))\n",
        BLACKOUT,
        quick=True,
    ),
    Bug(
        "order of the mailbox",
        "first in, first out, also for what was given back",
        "core/mailbox.py",
        "            insort(self._by_name.setdefault(letter.name, []), letter.number)\n",
        "            self._by_name.setdefault(letter.name, []).append(letter.number)\n",
        core("decide"),
        quick=True,
    ),
    Bug(
        "cancel wins",
        "what was cancelled ends as cancelled",
        DECIDE,
        "        elif cancelling is not None:\n            self._record",
        "        elif False:\n            self._record",
        core("decide"),
    ),
    Bug(
        "watchers are told",
        "who waits for a child hears of its end",
        "core/effects.py",
        "    yield from (_answer(execution.key, parent, event.outcome) for parent in execution.watchers)\n    for promise",
        "    for promise",
        CALM,
    ),
    Bug(
        "open turns are kept",
        "a turn with an open operation is not forgotten",
        DECIDE,
        "next((turn for turn in range(first, before) if turn_holds_open(self.execution, (*path, turn))), before)",
        "before",
        core("decide"),
    ),
    Bug(
        "dead groups of a compacted log",
        "what stays has a place in the schedule",
        "core/compact.py",
        "        elif alive:\n            return None\n",
        "        elif alive:\n            continue\n",
        core("compact"),
    ),
    Bug(
        "turns that a log resumed at",
        "a log can be compacted again",
        "core/compact.py",
        "    return (*path, event.turn) if isinstance(event, e.Turned) else path\n",
        "    return path\n",
        CALM,
    ),
    Bug(
        "completed messages",
        "what was completed is not given back",
        EXECUTION,
        "            if letter.number not in settlement.completed:\n",
        "            if True:\n",
        core("execution"),
    ),
    # pauses
    Bug(
        "nothing begins while paused",
        "messages wait while an execution is paused",
        DECIDE,
        "        if promise is None or self.execution.parked is not None:\n",
        "        if promise is None:\n",
        core("decide"),
        quick=True,
    ),
    Bug(
        "time while paused",
        "timers wait while an execution is paused",
        EXECUTION,
        "        if self.ended is not None or self.parked is not None or self.started is None:\n",
        "        if self.ended is not None or self.started is None:\n",
        core("decide"),
    ),
    Bug(
        "ready when resumed",
        "what could have gone on during a pause does so after it",
        DECIDE,
        "        if isinstance(event, e.Resumed):\n            self.ready.extend(self.execution.open)\n",
        "",
        FAULTS,
    ),
    Bug(
        "answers while paused",
        "what ends during a pause is remembered, and the program is told after it",
        EXECUTION,
        "            if kind in e.FED:\n                self.backlog.append(event)\n",
        "            pass\n",
        FAULTS,
    ),
    Bug(
        "replay of a pause",
        "a program that is replayed is told after a pause what it was told then",
        REBUILD,
        "    return [*execution.backlog, event] if type(event) is e.Resumed else (event,)\n",
        "    return (event,)\n",
        SUSPEND,
    ),
    Bug(
        "programs while paused",
        "a program is told nothing during a pause, live and replayed",
        REBUILD,
        "    if execution.parked is not None or type(event) not in e.FED:\n",
        "    if type(event) not in e.FED:\n",
        FAULTS,
    ),
    Bug(
        "tries interrupted while paused",
        "during a pause no further try begins",
        DECIDE,
        "        if begins_at_once and self.execution.parked is None and message.path",
        "        if begins_at_once and message.path",
        core("decide"),
    ),
    Bug(
        "cancel of what is paused",
        "what is paused unwinds when it is cancelled",
        DECIDE,
        '(execution.parked is not None and execution.parked.reason != "paused")',
        "execution.parked is not None",
        core("decide"),
        quick=True,
    ),
    Bug(
        "cancelled and paused",
        "what is paused while it unwinds goes on unwinding when it is cancelled again",
        DECIDE,
        "((execution.cancelling is not None or execution.undoing) and execution.parked is None)",
        "(execution.cancelling is not None or execution.undoing)",
        core("decide"),
    ),
    # programs
    Bug(
        "kept values",
        "replay returns what was kept, and makes nothing",
        INSTANCE,
        "            return self._matched_value\n",
        "            return make()\n",
        CALM_SUSPEND,
    ),
    Bug(
        "nothing left over",
        "an operation that the code no longer asks for is noticed",
        REBUILD,
        "    for asked in left if events else ():\n",
        "    for asked in ():\n",
        core("rebuild"),
    ),
    Bug(
        "unused messages go back",
        "a branch that loses keeps no message",
        INSTANCE,
        "        marks = scope.marks\n        for path in [",
        "        marks = type(scope.marks)()\n        for path in [",
        code("race"),
    ),
    # the engine
    Bug(
        "commit before act",
        "an intention is durable before its side effect",
        ADVANCE,
        "            await _write(engine, warm, decision, tuple(",
        "            act(engine, warm, decision.events)\n            await _write(engine, warm, decision, tuple(",
        FAULTS,
    ),
    Bug("put back", "messages of a decision that was not written are decided again", ADVANCE, "        warm.put_back(batch)\n", "        pass\n", WEATHER),
    Bug(
        "lost tries",
        "what a dead engine performed is found",
        ADVANCE,
        "    for promise in reversed(execution.opened.performing()):\n",
        "    for promise in ():\n",
        FAULTS,
    ),
    Bug(
        "version of what is warm",
        "a fold that is behind is read again",
        ENGINE,
        "        elif not warm.busy and warm.version != head.version:\n",
        "        elif False:\n",
        NOTHING_FAILS,
    ),
    Bug(
        "release with nothing in flight",
        "who performs a step holds its execution",
        "runtime/warm.py",
        " and not self.execution.opened.performed",
        "",
        CALM,
    ),
    Bug(
        "failed claims",
        "what a claim may have given is let go",
        ENGINE,
        "            await self._let_go()\n            await self._begin_anew()\n            await self._patience.wait()\n            return\n",
        "            return\n",
        WEATHER,
    ),
    Bug(
        "holder of what is read",
        "who no longer holds an execution does not go on with it",
        ADVANCE,
        "    if found is not None and found.head.holder != engine.holder:\n",
        "    if False:\n",
        (*PYTEST, "tests/runtime/test_zombie.py"),
    ),
    Bug(
        "abandoned while busy",
        "what was let go does not come back to life",
        ENGINE,
        "        if self._warm.get(warm.key) is warm:\n            self._settle_down(warm)\n",
        "        if True:\n            self._settle_down(warm)\n",
        runtime("letting_go"),
    ),
    Bug(
        "flights while stopping",
        "an engine that stops begins nothing more",
        "runtime/flights.py",
        "    if engine.stopping:\n",
        "    if False:\n",
        runtime("stopping"),
    ),
    Bug(
        "given back in good order",
        "what an orderly stop ends is no interruption",
        EXECUTION,
        '"interrupted").interruptions += not event.given_back\n',
        '"interrupted").interruptions += 1\n',
        runtime("letting_go"),
    ),
    Bug(
        "news in a commit",
        "who waits for an end is rung",
        ADVANCE,
        "        news=not NEWS.isdisjoint(map(type, decision.events)),\n",
        "        news=False,\n",
        runtime("pause"),
    ),
    Bug(
        "mail of a late claim",
        "mail is decided on once, though a claim that was answered late hands it over again",
        ENGINE,
        "            if (head.key, mail.number) in self.settled_mail:\n                continue\n",
        "",
        runtime("engine"),
    ),
    Bug(
        "claims of more",
        "an engine that could not claim all at once claims the rest without waiting",
        ENGINE,
        "        if len(claimed.executions) == CLAIM_MAX:  # there may be more, and nobody rings for them\n            self._ring.set()\n",
        "",
        runtime("engine"),
    ),
    Bug(
        "one look at a new file",
        "who opens a file while another makes its tables does not take it for another program's",
        "stores/sqlite/opening.py",
        '    with _transaction(connection, "DEFERRED"):  # All of it at one moment',
        "    if True:  # All of it at one moment",
        (*PYTEST, "tests/stores/sqlite/test_opening.py"),
    ),
    Bug(
        "next time of a claim",
        "what is due later is begun when it is due, and not at the next poll",
        ENGINE,
        "        self._alarm.at(claimed.next_at_s)\n",
        "",
        runtime("on_time"),
    ),
    Bug(
        "next time of a worker's claim",
        "work that is due later is begun when it is due, and not at the next poll",
        "runtime/claims.py",
        "            self._alarm.at(claimed.next_at_s)\n",
        "            pass\n",
        runtime("on_time"),
    ),
    Bug(
        "time of what was given back",
        "who gives an execution back remembers when it goes on",
        ENGINE,
        "            self._alarm.at(execution.wake_at())\n",
        "            pass\n",
        runtime("engine"),
    ),
    # undo, children, gates, forks
    Bug("order of undoing", "what was done last is undone first", "core/undo.py", "in reversed(wanted)", "in wanted", code("undo")),
    Bug("what is undone is not done", "after a retry it is done again", "core/memo.py", "if path not in undone and", "if", code("undo")),
    Bug(
        "what can't be undone",
        "it is reported and waits for somebody, never skipped",
        "core/tries.py",
        "        if promise.path[0] == UNDO:\n",
        "        if False:\n",
        code("undo"),
    ),
    Bug("depth", "a recursion ends", "programs/code/children.py", "execution.depth >= limits.DEPTH_MAX", "execution.depth >= 10**6", code("children")),
    Bug(
        "a transaction that was committed in time",
        "a cancel comes after it",
        "runtime/advance.py",
        "        unless=unless,\n",
        "",
        (*runtime("transact"), "-k", "overtaken"),
    ),
    Bug(
        "lanes of long ago",
        "they are forgotten",
        "stores/sqlite/queues.py",
        "        execute(FORGET_SERVED, (name, now_s - SERVED_S, 2 * sum(map(len, serving.lanes))))\n",
        "",
        (*PYTEST, "tests/stores/sqlite/test_lists.py", "-k", "lanes"),
    ),
    Bug(
        "the tables of another program",
        "none of them is taken for Perdure's",
        "stores/sqlite/opening.py",
        "if taken := sorted(named & _names(connection)):",
        "if taken := sorted(set[str]()):",
        (*PYTEST, "tests/stores/sqlite/test_opening.py", "-k", "room"),
    ),
    Bug(
        "what is evicted",
        "it leaves memory",
        "runtime/engine.py",
        "execution.ended is not None or warm.leaving)",
        "execution.ended is not None)",
        runtime("evict"),
    ),
    Bug(
        "a step that hangs",
        "an eviction gives it back",
        "runtime/flights.py",
        "                give_back(warm, warm.threads)\n",
        "",
        (*runtime("evict"), "-k", "hangs"),
    ),
    Bug(
        "a thread",
        "an eviction waits for it",
        "runtime/flights.py",
        "give_back(warm, warm.threads)",
        "give_back(warm)",
        (*runtime("evict"), "-k", "sync_step"),
    ),
    Bug(
        "what nobody waited for",
        "it goes on with its parent, begun or not",
        "core/decide.py",
        "execution.completed is not None or unwanted)",
        "execution.completed is not None)",
        (*code("children"), "-k", "cancelled_with_its"),
    ),
    Bug(
        "who was cancelled by somebody",
        "it stays so",
        "core/decide.py",
        "unwanted = execution.cancelling is not None and execution.cancelling.unwanted",
        "unwanted = True",
        (*code("children"), "-k", "somebody_cancelled"),
    ),
    Bug(
        "a retried parent",
        "its child goes on too",
        "core/decide.py",
        "return in_vain and execution.removed is None and execution.seen.wants_more(parent)",
        "return False",
        (*code("children"), "-k", "retried"),
    ),
    Bug(
        "a parent that only waits",
        "what has failed for it stays failed until it is retried",
        "core/seen.py",
        "return parent.life > self.lives.get((parent.key, parent.path), 0)",
        "return True",
        (*code("children"), "-k", "second_parent"),
    ),
    Bug("what becomes of a child", "it goes on if that is wanted", "core/effects.py", 'op.on_cancel != "detach" and', "", code("children")),
    Bug(
        "two failures in a row",
        "what was done before the first is not done again after the second",
        "core/memo.py",
        "(self.known | still_done(settled)).items()",
        "still_done(settled).items()",
        service("repeating"),
    ),
    Bug(
        "messages of what is done again",
        "they are heard again",
        EXECUTION,
        "            self._give_back(self.settled[path])\n",
        "            pass\n",
        service("repeating"),
    ),
    Bug(
        "presets",
        "a result that was given stands in for the work",
        "core/memo.py",
        "if path in self.given and _may_be_given(op):",
        "if False:",
        service("repeating"),
    ),
    Bug("a reopened execution at a gate", "it goes the way it went", "programs/code/gates.py", "OLDEST if passed_before else latest", "latest", code("gates")),
    Bug("old code at a gate", "it stops", "programs/code/gates.py", "    if way > latest:\n", "    if False:\n", code("gates")),
    # approvals
    Bug(
        "one vote each", "nobody decides twice", "programs/code/approval.py", "if any(one.by == vote.by for one in shown.votes):", "if False:", code("approval")
    ),
    Bug(
        "who may decide",
        "only assignees do",
        "programs/code/approval.py",
        "if shown.assignees and vote.by not in shown.assignees",
        "if False",
        code("approval"),
    ),
    Bug(
        "signed links",
        "nobody makes one without the secret",
        "service/approvals.py",
        "genuine = hmac.compare_digest(signature.encode(), _text(_signature(secret, said)).encode())",
        "genuine = True",
        service("approvals"),
    ),
    # queues
    Bug("limits of a queue", "no more is held than it allows", FAIRNESS, "min(most, limits.concurrency - held.total())", "most", CONFORMANCE),
    Bug("lanes in turns", "none starves", FAIRNESS, "max(stand.served.get(lane, -inf), first.at_s)", "first.at_s", CONFORMANCE),
    Bug("limits of a lane", "no more of one is held than is allowed of each", FAIRNESS, "behind >= limits.per_lane", "False", CONFORMANCE),
    Bug("rates", "they begin one after the other", FAIRNESS, "    if limits.interval_s <= 0:\n", "    if True:\n", CONFORMANCE),
    Bug(
        "the dead in a queue",
        "what they held takes no room",
        "stores/sqlite/queues.py",
        "held[lane] += count if holder in living else 0",
        "held[lane] += count",
        CONFORMANCE_IN_FILES,
    ),
    Bug("calls of a queue with limits", "nobody takes them but from there", "core/decision.py", "and not op.limited", "", runtime("queues")),
    Bug("time to begin", "what is too late does not begin", DECIDE, "self.now_s > message.expires_at_s", "False", service("pending")),
    Bug(
        "one of a singleton",
        "one goes on at a time",
        "service/operations.py",
        "if wanted.singleton and row and row[0].status not in ENDED:",
        "if False:",
        service("pending"),
    ),
    Bug(
        "what is replaced by a start",
        "who dies after starting the next has not left both to run",
        "service/operations.py",
        "answer, *_ = await access.store.commit([Post(sends=(send,), blobs=tuple(blobs.items())), *besides])\n",
        "answer, *_ = await access.store.commit([Post(sends=(send,), blobs=tuple(blobs.items()))])\n        besides and await access.store.commit(besides)\n",
        service("pending"),
    ),
    Bug(
        "what was requeued before",
        "a command that was killed, and is given again, finds what it has done",
        "service/dead_letters.py",
        "    if discarded and await",
        "    if False and await",
        service("dead_letters"),
    ),
    # transactions and steps at work
    Bug(
        "who may carry out a transaction",
        "who has lost the execution writes nothing",
        "stores/sqlite/transactions.py",
        "if not execute(HELD if guard.work is None else LEASED, held).fetchone():",
        "if False:",
        (*PYTEST, "tests/stores/sqlite/test_transactions.py"),
    ),
    Bug(
        "what is in hand of a try",
        "it is not taken for lost before that is decided on",
        ADVANCE,
        "        if (promise.path, promise.attempt) in told:\n",
        "        if False:\n",
        runtime("letting_go"),
    ),
    Bug(
        "Perdure's own tables",
        "a user's transaction can't change them",
        "stores/sqlite/transactions.py",
        "refused = action in FORBIDDEN or",
        "refused = False and",
        runtime("transact"),
    ),
    # transactions of callers, and those in Postgres
    Bug(
        "who may carry out a transaction in Postgres",
        "who has lost the execution or the work writes nothing",
        POSTGRES_TRANSACTIONS,
        "if held and not answered else",
        "if not answered else",
        (*PYTEST, "tests/stores/test_postgres_transactions.py", "-k", "any_more_writes_nothing"),
    ),
    Bug(
        "a commit whose answer was lost",
        "who tries again finds the answer, and writes nothing",
        POSTGRES_TRANSACTIONS,
        "if held and not answered else",
        "if held else",
        runtime("transact_lost"),
    ),
    Bug(
        "a commit that is late",
        "who tries again waits until it is known what became of it",
        POSTGRES_TRANSACTIONS,
        "    await fetch(LOCK, TRY_LOCK | crc32(execution + answer))\n",
        "",
        (*PYTEST, "tests/stores/test_postgres_transactions.py", "-k", "tries_again_waits"),
    ),
    Bug(
        "an execution whose step commits",
        "nobody claims it meanwhile",
        POSTGRES_TRANSACTIONS,
        "AND holder = $2 FOR KEY SHARE",
        "AND holder = $2",
        (*PYTEST, "tests/stores/test_postgres_transactions.py", "-k", "nobody_claims"),
    ),
    Bug(
        "Perdure's own tables in Postgres",
        "a user's transaction can't change them",
        POSTGRES_TRANSACTIONS,
        "if changed != changed_before:",
        "if False:",
        (*PYTEST, "tests/stores/test_postgres_transactions.py", "-k", "let_alone"),
    ),
    Bug(
        "the end of a step's transaction in Postgres",
        "it is Perdure's alone",
        POSTGRES_TRANSACTIONS,
        "if now != number or not connection.is_in_transaction():",
        "if False:",
        (*PYTEST, "tests/stores/test_postgres_transactions.py", "-k", "who_ends_it"),
    ),
    Bug(
        "conflicts of transactions",
        "what Postgres ends because of another is done again in the same try",
        POSTGRES_TRANSACTIONS,
        'frozenset(("40001", "40P01"))',
        "frozenset[str]()",
        runtime("transact_lost"),
    ),
    Bug(
        "a settled transaction",
        "the decision on it does not cancel the task that decides",
        "runtime/flights.py",
        "    _land(warm, info.path, info.attempt)\n",
        "",
        (*PYTEST, "tests/runtime/test_transact.py", "-k", "is_done_next"),
    ),
    Bug(
        "the caller's database in Postgres",
        "a start goes to the client's own",
        "stores/postgres_joined.py",
        "if tuple(found) != place:",
        "if False:",
        (*PYTEST, "tests/runtime/test_joining_drivers.py", "-k", "another_database and asyncpg"),
    ),
    Bug(
        "the caller's database",
        "a start goes to the client's own",
        "stores/sqlite/joined.py",
        "if not found or not _same(found, file):",
        "if False:",
        runtime("joining"),
    ),
    Bug(
        "the caller's transaction",
        "there has to be one",
        "stores/postgres_drivers.py",
        "if not connection.is_in_transaction():",
        "if False:",
        (*PYTEST, "tests/runtime/test_joining_drivers.py", "-k", "commits_by_itself and asyncpg"),
    ),
    Bug(
        "the caller's session",
        "what fails leaves it as it was",
        "stores/postgres_drivers.py",
        '        await fetch("ROLLBACK TO SAVEPOINT perdure")\n',
        "",
        (*PYTEST, "tests/runtime/test_joining_postgres.py", "-k", "what_the_session_has_set"),
    ),
    Bug(
        "notice of a caller's commit in Postgres",
        "who waits is told",
        "stores/postgres_joined.py",
        "for channel in here.rung:",
        "for channel in ():",
        (*PYTEST, "tests/runtime/test_joining_drivers.py", "-k", "others_begin and asyncpg"),
    ),
    Bug(
        "notice of a caller's commit",
        "who waits is told",
        "stores/sqlite/store.py",
        "if within.posted is not None:",
        "if False:",
        (*PYTEST, "tests/runtime/test_joining.py", "-k", "begins_soon"),
    ),
    Bug(
        "half of a start",
        "what fails in a caller's transaction leaves nothing in it",
        "stores/sqlite/joined.py",
        '            connection.execute("ROLLBACK TO perdure")\n',
        "            pass\n",
        runtime("joining"),
    ),
    Bug(
        "queues that are not known",
        "nothing is started in one by a caller's transaction",
        "service/joining.py",
        "            await _must_be_declared(within, queue)\n",
        "            pass\n",
        runtime("joining"),
    ),
    Bug("silence", "a try that says nothing has failed", "core/opened.py", "None if silent_s is None else at_s + silent_s", "None", runtime("at_work")),
    Bug("when to try again", "a step says it itself", "core/tries.py", "if failure.after_s is None else failure.after_s", "", runtime("at_work")),
    # attributes
    Bug(
        "attributes in the commit",
        "an execution is found by what its log says",
        ADVANCE,
        "attributes=None if attributes == warm.attributes else attributes,",
        "",
        (*PYTEST, "tests/service/test_attributes.py", "-k", "from_that_commit_on"),
    ),
    Bug(
        "attributes of a pending head",
        "until it begins, it is found by those of its start",
        ADVANCE,
        "is_known = execution.started is None or ",
        "is_known = ",
        (*PYTEST, "tests/service/test_attributes.py", "-k", "or_cancelled_before"),
    ),
    Bug(
        "attributes within a group",
        "replay sees each change of the event before",
        INSTANCE,
        "if remembered is None or remembered is not self._remembered:",
        "if True:",
        code("attributes"),
    ),
    Bug(
        "attributes of forgotten turns",
        "a compacted log has what they have changed",
        "core/compact.py",
        "        if lost:\n",
        "        if False:\n",
        (*PYTEST, "tests/core/test_compact.py", "-k", "attributes"),
    ),
    Bug(
        "attributes of an earlier life",
        "a retry changes them as before, whatever there is of them now",
        "programs/code/context.py",
        "asked = () if recalled else attributes.",
        "asked = attributes.",
        code("attributes"),
    ),
    Bug(
        "attributes of a fork",
        "state that is told is told anew in a fork",
        "core/memo.py",
        'op.role in ("state", "stream", "attributes")',
        'op.role in ("state", "stream")',
        (*PYTEST, "tests/service/test_attributes.py", "-k", "a_fork"),
    ),
    Bug(
        "attributes of a tombstone",
        "what was pruned is found as before",
        "core/tombstone.py",
        ", attributes=execution.attributes)",
        ")",
        (*PYTEST, "tests/service/test_attributes.py", "-k", "pruned"),
    ),
    Bug(
        "attributes of an import",
        "what was carried elsewhere is found there",
        "service/importing.py",
        "attributes=indexed(attributes),",
        "",
        (*PYTEST, "tests/service/test_attributes.py", "-k", "carried"),
    ),
    Bug(
        "number of attributes",
        "there are 32 at most",
        "core/attributes.py",
        '> limits.ATTRIBUTES_MAX:\n        raise BadValue("how many attributes", count',
        '> 1_000:\n        raise BadValue("how many attributes", count',
        core("attributes"),
    ),
    Bug(
        "number of conditions",
        "there are 32 at most",
        "core/where.py",
        "> limits.CONDITIONS_MAX",
        "> 1_000",
        (*PYTEST, "tests/service/test_attributes.py", "-k", "makes_no_sense"),
    ),
    Bug(
        "kinds of attributes",
        "a number is compared with numbers alone",
        "core/where.py",
        "lowest, highest = form[:1], bytes((form[0] + 1,))",
        "lowest, highest = ALL",
        core("where"),
    ),
    Bug(
        "rest of a number",
        "large whole numbers are compared exactly",
        "core/attributes.py",
        "above = int(value) - int(below)",
        "above = 0 * int(below)",
        core("attributes"),
        quick=True,
    ),
    Bug(
        "attributes replaced in a file",
        "a commit says all that there are",
        "stores/sqlite/attributes.py",
        "    execute(FORGET, (number,))\n",
        "",
        CONFORMANCE_IN_FILES,
    ),
    Bug(
        "attributes in the verdict",
        "an index that says something else than the log is damage",
        "service/verify.py",
        "if there.get(name) != by_log.get(name):",
        "if False:",
        service("verify"),
    ),
    # deploys
    Bug(
        "way that is remembered",
        "who went one way goes it again, whatever newer code would do",
        GATES,
        "    way: int = instance.decode(kept, int, path)\n",
        "    way: int = instance.decode(kept, int, path) and latest\n",
        DEPLOYS,
    ),
    Bug(
        "before there was a gate",
        "who has passed a place before there was a gate went the oldest way",
        GATES,
        "    if instance.replaying and not instance.is_next(path):\n        return OLDEST\n",
        "    if instance.replaying and not instance.is_next(path):\n        return latest\n",
        DEPLOYS,
    ),
    Bug(
        "what is removed is remembered",
        "what was removed from the code is taken from the log",
        INSTANCE,
        "        self._remembered.popleft()\n        if not settles_later(event.op):\n",
        "        if not settles_later(event.op):\n",
        DEPLOYS,
    ),
    Bug(
        "what is removed and open",
        "what was removed while it was open is waited for as it was",
        INSTANCE,
        "        self.steps[path] = nothing\n",
        "        return None\n",
        DEPLOYS,
    ),
    Bug(
        "versions of code",
        "older code gets no executions of newer versions",
        "programs/code/declare.py",
        "for version in (0, self.version, *self.replays))",
        "for version in (0, self.version, self.version + 1, *self.replays))",
        DEPLOYS,
    ),
    Bug(
        "versions that are replayed",
        "newer code goes on with the versions that it replays",
        "programs/code/declare.py",
        "for version in (0, self.version, *self.replays))",
        "for version in (0, self.version))",
        DEPLOYS,
    ),
    # queues, in worlds where all die
    Bug(
        "places that are taken",
        "a limit counts what is held",
        FAIRNESS,
        "min(most, limits.concurrency - held.total())",
        "min(most, limits.concurrency)",
        QUEUES,
    ),
    Bug(
        "places of the dead",
        "what the dead held takes no place",
        "stores/memory_queues.py",
        "if name and one.head.queue == name and self._lives(one.head.holder))",
        "if name and one.head.queue == name and one.head.holder is not None)",
        QUEUES,
    ),
    Bug(
        "work of the dead",
        "what dead workers had takes no place",
        "stores/memory_queues.py",
        "for mail in box.values() if self._lives(self._leases.get(mail.number)))",
        "for mail in box.values() if mail.number in self._leases)",
        QUEUES,
    ),
    Bug(
        "places of a key",
        "of each key no more is held than its limit",
        FAIRNESS,
        "behind >= limits.per_lane",
        "False",
        QUEUES,
    ),
    Bug(
        "beginnings at a rate",
        "no more begin than a rate allows",
        FAIRNESS,
        "        fresh -= one.fresh\n",
        "        fresh -= 0\n",
        QUEUES,
    ),
    Bug(
        "leases on work",
        "work is done by one worker at a time",
        MEMORY,
        "            self._leases[mail.number] = holder\n",
        "",
        QUEUES,
    ),
    Bug(
        "threads of what has ended",
        "what has ended before its thread is let go when that has ended too",
        ENGINE,
        "if execution is not None and (execution.ended is not None or warm.leaving) and not warm.held and not warm.undecided:",
        "if execution is not None and (execution.ended is not None or (warm.leaving and not warm.held)) and not warm.undecided:",
        runtime("queues"),
    ),
    Bug(
        "given back from outside memory",
        "what is given back is no interruption, also where the execution has left memory",
        ADVANCE,
        "isinstance(item.message, messages.Settle | messages.Lost)}",
        "isinstance(item.message, messages.Settle)}",
        runtime("letting_go"),
    ),
    Bug(
        "claims while a release is looked at",
        "what was claimed again after its release goes on",
        ADVANCE,
        "    while taken != warm.taken:\n",
        "    while taken is None:\n",
        runtime("letting_go"),
    ),
    Bug(
        "another name of a worker",
        "work that was let go is not begun",
        "runtime/claims.py",
        "        if name != self.membership.name:  # it came",
        "        if False:  # it came",
        runtime("worker"),
    ),
    Bug(
        "another name at once",
        "work that comes while its worker lets go is not begun",
        "runtime/claims.py",
        "        self.membership.rename()  # at once, so that what is still on its way to the old name is not begun\n"
        "        await self.membership.let_go(before)\n",
        "        await self.membership.let_go(before)\n        self.membership.rename()\n",
        runtime("worker"),
    ),
    Bug(
        "leases that a worker may have lost",
        "work that comes after the lease is not begun",
        "runtime/claims.py",
        "        if claimed.work and not self.membership.unbroken(asked_s):",
        "        if False:",
        runtime("worker"),
    ),
    # definitions, compiled and drawn
    Bug(
        "cycles entered beside their head",
        "a cycle has one way in",
        "programs/format/cycles.py",
        "                if not clock[top] <= clock[inner] <= last[top]:\n",
        "                if False:\n",
        formats("cycles"),
    ),
    Bug(
        "bounds of cycles",
        "each cycle has a bound, or says that it has none",
        "programs/format/flow.py",
        "        if head not in bounded and draft.dialect not in BOUNDED_BY_HOPS and ",
        "        if False and ",
        formats("compile_findings"),
    ),
    Bug(
        "endless beside bounded",
        "a cycle of which one way back is endless has no bound",
        "programs/format/regions.py",
        "if head not in endless}",
        "}",
        formats("compile"),
    ),
    Bug(
        "blocks that wait for blocks",
        "what is in a block is read once the block is done",
        "programs/format/order.py",
        "            draft.edge(source, target, ALWAYS)\n    elif source > target:",
        "            draft.edge(read, reader, ALWAYS)\n    elif source > target:",
        formats("compile_random"),
    ),
    Bug(
        "needs beside reads",
        "what is needed is waited for until it has succeeded, though it is read too",
        "programs/format/order.py",
        "        if not draft.joins(source, target):\n            draft.edge(source, target, ALWAYS)\n",
        "        draft.edge(source, target, ALWAYS)\n",
        formats("compile"),
    ),
    Bug(
        "order of what is read",
        "equal definitions have equal IRs",
        "programs/format/reads.py",
        "iter(sorted(found, key=lambda one: (one.pointer, one.root, one.name, str(one.path))) if len(found) > 1 else found)",
        "iter(found)",
        formats("compile"),
    ),
    Bug(
        "edges of what is never reached",
        "a join waits for nothing that never runs",
        "programs/format/flow.py",
        "        draft.isolate(lost)\n",
        "        pass\n",
        formats("compile"),
    ),
    Bug(
        "entries in the dialect 003",
        "in 003 only the first step begins",
        "programs/format/flow.py",
        '    if draft.dialect == "003":\n        return members[:1]\n',
        "",
        formats("compile"),
    ),
    Bug(
        "words in flowcharts",
        "what a step is called is never taken for Mermaid",
        "programs/graph/draw_mermaid.py",
        'one if one in PLAIN else f"#{ord(one)};"',
        "one",
        (*PYTEST, "tests/programs/graph/test_draw.py"),
    ),
    Bug(
        "room for labels",
        "nothing in a picture stands on top of anything",
        "programs/graph/layout.py",
        "        while pools and pools[-1][0] > mean:\n",
        "        while False:\n",
        (*PYTEST, "tests/programs/graph/test_draw.py"),
    ),
    # the {{ }} of seed 003, and its documents
    Bug(
        "depth of braces",
        "no expression nests so deep that reading it breaks",
        "expr/braces_grammar.py",
        "        if self.grammar.depth > DEPTH_MAX:\n",
        "        if False:\n",
        BRACES,
    ),
    Bug(
        "secrets in braces",
        "nothing is made of a secret, it is handed on",
        "expr/braces.py",
        "            if not passed_on or len(parts) != 1:\n",
        "            if False:\n",
        BRACES,
    ),
    Bug(
        "cost of braces",
        "an expression ends soon",
        "expr/braces_run.py",
        "        if self.steps > STEPS_MAX:\n",
        "        if self.steps > 60 * STEPS_MAX:\n",
        BRACES,
    ),
    Bug("conditions in conditions", "conditions on items nest only so deep", "expr/braces_items.py", "if run.nested >= NESTED_MAX:", "if False:", BRACES),
    Bug("null in filters", "what has no price is not cheap", "expr/braces_meaning.py", "None not in (one, two) and ", "", BRACES),
    Bug("numerals", "text is a number as in JavaScript, not as in Python", "expr/loose.py", "not _NUMERAL.issuperset(numeral) or ", "", BRACES),
    Bug(
        "braces in values",
        "what stands in a value is never read as an expression",
        "expr/braces.py",
        '        return "".join(_shown(run, made))\n',
        '        joined = "".join(_shown(run, made))\n        return text(joined).evaluate(run.scope) if "{{" in joined else joined\n',
        BRACES,
    ),
    Bug(
        "loops without a body",
        "a loop without a body takes all its batches",
        "programs/format/dialects/next003.py",
        '        if said == "loop" and not found.get("loop"):\n',
        "        if False:\n",
        formats("seed003"),
    ),
    Bug(
        "failures in a loop",
        "a loop that goes on when one fails does",
        "programs/format/dialects/seed003.py",
        "    wired(steps)\n",
        "",
        formats("seed003"),
    ),
    Bug(
        "done of a loop",
        "what comes after a loop comes once",
        "programs/format/ports.py",
        'return "done" if verb == "loop" else AFTER',
        "return AFTER",
        formats("seed003"),
    ),
    Bug(
        "loops begun again",
        "a loop that is reached after it was done has items again",
        "programs/graph/verbs.py",
        "isinstance(before, Tick) and not before.done",
        "isinstance(before, Tick)",
        (*PYTEST, "tests/programs/graph/test_loops.py"),
    ),
    Bug(
        "null in loops",
        "a loop over nothing is done at once",
        "programs/graph/ticks.py",
        "if items is not None and not isinstance(items, list):",
        "if not isinstance(items, list):",
        TICKS,
    ),
    # definitions
    Bug(
        "aliases of what holds them",
        "an alias stands for what is whole",
        "programs/format/yaml_text.py",
        "            self._anchors[event.anchor] = None\n        value",
        "            self._anchors[event.anchor] = ({},)\n        value",
        definitions("parse"),
    ),
    Bug(
        "tags build nothing",
        "a definition is plain data",
        "programs/format/yaml_text.py",
        "        if tag is not None and tag not in _TEXT_TAGS:\n            raise _tagged(tag, spot)\n",
        "",
        definitions("parse"),
    ),
    Bug(
        "names stand once in YAML",
        "of two values for one name none is dropped unseen",
        "programs/format/yaml_text.py",
        "            self.repeated.append(repeated_name(frame.pointer, name, spot, frame.lines[name]))\n",
        "            pass\n",
        definitions("parse"),
    ),
    Bug(
        "names stand once in JSON",
        "of two values for one name none is dropped unseen",
        "programs/format/parse.py",
        "repeated = repeated or len(found) < len(items)",
        "repeated = False",
        definitions("parse"),
    ),
    Bug(
        "depth of data",
        "what is nested too deep is refused",
        "programs/format/parse.py",
        "            if depth > DEPTH_MAX:\n",
        "            if False:\n",
        definitions("parse"),
    ),
    Bug(
        "half characters",
        "what has no encoding is refused when read",
        "programs/format/parse.py",
        'return "" if value.isascii() or _encodes(value) else',
        'return "" if True else',
        definitions("parse"),
    ),
    Bug(
        "ui is not hashed",
        "what only editors show changes no hash",
        "programs/format/canonical.py",
        'shown = {name: value for name, value in step.items() if name != "ui"}',
        "shown = dict(step)",
        definitions("canonical"),
    ),
    Bug(
        "defaults are removed",
        "a default given or not is one hash",
        "programs/format/canonical.py",
        "if type(item) is not type(field.default) or item != field.default:",
        "if True:",
        definitions("canonical"),
    ),
    Bug(
        "names sorted as UTF-16",
        "canonical JSON is that of RFC 8785",
        "programs/format/canonical.py",
        'sorted(value, key=lambda name: name.encode("utf-16-be"))',
        "sorted(value)",
        definitions("canonical"),
    ),
    Bug(
        "ids that are filled in",
        "no id is given twice",
        "programs/format/canonical.py",
        "in taken:\n                counts[verb] += 1",
        "in ():\n                counts[verb] += 1",
        definitions("canonical"),
    ),
    Bug(
        "secrets where they may stand",
        "a secret is kept nowhere",
        "programs/format/references.py",
        "if not (isinstance(expression.shape, Value | Text) and expression.shape.secrets):",
        "if False:",
        definitions("check"),
    ),
    Bug(
        "no references in bash",
        "no value becomes a part of a command",
        "programs/format/references.py",
        '("@{" in command or (is_template(command) and " " not in command))',
        "False",
        definitions("check"),
    ),
    Bug(
        "bounds of repeat",
        "a repeat has a bound",
        "programs/format/fit.py",
        'if "max" not in repeat and repeat.get("endless") is not True:',
        "if False:",
        definitions("check"),
    ),
    Bug("one verb", "a step does exactly one thing", "programs/format/fit.py", "        if len(verbs) > 1:\n", "        if False:\n", definitions("check")),
    Bug(
        "edits are checked",
        "a change that leaves something invalid is refused",
        "programs/format/edits.py",
        "    findings = checked(document)\n",
        "    findings = []\n",
        definitions("edits"),
    ),
    Bug(
        "copies in patches are bounded",
        "a patch can't grow without bound",
        "programs/format/edits.py",
        'if operation.get("op") == "copy" and _size(found) > VALUES_MAX // 2:',
        "if False:",
        definitions("edits"),
    ),
    Bug(
        "a change changes nothing given",
        "what is refused has changed nothing",
        "programs/format/edits.py",
        "    found = plain(definition)\n",
        "    found = definition\n",
        definitions("edits"),
    ),
    Bug(
        "comments between lines",
        "no comment is lost",
        "programs/format/notes.py",
        "        found.before.setdefault(following.pointer, []).append(comment.text)\n",
        "        pass\n",
        definitions("fmt"),
    ),
    # expressions
    Bug(
        "errors of CEL",
        "an error is never true",
        "expr/cel.py",
        "            failed = found.type() == self._error\n            value = str(value) if failed else found.plain_value()\n",
        "            failed, value = False, True\n",
        expr("cel"),
    ),
    Bug("secrets in CEL", "no condition looks at a secret", "expr/cel.py", "        _refuse(text, found)\n", "", expr("cel")),
    Bug("growth in CEL", "nothing grows without end", "expr/cel_cost.py", "        if names.growth > GROWTH_MAX:", "        if False:", expr("cel")),
    Bug("numbers and truth", "true is not 1", "expr/values.py", "_NUMBERS = (int, float)", "_NUMBERS = (int, float, bool)", expr("condition")),
    Bug(
        "missing outside of an each",
        "there is no item there in any dialect",
        "expr/template.py",
        'if missing == "error" or (missing == "null" and isinstance(absent, Nowhere)):',
        'if missing == "error":',
        expr("template"),
    ),
    Bug(
        "forged secrets",
        "data that looks like a secret is no secret",
        "expr/template.py",
        "part(scope) if secret else text(part(scope))",
        "part(scope)",
        expr("template"),
    ),
    Bug(
        "kinds in rows",
        "what can't be compared is an error, not false",
        "expr/condition.py",
        '                if unfit or missing != "false":\n',
        '                if missing != "false":\n',
        expr("condition"),
    ),
    Bug("schemas elsewhere", "nothing is fetched", "expr/schema.py", "retriever=_refuse, ", "", expr("schema")),
    Bug("patterns of schemas", "no pattern takes for ever", "expr/schema.py", ", pattern_options=library.RegexOptions()", "", expr("schema")),
    Bug("results of a path", "there is an end of results", "expr/jsonpath.py", "        if len(nodes) > NODES_MAX:", "        if False:", expr("jsonpath")),
    Bug("steps of a path", "there is an end of steps", "expr/jsonpath.py", "        if self.left[0] < 0:", "        if False:", expr("jsonpath")),
    Bug(
        "memory of Python conditions",
        "it has 50 MB",
        "steps/python_conditions.py",
        '        "max_memory": MEMORY_BYTES_MAX,\n',
        "",
        (*PYTEST, "tests/steps/test_python_conditions.py", "-k", "memory"),
    ),
    # the sandbox
    Bug(
        "sandbox: the cancelled",
        "who is cancelled leaves no sandbox behind",
        "steps/sandbox/pool.py",
        "        except BaseException:\n            self._put(process, False)\n            raise\n",
        "        except Exception:\n            self._put(process, False)\n            raise\n",
        (*PYTEST, "tests/steps/sandbox/test_pool.py", "-k", "cancelled"),
    ),
    Bug(
        "sandbox: files",
        "nothing can be opened in a sandbox",
        "steps/sandbox/confined.py",
        '"RLIMIT_NOFILE", ',
        "",
        (*PYTEST, "tests/steps/sandbox/test_pool.py", "-k", "given_up"),
    ),
    Bug(
        "sandbox: environment",
        "a sandbox sees no environment",
        "steps/sandbox/process.py",
        "stdin=theirs.fileno(), env={}",
        "stdin=theirs.fileno()",
        (*PYTEST, "tests/steps/sandbox/test_pool.py", "-k", "given_up"),
    ),
    Bug(
        "sandbox: orphans",
        "a sandbox that nobody kills ends by itself",
        "steps/sandbox/confined.py",
        "    signal.setitimer(signal.ITIMER_REAL, wall_s + ORPHAN_S)\n",
        "",
        (*PYTEST, "tests/steps/sandbox/test_pool.py", "-k", "dies_with_its_group"),
    ),
    Bug(
        "sandbox: results",
        "what a source can't keep in JSON is an error",
        "steps/sandbox/host.js",
        "const made = stringify(value, plain);",
        "const made = stringify(value);",
        (*PYTEST, "tests/steps/test_ts_escapes.py", "-k", "NaN or Map or BigInt or function"),
    ),
    Bug(
        "sandbox: secrets that a cut parts",
        "no piece of a secret is kept of what is printed",
        "steps/sandbox/telling.js",
        "PRINTED_MAX = 65536 + 4096, SAID_MAX = 4000 + 4096",
        "PRINTED_MAX = 65536, SAID_MAX = 4000",
        (*PYTEST, "tests/steps/test_ts.py", "-k", "secret_that_it_prints"),
    ),
    Bug(
        "sandbox: memory of TypeScript",
        "a source has so much memory and no more",
        "steps/sandbox/js_job.py",
        "        self._context.set_memory_limit(job.memory_bytes)\n",
        "",
        (*PYTEST, "tests/steps/test_ts_escapes.py", "-k", "little"),
    ),
    Bug(
        "imports in Python conditions",
        "they import nothing",
        "expr/python.py",
        "        if isinstance(node, ast.Import | ast.ImportFrom):",
        "        if False:",
        (*PYTEST, "tests/steps/test_python_conditions.py", "-k", "imports"),
    ),
    # dialects
    Bug(
        "items outside of forEach",
        "an item where there is none is told when the document is read",
        "programs/format/dialects/references000.py",
        '            if name != "input" and not each:\n',
        "            if False:\n",
        dialect("seed000"),
    ),
    Bug(
        "roots of seed 000 are whole words",
        "@inputData is a step",
        "programs/format/dialects/references000.py",
        "        if name in _ROOTS:\n",
        '        if name in _ROOTS or name.startswith("input"):\n',
        dialect("seed000"),
    ),
    Bug(
        "ids that are roots",
        "a step called as a root is renamed, and its references follow",
        "programs/format/dialects/reading.py",
        "        elif original in ROOTS:\n",
        "        elif False:\n",
        dialect("seed000"),
    ),
    Bug(
        "one operator per condition",
        "a second operator of seed 000 is refused",
        "programs/format/dialects/seed000.py",
        '        if len(found) > 1:\n            self._notes.error("one_operator"',
        '        if len(found) > 9:\n            self._notes.error("one_operator"',
        dialect("seed000"),
    ),
    Bug(
        "bail only if its step ran",
        "a skipped step does not end the execution",
        "programs/format/dialects/seed000.py",
        '        conditions = [read["when"]] if "when" in read else []\n',
        "        conditions: list[Any] = []\n",
        (*PYTEST, "tests/seeds/test_definitions_000.py"),
    ),
    Bug(
        "marks before a reference",
        "an @ before a reference stays text",
        "programs/format/dialects/spelling.py",
        '(r"@(?=[@{]|\\Z)" if is_before else r"@(?=[@{])")',
        '(r"@(?=[@{])" if is_before else r"@(?=[@{])")',
        dialect("seed000"),
    ),
    Bug(
        "functions are no subworkflows",
        "a foreign document calls no function of Python",
        "programs/format/dialects/steps001.py",
        'if not name or called.startswith("py:") or not re.fullmatch(model.CALL_PATTERN, called):',
        "if not name:",
        (*PYTEST, "tests/seeds/test_definitions_001.py"),
    ),
    Bug(
        "secrets of triggers",
        "a secret in a foreign document is not kept",
        "programs/format/dialects/triggers001.py",
        '"secret": f"@secrets.{name}"}',
        '"secret": config.text("secret")}',
        dialect("seed001"),
    ),
    Bug(
        "names with several writers",
        "what several steps store is a variable",
        "programs/format/dialects/variables001.py",
        "bool(writers) and (len(writers) > 1 or",
        "bool(writers) and (False or",
        dialect("seed001"),
    ),
    Bug(
        "one time less back",
        "a loop back to another node is taken one time less than the node may run",
        "programs/format/dialects/routes004.py",
        '"max": most - 1',
        '"max": most',
        dialect("seed004"),
    ),
    Bug(
        "no end of the tries goes on",
        "what has used up its tries does not go on as if it had succeeded",
        "programs/format/dialects/routes004.py",
        "        if not rules or not late:\n",
        "        if not rules:\n",
        dialect("seed004"),
    ),
    Bug(
        "variables of macros",
        "what a macro binds keeps its name",
        "programs/format/dialects/cel_tree.py",
        "        return part if chain[0] in bound else rename(*chain)\n",
        "        return rename(*chain)\n",
        dialect("cel_conditions"),
    ),
    Bug(
        "numbers of seed 004 are doubles",
        "integers are not divided as integers there",
        "programs/format/dialects/cel_conditions.py",
        "            return Binary(part.operator, _double(part.left), _double(part.right))\n        return None",
        "            return None\n        return None",
        dialect("cel_conditions"),
    ),
    Bug(
        "once per token",
        "what comes after a node that runs once per token does so too",
        "programs/format/dialects/graph004.py",
        "            again.extend(fresh)\n",
        "",
        dialect("seed004"),
    ),
    Bug(
        "nodes that nobody leads to",
        "a node that depends on others is not one to begin with",
        "programs/format/dialects/nodes004.py",
        "        if called in self._graph.unreached:\n",
        "        if False:\n",
        dialect("seed004"),
    ),
    Bug(
        "no way to an end",
        "a workflow that never ends has to say so",
        "programs/format/dialects/seed004.py",
        "    if graph.nodes and not forever and",
        "    if False and",
        (*PYTEST, "tests/seeds/test_definitions_004.py"),
    ),
    Bug(
        "what is written is read again",
        "a definition is never given out as a document that says something else",
        "programs/format/dialects/writing.py",
        "    if different:\n",
        "    if False:\n",
        dialect("seed000"),
    ),
    # the command line of definitions
    Bug(
        "input before a start",
        "an input that a definition does not take starts nothing",
        "programs/graph/inputs.py",
        "(why := unfit(about, given[name]))",
        "(why := '')",
        (*DEFINED, "-k", "input_unfit"),
    ),
    Bug(
        "unknown input",
        "a misspelt input is told of, not passed over",
        "cli/documents.py",
        "for one in given if one not in ir.input]",
        "for one in ()]",
        (*DEFINED, "-k", "input_unknown"),
    ),
    Bug(
        "what is needed",
        "what a definition lacks is told before it is started",
        "cli/documents.py",
        "    if lacking:\n",
        "    if False:\n",
        (*DEFINED, "-k", "lacks"),
    ),
    Bug(
        "what is hidden", "what is not public is no tool", "cli/targets.py", 'and not name.startswith("_")', "", (*DEFINED, "-k", "hidden_tools or worker_runs")
    ),
    Bug(
        "what is imported",
        "a function of another module is no tool",
        "cli/targets.py",
        " and function.__module__ == module.__name__",
        "",
        (*DEFINED, "-k", "hidden_tools"),
    ),
    Bug(
        "one approval",
        "of several approvals the one that is meant is named",
        "cli/approving.py",
        'place=given["place"], tenant=settings.tenant)\n        except',
        "place='first', tenant=settings.tenant)\n        except",
        (*DEFINED, "-k", "decision_several"),
    ),
    Bug(
        "base of a patch",
        "what somebody else has patched is not patched unseen",
        "cli/graphing.py",
        "    if base and not",
        "    if False and not",
        (*DEFINED, "-k", "patch_base"),
    ),
    Bug(
        "written in one go",
        "a file is changed whole or stays",
        "cli/defining.py",
        "Path(name).unlink(missing_ok=True)",
        "pass",
        (*DEFINED, "-k", "cannot_be_written"),
    ),
    Bug(
        "what was taken", "a picture shows the ways that were taken", "programs/graph/standing.py", "in one.to and", "and", (*DEFINED, "-k", "graph_execution")
    ),
    Bug(
        "folded notes",
        "what a walk notes beside a step is shown with the step",
        "programs/graph/seen.py",
        "elif not _is_note(path):",
        "elif True:",
        (*DEFINED, "-k", "show_definition"),
    ),
    Bug(
        "a name that is an option",
        "an input may be called like an option",
        "cli/documents.py",
        'if {*OPTIONS, "db"} & found.keys() else',
        "if False else",
        (*DEFINED, "-k", "run_definition or comes_from_standard_input"),
    ),
    Bug(
        "answerable before it ends",
        "a run that ends where it asks leaves an approval that can be answered",
        "cli/running.py",
        'if status.status == "waiting_approval" and await _can_be_answered(client, key):',
        'if status.status == "waiting_approval":',
        (*DEFINED, "-k", "is_answerable"),
    ),
    Bug(
        "time of a stand-in",
        "the timeout of a step does not bound the steps that stand in for it",
        "programs/graph/routing.py",
        'Body(self.run, stand_in, "do", is_timed=False)',
        'Body(self.run, stand_in, "do")',
        AS_PREDICTED,
    ),
    Bug(
        "joins of all",
        "a join of all waits for every edge that can still deliver",
        "programs/graph/walk.py",
        "if live and (live >= wanted if wanted else arrivals.undecided == 0):",
        "if live and (live >= wanted if wanted else True):",
        AS_PREDICTED,
    ),
    Bug(
        "winners of races",
        "a branch that goes on after failing does not win",
        "programs/graph/bodies.py",
        'output.port not in ("skipped", "error", "rejected", "timeout")',
        'output.port not in ("skipped", "rejected", "timeout")',
        AS_PREDICTED,
    ),
    Bug(
        "predictions in doubt",
        "nothing is predicted of what hangs on a moment",
        "testing/definitions/sequential.py",
        "        if len(ends) > 1 or begins:\n",
        "        if False:\n",
        PREDICTING,
    ),
    Bug(
        "predicted order of undoing",
        "what was undone in another order than predicted is told",
        "testing/definitions/comparing.py",
        "        if sorted(expected[start:end]) != sorted(found[start:end]):\n",
        "        if False:\n",
        (*PYTEST, "tests/testing/definitions/test_comparing.py"),
    ),
    # definitions in worlds full of faults
    Bug(
        "notes of choices",
        "what an expression chose is written down, and read when the walk is walked again",
        "programs/graph/log.py",
        "        if choice is not None:\n            _ = self.ask(path, choice)\n        return choice\n",
        "        return choice\n",
        DEFINITIONS,
    ),
    Bug(
        "places of notes",
        "a note is read where it stands, and nowhere else",
        "programs/graph/log.py",
        "        return event.op if type(event) is e.Opened and event.path == path else None\n",
        "        return event.op if type(event) is e.Opened and event.path[:1] == path[:1] else None\n",
        DEFINITIONS,
    ),
    Bug(
        "order of drops",
        "what is dropped is dropped in the same order when it is walked again",
        "programs/graph/log.py",
        "            self.drop(next(iter(self._waiting)))\n",
        "            self.drop(next(iter(self._waiting) if self.replaying else reversed(self._waiting)))\n",
        DEFINITIONS,
    ),
    Bug(
        "tokens of patches",
        "what goes on when a patch comes goes on by the new definition",
        "programs/graph/patching.py",
        "            known.frame, known.place = firing.frame, firing.place\n            after.open[path] = known\n",
        "            pass\n",
        DEFINITIONS,
    ),
    Bug(
        "refused patches",
        "a patch that was refused is not taken when it is walked again",
        "programs/graph/instance.py",
        "            case e.Patched(definition, refused=()):\n",
        "            case e.Patched(definition):\n",
        DEFINITIONS,
    ),
    Bug(
        "counts of turns",
        "a compacted log goes on with what was counted before its first turn",
        "programs/graph/endless.py",
        "        self.counted[event.path] = run.walk.hops, run.started_steps = known.hops, known.steps\n",
        "        run.walk.hops, run.started_steps = known.hops, known.steps\n",
        DEFINITIONS,
    ),
    Bug(
        "blobs of one decision",
        "what one message brings can be read because of the next, before it is written",
        "runtime/advance.py",
        "decide(execution, item.message, instance, engine.clock.now_s(), host, number), total.blobs)",
        "decide(execution, item.message, instance, engine.clock.now_s(), host, number))",
        DEFINITIONS,
    ),
    Bug(
        "turns before a patch",
        "a log is not compacted beyond the turns by which a patch was taken",
        "core/compact.py",
        "            return None  # it was taken by what is known of all turns, some of which would be gone\n",
        "            pass\n",
        (*PYTEST, "tests/testing/definitions/test_worlds.py", "-k", "found_once"),
    ),
    # the walk over a graph
    Bug(
        "all in a join",
        "a join waits for every way that can still deliver",
        WALK,
        "if live and (live >= wanted if wanted else arrivals.undecided == 0):",
        "if live and live >= wanted:",
        walks("joins"),
    ),
    Bug(
        "dead tokens",
        "what no way leads to any more holds nothing up",
        WALK,
        "        elif arrivals.undecided == 0:\n            arrivals.is_dead = True\n            self._decide_edges(frame, place)\n\n    # passages",
        "        elif arrivals.undecided == 0:\n            arrivals.is_dead = True\n\n    # passages",
        walks("joins"),
    ),
    Bug(
        "second tokens",
        "a second token over an edge in one frame is an error, not a second run or a lost one",
        WALK,
        'if number in arrivals.live and plan.places[edge.target].node.join != "each":\n            raise UnsafeLoop(number)\n',
        "if number in arrivals.live:\n            return\n",
        walks("cycles"),
    ),
    Bug(
        "ways out of a cycle",
        "what was never taken is dead once the cycle is left",
        WALK,
        "            self._over(outer, self.plan.places[self.plan.regions[stay.region].head])\n",
        "",
        walks("cycles"),
    ),
    Bug(
        "leaving at once",
        "a token that leaves a cycle does not wait for its end",
        WALK,
        "            arrivals.undecided -= 1  # it leaves at once, and none may follow it\n",
        "            pass\n",
        walks("cycles"),
    ),
    Bug(
        "turns of a cycle",
        "a turn begins when nothing goes on in the one before",
        WALK,
        "                home.stay.again.append(number)\n",
        "                home.stay.turn += 1\n                self._turn(home.stay)\n",
        walks("cycles"),
    ),
    Bug(
        "one token of many",
        "tokens that lead back in one turn become one",
        WALK,
        "                stay.again = []\n",
        "                stay.again = stay.again[1:]\n",
        walks("cycles"),
    ),
    Bug(
        "ports that lead back",
        "a port leads back so often at most",
        WALK,
        'return self.plan.by_port(firing.place, "max") if most and self.uses(firing, port, edges) >= most else edges',
        "return edges if most else edges",
        walks("cycles"),
    ),
    Bug(
        "rules that lead back",
        "a rule leads back so often at most",
        "programs/graph/routing.py",
        "str(number), rule.edges) < rule.max:",
        "str(number), rule.edges) <= rule.max:",
        walks("cycles"),
    ),
    Bug(
        "window of an each",
        "when an item ends, the next begins",
        "programs/graph/doing.py",
        "        elif self.next < len(self.items):\n            self._refill()\n",
        "        elif self.active == 0 and self.next < len(self.items):\n            self._refill()\n",
        walks("each"),
    ),
    Bug(
        "enough in an each",
        "no more is waited for than is enough",
        "programs/graph/doing.py",
        "if self.each.enough and succeeded >= self.each.enough:",
        "if False:",
        walks("each"),
    ),
    Bug("items in vain", "who says no is no success", "programs/graph/doing.py", 'IN_VAIN = ("rejected", "timeout")', 'IN_VAIN = ("",)', walks("each")),
    Bug(
        "last turn",
        "success on the last try is success",
        "programs/graph/doing.py",
        "again = holds != self.repeat.until\n",
        "again = holds != self.repeat.until or self.turn + 1 == self.repeat.max\n",
        walks("repeat"),
    ),
    Bug(
        "return before work",
        "a return whose turn has come goes before anything is opened",
        "programs/graph/instance.py",
        '"if", "return", "fail"',
        '"if", "fail"',
        walks("returns"),
    ),
    Bug("losers of a race", "who has lost is dropped", "programs/graph/bodies.py", "        self.run.log.drop_under(self.doing.path)\n", "", walks("races")),
    Bug(
        "failures in a race",
        "a branch that fails is out, and no more",
        "programs/graph/bodies.py",
        'firing.frame is self.frame and (self.kind == "race" or ',
        "firing.frame is self.frame and (False or ",
        walks("races"),
    ),
    Bug(
        "results of a passage",
        "what was not reached this time is null",
        "programs/graph/bodies.py",
        "self.outputs.get(id) or Output()) for id in self.run.plan.ids_directly_in(self.region)]",
        "self.outputs.get(id) or self.run.roots.outputs.get(id) or Output()) for id in self.run.plan.ids_directly_in(self.region)]",
        walks("parallel"),
    ),
    Bug(
        "skipped steps",
        "in ports order a skipped step leads on by its port skipped only",
        "programs/graph/ir.py",
        'NOT_AFTER = frozenset(("skipped", ',
        "NOT_AFTER = frozenset((",
        walks("skips"),
    ),
    Bug(
        "order of rules",
        "the first rule that holds is taken",
        "programs/graph/routing.py",
        "            self._look(firing, output, 0)\n",
        "            self._look(firing, output, len(node.rules) - 1)\n",
        walks("rules"),
    ),
    Bug(
        "closed list",
        "an agent goes only where it may",
        "programs/graph/routing.py",
        "                if id not in node.choose:\n",
        "                if False:\n",
        walks("rules"),
    ),
    Bug(
        "noted ways",
        "a replay goes the way that is noted, and judges nothing",
        "programs/graph/routing.py",
        "        self._take(firing, output, self.run.log.note(path, noted).label)\n",
        '        self._take(firing, output, self.run.log.note(path, noted) and "0")\n',
        walks("rules"),
    ),
    Bug(
        "past of a decision",
        "the counter is zero when all is done, and never before",
        "programs/graph/tokens.py",
        "    while end < len(events) and type(events[end]) in e.ASKED:\n",
        "    while False:\n",
        (*PYTEST, "tests/graph/test_counters.py"),
    ),
    # kinds of steps, and what is told of steps
    Bug(
        "sources as they stand",
        "in the source of a step an @ is an @",
        "programs/graph/working.py",
        "    if not isinstance(config, Mapping):\n        return config\n",
        "    if not isinstance(config, Mapping):\n        return _value(run, doing, config, secrets)\n",
        (*SEEDS, "-k", "as_it_stands"),
    ),
    Bug("env of steps", "a step has its env", "programs/graph/working.py", "if given.env is not None:", "if False:", (*SEEDS, "-k", "nightly")),
    Bug(
        "transforms",
        "the result of a step is made over before anybody reads it",
        "programs/graph/doing.py",
        "    if doing.node.transform is not None:\n",
        "    if False:\n",
        (*SEEDS, "-k", "made_over"),
    ),
    Bug(
        "transforms by nobody",
        "a transform that nothing here does is an error",
        "programs/graph/transforming.py",
        "doing.then(refused(run, doing, kind))",
        "doing.then(done)",
        (*SEEDS, "-k", "nothing_that_can"),
    ),
    Bug(
        "schemas of transforms",
        "what a result was made into is held against the schema",
        "programs/graph/transforming.py",
        "fitting(run, doing, Done(done.port, result.output))",
        "Done(done.port, result.output)",
        (*SEEDS, "-k", "schema_is_that"),
    ),
    Bug(
        "schemas before transforms",
        "what is still to be made over is not held against the schema",
        "programs/graph/verbs.py",
        " and doing.node.transform is None else how",
        " else how",
        (*SEEDS, "-k", "schema_is_that"),
    ),
    Bug(
        "approvals in events",
        "a decision is told",
        "core/views.py",
        'port="approved" | "denied" | "expired" as',
        'port="success" as',
        (*SEEDS, "-k", "told_in_events"),
    ),
    Bug(
        "waiting for approvals",
        "who waits for a person is told to be waiting",
        "core/views.py",
        'WAITING = ("waiting", "waiting_approval")',
        'WAITING = ("waiting",)',
        (*SEEDS, "-k", "told_in_events"),
    ),
    Bug(
        "names of steps",
        "in seed 003 a step is called what people call it",
        "programs/graph/names.py",
        '{**envelope, "name": name} if name else envelope',
        "envelope",
        (*PYTEST, "tests/seeds/test_seed_003.py", "-k", "envelopes"),
    ),
    Bug(
        "commands of seed 001",
        "in a command of seed 001 an @ is an @",
        "programs/format/references.py",
        'if self.document.get("dialect") == "001":',
        "if False:",
        (*SEEDS, "-k", "as_it_stands"),
    ),
    Bug(
        "names in envelopes",
        "the output of a step in seed 003 has no name in it",
        "expr/braces_meaning.py",
        'if name != "name"',
        "if True",
        (*PYTEST, "tests/seeds/test_seed_003.py", "-k", "envelopes"),
    ),
    # requests
    Bug(
        "http: each address of a name",
        "a name with one address that may not be reached is refused",
        HTTP_NETWORK,
        "        for address in addresses:\n            if not self._reach",
        "        for address in addresses[:1]:\n            if not self._reach",
        (*PYTEST, "tests/steps/http/test_network.py", "-k", "one_of_its_addresses"),
    ),
    Bug(
        "http: connected to what was checked",
        "a name that leads elsewhere a moment later gets past no guard",
        HTTP_NETWORK,
        "connect_tcp(str(address), port, wait_s",
        "connect_tcp(host, port, wait_s",
        (*PYTEST, "tests/steps/http/test_network.py", "-k", "a_moment_later"),
    ),
    Bug(
        "http: addresses in addresses",
        "an IPv4 address inside an IPv6 one is taken for what it is",
        "steps/http/addresses.py",
        "    address = meant(address)\n    for network",
        "    for network",
        (*PYTEST, "tests/steps/http/test_addresses.py"),
    ),
    Bug(
        "http: headers for somebody else",
        "a redirect takes no secret to another origin",
        HTTP_SENDING,
        "        if origin(url) != origin(self.url):\n",
        "        if False:\n",
        (*PYTEST, "tests/steps/http/test_sending.py", "-k", "somebody_else"),
    ),
    Bug(
        "http: what is in doubt",
        "what may not be sent twice is not tried again when its answer was lost",
        HTTP_SENDING,
        "        if self._repeatable or not self.sent:\n",
        "        if True:\n",
        (*PYTEST, "tests/steps/http/test_sending.py", "-k", "what_breaks"),
    ),
    Bug(
        "http: methods that may be repeated",
        "after an interruption a POST is not sent again",
        "steps/http/wanted.py",
        '"TRACE", "PUT", "DELETE"))',
        '"TRACE", "PUT", "DELETE", "POST"))',
        (*PYTEST, "tests/steps/http/test_kind.py", "-k", "kill_9"),
    ),
    Bug(
        "http: a bomb",
        "what is packed is counted while it is unpacked",
        HTTP_SENDING,
        "                    if max(size, response.num_bytes_downloaded) > most_bytes:\n",
        "                    if response.num_bytes_downloaded > most_bytes:\n",
        (*PYTEST, "tests/steps/http/test_sending.py", "-k", "packed"),
    ),
    # asking models
    Bug(
        "models repaired without end",
        "an answer that does not fit is asked for again as often as the step says, and no more",
        "programs/graph/asking.py",
        "if wrong and len(self.answers) > self.repairs:",
        "if False:",
        (*PYTEST, "tests/programs/graph/test_asking.py"),
    ),
    Bug(
        "models asked something else",
        "a repair asks what was asked before, whatever has changed meanwhile",
        "programs/graph/asking.py",
        "        if self.arguments is None:  # also",
        "        if True:  # also",
        (*PYTEST, "tests/programs/graph/test_asking.py", "-k", "asks_the_same"),
    ),
    Bug(
        "models judged again",
        "whether an answer was repaired stands in the log",
        "programs/graph/asking.py",
        "is_repaired = log.upcoming(again) is not None or",
        "is_repaired = False and",
        (*PYTEST, "tests/programs/graph/test_asking.py", "-k", "stands_across"),
    ),
    Bug(
        "models and keys",
        "no error has the key with which it was asked",
        "steps/models/failing.py",
        'return shown.replace(key, "***") if key else shown',
        "return shown",
        (*PYTEST, "tests/steps/models/test_asking.py", "-k", "key_stands"),
    ),
    Bug(
        "models tried twice",
        "how often a request is sent is a matter of the step",
        "steps/models/clients.py",
        "base_url=asked.base_url or None, http_client=http, max_retries=0)\n    kind",
        "base_url=asked.base_url or None, http_client=http, max_retries=1)\n    kind",
        (*PYTEST, "tests/steps/models/test_asking.py", "-k", "only_if_that_may_help and small"),
    ),
    Bug(
        "models left open",
        "the connections of an event loop are closed as it ends",
        "steps/models/clients.py",
        "                await http.aclose()",
        "                pass",
        (*PYTEST, "tests/steps/models/test_clients.py", "-k", "closed_as_it_ends"),
    ),
    Bug(
        "logs of agents",
        "a model call has what is new for its arguments, and not all that was said",
        "steps/agents/conversation.py",
        "return tuple(self._messages[self._asked :])",
        "return tuple(self._messages)",
        (*AGENTS, "-k", "what_is_new"),
    ),
    Bug(
        "budgets of agents",
        "no model is asked beyond the budget",
        "steps/agents/conversation.py",
        "expect_within(within.budget, within.spent, within.times)",
        "pass",
        (*AGENTS, "-k", "used_up"),
    ),
    Bug(
        "closed lists of agents",
        "an agent that asks for other tools again and again fails",
        "steps/agents/program.py",
        "if self.unauthorized > UNAUTHORIZED_MAX:",
        "if False:",
        (*AGENTS, "-k", "may_not_use"),
    ),
    Bug(
        "people and agents",
        "a person is asked before a tool that says so is used",
        "steps/agents/tools.py",
        '"ask" if tool.asks or call.name in asking else "do"',
        '"do"',
        (*AGENTS, "-k", "person"),
    ),
    Bug(
        "interrupted tools of agents",
        "what may not be done twice is not",
        "steps/agents/own.py",
        "dataclasses.replace(step, idempotent=again)",
        "step",
        (*AGENTS, "-k", "done_twice"),
    ),
    Bug(
        "self-edits of agents",
        "only a definition that allows it is changed by its agents",
        "steps/agents/patching.py",
        'if not before.get("allow", {}).get("self_edit"):',
        "if False:",
        (*AGENTS, "-k", "does_not_allow"),
    ),
    Bug(
        "sessions of agents",
        "a session ends with its execution",
        "programs/graph/instance.py",
        'if self.has_session and status != "failed":',
        "if False:",
        (*PYTEST, "tests/programs/graph/test_agents.py", "-k", "session"),
    ),
    Bug(
        "bash: nobody gets away",
        "what a command has started ends with it, however it detached itself",
        "steps/bash/processes.py",
        "        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)",
        "        ctypes.CDLL(None)",
        bash("command", "nothing_is_left"),
    ),
    Bug(
        "bash: nobody listens",
        "a command that nobody wants any more is ended",
        "steps/bash/keeper.py",
        "        command.ends_with(control)\n        if engine is not None:\n            command.ends_with(engine)\n",
        "",
        bash("conversation", "is_cancelled_is_ended"),
    ),
    Bug(
        "bash: leave",
        "no command is run that is not allowed",
        "steps/bash/kind.py",
        "if not deployment.allowed.bash:",
        "if False:",
        bash("kind", "not_allowed"),
    ),
    Bug(
        "bash: once",
        "a command that was interrupted is not run again of itself",
        "steps/bash/kind.py",
        "idempotent=lambda config: False,",
        "idempotent=lambda config: True,",
        bash("conversation", "engine_that_is_killed"),
    ),
    Bug(
        "bash: one try at a time",
        "no try begins while an earlier one has processes",
        "steps/bash/keeper.py",
        "            if error.errno != EADDRINUSE:\n                raise\n",
        "            if error.errno == EADDRINUSE:\n                return None\n            raise\n",
        bash("conversation", "next_try"),
    ),
    Bug(
        "bash: read-only",
        "a command that is isolated writes to its own directory alone",
        "steps/bash/isolation.py",
        "_Attributes(set=MOUNT_ATTR_RDONLY)",
        "_Attributes()",
        bash("isolation", "can_be_written"),
    ),
    # tasks for workers elsewhere
    Bug(
        "tasks of silent workers",
        "what nothing is heard of goes back to its queue",
        "runtime/lending.py",
        "            self.interrupt([loan])\n",
        '            self.loans.end(loan, "ran_out")\n',
        lending("nothing_is_heard"),
    ),
    Bug(
        "tasks of others",
        "a loan is its borrower's and nobody else's",
        "runtime/loans.py",
        'return loan if loan.borrower.owner == borrower.owner and borrower.name in ("", loan.borrower.name) else None',
        "return loan",
        lending("nobody_elses"),
    ),
    Bug(
        "tasks that nobody wants",
        "a borrower hears that the execution was cancelled",
        "runtime/lending.py",
        "                if not is_there and loan.answer is None:",
        "                if False:",
        lending("nobody_wants"),
    ),
    Bug(
        "tasks that took too long",
        "the time of a try ends though its worker sends heartbeats",
        "runtime/lending.py",
        "            left_s = min(work.timeout_s, mail.due_at_s + work.timeout_s - now_s)\n",
        "            left_s = inf\n",
        lending("takes_too_long"),
    ),
    Bug(
        "tasks of other tenants",
        "a token opens its tenants alone",
        "tasks/app.py",
        "wanted = Wanted(queues, asked.grant.tenants, limit",
        "wanted = Wanted(queues, None, limit",
        (*PYTEST, "tests/tasks/test_app.py", "-k", "tenants_alone"),
    ),
    Bug(
        "tasks for pages in browsers",
        "without a token, only who calls by a name of this machine is answered",
        "tasks/app.py",
        "        if not self.access and not is_loopback(_host(headers)):",
        "        if False:",
        (*PYTEST, "tests/tasks/test_app.py", "-k", "name_of_this_machine"),
    ),
    Bug(
        "tasks whose answers wait",
        "no answer over HTTP waits 40 ms for what the network has heard",
        "tasks/endpoint.py",
        "socket.socket(family, kind, protocol)",
        "socket.socket(family, kind)",
        (*PYTEST, "tests/tasks/test_endpoint.py", "-k", "network_has_heard"),
    ),
    Bug(
        "tasks whose process was killed",
        "children end when the process is killed that has started them",
        "tasks/keeper.py",
        "    while status is None and lifeline not in select.select([lifeline, bell], [], [])[0]:",
        "    while status is None and bell in select.select([bell], [], [])[0]:",
        (*PYTEST, "tests/tasks/test_children.py", "-k", "process_is_killed"),
    ),
    # pipelines
    Bug(
        "pipeline: uses of what failed",
        "only what has succeeded is a use",
        "programs/graph/working.py",
        "if isinstance(how, Done) and counted:",
        "if counted:",
        (*PYTEST, "tests/steps/pipeline/test_composites.py", "-k", "fails"),
    ),
    Bug(
        "pipeline: uses on replay",
        "a replay counts what was counted, and nothing else",
        "programs/graph/counting.py",
        "if run.log.replaying:",
        "if False:",
        (*PYTEST, "tests/steps/pipeline/test_composites.py", "-k", "leaves_memory"),
    ),
    Bug(
        "pipeline: uses in the mail",
        "a use is found as soon as its result is durable",
        "steps/pipeline/composites.py",
        "return min(before + len(execution.mailbox) + len(new), USES_MAX)",
        "return min(before + len(execution.mailbox), USES_MAX)",
        (*PYTEST, "tests/steps/pipeline/test_composites.py", "-k", "no_engine_has_looked"),
    ),
    Bug(
        "pipeline: null keys",
        "null meets nothing in a join",
        "steps/pipeline/joining.py",
        "    if None in values:\n        return None\n",
        "",
        (*PYTEST, "tests/steps/pipeline/test_joining.py", "-k", "several_keys"),
    ),
    Bug(
        "pipeline: joins that blow up",
        "what a join would come to is counted before it is made",
        "steps/pipeline/joining.py",
        'pace.count(pairs + (sum(not found for found in places) if how in ("left", "full") else 0), "rows of the join")',
        "_ = pairs",
        (*PYTEST, "tests/steps/pipeline/test_joining.py", "-k", "blow_up"),
    ),
    Bug(
        "pipeline: data as references",
        "what data says of the row is data",
        "steps/pipeline/conditions.py",
        'return name, value if name == "matches" else literal(value)',
        "return name, value",
        (*PYTEST, "tests/steps/pipeline/test_kind.py", "-k", "is_data"),
    ),
    Bug(
        "pipeline: exact sums",
        "sums of floats are the same in any order",
        "steps/pipeline/grouping.py",
        "found = math.fsum([*floats, *_limbs(whole)])",
        "found = sum([*floats, *_limbs(whole)])",
        (*PYTEST, "tests/steps/pipeline/test_grouping.py", "-k", "exact"),
    ),
    Bug(
        "secrets in outcomes",
        "what comes of a step has none of the secrets that it was given",
        "runtime/perform.py",
        "return info.life.mask.outcome(outcome) if info.life is not None and info.life.mask else outcome",
        "return outcome",
        (*CANARIES, "-k", "tool and error"),
    ),
    Bug(
        "secrets in progress",
        "what a step says of how far it is has none of them",
        "programs/code/info.py",
        'raw = self.mask.value(values.encode(progress, "the progress of step", self.path))',
        'raw = values.encode(progress, "the progress of step", self.path)',
        (*SECRETS, "-k", "errors_and_progress"),
    ),
    Bug(
        "secrets in logging",
        "what is logged within a step has none of them",
        "runtime/masked_logs.py",
        "return _masked(record, mask) if mask else record",
        "return record",
        (*PYTEST, "tests/runtime/test_secrets.py", "-k", "is_logged"),
    ),
    Bug(
        "secrets by forged marks",
        "data that looks like a mark is given no secret",
        "expr/marks.py",
        "        case Mark():\n            yield where",
        '        case {"@secret": _} | {"@text": _}:\n            yield where',
        (*SECRETS, "-k", "only_the_secret_is_one or is_data"),
    ),
    Bug(
        "secrets in base64",
        "a secret is known again wherever it stands in base64",
        "core/masks.py",
        "for before, first in ((0, 0), (1, 2), (2, 3)):",
        "for before, first in ((0, 0),):",
        core("masks"),
    ),
    Bug(
        "secrets in their places",
        "what is kept for a tenant under a name is nothing elsewhere",
        "service/secrets/safe.py",
        'return msgspec.json.encode(("secret", tenant, name, version))',
        'return b"secret"',
        (*PYTEST, "tests/service/secrets/test_safe.py", "-k", "moved"),
    ),
    Bug(
        "secrets that are removed",
        "nothing is left in the file of what was removed",
        "stores/sqlite/vault.py",
        'execute("PRAGMA secure_delete = ON")',
        'execute("PRAGMA secure_delete = OFF")',
        (*PYTEST, "tests/stores/sqlite/test_vault.py"),
    ),
    Bug(
        "secrets of tenants",
        "the environment is for the tenant of the process alone",
        "service/secrets/chain.py",
        "        found = None\n        if tenant == OWN_TENANT:",
        "        found = None\n        if tenant:",
        (*PYTEST, "tests/service/secrets/test_chain.py", "-k", "another_tenant"),
    ),
    Bug(
        "secrets beside a cut",
        "of a secret that a cut has parted nothing is left",
        "steps/bash/hiding.py",
        "    head, tail = mask.cut(text[:half], text[-half:])",
        "    head, tail = mask.text(text[:half]), mask.text(text[-half:])",
        (*CANARIES, "-k", "bash"),
    ),
    Bug(
        "seeds: handed over by the version",
        "a handover goes on in the version that it names",
        "programs/format/dialects/handover004.py",
        """"call": f"{name}@{config.text('to_version')}",""",
        """"call": name,""",
        (*PYTEST, "tests/programs/format/dialects/test_handover004.py"),
    ),
    Bug(
        "seeds: handed over what was made",
        "the other version is given what the transform made",
        "programs/format/dialects/handover004.py",
        'reading = whole(called) if config.text("transform") else "@input"',
        'reading = "@input"',
        (*PYTEST, "tests/programs/format/dialects/test_handover004.py"),
    ),
    Bug(
        "seeds: a request of seed 004",
        "a node of the type http with a URL is a request",
        "programs/format/dialects/http004.py",
        '"params": "query", ',
        "",
        (*PYTEST, "tests/programs/format/dialects/test_seed004.py"),
    ),
    Bug(
        "seeds: an answer of seed 003",
        "what a model answers is where the seed has it",
        "programs/format/dialects/steps003.py",
        '({} if "schema" in found else {"transform": dict(ANSWER)})',
        "{}",
        (*PYTEST, "tests/seeds/test_real_kinds.py", "-k", "003_inline"),
    ),
    Bug(
        "seeds: undone by a kind",
        "what undoes by a kind is given all in its input",
        "programs/graph/ending.py",
        'undo.input if kind is None else {"config": None, "input": undo.input}',
        "undo.input",
        (*PYTEST, "tests/programs/graph/test_ending.py"),
    ),
    Bug(
        "proof of undo of models",
        "what undoes a step is given its data, and not what it came by",
        "programs/graph/ending.py",
        "done = Output(self.run.log.raw(result)).parted().value",
        "done = Output(self.run.log.raw(result)).value",
        (*EVERY_KIND, "-k", "undone and llm"),
    ),
    Bug(
        "proof of undo of agents",
        "what an agent did is undone by the tool that the step names",
        "programs/graph/agents.py",
        "return op if doing.node.undo is None else msgspec.structs.replace(op, undo=True)",
        "return op",
        (*EVERY_KIND, "-k", "undone and agent"),
    ),
    Bug(
        "proof of retry of agents",
        "an agent's model is asked as often as the step says",
        "programs/graph/agents.py",
        "if rule := node.retry or ir.retry:",
        "if rule := ir.retry:",
        (*EVERY_KIND, "-k", "tried_as_often and agent"),
    ),
    Bug(
        "proof of deep answers",
        "a provider whose answer is too deep can't be read, and no more",
        "steps/models/failing.py",
        "LookupError() | RecursionError():",
        "LookupError():",
        (*PYTEST, "tests/steps/test_every_kind_hostile.py", "-k", "deep and llm"),
    ),
    Bug(
        "proof of cancelled Python",
        "Python that nobody waits for any more does not go on",
        "steps/python.py",
        "        running.stop()\n",
        "",
        (*EVERY_KIND, "-k", "cancels and python"),
    ),
    Bug(
        "proof of limits of bytes",
        "results of every kind count for limits.max_bytes",
        "programs/graph/instance.py",
        "if 0 < (limit := self.plan.ir.limits.max_bytes) < self.results_bytes:",
        "if 0 < (limit := self.plan.ir.limits.max_bytes) < 0:",
        (*EVERY_KIND, "-k", "limit_of_bytes"),
    ),
]


def planted(bug: Bug, into: Path) -> Path:
    """A copy of the package with the bug in it.

    Raises:
        ValueError: the source to be replaced is not there exactly once.
    """
    shutil.copytree(ROOT / "src/perdure", into / "perdure", ignore=shutil.ignore_patterns("__pycache__"))
    path = into / "perdure" / bug.file
    source = path.read_text()
    if source.count(bug.old) != 1:
        raise ValueError(f"{bug.guard}: what it replaces stands {source.count(bug.old)} times in {bug.file}, not once; bring BUGS up to date")
    path.write_text(source.replace(bug.old, bug.new))
    return into


def hunt(bug: Bug, catcher: tuple[str, ...] | None = None) -> Caught:
    """Plant the bug and run what must notice it.

    Raises:
        ValueError: the source to be replaced is not there, or what must notice the bug fails without it.
    """
    catcher = catcher or bug.catcher
    code, printed = alarm_without_bug(catcher)
    if code:
        raise ValueError(f"{words(catcher)} fails without any bug in place:\n{printed}")
    with tempfile.TemporaryDirectory() as directory:
        began_s = time.perf_counter()
        code, printed = run(catcher, planted(bug, Path(directory)))
        caught = code == 1 and ('"problems": [' in printed or " failed" in printed)
        return Caught(bug, caught, time.perf_counter() - began_s, printed)


@cache
def alarm_without_bug(catcher: tuple[str, ...]) -> tuple[int, str]:
    """What a catcher says of the package as it is: 0, if it is any good."""
    return run(catcher, ROOT / "src")


def run(catcher: tuple[str, ...], package: Path) -> tuple[int, str]:
    """Run a catcher on the package in a directory; return its exit code (-1: it did not end) and its last words."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run([sys.executable, *catcher], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return -1, f"it did not end within {LIMIT_S:g} s"
    return done.returncode, (done.stdout + done.stderr)[-4000:]


def words(catcher: tuple[str, ...]) -> str:
    """What noticed a bug, in short."""
    return " ".join(word for word in catcher if word not in (*PYTEST, "perdure.testing.simulator")).replace("--worlds 200 --seed 0", "simulator")


def main() -> int:
    """Plant each bug, print the table; 1 if one was not noticed."""
    parser = argparse.ArgumentParser(description="Plant each bug, and see whether the suite notices.")
    parser.add_argument("--only", help="the bugs whose guard has this in its name")
    parser.add_argument("--with", dest="catcher", help="another catcher, as the arguments of python")
    given = parser.parse_args()
    missed = 0
    for bug in BUGS:
        if given.only and given.only not in bug.guard:
            continue
        found = hunt(bug, tuple(given.catcher.split()) if given.catcher else None)
        missed += not found.caught
        print(f"{'caught' if found.caught else 'MISSED':7} {found.seconds:6.1f} s  {bug.guard:32} {bug.protects:70} {words(bug.catcher)}", flush=True)
        if given.only and not found.caught:
            print(found.words)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
