"""The corpus: every log that a release of Perdure wrote still folds, replays to the same end, and tells the same history."""

from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from zlib import decompress

import msgspec
import pytest

from perdure.code.code_program import CodeProgram
from perdure.code.context import new_code_program
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.execution import Execution
from perdure.core.operations import Failure, Success
from perdure.core.program import FinishCommand
from perdure.core.replay import blobs_read, events_fed, fold_events, replay_program
from tests.core.stories import driven
from tests.corpus import make
from tests.corpus.workflows import CASES

FILES = sorted((Path(__file__).parent / "corpus").glob("v*/*.json"))


class Known(msgspec.Struct):
    """One execution of the corpus, with the blobs of its file and the code that made it."""

    case: str
    record: make.Record
    blobs: dict[str, bytes]

    @property
    def rows(self) -> list[bytes]:
        return [bytes.fromhex(row) for row in self.record.rows]

    @property
    def events(self) -> list[e.Event]:
        return log_format.decode_rows(self.rows)

    def program(self) -> CodeProgram:
        code = next(one.code for one in CASES[self.case].workflows if one.code.name == self.record.key.workflow)
        return new_code_program(code, self.record.key)


def known(file: Path) -> list[Known]:
    recorded = msgspec.json.decode(file.read_bytes(), type=make.Recorded)
    blobs = {name: decompress(b64decode(raw)) for name, raw in recorded.blobs.items()}
    return [Known(file.stem, record, blobs) for record in recorded.executions]


EXECUTIONS = [one for file in FILES for one in known(file)]
each = pytest.mark.parametrize("one", EXECUTIONS, ids=[f"{one.case}-{number}-{one.record.key.workflow}" for number, one in enumerate(EXECUTIONS)])


def test_every_canonical_workflow_has_its_log() -> None:
    assert {file.stem for file in FILES if file.parent.name == "v2"} == set(CASES) and len(CASES) == 12


@each
def test_the_log_folds_to_how_it_ended(one: Known) -> None:
    execution = fold_events(one.record.key, one.events, one.record.root)
    assert (execution.status, execution.started is None or execution.started.version) == (one.record.status, one.record.version)
    assert log_format.decode_row(log_format.encode_row(one.events)) == one.events


def without_the_end(events: Sequence[e.Event]) -> tuple[Sequence[e.Event], e.Event]:
    """The log up to the event that made the program end, and that event."""
    last = max(index for index, event in enumerate(events) if type(event) not in {*e.COMMAND_EVENTS, e.SnapshotEvent})
    return events[:last], events[last]


@each
def test_the_log_replays_without_divergence_to_the_same_end(one: Known) -> None:
    events = one.events
    before, last = without_the_end(events)
    execution, instance = Execution(one.record.key, one.record.root), one.program()
    diverged, _ = driven(replay_program(execution, before, instance), one.blobs)
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


def payloads(execution: Execution, event: e.Event, one: Known) -> dict[str, bytes]:
    return {blob.sha256: one.blobs[blob.sha256] for blob in blobs_read(execution, event)}


@each
def test_the_log_can_be_cut_behind_every_commit_and_replays(one: Known) -> None:
    rows = one.rows
    for end in range(1, len(rows)):
        execution, instance = Execution(one.record.key, one.record.root), one.program()
        diverged, _ = driven(replay_program(execution, log_format.decode_rows(rows[:end]), instance), one.blobs)
        instance.close()
        assert diverged is None, f"behind row {end}: {diverged}"


@each
def test_the_public_history_is_what_it_was(one: Known) -> None:
    assert make.history_hash(one.record.key, one.rows) == one.record.history
