"""Each execution of the corpus that has ended goes the same way when its own definition is tried on it."""

from types import SimpleNamespace
from typing import Any

import pytest

from perdure.core.events import EndedEvent
from perdure.core.pinned_calls import Hosting
from perdure.core.program import CATALOG_PROGRAM
from perdure.core.replay import fold_events
from perdure.definitions.graph.execution_view import view_at_event
from perdure.runtime.blob_loader import BlobCache, run_with_blobs
from perdure.service.definition_starts import release_of
from perdure.service.proposals.recorded_answers import RecordedAnswers
from perdure.service.proposals.trial_run import RecordedRun, TrialRun, TriedDefinition
from tests.test_corpus import EXECUTIONS, CorpusExecution

ENDED = [
    one
    for one in EXECUTIONS
    if (execution := fold_events(one.record.key, one.events)).definition is not None and execution.ended is not None and execution.ended.status != "cancelled"
]


def blobs_of(one: CorpusExecution) -> Any:
    """What a cache of blobs needs of a store."""

    async def blob(sha256: str) -> bytes | None:
        return one.blobs.get(sha256)

    return SimpleNamespace(blob=blob)


@pytest.mark.parametrize("one", ENDED, ids=[f"{one.case}-{number}" for number, one in enumerate(ENDED)])
async def test_its_own_definition_goes_the_same_way(one: CorpusExecution) -> None:
    key, events, payloads = one.record.key, one.events, BlobCache(blobs_of(one))
    execution = fold_events(key, events)
    assert execution.definition is not None
    before = await run_with_blobs(payloads, view_at_event(key, events, len(events)))
    assert before is not None
    release = release_of(key.workflow, one.blobs[execution.definition.sha256])
    tried = TriedDefinition(release, before.ir, Hosting(CATALOG_PROGRAM, execution.calls), one.blobs, {})
    run = TrialRun(tried, RecordedRun(events, execution, RecordedAnswers(events, execution, before.ir, payloads)), payloads)
    await run.run()
    assert run.unknown is None
    ended = run.execution.ended
    assert isinstance(ended, EndedEvent) and execution.ended is not None
    assert (ended.status, ended.outcome) == (execution.ended.status, execution.ended.outcome)
    after = await run_with_blobs(payloads, view_at_event(key, run.events, len(run.events)), run.blobs)
    assert after is not None and after.states == before.states and after.tokens.outputs == before.tokens.outputs
