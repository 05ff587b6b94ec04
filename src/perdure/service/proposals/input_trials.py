"""Runs a trial of a document on an input that somebody has made up, for a definition of which no execution has recorded anything.

No step is performed: a step has the value that the caller gives for it, or ends what is known.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core.paths import Key
from perdure.core.pinned_calls import Hosting
from perdure.core.program import CATALOG_PROGRAM
from perdure.core.replay import fold_events
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.graph.execution_view import view_at_event
from perdure.definitions.graph.graph_workflow import WALK_VERSION, GraphWorkflow
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.plan import plan_of_definition
from perdure.definitions.graph.requirements import requirements_of
from perdure.runtime.blob_loader import BlobCache, run_in_threads
from perdure.runtime.workflow_programs import encode_input
from perdure.service.catalog import read_document, received_bytes
from perdure.service.catalog_calls import CallingDefinition, find_calls
from perdure.service.definition_starts import release_of
from perdure.service.proposals.proposal_trials import NOT_RUN, TRIAL_S, expect_steps, shown_outcome
from perdure.service.proposals.recorded_answers import RecordedAnswers
from perdure.service.proposals.trial_run import RecordedRun, TrialRun, TriedDefinition
from perdure.service.shown_values import shown_value
from perdure.service.store_access import StoreAccess


class InputTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What a document would make of an input: `status` and `outcome` of the execution (the error, if it fails), the steps that ran, and their results.

    `unknown_from` is the step from which on nothing is known (empty: the execution as a whole), and `why` says why (empty: all is known).
    """

    status: str = ""
    outcome: Any = None
    ran: tuple[str, ...] = ()
    results: dict[str, Any] = {}
    unknown_from: str = ""
    why: str = ""


class _NoAnswers(RecordedAnswers):
    """The record of an execution that has recorded nothing. All tools that the document names count as known."""

    def __init__(self, execution: Any, ir: IR, payloads: BlobCache) -> None:
        super().__init__((), execution, ir, payloads)
        self._tools = frozenset(need.name for need in requirements_of(ir) if need.what == "tool")

    @property
    def targets(self) -> frozenset[str]:
        """The tools of the document."""
        return self._tools


async def try_on_input(
    access: StoreAccess, tenant: str, slug: str, document: bytes, input: Mapping[str, Any], mocks: Mapping[str, Any] | None = None
) -> InputTrial:
    """Runs a trial of a document on one input, in virtual time. `mocks` are values of steps, by their ids.

    Raises:
        BadDefinition: the document is not valid; the error has all findings.
        BadValue: the definition does not take the input, or a mock is not of a step of the document.
    """
    read = await read_document(received_bytes(document), slug)
    canonical = definition_bytes(read.canonical)
    release = release_of(slug, canonical)
    raw = encode_input(GraphWorkflow(release.name, release), [], dict(input), "start")
    ir = plan_of_definition(release.sha256, {release.sha256: canonical}).ir
    expect_steps(ir, mocks or {})
    found = await find_calls(access, tenant, CallingDefinition(slug, "", canonical))
    tried = TriedDefinition(release, ir, Hosting(CATALOG_PROGRAM, found.calls), {release.sha256: canonical, **found.blobs}, mocks or {})
    key, now_s = Key(tenant, slug, "trial"), (await access.store.store_time()).now_s
    events = [e.StartedEvent(WALK_VERSION, now_s, raw)]
    execution, payloads = fold_events(key, events), BlobCache(access.store)
    run = TrialRun(tried, RecordedRun(events, execution, _NoAnswers(execution, ir, payloads)), payloads)
    await run.run(monotonic() + TRIAL_S)
    view = await run_in_threads(payloads, view_at_event(key, run.events, len(run.events)), run.blobs) if run.events else None
    if view is None:
        return InputTrial(why="it does not begin" if run.unknown is None else run.unknown.why)
    ended = run.execution.ended
    return InputTrial(
        status="" if ended is None else ended.status,
        outcome=None if ended is None else shown_value(await shown_outcome(payloads, run.blobs, ended.outcome)),
        ran=tuple(sorted(id for id, state in view.states.items() if state not in NOT_RUN)),
        results={id: shown_value(value) for id, value in view.tokens.outputs.items()},
        unknown_from="" if run.unknown is None else run.unknown.step,
        why="" if run.unknown is None else run.unknown.why,
    )
