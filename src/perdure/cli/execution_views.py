"""Renders executions as text: lists, engines and workers, one execution with its steps as a tree, and events.

It needs neither click nor rich, so that notebooks display the same trees (`perdure.display`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from msgspec import structs

from perdure.cli import terminal_text
from perdure.cli.plain_text import STATUS_STYLES, TextCell, TextTable, TreeNode, cell, state_glyph, status_cell
from perdure.cli.terminal_text import execution_name
from perdure.core.attribute_filter import attribute_text
from perdure.core.attributes import attribute_values_of
from perdure.core.errors import ErrorInfo
from perdure.core.program import CATALOG_PROGRAM, is_hosted, program_name, program_text
from perdure.core.views import PublicEvent, StepView
from perdure.definitions.graph.graph_workflow import VERSION_ATTRIBUTE
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service.execution_records import ExecutionRecord
from perdure.service.queries import INTERNAL_WORKFLOWS, ExecutionStatus, HolderView, ListedExecution

FORGOTTEN_LOOPS_MAX = 5
"""The number of loops of which forgotten iterations are listed."""


def execution_table(listed: Sequence[ListedExecution], programs: Container[str], now_s: float) -> TextTable:
    """Executions, a row each. `programs` are those that a living engine knows."""
    headers = ("ID", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NOTE")
    return TextTable(headers, tuple(_execution_row(one, programs, now_s) for one in listed))


def _execution_row(one: ListedExecution, programs: Container[str], now_s: float) -> tuple[TextCell, ...]:
    took = "" if one.ended_at_s is None else terminal_text.duration(one.ended_at_s - one.created_at_s)
    program = claimed_program(one)
    return (
        cell(one.key.id, "strong"),
        cell(shown_program(one)),
        status_cell(one.status),
        TextCell(terminal_text.relative_time(one.created_at_s, now_s)),
        TextCell(took),
        _note(one, program, programs, now_s),
    )


def _note(one: ListedExecution, program: str, programs: Container[str], now_s: float) -> TextCell:
    if one.status in ENDED_STATUSES:
        return TextCell("")
    if program not in programs:
        return cell(unknown_program_note(program), "warn")
    return TextCell("" if one.due_at_s is None or one.due_at_s <= now_s else f"continues {terminal_text.relative_time(one.due_at_s, now_s)}", "dim")


def claimed_program(one: ExecutionStatus | ListedExecution) -> str:
    """The name by which engines claim an execution."""
    return program_name(CATALOG_PROGRAM if one.hosted else one.key.workflow, one.workflow_version)


def shown_program(one: ExecutionStatus | ListedExecution) -> str:
    """What an execution runs, for people: its workflow with the version of the code, or of the definition in the catalog."""
    if not one.hosted:
        return program_text(claimed_program(one))
    version = one.attributes.get(VERSION_ATTRIBUTE)
    return f"{one.key.workflow}@{version}" if isinstance(version, str) else one.key.workflow


def unknown_program_note(program: str) -> str:
    """The note on an execution that will not continue until an engine that knows its program runs."""
    return f"no running engine knows {program.removesuffix('@')}"


def engine_table(views: Sequence[HolderView], now_s: float) -> TextTable:
    """Engines and workers, a row each."""
    headers = ("NAME", "KIND", "WHERE", "SINCE", "HOLDS", "KNOWS")
    return TextTable(headers, tuple(_engine_row(one, now_s) for one in views))


def _engine_row(one: HolderView, now_s: float) -> tuple[TextCell, ...]:
    named = (program for program in one.programs if not program.endswith("@") and not program.startswith(CATALOG_PROGRAM))
    own = [program for program in named if program.rpartition("@")[0] not in INTERNAL_WORKFLOWS]
    hosts = ["definitions"] if any(map(is_hosted, one.programs)) else []
    knows = ", ".join((*own, *hosts, *(f"queue {queue}" for queue in one.queues)))
    since = "" if one.started_at_s is None else terminal_text.relative_time(one.started_at_s, now_s)
    return (
        cell(one.name, "strong"),
        cell(one.kind),
        cell(f"{one.host} {one.pid}" if one.pid else one.host),
        TextCell(since) if one.alive else TextCell("gone", "warn"),
        TextCell(str(one.executions + one.tasks)),
        cell(knows),
    )


def execution_head(one: ExecutionStatus, programs: Container[str], now_s: float, definition: str = "") -> Iterator[tuple[TextCell, ...]]:
    """The lines above the steps of one execution; with the version of its `definition`, if it has one."""
    program = claimed_program(one)
    lost = one.status not in ENDED_STATUSES and program not in programs
    yield (cell(execution_name(one.key), "strong"), status_cell(one.status))
    yield (cell(f"  {terminal_text.first_line(one.why)}", "warn" if lost else ""),)
    if lost:
        yield (cell(f"  start an engine that knows it: perdure worker {'FILE.yaml --tools FILE.py' if one.definition else 'FILE.py'}", "warn"),)
    elif one.remedy and one.status not in ENDED_STATUSES:
        yield (cell(f"  {one.remedy[0].lower()}{one.remedy[1:]}", "dim"),)
    for what, text in (("definition", definition), *_status_facts(one, now_s)) if definition else _status_facts(one, now_s):
        yield (TextCell(f"  {what:<11}", "dim"), cell(text))


def _status_facts(one: ExecutionStatus, now_s: float) -> Iterator[tuple[str, str]]:
    yield "program", shown_program(one)
    if one.key.tenant != "default":
        yield "tenant", one.key.tenant
    yield "created", f"{terminal_text.utc_time(one.created_at_s)} UTC, {terminal_text.relative_time(one.created_at_s, now_s)}"
    if one.ended_at_s is not None:
        took_s = one.ended_at_s - (one.started_at_s or one.created_at_s)
        yield "ended", f"{terminal_text.utc_time(one.ended_at_s)} UTC, after {terminal_text.duration(took_s)}"
    elif one.due_at_s is not None and one.due_at_s > now_s:
        yield "continues", f"{terminal_text.utc_time(one.due_at_s)} UTC, {terminal_text.relative_time(one.due_at_s, now_s)}"
    if one.deadline_at_s is not None and one.ended_at_s is None:
        yield "deadline", f"{terminal_text.utc_time(one.deadline_at_s)} UTC, {terminal_text.relative_time(one.deadline_at_s, now_s)}"
    if one.attributes:
        yield "attributes", " ".join(attribute_text(name, value) for name, given in one.attributes.items() for value in attribute_values_of(given))
    if one.unread:
        yield "unread", f"{', '.join(f'{called} ({count})' for called, count in one.unread.items())}: nothing waits for a message of this name"
    if one.version:
        yield "log", f"{terminal_text.count(one.version, 'event')}; {one.settled} settled, {one.open} open"
    for loop, turns in list(one.forgotten.items())[:FORGOTTEN_LOOPS_MAX]:
        yield "history", f"{loop}: {'iteration 1' if turns == 1 else f'iterations 1–{turns:,}'} {_history(one)}"


def _history(one: ExecutionStatus) -> str:
    if not one.archived:
        return "forgotten"
    if one.archives_pruned_at_s is None:
        return "forgotten; see perdure archives"
    return "forgotten; they were archived, and the archives have been pruned"


def past_status(present: ExecutionStatus, past: ExecutionRecord) -> ExecutionStatus:
    """The status of an execution as it was at the time of an earlier record of it."""
    return structs.replace(
        present,
        status=past.status,
        why=past.why,
        remedy=past.reason.remedy,
        version=past.version,
        started_at_s=past.started_at_s,
        ended_at_s=past.ended_at_s,
        deadline_at_s=past.deadline_at_s,
        due_at_s=past.due_at_s,
        open=past.open,
        settled=past.settled,
        emitted=past.emitted,
        attributes=past.attributes,
        definition=past.definition,
        forgotten={},
        unread=past.unread,
        decided=past.decided,
    )


def execution_progress(one: ExecutionStatus, programs: Container[str], steps: Sequence[TreeNode], now_s: float) -> tuple[TreeNode, ...]:
    """One execution as a tree, for a view that is redrawn."""
    lines = tuple(execution_head(one, programs, now_s))
    return (TreeNode(lines[0], tuple(TextCell("  ".join(part.text for part in line).strip()) for line in lines[1:2]), tuple(steps)),)


UNDO_PATH = "~undo"
"""Where that stands in a tree which undoes what was done."""

QUIET_STATES = {"completed"}
"""States that their glyph says well enough."""


@dataclass(frozen=True)
class Caption:
    """The description of a step of a definition, and the word for its repetitions: item or turn."""

    text: str
    passage: str = "turn"


@dataclass(frozen=True)
class DefinitionCaptions:
    """The version of a definition, and the captions of its steps, by id."""

    definition: str = ""
    captions: Mapping[str, Caption] = field(default_factory=dict)


@dataclass
class _PathNode:
    """A path on the way to becoming a node: the operation that stands there, if one does, and the paths below."""

    step: StepView | None = None
    below: dict[str, _PathNode] = field(default_factory=dict)


def step_tree(steps: Iterable[StepView], now_s: float, unicode: bool = True, captions: Mapping[str, Caption] | None = None) -> tuple[TreeNode, ...]:
    """The tree of all operations in the order of opening. A path without an operation (a branch, an iteration) is only a name, or its caption in a
    definition.
    """
    root = _PathNode()
    for step in steps:
        place = root
        for part in step.path.split("/"):
            place = place.below.setdefault(part, _PathNode())
        place.step = step
    look = _TreeBuilder(now_s, unicode, captions or {})
    return tuple(look.node(name, place) for name, place in root.below.items())


def shortened_tree(nodes: Sequence[TreeNode], lines_max: int) -> tuple[TreeNode, ...]:
    """The same tree in at most `lines_max` lines: successful parts are replaced by their number."""
    if sum(node.lines for node in nodes) <= lines_max:
        return tuple(nodes)
    short: list[TreeNode] = []
    for quiet, group in groupby(nodes, key=lambda node: node.quiet):
        members = list(group)
        if not quiet:
            short += [replace(node, below=shortened_tree(node.below, 0)) for node in members]
        elif len(members) == 1:
            short.append(replace(members[0], below=()))
        else:
            short.append(TreeNode((TextCell(f"{len(members):,} completed", "dim"),), quiet=True))
    return tuple(short)


@dataclass(frozen=True)
class _TreeBuilder:
    """Turns paths into nodes."""

    now_s: float
    unicode: bool
    captions: Mapping[str, Caption]

    def node(self, name: str, place: _PathNode, passage: str = "turn") -> TreeNode:
        caption = self.captions.get(name.partition("#")[0])
        look = replace(self, captions={}) if name == UNDO_PATH else self  # below it stands what undoes a step, not the step
        below = tuple(look.node(lower, one, passage if caption is None else caption.passage) for lower, one in place.below.items())
        shown = _path_label(name, passage)
        step = place.step
        quiet = all(node.quiet for node in below) and (step is None or step.state in QUIET_STATES)
        is_open = any(node.open for node in below) or (step is not None and step.settled_at_s is None)
        if step is None:
            return TreeNode((cell(shown, "dim"), cell("" if caption is None else caption.text, "dim")), (), below, quiet, is_open)
        holds = step.kind == "keep" and bool(below)  # what keeps a join, a race or a turn is nothing by itself: all of it hangs below
        cells = [state_glyph("waiting" if holds and is_open else step.state, self.unicode), cell(shown, "strong")]
        if not holds:
            aim = _target_cell(name, step) if caption is None or not below else cell(caption.text, "dim")
            cells += [aim, _state_cell(step), *_step_facts(step, self.now_s)]
        note = None if step.error is None else cell(f"{step.error.type}: {terminal_text.first_line(step.error.message)}", "bad")
        notes = () if note is None or _is_noted_below(note, below) else (note,)  # what failed in it is said once, where it happened
        return TreeNode(tuple(cells), notes, below, quiet, is_open, step.path)


def _is_noted_below(note: TextCell, below: Iterable[TreeNode]) -> bool:
    return any(note in node.notes or _is_noted_below(note, node.below) for node in below)


def _path_label(name: str, passage: str) -> str:
    """A part of a path as people read it: an iteration or an item by its number, an internal operation by its name."""
    if not name.startswith("~"):
        return name
    return f"{passage} {name[1:]}" if name[1:].isdecimal() else name[1:]


def _target_cell(name: str, step: StepView) -> TextCell:
    """Kind and target, unless the name says the same."""
    if step.kind == "keep" and step.target:
        return cell(step.target.rstrip(": "), "dim")
    kind = "" if name.startswith(f"{step.kind}:") else step.kind
    target = "" if step.target in name else step.target
    return cell(f"{kind} {target}".strip(), "dim")


def _state_cell(step: StepView) -> TextCell:
    return TextCell("" if step.state in QUIET_STATES else step.state, STATUS_STYLES.get(step.state, ""))


def _step_facts(step: StepView, now_s: float) -> Iterable[TextCell]:
    if step.port and step.state in QUIET_STATES:
        yield cell(step.port)
    if step.attempt > 1:
        yield TextCell(terminal_text.count(step.attempt, "attempt"), "warn")
    if step.due_at_s is not None and step.settled_at_s is None:
        yield TextCell(f"due {terminal_text.relative_time(step.due_at_s, now_s)}")
    if step.settled_at_s is not None:
        yield TextCell(terminal_text.duration(step.settled_at_s - step.opened_at_s), "dim")
    else:
        yield TextCell(f"for {terminal_text.duration(now_s - step.opened_at_s)}", "dim")


EVENT_STYLES = {"completed": "good", "failed": "bad", "retrying": "warn", "waiting": "live", "cancelled": "dim"}
"""Styles by the last word of the type of an event."""

TYPE_COLUMNS, SUBJECT_COLUMNS = 20, 12
"""Events come one by one, so their columns have a width that mostly suits."""


def event_cells(event: PublicEvent) -> tuple[TextCell, ...]:
    """One event: its number, time, type, subject and data."""
    style = EVENT_STYLES.get(event.type.rpartition(".")[2], "")
    said = (f"{name.removesuffix('_s').removesuffix('_at')}={_data_text(name, value)}" for name, value in event.data.items())
    return (
        TextCell(f"{event.id:>5}", "dim"),
        TextCell(terminal_text.utc_timestamp(event.time_s), "dim"),
        TextCell(event.type.ljust(TYPE_COLUMNS), style),
        TextCell(terminal_text.clean(event.subject).ljust(SUBJECT_COLUMNS), "strong"),
        cell(", ".join(said)),
    )


def event_story(event: PublicEvent, error_at: Callable[[str], ErrorInfo | None]) -> Iterator[tuple[TextCell, ...]]:
    """The lines of one event, with its error; `error_at` finds errors by path (the execution's own: the empty path)."""
    yield event_cells(event)
    error = error_at(event.subject) if event.type in ("step.failed", "execution.failed") else None
    if error is not None:
        yield (TextCell(" " * 5), cell(f"{error.type}: {terminal_text.first_line(error.message)}", "bad"))
        for line in _user_frames(error.traceback.splitlines()):
            yield (TextCell(" " * 5), cell(line, "dim"))


def _data_text(name: str, value: str | float) -> str:
    return terminal_text.utc_timestamp(value) if name.endswith("_s") and not isinstance(value, str) else str(value)


def _user_frames(traceback: Iterable[str]) -> Iterator[str]:
    """The lines of a traceback that belong to users' code; frames of Perdure's own are left out."""
    ours = False
    for line in traceback:
        if not line.startswith("    "):
            ours = _PERDURE_FRAME.match(line) is not None
        if not ours:
            yield line


_PERDURE_FRAME = re.compile(r'  File ".*[/\\]perdure[/\\](runtime|code|definitions|core)[/\\]')
