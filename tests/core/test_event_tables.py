"""The tables that every event, message, operation and kind of failure has an entry in.

Adding a class without all of its entries fails one test, whose message lists what to add and where. Where a class needs no entry, its name is in the
`without` of the table below, so that leaving it out is a decision. CONTRIBUTING.md has the steps under "Adding an event".
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from perdure.code.code_program import CodeProgram
from perdure.code.replay_exploration import CodeExploration
from perdure.core import attempt_history, attempt_rules, decision, effects, events, execution, failure_causes, log_format, messages, operations, replay, views
from perdure.core.event_trace import EventTracer
from perdure.definitions.graph.graph_program import GraphProgram
from perdure.runtime import in_flight
from tests.core import scripted_execution, test_log_format, test_messages

ROOT = Path(__file__).parents[2]
THIS = "tests/core/test_event_tables.py"


class Table(NamedTuple):
    """A place that knows each class of a family: the names that it has, what an entry says, and the names that need none."""

    file: str
    place: str
    entries: frozenset[str]
    advice: str
    without: frozenset[str] = frozenset()

    def complaints(self, family: set[str]) -> Iterator[str]:
        """What is missing here for a class of the family, and what in `without` is outdated."""
        for name in sorted(family - self.entries - self.without):
            allowed = f'; if it needs none, add its name to `without` of "{self.place}" in {THIS}' if self.without else ""
            yield f"{name}: {self.file}, {self.place}: {self.advice}{allowed}"
        for name in sorted(self.without & self.entries):
            yield f'{name}: {THIS}: {self.file}, {self.place} has an entry for it; remove its name from the `without` of "{self.place}"'
        for name in sorted(self.without - family):
            yield f'{name}: {THIS}: there is no such class; remove its name from the `without` of "{self.place}"'


def names(*classes: type) -> frozenset[str]:
    return frozenset(one.__name__ for one in classes)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@cache
def named_in(*functions: Callable[..., Any]) -> frozenset[str]:
    """The names, attributes and strings in the source of these functions."""
    nodes = [node for one in functions for node in ast.walk(ast.parse(inspect.cleandoc("\n" + inspect.getsource(one))))]
    found = {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(found | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})


def tagged(module: object) -> set[str]:
    """The names of the classes of a module that are stored under a tag."""
    classes = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return {one.__name__ for one in classes if one.__struct_config__.tag is not None and one.__module__ == module.__name__}  # type: ignore[attr-defined]  # a module has a name


def event_tables() -> Iterator[Table]:
    core = "src/perdure/core"
    yield Table(f"{core}/events.py", "Event", names(*get_args(events.Event)), "add it to `ExternalEvent` or to `CommandEvent`")
    yield Table(
        f"{core}/events.py",
        "PROGRAM_EVENTS",
        names(*events.PROGRAM_EVENTS, *events.COMMAND_EVENTS),
        "add it if programs react to it",
        words("HostedEvent")
        | words("ForkedEvent PresetEvent WatchedEvent UnwatchedEvent MessageArrivedEvent MessageRefusedEvent RetryingEvent InterruptedEvent")
        | words("AttemptStartedEvent ProgressedEvent ParkedEvent EvictedEvent AttributesSetEvent RetainedEvent RemovedEvent SnapshotEvent"),
    )
    yield Table(f"{core}/execution.py", "_APPLIERS", names(*execution._APPLIERS), "add the method of `Execution` that folds it into the state")
    yield Table(
        f"{core}/effects.py",
        "_EFFECT_RULES",
        names(*effects._EFFECT_RULES),
        "add the function that returns the messages which are sent because of it",
        words("HostedEvent")
        | words("StartedEvent ForkedEvent PresetEvent UnwatchedEvent MessageArrivedEvent MessageRefusedEvent ReceivedEvent RecalledEvent ProgressedEvent")
        | words("CancellingEvent StoppedEvent UndoingEvent ParkedEvent ResumedEvent ReopenedEvent EvictedEvent IterationResumedEvent AttributesSetEvent")
        | words("RetainedEvent RemovedEvent SnapshotEvent PatchedEvent TrimmedEvent"),
    )
    yield Table(
        f"{core}/views.py",
        "_named_events",
        named_in(views._named_events, views._lifecycle_events),
        'add a `case` that yields its public name, such as "execution.paused", and list that name in docs/guides/cli.md if people look for it',
        words("HostedEvent")
        | words("ForkedEvent PresetEvent WatchedEvent UnwatchedEvent MessageRefusedEvent ReceivedEvent ProgressedEvent CancellingEvent")
        | words("IterationResumedEvent AttributesSetEvent RetainedEvent SnapshotEvent"),
    )
    yield Table(
        f"{core}/attempt_history.py",
        "AttemptHistory",
        named_in(attempt_history.AttemptHistory),
        "add a `case` if an attempt begins or ends with it",
        words("HostedEvent")
        | words("StartedEvent ForkedEvent PresetEvent WatchedEvent UnwatchedEvent MessageArrivedEvent MessageRefusedEvent ReceivedEvent RecalledEvent")
        | words("ProgressedEvent CancellingEvent StoppedEvent UndoingEvent ResumedEvent ReopenedEvent EvictedEvent IterationResumedEvent")
        | words("AttributesSetEvent RetainedEvent RemovedEvent SnapshotEvent PatchedEvent TrimmedEvent"),
    )
    yield Table(
        "src/perdure/runtime/in_flight.py",
        "_ACTIONS",
        names(*in_flight._ACTIONS),
        "add a function if the engine begins or ends an attempt because of it",
        words("HostedEvent")
        | words("StartedEvent ForkedEvent PresetEvent WatchedEvent UnwatchedEvent MessageArrivedEvent MessageRefusedEvent ReceivedEvent RecalledEvent")
        | words("ProgressedEvent CancellingEvent StoppedEvent UndoingEvent ParkedEvent ResumedEvent IterationResumedEvent AttributesSetEvent")
        | words("RetainedEvent RemovedEvent SnapshotEvent PatchedEvent TrimmedEvent"),
    )
    yield Table(
        f"{core}/event_trace.py",
        "EventTracer",
        named_in(EventTracer),
        "add a `case` that returns its line in the trace of a failed test",
        words("HostedEvent")
        | words("ForkedEvent PresetEvent WatchedEvent UnwatchedEvent ProgressedEvent IterationResumedEvent AttributesSetEvent RetainedEvent RemovedEvent")
        | words("PatchedEvent TrimmedEvent"),
    )
    golden = frozenset(type(one).__name__ for one in test_log_format.EVENTS)
    yield Table("tests/core/test_log_format.py", "EVENTS", golden, "append one with every field, then run `PYTHONPATH=src:. python -m tests.core.make_golden`")
    yield Table(
        "tests/corpus",
        "the logs in v2",
        corpus_events(),
        "add a case to tests/corpus/workflows.py or definitions.py whose log has it, then run `PYTHONPATH=src:. python -m tests.corpus.make v2`",
        words("HostedEvent")
        | words("AttributesSetEvent EvictedEvent ForkedEvent InterruptedEvent MessageRefusedEvent PresetEvent ProgressedEvent RemovedEvent RetainedEvent")
        | words("StoppedEvent WatchedEvent"),
    )


def program_tables() -> Iterator[Table]:
    """Where the events of `PROGRAM_EVENTS` are handled."""
    yield Table("src/perdure/code/code_program.py", "CodeProgram._take", named_in(CodeProgram._take), "add a `case`", words("ResumedEvent PatchedEvent"))
    yield Table("src/perdure/definitions/graph/graph_program.py", "GraphProgram._take", named_in(GraphProgram._take), "add a `case`", words("ResumedEvent"))
    yield Table(
        "src/perdure/code/replay_exploration.py",
        "CodeExploration.run",
        named_in(CodeExploration.run),
        "add a `case` if it changes what the code asks for",
        words("UndoingEvent ResumedEvent IterationResumedEvent PatchedEvent"),
    )
    yield Table(
        "src/perdure/core/replay.py",
        "_values_read",
        named_in(replay._values_read),
        "add a `case` that returns the values which the program reads because of it",
        words("CancellingEvent StoppedEvent UndoingEvent ResumedEvent"),
    )
    yield Table(
        "tests/core/scripted_execution.py",
        "_trigger",
        named_in(scripted_execution._trigger),
        "add a `case`, so that the scripted programs of the tests can react to it",
        words("UndoingEvent PatchedEvent"),
    )


def message_tables() -> Iterator[Table]:
    """Where each message to an execution is handled."""
    core = "src/perdure/core"
    work = words("TaskMessage")
    yield Table(f"{core}/messages.py", "ExecutionMessage", names(*get_args(messages.ExecutionMessage)), "add it to the union", work)
    yield Table(f"{core}/decision.py", "_MESSAGE_HANDLERS", names(*decision._MESSAGE_HANDLERS), "add the method of `_DecisionDraft` that decides on it", work)
    golden = frozenset(type(one).__name__ for one in test_messages.MESSAGES)
    advice = "append one with every field, then run `PYTHONPATH=src:. python -m tests.core.make_golden`"
    yield Table("tests/core/test_messages.py", "MESSAGES", golden, advice)


def failure_tables() -> Iterator[Table]:
    """Where each kind of failure is told from the others."""
    yield Table(
        "src/perdure/core/attempt_history.py",
        "_attempt_ending",
        named_in(attempt_history._attempt_ending),
        "return how the attempt ended, if not as failed",
        words("exhausted timeout fatal rollback"),
    )
    yield Table(
        "src/perdure/core/views.py",
        "settled_state",
        named_in(views.settled_state),
        "return the state of a step that settled with it, if not failed",
        words("exhausted timeout fatal interrupted rollback"),
    )
    yield Table(
        "src/perdure/core/attempt_rules.py",
        "FINAL_FAILURES",
        frozenset(attempt_rules.FINAL_FAILURES),
        "add it if no further attempt follows",
        words("exhausted timeout abandoned cancelled"),
    )
    yield Table(
        "src/perdure/core/failure_causes.py",
        "GIVEN_UP",
        frozenset(failure_causes.GIVEN_UP),
        "add it if it is never the cause of a dead letter",
        words("exhausted timeout fatal interrupted rollback"),
    )
    yield Table(
        "docs/reference/errors.md",
        "StepFailed",
        frozenset(kind for kind in get_args(operations.FailureKind) if kind in entry_of("StepFailed")),
        "add it to the docstring of `StepFailed` in src/perdure/core/errors.py, from which the page is made",
        words("rollback abandoned cancelled"),
    )


@cache
def corpus_events() -> frozenset[str]:
    """The events in the logs of the corpus."""
    files = [msgspec.json.decode(path.read_bytes()) for path in sorted((ROOT / "tests/corpus").glob("v*/*.json"))]
    rows = [bytes.fromhex(row) for file in files for record in (*file["executions"], *file["in_flight"]) for row in record["rows"]]
    return frozenset(type(event).__name__ for event in log_format.decode_rows(rows))


def entry_of(error: str) -> str:
    """The entry of an error on its page."""
    return (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8").partition(f"## {error}\n")[2].partition("\n## ")[0]


def missing(tables: Iterator[Table], family: set[str]) -> str:
    """All complaints, in lines that begin with the name of the class."""
    return "".join(f"\n{complaint}" for complaint in sorted(complaint for table in tables for complaint in table.complaints(family)))


def test_every_event_has_its_entry_in_every_table() -> None:
    found = missing(event_tables(), tagged(events))
    found += missing(program_tables(), set(names(*events.PROGRAM_EVENTS)))
    assert not found, f'an event lacks entries (CONTRIBUTING.md, "Adding an event"):{found}'


def test_every_message_has_its_entry_in_every_table() -> None:
    found = missing(message_tables(), tagged(messages))
    assert not found, f"a message lacks entries:{found}"


def test_every_kind_of_failure_has_its_entry_in_every_table() -> None:
    found = missing(failure_tables(), set(get_args(operations.FailureKind)))
    assert not found, f"a kind of failure lacks entries:{found}"


def test_no_two_events_have_the_same_tag() -> None:
    tags = [one.__struct_config__.tag for one in get_args(events.Event)]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (Table("a.py", "TABLE", frozenset({"Old"}), "add a row"), "New: a.py, TABLE: add a row"),
        (Table("a.py", "TABLE", frozenset({"Old", "New"}), "add a row", frozenset({"New"})), 'New: .*remove its name from the `without` of "TABLE"'),
        (Table("a.py", "TABLE", frozenset({"Old", "New"}), "add a row", frozenset({"Gone"})), "Gone: .*there is no such class"),
    ],
    ids=["no entry", "an entry and an exception", "an exception for a class that is gone"],
)
def test_a_table_names_the_file_and_what_to_add(table: Table, complaint: str) -> None:
    (found,) = table.complaints({"Old", "New"})
    assert re.match(complaint, found)
