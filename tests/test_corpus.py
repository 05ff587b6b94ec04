"""The corpus: every log that a release of Perdure wrote still folds, replays to the same end, and tells the same history."""

import ast
import itertools
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import decompress

import msgspec
import pytest

from perdure.code.context import Context
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.execution import Execution
from perdure.core.operations import APPROVAL_WORKFLOW, Failure, SpawnOperation, Success
from perdure.core.program import DropCommand, FinishCommand, OpenCommand, ProgramCommand
from perdure.core.replay import blobs_read, events_fed, fold_events, replay_program
from perdure.core.traversal import rewrite_parts
from perdure.definitions.format import model, validator
from perdure.definitions.format.dialect_rules import RULES
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.shapes import EitherShape, FieldsShape, ListShape, MapShape, Shape, StepsShape, matching_option
from perdure.definitions.graph.graph_program import GraphProgram
from perdure.definitions.kinds import config_checks
from perdure.dialects import definition_reader
from perdure.runtime.workflow_programs import WorkflowProgram, program_of
from tests.core.scripted_execution import driven
from tests.corpus import definitions, make, replay, workflows

FILES = sorted((Path(__file__).parent / "corpus").glob("v*/*.json"))


class CorpusExecution(msgspec.Struct):
    """One execution of the corpus, with the blobs of its file."""

    case: str
    record: make.Record
    blobs: dict[str, bytes]

    @property
    def rows(self) -> list[bytes]:
        return [bytes.fromhex(row) for row in self.record.rows]

    @property
    def events(self) -> list[e.Event]:
        return log_format.decode_rows(self.rows)

    def program(self) -> WorkflowProgram:
        return program_of(replay.workflow(self.case, self.record.key, self.blobs), self.record.key)


def known(file: Path) -> Iterator[CorpusExecution]:
    recorded = msgspec.json.decode(file.read_bytes(), type=make.Recorded)
    blobs = {name: decompress(b64decode(raw)) for name, raw in recorded.blobs.items()}
    for record in (*recorded.executions, *recorded.in_flight):
        yield CorpusExecution(file.stem, record, blobs)


EXECUTIONS = [one for file in FILES for one in known(file)]
each = pytest.mark.parametrize("one", EXECUTIONS, ids=[f"{one.case}-{number}-{one.record.key.workflow}" for number, one in enumerate(EXECUTIONS)])


@pytest.fixture(autouse=True)
def _no_document_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an execution has pinned is valid for good: replaying it neither reads nor validates a document, and compiles it anew from its file."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a pinned document was validated again")

    for module in (definition_reader, validator):
        monkeypatch.setattr(module, "definition_findings", refuse)
    monkeypatch.setattr(definition_reader, "read_definition", refuse)
    monkeypatch.setattr(config_checks, "read_checked", refuse)


def test_every_case_has_its_log_in_flight_and_at_its_end() -> None:
    assert {file.stem for file in FILES if file.parent.name == "v2"} == set(replay.NAMES)
    ended = {one.case: one.record.status in make.ENDED for one in EXECUTIONS if one.record.rows}
    assert set(ended) == {one.case for one in EXECUTIONS if one.record.status not in make.ENDED} == set(replay.NAMES)


def test_the_corpus_is_small() -> None:
    assert sum(file.stat().st_size for file in FILES) < 680_000


def documents(status: Callable[[str], bool]) -> dict[str, Any]:
    """The definitions that executions of such a status have pinned, by their hashes."""
    started = (event for one in EXECUTIONS if status(one.record.status) for event in one.events if isinstance(event, e.StartedEvent) and event.definition)
    wanted = {event.definition.sha256 for event in started if event.definition}
    return {name: msgspec.json.decode(one.blobs[name]) for one in EXECUTIONS for name in wanted & set(one.blobs)}


def reached(shape: Shape, within: frozenset[str] = frozenset()) -> Iterator[str]:
    """The fields of all mappings that a shape has, as the model says."""
    match shape:
        case FieldsShape(what, fields) if what not in within:
            for field in fields:
                yield f"{what}.{field.name}"
                yield from reached(field.shape, within | {what})
        case EitherShape(options):
            for option in options:
                yield from reached(option, within)
        case ListShape(of) | MapShape(of):
            yield from reached(of, within)


def used(shape: Shape, value: Any) -> Iterator[str]:
    """Those of them that stand in a value."""
    match shape:
        case FieldsShape(what, fields) if isinstance(value, dict):
            for field in fields:
                if field.name in value:
                    yield f"{what}.{field.name}"
                    yield from used(field.shape, value[field.name])
        case EitherShape() if (option := matching_option(shape, value)) is not None:
            yield from used(option, value)
        case ListShape(of) if isinstance(value, list):
            for part in value:
                yield from used(of, part)
        case MapShape(of) if isinstance(value, dict):
            for part in value.values():
                yield from used(of, part)
        case StepsShape():
            for part in value:
                yield from used(STEP, part)


STEP = FieldsShape("a step", tuple(model.step_fields().values()))
WHOLE = {*reached(model.DOCUMENT), *reached(STEP)}


def written() -> list[Any]:
    """The documents of the table as they are written, in the format's own shape, before what is usual is left out of them."""
    return [parse_document(definitions.document(case)).document for case in definitions.CASES.values() if isinstance(case.document, str)]


def verbs_by_id(thing: Any) -> Iterator[tuple[str, str]]:
    """The steps of a document, at any depth: the id and the verb of each."""
    match thing:
        case dict():
            if "id" in thing:
                yield from ((thing["id"], verb.name) for verb in model.VERBS if verb.name in thing)
            for part in thing.values():
                yield from verbs_by_id(part)
        case list():
            for part in thing:
                yield from verbs_by_id(part)


@pytest.mark.slow
def test_the_documents_of_the_corpus_have_every_verb_and_every_field_of_the_model() -> None:
    pinned = documents(lambda _: True)
    assert WHOLE - {name for one in (*written(), *pinned.values()) for name in used(model.DOCUMENT, one)} == set()


@pytest.mark.parametrize("is_over", [True, False])
def test_executions_at_their_end_and_in_flight_have_pinned_every_verb_and_dialect(is_over: bool) -> None:
    pinned = documents(lambda status: (status in make.ENDED) == is_over)
    stand = {name for one in pinned.values() for name in used(model.DOCUMENT, one)}
    assert {f"a step.{verb.name}" for verb in model.VERBS} <= stand
    assert {one.get("dialect", "") for one in pinned.values()} == set(RULES)
    assert {one.get("order", "refs") for one in pinned.values()} == {"refs", "listed", "ports"}


def test_each_verb_was_reached_by_an_execution() -> None:
    pinned, found = documents(lambda _: True), set[str]()
    for one in EXECUTIONS:
        started = next((event.definition for event in one.events if isinstance(event, e.StartedEvent)), None)
        if started is not None:
            asked = {part[0] for event in one.events if isinstance(event, e.OpenedEvent) for part in event.path if isinstance(part, tuple)}
            found |= {verb for id, verb in verbs_by_id(pinned[started.sha256]) if id in asked}
    assert {verb.name for verb in model.VERBS} - found == set()


def test_code_of_the_corpus_uses_every_verb_of_a_context() -> None:
    called = {node.attr for node in ast.walk(ast.parse(Path(workflows.__file__).read_text())) if isinstance(node, ast.Attribute)}
    assert {name for name in vars(Context) if not name.startswith("_")} - called == set()


@each
def test_the_log_folds_to_how_it_stood(one: CorpusExecution) -> None:
    execution = fold_events(one.record.key, one.events, one.record.root)
    assert (execution.status, execution.started is None or execution.started.version) == (one.record.status, one.record.version)
    assert log_format.decode_row(log_format.encode_row(one.events)) == one.events


def without_the_end(events: Sequence[e.Event]) -> tuple[Sequence[e.Event], e.Event]:
    """The log up to the event that made the program end, and that event."""
    last = max(index for index, event in enumerate(events) if type(event) not in {*e.COMMAND_EVENTS, e.SnapshotEvent})
    return events[:last], events[last]


@each
def test_the_log_replays_without_divergence_to_the_same_end(one: CorpusExecution) -> None:
    events = one.events
    if one.record.status not in make.ENDED:
        return
    before, last = without_the_end(events)
    execution, instance = Execution(one.record.key, one.record.root), one.program()
    diverged, _ = driven(replay_program(execution, before, instance, awake=True), one.blobs)
    assert diverged is None, diverged
    ended = next(event for event in reversed(events) if isinstance(event, e.EndedEvent))
    if isinstance(last, e.EndedEvent):
        return
    execution.apply(last)
    commands = [command for event in events_fed(execution, last) for command in instance.feed(execution, event, None, payloads(execution, event, one))]
    instance.close()
    (finish,) = [command for command in commands if isinstance(command, FinishCommand)]
    match finish.outcome, ended.outcome:
        case Success(bytes() as found), Success(expected):
            assert found == (one.blobs[expected.sha256] if isinstance(expected, values.Blob) else expected)
            assert one.record.result in (found.hex(), sha256(found).hexdigest())
        case Failure(kind, _, error), Failure(expected_kind, _, expected_error):
            assert (kind, error.type, error.message) == (expected_kind, expected_error.type, expected_error.message)
            assert one.record.error == f"{error.type}: {error.message}"
        case found, expected:
            pytest.fail(f"it ended as {expected}, and ends now as {found}")


def payloads(execution: Execution, event: e.Event, one: CorpusExecution) -> dict[str, bytes]:
    return {blob.sha256: one.blobs[blob.sha256] for blob in blobs_read(execution, event)}


@each
def test_the_log_can_be_cut_behind_every_commit_and_replays_to_what_was_open_there(one: CorpusExecution) -> None:
    assert replay.opens(one.case, one.record.key, one.record.root, one.rows, one.blobs) == one.record.opens


@pytest.mark.parametrize(
    "one", [one for one in EXECUTIONS if one.record.status in make.ENDED and isinstance(one.program(), GraphProgram)], ids=lambda one: one.case
)
def test_a_definition_decides_at_each_event_of_its_log_as_it_did(one: CorpusExecution) -> None:
    execution, instance, left = Execution(one.record.key, one.record.root), one.program(), deque(one.events)
    while left:
        event = left.popleft()
        execution.apply(event)
        given = payloads(execution, event, one)
        decided = [found for each in events_fed(execution, event) for command in instance.feed(execution, each, None, given) for found in shown(command)]
        asked = list(itertools.takewhile(lambda following: type(following) in e.COMMAND_EVENTS, left))
        assert decided == [found for one in asked for found in shown(one)], f"behind {event}"
        for _ in asked:
            execution.apply(left.popleft())
    instance.close()


def shown(thing: ProgramCommand | e.Event) -> Iterator[tuple[object, ...]]:
    """What was asked for, as a command and as an event say it alike; values that are kept as blobs are named by their hash."""
    match thing:
        case OpenCommand(path, op) | e.OpenedEvent(path, op):
            if isinstance(op, SpawnOperation) and op.workflow == APPROVAL_WORKFLOW:
                op = msgspec.structs.replace(op, attributes=())  # by which approvals are found; those of earlier versions have none
            yield "open", path, rewrite_parts(op, lambda part: part.sha256 if isinstance(part, values.Blob) else part)
        case DropCommand(path) | e.DroppedEvent(path):
            yield "drop", path
        case FinishCommand(status) | e.EndedEvent(status):
            yield "end", status


@each
def test_the_public_history_is_what_it_was(one: CorpusExecution) -> None:
    assert make.history_hash(one.record.key, one.rows) == one.record.history
