"""Lists as tables: executions, and the engines and workers that live; and the head of one execution."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from perdure.cli import words
from perdure.cli.complaints import name
from perdure.cli.render import Cell, Node, Table, cell, status
from perdure.core.program import program_name, shown
from perdure.core.where import written
from perdure.runtime.endings import ENDED
from perdure.service.queries import EngineView, Listed, Status

LOOPS_MAX = 5
"""Of how many loops it is said which turns are forgotten."""


def executions(listed: Sequence[Listed], programs: Container[str], now_s: float) -> Table:
    """Executions, a row each. `programs` are those that a living engine knows."""
    headers = ("ID", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NOTE")
    return Table(headers, tuple(_execution(one, programs, now_s) for one in listed))


def _execution(one: Listed, programs: Container[str], now_s: float) -> tuple[Cell, ...]:
    took = "" if one.ended_at_s is None else words.duration(one.ended_at_s - one.created_at_s)
    program = program_name(one.key.workflow, one.workflow_version)
    return (
        cell(one.key.id, "strong"),
        cell(shown(program)),
        status(one.status),
        Cell(words.ago(one.created_at_s, now_s)),
        Cell(took),
        _note(one, program, programs, now_s),
    )


def _note(one: Listed, program: str, programs: Container[str], now_s: float) -> Cell:
    if one.status in ENDED:
        return Cell("")
    if program not in programs:
        return cell(unknown(program), "warn")
    return Cell("" if one.due_at_s is None or one.due_at_s <= now_s else f"goes on {words.ago(one.due_at_s, now_s)}", "dim")


def unknown(program: str) -> str:
    """What is said of an execution that will not go on until somebody comes who knows its program."""
    return f"no engine here knows {program.removesuffix('@')}"


def engines(views: Sequence[EngineView], now_s: float) -> Table:
    """Engines and workers, a row each."""
    headers = ("NAME", "KIND", "WHERE", "SINCE", "HOLDS", "KNOWS")
    return Table(headers, tuple(_engine(one, now_s) for one in views))


def _engine(one: EngineView, now_s: float) -> tuple[Cell, ...]:
    knows = ", ".join((*(program for program in one.programs if not program.endswith("@")), *(f"queue {queue}" for queue in one.queues)))
    since = "" if one.started_at_s is None else words.ago(one.started_at_s, now_s)
    return (
        cell(one.name, "strong"),
        cell(one.kind),
        cell(f"{one.host} {one.pid}" if one.pid else one.host),
        Cell(since) if one.alive else Cell("gone", "warn"),
        Cell(str(one.executions + one.work)),
        cell(knows),
    )


def head(one: Status, programs: Container[str], now_s: float, definition: str = "") -> Iterator[tuple[Cell, ...]]:
    """What is to be said of one execution before its steps, in lines; with the version of its `definition`, if it has one."""
    program = program_name(one.key.workflow, one.workflow_version)
    lost = one.status not in ENDED and program not in programs
    yield (cell(name(one.key), "strong"), status(one.status))
    yield (cell(f"  {words.first_line(one.why)}", "warn" if lost else ""),)
    if lost:
        yield (cell(f"  start an engine that knows it: perdure worker {'FILE.yaml --tools FILE.py' if one.definition else 'FILE.py'}", "warn"),)
    for what, text in (("definition", definition), *_facts(one, program, now_s)) if definition else _facts(one, program, now_s):
        yield (Cell(f"  {what:<{10 if definition else 9}}", "dim"), cell(text))


def _facts(one: Status, program: str, now_s: float) -> Iterator[tuple[str, str]]:
    yield "program", shown(program)
    if one.key.tenant != "default":
        yield "tenant", one.key.tenant
    yield "created", f"{words.when(one.created_at_s)} UTC, {words.ago(one.created_at_s, now_s)}"
    if one.ended_at_s is not None:
        took_s = one.ended_at_s - (one.started_at_s or one.created_at_s)
        yield "ended", f"{words.when(one.ended_at_s)} UTC, after {words.duration(took_s)}"
    elif one.due_at_s is not None and one.due_at_s > now_s:
        yield "goes on", f"{words.when(one.due_at_s)} UTC, {words.ago(one.due_at_s, now_s)}"
    if one.deadline_at_s is not None and one.ended_at_s is None:
        yield "deadline", f"{words.when(one.deadline_at_s)} UTC, {words.ago(one.deadline_at_s, now_s)}"
    if one.attributes:
        yield "found by", " ".join(written(name, value) for name, value in one.attributes.items())
    if one.unread:
        yield "unread", f"{', '.join(f'{called} ({count})' for called, count in one.unread.items())}: nothing waits for a message of this name"
    if one.version:
        yield "log", f"{words.count(one.version, 'event')}; {one.settled} settled, {one.open} open"
    for loop, turns in list(one.forgotten.items())[:LOOPS_MAX]:
        yield "history", f"{loop}: {'turn 1' if turns == 1 else f'turns 1–{turns:,}'} {_history(one)}"


def _history(one: Status) -> str:
    if not one.archived:
        return "forgotten"
    if one.archives_pruned_at_s is None:
        return "forgotten; see perdure archives"
    return "forgotten; they were archived, and the archives have been pruned"


def progress(one: Status, programs: Container[str], steps: Sequence[Node], now_s: float) -> tuple[Node, ...]:
    """One execution as a tree, for a place that is drawn again and again."""
    lines = tuple(head(one, programs, now_s))
    return (Node(lines[0], tuple(Cell("  ".join(part.text for part in line).strip()) for line in lines[1:2]), tuple(steps)),)
