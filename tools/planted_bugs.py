"""Removes guards from the package, one at a time, and expects the suite to notice.

    python -m tools.planted_bugs [WORDS IN THE CLAIM]

Each row names what a guard promises, the function that it stands in, a change of that function's syntax tree, and the tests that must fail with
that change. A row fits as long as its function has the guard; when it no longer does, `tests/test_planted_bugs.py` names the row.
"""

import argparse
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

from tools.mutations import AnchorMissing, Change, Instead, Returns, always, before, changed, changed_tree, never, without
from tools.package_copies import PYTEST, ROOT, Run, run_on, run_on_copy, source_of

T = TypeVar("T")

LIMIT_S = 300.0


class Guard(NamedTuple):
    """What a guard promises, where it stands (`module:function`), the change that removes it, and the command that must then fail."""

    claim: str
    place: str
    change: Change
    command: tuple[str, ...]
    quick: bool = False

    @property
    def module(self) -> str:
        """The module it stands in."""
        return self.place.partition(":")[0]

    def source(self) -> str:
        """The module's source without the guard.

        Raises:
            AnchorMissing: the function, or the guard in it, is no longer there.
        """
        return self._changed(changed)

    def expect_in_place(self) -> None:
        """Finds the guard.

        Raises:
            AnchorMissing: see `source`.
        """
        _ = self._changed(changed_tree)

    def _changed(self, made: Callable[[str, str, Change], T]) -> T:
        try:
            return made(source_of(self.module).read_text(), self.place.partition(":")[2], self.change)
        except (AnchorMissing, FileNotFoundError, SyntaxError) as error:
            advice = "point its row in tools/planted_bugs.py to where the guard stands now, or remove the row if nothing needs the guard any more"
            raise AnchorMissing(f'"{self.claim}" is not found in {self.place}: {error}. {advice[0].upper()}{advice[1:]}.') from None


def simulator(*options: str, worlds: int = 200) -> tuple[str, ...]:
    """The simulator, over so many worlds."""
    return ("-m", "tests.proof.simulator", "--worlds", str(worlds), "--seed", "0", *options)


def suite(path: str, matching: str = "") -> tuple[str, ...]:
    """The tests of a file, or those of them whose names match."""
    return (*PYTEST, f"tests/{path}", *(("-k", matching) if matching else ()))


def on_postgres(path: str, matching: str) -> tuple[str, ...]:
    """The tests of a file that run on a real Postgres, which they start, and whose names match."""
    return (*suite(path, matching), "-m", "real")


FAULTS = simulator()
NO_FAULTS = simulator("--no-faults")
IN_FILES = simulator("--store", "sqlite", worlds=40)
DEFINITIONS = simulator("--definitions", worlds=40)
MEMORY = suite("stores/test_memory_store.py")
SQLITE = suite("stores/sqlite/test_sqlite_store.py")
ARCHIVES = suite("service/test_log_archives.py")
FEEDS = suite("stores/test_memory_store.py", "held or its_head")


def moves(matching: str) -> tuple[str, ...]:
    """The tests of moves whose names match."""
    return suite("service/test_store_moves.py", matching)


FILE_FEEDS = suite("stores/sqlite/test_sqlite_store.py", "its_head or number_is_taken")
SEPARATE = suite("stores/test_separate_blobs.py", "is_apart or grace")
BOUNDED = suite("stores/test_bounded_work.py", "sqlite")
PIECES = (*suite("stores/test_bounded_work.py", "pieces"), "-m", "real")
REMOVAL = suite("stores/sqlite/test_sqlite_store.py", "carries or sweep")
NAMED_BLOBS = suite("core/test_effects.py", "names_the_blobs")
DECIDE = suite("core/test_decision.py")
PROPOSALS, PROPOSAL_TESTS = "service.proposals.proposal_changes", "service/proposals/test_proposal_changes.py"
PARKED = suite("proof/test_simulator.py", "not_late or parked")
BAD_WEATHER = suite("proof/test_simulator.py", "weather")
LIMITS = suite("proof/test_simulator.py", "no_limit_is_exceeded")
JOINS = suite("definitions/graph/semantics/test_semantics.py", "row_says and joins:")

GUARDS = (
    # Commits: of two decisions at one version one counts, and one made before a restore counts no more.
    Guard("a stale commit changes nothing", "stores.memory:MemoryStore._commit", never("commit.version"), FAULTS),
    Guard("a commit of an earlier epoch changes nothing", "stores.memory:MemoryStore._commit", never("commit.epoch"), FAULTS),
    Guard(
        "a stale record refuses its post",
        "stores.memory_records:MemoryRecords.stale",
        never("change.version"),
        suite("stores/test_memory.py", "record or post"),
    ),
    Guard(
        "a stale record refuses its post in a file",
        "stores.sqlite.record_rows:stale_record",
        never("change.version"),
        suite("stores/sqlite/test_store.py", "stale or expects"),
    ),
    Guard(
        "an expired record is not returned",
        "stores.memory_records:MemoryRecords.records",
        Instead("has_expired(record.expires_at_s, now_s)", "False"),
        suite("stores/test_memory.py", "expired"),
    ),
    Guard(
        "only records that have expired are dropped from a file",
        "stores.sqlite.record_rows:drop_expired_records",
        Instead("(now_s, limit)", "(now_s + 1e6, limit)"),
        suite("stores/sqlite/test_store.py", "expired"),
    ),
    Guard(
        "the records of a post are of one tenant",
        "stores.records:check_records",
        never("change.key.tenant"),
        suite("stores/test_memory.py", "no_record_can_be"),
    ),
    Guard(
        "a start is refused by what is in its way",
        "stores.protocol:refused_start",
        never("admission.max", "present"),
        suite("stores/test_memory.py", "refused or admission"),
    ),
    Guard(
        "what has ended does not stand in the way of a start in a file",
        "stores.sqlite.store_tables:SqliteTables._commit",
        never("had_ended", "ended"),
        suite("stores/sqlite/test_store.py", "refused_while"),
    ),
    Guard(
        "an execution with several values is listed at the least of them",
        "core.attribute_filter:AttributeOrder.value_in",
        Instead("min(values)", "values[-1]"),
        suite("stores/sqlite/test_store.py", "order_of_an_attribute"),
    ),
    Guard("a message whose key is queued is not sent again", "stores.memory:MemoryStore._deliver", always("send.key", "box"), FAULTS),
    Guard("a commit notifies those who wait for work", "stores.memory:MemoryStore.commit", never("self._may_wake"), NO_FAULTS),
    Guard("a message that a release leaves is due again", "stores.memory:MemoryStore._set_head", never("released", "commit.creates"), FAULTS),
    Guard("a stale commit changes nothing in a file", "stores.sqlite.store_tables:SqliteTables._advance", never("before.version"), SQLITE),
    Guard("a row is in the log with the commit that it belongs to", "stores.sqlite.store_tables:SqliteTables.change", without("_append_rows"), SQLITE),
    Guard(
        "a row of a change that failed is not written with the next one",
        "stores.sqlite.store_tables:SqliteTables.change",
        without("self._rows.clear"),
        suite("stores/sqlite/test_group_commit.py", "cannot_be_stored"),
    ),
    Guard("a commit of an earlier epoch changes nothing in a file", "stores.sqlite.store_tables:SqliteTables._commit", never("commit.epoch"), IN_FILES),
    Guard("a release notifies those who wait for work in a file", "stores.sqlite.store_tables:SqliteTables._release", never("is_ready"), IN_FILES),
    Guard(
        "a claim that is not synced is followed by commits that are",
        "stores.sqlite.group_commit:GroupCommitWriter._begin",
        Instead("self._unsynced is synced", "not synced"),
        suite("stores/sqlite/test_group_commit.py", "synced"),
    ),
    Guard(
        "a claim of tasks is synced, since a task begins without a commit",
        "stores.sqlite.store:SqliteStore.claim",
        Instead("bool(claim.queues)", "False"),
        suite("stores/sqlite/test_group_commit.py", "synced"),
    ),
    Guard(
        "a claim that writes into a change feed is synced",
        "stores.sqlite.store:SqliteStore.claim",
        Instead("synced or not tables.has_feed()", "True"),
        suite("stores/sqlite/test_group_commit.py", "synced"),
    ),
    Guard(
        "a claim that only tries does not have the others give way",
        "stores.sqlite.group_commit:GroupCommitWriter._begin",
        always("waits"),
        suite("stores/sqlite/test_group_commit.py", "forestalls"),
    ),
    Guard(
        "a watcher rests, however often the store notifies",
        "runtime.change_watcher:ChangeWatcher._poll_loop",
        Instead("REST_FACTOR * took_s", "0.0"),
        suite("runtime/test_change_watcher.py", "fifth"),
    ),
    # Removal of blobs: what anything refers to stays, though a sweep found it without use a moment ago.
    Guard("a blob that an answer refers to is not removed", "core.effects:_settle_message", Instead("blob_references(outcome)", "()"), ARCHIVES),
    Guard(
        "a blob that a child is started with is not removed",
        "core.effects:_start_message",
        Instead("blob_references(op.input, op.definition, hosting)", "()"),
        NAMED_BLOBS,
    ),
    Guard("a blob that a signal carries is not removed", "core.effects:_signal_message", Instead("blob_references(op.body)", "()"), NAMED_BLOBS),
    Guard("a blob that an execution is repeated with is not removed", "service.reruns:_post_start", Instead("blob_references(begin)", "()"), ARCHIVES),
    Guard(
        "what archives that are kept refer to is not removed",
        "service.blob_collection:_ReferenceScan._kept",
        Instead("set(referenced_blobs(content.events))", "set()"),
        ARCHIVES,
    ),
    Guard("a blob that is carried again is not removed from a file", "stores.sqlite.store_tables:SqliteTables._put_blobs", without("unmark_blob"), REMOVAL),
    # The change feed and what is restored from it.
    Guard(
        "a row waits for the head that counts it", "stores.memory:MemoryStore._restore_head", Instead("first_version <= version <= head.version", "True"), FEEDS
    ),
    Guard("what was held is awake where it is restored", "stores.memory:MemoryStore._restore_head", Instead("head.holder is None", "True"), FEEDS),
    Guard("a compaction is told by the head in a file", "stores.sqlite.restored_items:_restore_head", without("drop_rows"), FILE_FEEDS),
    Guard("a restored message takes no other's number in a file", "stores.sqlite.restored_items:_restore_message", never("is_number_taken"), FILE_FEEDS),
    # Moves: of two stores one is in use, and it has everything.
    Guard("a store that is moved refuses changes", "stores.sqlite.move_mark_part:_replace", without("refuse_change"), moves("until_the_switch")),
    Guard("a mark is replaced by one who knows it", "stores.sqlite.move_mark_part:_replace", never("before != expected"), moves("has_taken_over")),
    Guard("a store with executions of its own is not copied to", "service.store_moves:StoreMover._begin", without("_check_unused"), moves("of_its_own")),
    Guard("a copy that differs is not put into use", "service.store_moves:StoreMover._close", never("differences"), moves("altered")),
    Guard("what is open when FROM is closed is copied", "service.store_moves:StoreMover._close", without("_catch_up"), moves("closes_is_copied")),
    Guard("the switch waits for leases", "service.store_moves:StoreMover._close", never("living"), moves("does_not_end_in_time")),
    Guard("a copy whose feed was ended begins anew", "service.store_copies:has_feed", Returns("True"), moves("taken_back")),
    Guard("a copy begins with an empty store", "service.store_copies:StoreCopier.begin", without("remove_everything"), moves("process_works or taken_back")),
    Guard("an engine of a store that is drained ends what it has begun", "runtime.engine:Engine._grant_grace", Returns("None"), moves("nothing_done_twice")),
    Guard(
        "what has changed again is shipped in its new place from Postgres",
        "stores.postgres.feed_reader:read_page",
        Instead("not one.changed", "True"),
        on_postgres("stores/test_postgres_store.py", "whole_after_each_page"),
    ),
    Guard(
        "what changed during the scan of a feed of Postgres is shipped behind it",
        "stores.postgres.feed_reader:give_positions",
        never("await _scanned(fetch)"),
        on_postgres("stores/test_differential_servers.py", "copy_by"),
    ),
    Guard(
        "a page of Postgres is read in the snapshot in which its positions were given",
        "stores.postgres.store:PostgresStore._snapshot",
        Instead("'repeatable_read'", "'read_committed'"),
        on_postgres("stores/test_postgres_feed.py", "one_moment"),
    ),
    Guard(
        "a copy of the store has the limits of one tenant for that tenant alone",
        "stores.postgres.feed_reader:_items_of_kind",
        Instead("tenant or None", "None"),
        on_postgres("stores/test_differential_servers.py", "copy_by"),
    ),
    Guard(
        "a change that arrives when all statements have just ended is sent",
        "stores.postgres.group_commit:GroupCommit._send",
        without("self._senders.discard"),
        suite("stores/postgres/test_group_commit.py"),
    ),
    Guard(
        "of processes that migrate at once, one applies a script",
        "stores.postgres.migrations:SchemaMigrations._apply",
        always("try_lock_migrations"),
        on_postgres("stores/test_postgres_migrations.py", "at_once"),
    ),
    Guard(
        "a script that another process has applied is not applied again",
        "stores.postgres.migrations:SchemaMigrations._apply",
        never("state.number"),
        on_postgres("stores/test_postgres_migrations.py", "at_once"),
    ),
    Guard(
        "an engine leaves tables alone that do not work with it any more",
        "stores.postgres.migrations:SchemaMigrations.expect_known",
        never("state.oldest_engine"),
        on_postgres("stores/test_postgres_migrations.py", "two_versions"),
    ),
    Guard(
        "an engine that starts applies no script that running engines do not work with",
        "stores.postgres.migrations:SchemaMigrations.must_migrate",
        never("breaking"),
        on_postgres("stores/test_postgres_migrations.py", "on_demand"),
    ),
    Guard(
        "an index that was left incomplete is made again",
        "stores.postgres.migrations:SchemaMigrations._apply_outside",
        never("is_valid is False"),
        on_postgres("stores/test_postgres_migrations.py", "incomplete"),
    ),
    Guard(
        "a script does not keep engines waiting for its locks",
        "stores.postgres.migrations:SchemaMigrations._settings",
        Instead("self._lock_timeout_s if local else 0", "0"),
        on_postgres("stores/test_postgres_migrations.py", "engines_go_on"),
    ),
    Guard(
        "a role that gets another purpose loses the rights of the one before",
        "stores.postgres.grants:grant_statements",
        Instead("(SQL.revoke_rights, {})", "(SQL.grant_schema, {})"),
        on_postgres("stores/test_postgres_grants.py", "another_purpose"),
    ),
    Guard(
        "a compaction is told by the head in Postgres",
        "stores.postgres.restored_items:_restore_head",
        without("drop_rows", "first", "number"),
        on_postgres("stores/test_postgres_store.py", "its_head"),
    ),
    Guard(
        "a restored message takes no other's number in Postgres",
        "stores.postgres.restored_items:_restore_message",
        never("is_number_taken"),
        on_postgres("stores/test_postgres_store.py", "number_is_taken"),
    ),
    Guard(
        "messages that are sent after a restore come behind the restored ones in Postgres",
        "stores.postgres.restored_items:_restore_message",
        never("number is not None"),
        on_postgres("stores/test_postgres_store.py", "messages_keep_their_order"),
    ),
    Guard("a blob is there before the commit that names it", "stores.separate_blobs:SeparateBlobsStore.separated", without("put"), SEPARATE),
    Guard(
        "what was put a moment ago is not deleted",
        "stores.blob_directory:DirectoryBlobStore._delete",
        Instead("file.stat().st_mtime >= put_before_s", "False"),
        suite("stores/test_separate_blobs.py", "keeps_blobs_by"),
    ),
    Guard("a claim of an earlier epoch gets nothing", "stores.memory:MemoryStore.claim", never("claim.epoch"), MEMORY, quick=True),
    Guard("a holder whose lease is over gets nothing", "stores.memory:MemoryStore.claim", never("self._is_dead(claim.holder, now_s)"), MEMORY),
    Guard("what a living process holds is not handed to another", "stores.memory:MemoryStore._free_orphans", always("self._is_dead"), NO_FAULTS),
    Guard("work is leased to one worker at a time", "stores.memory:MemoryStore._lease", without("self._leases[message.number]"), LIMITS),
    Guard(
        "a claim frees a bounded piece of what the dead hold in a file",
        "stores.sqlite.store_tables:SqliteTables.claim",
        Instead("free_orphans(self._execute, liveness.dead, claim.limit, now_s)", "free_orphans(self._execute, liveness.dead, 10**6, now_s)"),
        BOUNDED,
    ),
    Guard("a list that passes over much takes Redis in pieces", "stores.redis:RedisStore._listed_heads", Instead("READ_MAX", "10 ** 9"), PIECES),
    Guard("what the dead held is handed to others in a file", "stores.sqlite.store_tables:SqliteTables.claim", never("free_orphans"), IN_FILES),
    Guard("an answer to a task names its epoch", "stores.protocol:Post.__post_init__", never("self.epoch"), MEMORY),
    Guard("a tenant that was served waits for its next turn", "stores.fairness:take_turns", Instead("served.get(line[0][2], -inf)", "-inf"), MEMORY),
    Guard("a burst of one tenant does not delay another in a file", "stores.sqlite.claim_queries:_in_turns", always("len(candidates)"), SQLITE),
    Guard("a claim that failed is released", "runtime.engine:Engine._claim", before("self._release_all", statement="return"), BAD_WEATHER),
    Guard(
        "a message of a claim answered late is decided on once",
        "runtime.engine:Engine._receive_claimed",
        never("self.settled_messages"),
        suite("runtime/test_engine.py"),
    ),
    Guard(
        "a fold behind its head is read again",
        "runtime.engine:Engine._receive_claimed",
        never("resident.version"),
        suite("proof/test_simulator.py", "nothing_fails"),
    ),
    Guard(
        "an execution that another holds is not continued",
        "runtime.decision_loop:restore_execution",
        never("engine.holder", "found.head.holder"),
        suite("runtime/test_engine_past_its_lease.py"),
    ),
    Guard(
        "an execution that was let go is not revived",
        "runtime.engine:Engine.finish",
        Instead("resident.discard()", "self._after_advance(resident)"),
        suite("runtime/test_released_executions.py"),
    ),
    Guard("work that was leased too slowly is not begun", "runtime.holder:TaskClaims.claim", never("claimed.work"), suite("runtime/test_worker.py")),
    Guard(
        "a claim is repeated when the next work is due", "runtime.engine:Engine._claim", without("self._wake_up_timer"), suite("runtime/test_timers_on_time.py")
    ),
    Guard(
        "a claim of some families gets nothing of others",
        "stores.memory:MemoryStore._is_wanted",
        Instead("execution.head.root in claim.roots", "True"),
        suite("stores/test_memory_store.py", "famil"),
    ),
    Guard(
        "a claim of some families gets nothing of others in a file",
        "stores.sqlite.claim_queries:find_ready",
        Instead("roots_text(claim.roots)", "json_text([])"),
        suite("stores/sqlite/test_sqlite_store.py", "famil"),
    ),
    Guard(
        "a run that was given up releases what it held",
        "runtime.engine:Engine.dismiss",
        Instead("messages.EvictMessage('the run that it belongs to has ended')", "messages.TickMessage()"),
        suite("test_shared_engines.py", "cancelled_arun"),
    ),
    Guard(
        "after a run was given up none of its steps begins",
        "runtime.in_flight:_begin_attempt",
        never("resident.drop_when_released"),
        suite("test_shared_engines.py", "no_further_sync_step"),
    ),
    Guard(
        "what an engine has claimed for a run is known before the store is asked how it stands",
        "service.local_run:run_in_engine",
        without("engine.claim_now"),
        suite("test_shared_engines.py", "a_resume_that"),
    ),
    Guard(
        "an engine that fails fails those who wait in its App",
        "runtime.engine:Engine.run",
        without("self._end_waiters.fail"),
        suite("test_app.py", "engine_that_fails"),
    ),
    Guard("an App is open once", "app:App._open", never("self._pid"), suite("test_app.py", "twice")),
    # The fold and the log: intentions before effects, the same replayed as lived.
    Guard(
        "an effect follows its commit",
        "runtime.batch_runner:BatchRunner._advance_batch",
        before("self._engine.store.commit", statement="[act_on_decision(self._engine, one) for one, _ in decided]"),
        FAULTS,
    ),
    Guard("messages of a failed commit are decided again", "runtime.batch_runner:BatchRunner._fail", without("resident.put_back"), BAD_WEATHER),
    Guard(
        "a cancelled step learns of it before its undo begins",
        "runtime.in_flight:_run_attempt",
        without("asyncio.sleep"),
        suite("code/test_in_flight.py", "settle_within_the_grace"),
    ),
    Guard(
        "executions whose commit was cancelled are decided on again",
        "runtime.batch_runner:BatchRunner._advance_batch",
        without("self._engine.finish"),
        suite("runtime/test_batch_runner.py", "cancelled_by_a_step"),
    ),
    Guard(
        "a task in which a step has waited performs no other",
        "runtime.batch_runner:BatchRunner._run",
        Instead("await run_in_context(attempt(), self._engine.variables.copy())", "await run_in_context(attempt(), self._engine.variables.copy()) and False"),
        suite("runtime/test_batch_runner.py", "can_cancel_no_later_one"),
    ),
    Guard(
        "steps of one task have context variables of their own",
        "runtime.batch_runner:BatchRunner._run",
        Instead("run_in_context(attempt(), self._engine.variables.copy())", "attempt()"),
        suite("runtime/test_batch_runner.py"),
    ),
    Guard(
        "no step runs in a task that is being cancelled",
        "runtime.batch_runner:BatchRunner._run",
        Instead("me.cancelling()", "0"),
        suite("runtime/test_batch_runner.py"),
    ),
    Guard(
        "a step that waits keeps nothing else from running",
        "runtime.batch_runner:BatchRunner._request_runner_for_rest",
        never("self._ready", "self._attempts"),
        suite("runtime/test_batch_runner.py"),
    ),
    Guard("attempts of a dead engine are found", "runtime.decision_loop:restore_execution", Instead("execution.opened.performing()", "[]"), FAULTS),
    Guard(
        "an execution with a running step is held",
        "runtime.resident_executions:ResidentExecution.is_releasable",
        Instead("self.execution.opened.performed", "False"),
        NO_FAULTS,
    ),
    Guard("a stopping engine begins no attempt", "runtime.in_flight:_begin_attempt", never("engine.stopping"), suite("runtime/test_engine_shutdown.py")),
    Guard(
        "replay reads a kept value and computes none",
        "code.code_program:CodeProgram.remember",
        without("return self._matched_value"),
        simulator("--no-faults", "--always-suspend"),
    ),
    Guard(
        "replay notices an operation no longer asked for",
        "core.replay:_replay_event",
        Instead("cursor.left() if fed else ()", "()"),
        suite("core/test_replay.py"),
    ),
    Guard(
        "a replay is not ahead of a task that is ready",
        "code.deterministic_loop:DeterministicLoop.runs_alone",
        Instead("self._driving and not self._ready", "self._driving"),
        suite("code/test_replay_ahead.py"),
        quick=True,
    ),
    Guard(
        "a replay is not ahead of a cancellation",
        "code.deterministic_loop:DeterministicLoop.runs_alone",
        Instead("not task._must_cancel", "True"),
        suite("code/test_replay_ahead.py"),
    ),
    Guard(
        "a replay is not ahead of recorded commands", "core.replay_cursor:ReplayCursor.settle_ahead", never("self.next"), suite("core/test_replay_cursor.py")
    ),
    Guard(
        "a replay is not ahead of a payload that it has to load",
        "core.replay_cursor:ReplayCursor.settle_ahead",
        never("event.outcome.value"),
        suite("core/test_replay_cursor.py"),
    ),
    Guard(
        "a replay is not ahead of what was fed during a pause",
        "core.replay_cursor:ReplayCursor.settle_ahead",
        Instead("not self.may_settle_ahead", "False"),
        suite("core/test_replay_cursor.py"),
    ),
    Guard(
        "a call that was dropped before it began had no attempt",
        "core.execution:Execution._settle_first_attempt",
        never("outcome.kind"),
        suite("core/test_replay_cursor.py"),
    ),
    Guard("what settled during a pause is fed when it ends", "core.replay:events_fed", never("e.ResumedEvent"), simulator("--always-suspend")),
    Guard("a program is fed nothing during a pause", "core.replay:events_fed", never("execution.parked"), FAULTS),
    Guard("answers that come during a pause are kept", "core.execution:Execution.apply", without("self.backlog.append"), FAULTS),
    Guard("a turn with an open operation is not forgotten", "core.decision:_DecisionDraft._trim", never("iteration_holds_open"), DECIDE),
    Guard(
        "events without their turn are not compacted",
        "core.compaction:_kept_events",
        before("turn = _resuming_event(alive, trimmed)", statement="continue"),
        suite("core/test_compaction.py"),
    ),
    Guard(
        "turns needed by a patch are not compacted",
        "core.compaction:_kept_events",
        never("e.PatchedEvent", "kept.events"),
        suite("proof/definitions/test_simulated_definitions.py", "found_once"),
    ),
    Guard("old code stops at a newer gate", "code.version_gates:version_at_gate", never("way > latest"), suite("code/test_version_gates.py")),
    Guard("a note of a choice is read on replay", "definitions.graph.operation_log:OperationLog.judged", without("self.ask(path, choice)"), DEFINITIONS),
    Guard(
        "a step that a turn passes by is null in it",
        "definitions.graph.graph_run:GraphRun.pass_by",
        without("turn.pass_by"),
        suite("definitions/graph/semantics/test_semantics.py", "does_as_the_row_says and cycles"),
    ),
    Guard("a node behind a join waits for every edge", "definitions.graph.token_walk:TokenWalk._join", always("arrivals.undecided == 0", "wanted"), JOINS),
    # Messages: each takes effect once, in order, and is lost by no one.
    Guard("an answer to an earlier attempt is ignored", "core.decision:_DecisionDraft.settle", never("message.attempt"), FAULTS),
    Guard("an answer to an attempt already over is ignored", "core.decision:_DecisionDraft.settle", never("pending.state"), FAULTS),
    Guard("an external message with a known key is ignored", "core.deduplication:MessageDeduplication.knows", Instead("bool(key)", "False"), FAULTS),
    Guard("a message of an execution is taken once", "core.deduplication:MessageDeduplication.knows", Instead("watermark.knows(sent)", "False"), FAULTS),
    Guard("messages are received in order", "core.mailbox:Mailbox.put", Instead("insort", "list.append"), DECIDE),
    Guard(
        "a completed message is not given back",
        "core.execution:Execution._give_back",
        always("settlement.completed"),
        suite("core/test_execution.py"),
    ),
    Guard("a losing branch gives back its messages", "code.code_program:CodeProgram.give_back", Returns("None"), suite("code/test_race.py")),
    Guard("a parent hears of its child's end", "core.effects:_effects_of_ended", without("execution.watchers"), NO_FAULTS),
    # Time: timers, interruptions, pauses.
    Guard(
        "a message that was received wins over a timeout",
        "runtime.engine:Engine._receive_claimed",
        Instead("resident.undecided.append", "resident.undecided.appendleft"),
        suite("proof/test_simulator.py", "wins_over_a_timeout"),
    ),
    Guard(
        "an interruption is no failed attempt",
        "core.execution:Execution._interrupt",
        before("self._wait_again", statement="self.open[event.path].failures += 1"),
        FAULTS,
    ),
    Guard(
        "an interruption times out no other step",
        "core.decision:_DecisionDraft.lost",
        Instead("self._due(pending)", "next(iter(self.tick(messages.TickMessage())))"),
        PARKED,
    ),
    Guard(
        "a step without heartbeats is late",
        "core.operation_state:PendingOperations.record_heartbeat",
        never("pending.by is not None"),
        suite("runtime/test_steps_in_progress.py"),
    ),
    Guard("timers wait during a pause", "core.execution:Execution.wake_at", never("self.parked"), DECIDE),
    Guard("nothing settles during a pause", "core.decision:_DecisionDraft._at_once", never("self.execution.parked"), DECIDE),
    Guard("what is ready after a pause goes on", "core.decision:_DecisionDraft.take", never("e.ResumedEvent"), FAULTS),
    Guard(
        "whoever waits for an end learns of it at once",
        "core.decision:_DecisionDraft._record",
        never("_ROUTINE_EVENTS"),
        suite("service/triggers/test_event_triggers.py"),
    ),
    Guard(
        "what code emits under a name is announced",
        "core.decision:_DecisionDraft._record",
        never("event.op", "KeepOperation"),
        suite("service/triggers/test_event_triggers.py"),
    ),
    Guard(
        "a step that takes too long is given up in time",
        "runtime.decision_loop:commit_of",
        Instead("wake_at_s is None", "True"),
        suite("runtime/test_timers_on_time.py"),
    ),
    Guard("a cancelled execution ends as cancelled", "core.decision:_DecisionDraft._finish", never("cancelling is not None"), DECIDE),
    Guard(
        "an attempt that began late is not checked again before its time is over",
        "runtime.resident_executions:ResidentExecution.wake_at",
        Instead("clock.surely_past(min(young.values()))", "due_s"),
        suite("runtime/test_resident_executions.py"),
    ),
    # A file and its write-ahead log.
    Guard(
        "a log is its own database's",
        "stores.sqlite.write_ahead_log:_difference",
        never("span.first.file"),
        suite("stores/sqlite/test_restore.py", "copied_over"),
    ),
    Guard(
        "children carry what their parent carries",
        "core.effects:_start_message",
        Instead("execution.carried", "()"),
        suite("code/test_carried_context.py", "children"),
    ),
    Guard(
        "a worker gets what the execution carries",
        "core.effects:_work_message",
        Instead("execution.carried", "()"),
        suite("code/test_carried_context.py", "worker"),
    ),
    Guard(
        "an outbox refuses connections that commit by themselves",
        "sqlalchemy.sqlalchemy_outbox:SqlalchemyOutbox._insert",
        never("_commits_by_itself(connection)"),
        suite("sqlalchemy/test_outbox.py", "commits_by_itself"),
    ),
    Guard(
        "an outbox refuses options that need the store",
        "service.execution_operations:_refuse_for_outbox",
        never("given"),
        suite("sqlalchemy/test_outbox.py", "options_that_need_the_store"),
    ),
    Guard(
        "rows that can't be posted are not removed",
        "stores.outbox:OutboxBatch.posted",
        Instead("row.number not in self.failed", "True"),
        suite("sqlalchemy/test_outbox.py", "kept_aside"),
    ),
    Guard(
        "what waits in an outbox is encrypted",
        "stores.outbox:encode_body",
        Instead("codec is None", "True"),
        suite("sqlalchemy/test_outbox.py", "encrypted"),
    ),
    Guard(
        "a user's transaction is counted once",
        "stores.sqlite.user_transaction_store:SqliteUserTransactionStore._leave",
        Instead("self._counted()", "None"),
        suite("stores/sqlite/test_restore.py", "counted_once"),
    ),
    Guard("a database in use is not replaced", "stores.sqlite.backup:_exclusive_lock", without("_lock"), suite("stores/sqlite/test_restore.py", "in_use")),
    # Undo.
    Guard("what was done last is undone first", "core.undo_plan:operations_to_undo", Instead("reversed", "list"), suite("code/test_undo.py")),
    Guard("what was undone is done again after a retry", "core.recalled:results_still_valid", always("path not in undone"), suite("code/test_undo.py")),
    Guard("what cannot be undone waits for a person", "core.attempt_rules:event_after_failure", never("UNDO"), suite("code/test_undo.py")),
    # Admission: limits of queues, depth, and time.
    Guard("a queue hands over no more than its limit", "stores.fairness:room_under_limits", Instead("held.total()", "0"), LIMITS),
    Guard("a lane is handed no more than its limit", "stores.fairness:choose_candidates", never("behind >= limits.per_lane"), MEMORY),
    Guard(
        "the limits of a tenant take the place of those for all",
        "stores.memory_queues:MemoryQueues._part",
        Instead("((name, tenant), (name, None))", "((name, None), (name, tenant))"),
        suite("stores/test_memory_store.py", "tenant"),
    ),
    Guard(
        "limits of a tenant apply at once to what waits in a file",
        "stores.sqlite.limited_queues:set_limits",
        without("SQL.mark_tasks"),
        suite("stores/sqlite/test_sqlite_store.py", "come_and_go"),
    ),
    Guard(
        "a change feed goes on after an upgrade of the tables",
        "stores.sqlite.table_schema:_run_script",
        never("has_feed"),
        suite("stores/sqlite/test_upgrades.py", "goes_on"),
    ),
    Guard("the dead take no room in a queue", "stores.sqlite.limited_queues:_count", always("living"), SQLITE),
    Guard(
        "a start that is too late does not begin",
        "core.decision:_DecisionDraft.start",
        never("message.expires_at_s", "self.now.earliest_s"),
        suite("service/test_unstarted_executions.py"),
    ),
    Guard(
        "what an engine takes while it is withdrawn is told to end",
        "service.execution_requests:post_requests",
        never("missed"),
        suite("service/test_bulk_requests.py", "an_engine_takes"),
    ),
    Guard(
        "parents are told to end before their children",
        "service.bulk_requests:post_bulk",
        Instead("keys[::-1]", "keys"),
        suite("service/test_bulk_requests.py", "parents_before_their_children"),
    ),
    Guard(
        "children are told to go on before their parents",
        "service.bulk_requests:post_bulk",
        never("verb.name in NEWEST_FIRST"),
        suite("service/test_bulk_requests.py", "begun_last"),
    ),
    Guard(
        "what is told is committed before it is said to be told",
        "service.bulk_requests:post_bulk",
        without("execution_requests.post_requests"),
        suite("service/test_bulk_requests.py", "dies_between_two_batches"),
    ),
    Guard(
        "of a singleton one runs at a time",
        "service.execution_operations:start_execution",
        never("series[0].status"),
        suite("service/test_unstarted_executions.py"),
    ),
    # Transactions with a user's data, and files that are not Perdure's.
    Guard(
        "who lost an execution commits no transaction",
        "stores.sqlite.transactional_steps:check_guard",
        never("holds_execution"),
        suite("stores/sqlite/test_transactions.py"),
    ),
    Guard(
        "a user's transaction cannot write Perdure's tables",
        "stores.sqlite.transactional_steps:_restricted.decide",
        never("PERDURE_TABLES"),
        suite("runtime/test_transactional_steps.py"),
    ),
    Guard(
        "a statement that ends SQLite's transaction costs only its step",
        "stores.sqlite.transactional_steps:run_transactional_step",
        always("connection.in_transaction"),
        suite("stores/sqlite/test_transactions.py", "rolls_everything_back"),
    ),
    Guard(
        "a step writes nothing once its transaction is gone",
        "stores.sqlite.transactional_steps:_expect_transaction",
        always("connection.in_transaction"),
        suite("stores/sqlite/test_transactions.py", "can_not_go_on"),
    ),
    Guard(
        "a reference in a statement is refused",
        "definitions.kinds.sql.sql_text:text_problems",
        never("is_template"),
        suite("definitions/kinds/sql/test_sql_text.py", "no_statement_may_be"),
    ),
    Guard(
        "no reference in a statement is resolved",
        "definitions.kinds.sql.sql_request:_literal",
        Instead("value.replace('@', '@@')", "value"),
        suite("definitions/kinds/sql/test_sql_kind.py", "same_in_every_execution"),
    ),
    Guard(
        "a definition's statements do not reach Perdure's tables",
        "definitions.kinds.sql.sqlite_driver:_decision.decide",
        Instead("not PERDURE_TABLES.isdisjoint(((first or '').lower(), (second or '').lower()))", "False"),
        suite("definitions/kinds/sql/test_sql_kind.py", "own_tables"),
    ),
    Guard(
        "a message of a database shows no value",
        "definitions.kinds.sql.sql_errors:without_values",
        without("message.replace"),
        suite("definitions/kinds/sql/test_sql_kind.py", "shows_no_value"),
    ),
    Guard(
        "rows that are not as expected keep nothing",
        "definitions.kinds.sql.sql_request:taken_result",
        Instead("count != statement.expect", "False"),
        suite("definitions/kinds/sql/test_sql_kind.py", "example"),
    ),
    Guard(
        "in the store's database a step is in its transaction",
        "runtime.step_runner:form_of_attempt",
        Instead("changed if await _await_in_step(info, step.form.applies(*positional, **named)) else step", "step"),
        on_postgres("definitions/kinds/sql/test_sql_postgres.py", "one_transaction"),
    ),
    Guard(
        "a step whose database is not known is not performed",
        "runtime.step_runner:form_of_attempt",
        Instead("dataclasses.replace(step, fn=partial(_raise, error), form=None)", "step"),
        on_postgres("definitions/kinds/sql/test_sql_postgres.py", "can_not_be_found_out"),
    ),
    Guard(
        "another program's tables are left alone",
        "stores.sqlite.database_setup:_has_room",
        never("taken"),
        suite("stores/sqlite/test_database_setup.py", "room"),
    ),
    # Tasks leased to other programs.
    Guard(
        "a task of a silent worker is queued again",
        "runtime.task_broker:TaskBroker._due",
        without("self.interrupt"),
        suite("runtime/test_task_broker.py", "nothing_is_heard"),
    ),
    Guard(
        "a task is answered by its own worker only",
        "runtime.task_broker:TaskLeases.find",
        always("task_lease.task_worker.owner"),
        suite("runtime/test_task_broker.py", "nobody_elses"),
    ),
    Guard(
        "a token opens its own tenants only",
        "tasks.http_endpoint:TaskApp._lease",
        Instead("asked.grant.tenants", "None"),
        suite("tasks/test_task_app.py", "tenants_alone"),
    ),
    Guard(
        "pages in a browser reach no endpoint without a token",
        "tasks.http_endpoint:token_authorization.authorize",
        never("access", "is_loopback"),
        suite("tasks/test_task_app.py", "name_of_this_machine"),
    ),
    # Secrets and people.
    Guard(
        "a result holds no secret",
        "core.secret_masks:Mask.outcome",
        Returns("outcome"),
        suite("service/secrets/test_canaries.py", "tool and error"),
    ),
    Guard(
        "a secret is masked within base64", "core.secret_masks:_base64", Instead("((0, 0), (1, 2), (2, 3))", "((0, 0),)"), suite("core/test_secret_masks.py")
    ),
    Guard(
        "a stored secret opens in its own place only",
        "service.secrets.vault_client:_secret_identity",
        Returns("b'secret'"),
        suite("service/secrets/test_vault_client.py", "moved"),
    ),
    Guard(
        "the environment is read for its own tenant only",
        "service.secrets.secret_resolver:SecretResolver._find",
        always("PROCESS_TENANT"),
        suite("service/secrets/test_secret_resolver.py", "another_tenant"),
    ),
    Guard(
        "a removed secret leaves no bytes behind",
        "stores.sqlite.vault:_overwriting",
        without("'PRAGMA secure_delete = ON'"),
        suite("stores/sqlite/test_vault.py"),
    ),
    Guard(
        "a provider's error shows no key",
        "definitions.kinds.models.model_errors:_text",
        never("key"),
        suite("definitions/kinds/models/test_model_requests.py", "key_stands"),
    ),
    Guard(
        "an approval link needs the deployment's secret",
        "service.signed_texts:read_signed_text",
        Instead("is_signed(secret, domain, said.encode(), bytes_of(by))", "True"),
        suite("service/test_approvals.py"),
    ),
    Guard(
        "a replay asks no validator",
        "code.context:Context._rejects",
        always("not instance.replaying and port is None"),
        suite("service/test_message_validation.py", "replay_asks"),
    ),
    Guard(
        "a rejected message does not return to the mailbox",
        "code.context:Context._rejects",
        Instead('"reply"', '"value"'),
        suite("service/test_message_validation.py", "answers_the_asker"),
    ),
    Guard(
        "a token that was given to nobody completes nothing",
        "service.step_completions:_wanted",
        never("not (execution.started is not None and found.fits(execution.started.seed))"),
        suite("service/test_step_completions.py", "given_to_nobody"),
    ),
    Guard(
        "a token completes no other attempt than its own",
        "core.completions:ExternalAttempt._secret",
        Instead("values.encode(self, 'an attempt')", "b''"),
        suite("service/test_step_completions.py", "given_to_nobody"),
    ),
    Guard(
        "of several completions at the same time the others are told that theirs does not count",
        "service.step_completions:complete_attempt",
        never("counts != body"),
        suite("service/test_step_completions.py", "several_at_the_same_time"),
    ),
    Guard(
        "a token whose attempt has timed out completes nothing",
        "service.step_completions:_wanted",
        never("execution.cancelling is not None or not (attempt.request in execution.open or (waits and waits[-1] in execution.open))"),
        suite("service/test_step_completions.py", "in_time"),
    ),
    Guard(
        "only assignees decide an approval",
        "code.approval_requests:vote_refusal",
        never("vote.by not in shown.assignees"),
        suite("code/test_approval.py"),
    ),
    # What runs or fetches on behalf of a definition.
    Guard(
        "every address of a host is checked",
        "definitions.kinds.http.guarded_network:GuardedBackend.connect_tcp",
        always("self._reach"),
        suite("definitions/kinds/http/test_guarded_network.py", "one_of_its_addresses"),
    ),
    Guard(
        "a host is reached at the address that was checked",
        "definitions.kinds.http.guarded_network:GuardedBackend.connect_tcp",
        Instead(
            "self._network.connect_tcp(str(address), port, wait_s, local_address, socket_options)",
            "self._network.connect_tcp(host, port, wait_s, local_address, socket_options)",
        ),
        suite("definitions/kinds/http/test_guarded_network.py", "a_moment_later"),
    ),
    Guard(
        "a redirect carries no secret to another origin",
        "definitions.kinds.http.http_exchange:HttpExchange._redirect",
        never("url_origin(url)", "self.content.content"),
        suite("definitions/kinds/http/test_http_exchange.py", "nobody_else"),
    ),
    Guard(
        "a request in doubt is not sent twice",
        "definitions.kinds.http.http_exchange:HttpExchange._lost",
        always("self._repeatable"),
        suite("definitions/kinds/http/test_http_exchange.py", "what_breaks"),
    ),
    Guard(
        "the secret of an auth profile goes to no server that the profile does not name",
        "definitions.kinds.openapi.auth_profiles:auth_fields",
        never("profile.hosts"),
        suite("definitions/kinds/openapi/test_auth_profiles.py", "goes_to_no_server"),
    ),
    Guard(
        "nothing outside of an OpenAPI document is read because of a reference",
        "definitions.kinds.openapi.api_description:OpenapiDocument.target",
        never("reference.startswith"),
        suite("definitions/kinds/openapi/test_api_description.py", "refused_with_its_place"),
    ),
    Guard(
        "no value of a parameter leads to another path",
        "definitions.kinds.openapi.operation_request:_filled_path",
        never("made != segment"),
        suite("definitions/kinds/openapi/test_operation_request.py", "leads_to_another_path"),
    ),
    Guard(
        "a value that does not fit the document is not sent",
        "definitions.kinds.openapi.operation_request:operation_values",
        Instead("param_problems(document, operation, params, is_final=True)", "()"),
        suite("definitions/kinds/openapi/test_openapi_kind.py", "shows_is_told"),
    ),
    Guard(
        "an operation that is not idempotent is not repeated after an interruption",
        "definitions.kinds.openapi.openapi_kind:perform_operation",
        never("info.interruptions"),
        suite("definitions/kinds/openapi/test_openapi_kind.py", "kill_9"),
    ),
    Guard(
        "a sandbox has no environment",
        "definitions.kinds.sandbox.sandbox_process:_started",
        Instead("{}", "None"),
        suite("definitions/kinds/sandbox/test_sandbox_pool.py", "given_up"),
    ),
    Guard(
        "a Python condition imports nothing",
        "definitions.expr.python_syntax:checked_condition_source",
        never("ast.Import"),
        suite("definitions/kinds/test_python_conditions.py", "imports"),
    ),
    Guard("a schema fetches nothing", "definitions.expr.json_schema:_validator", Instead("_refuse", "None"), suite("definitions/expr/test_json_schema.py")),
    Guard(
        "a tag in YAML builds nothing",
        "definitions.format.document_parser:_YamlReader._scalar",
        never("tag not in _TEXT_TAGS"),
        suite("definitions/format/test_document_parser.py"),
    ),
    Guard(
        "no reference is put into a shell command",
        "definitions.format.reference_check:ReferenceCheck._reference_in_source",
        never('"@{"'),
        suite("definitions/format/test_validator.py"),
    ),
    Guard(
        "an isolated command writes in its own directory only",
        "definitions.kinds.bash.isolation:_only",
        Instead("_Attributes(set=MOUNT_ATTR_RDONLY)", "_Attributes()"),
        suite("definitions/kinds/bash/test_isolation.py", "can_be_written"),
    ),
    Guard(
        "what a command has started ends with it",
        "supervision.process_tree:become_subreaper",
        Returns("None"),
        suite("definitions/kinds/bash/test_command_supervisor.py", "nothing_is_left"),
    ),
    # Receipts: a message goes back unless something was done with it.
    Guard("a verb that only waits uses no message", "core.mailbox:uses_messages", Returns("True"), suite("core/test_message_consumption.py")),
    Guard(
        "a step uses the messages that its branch has received", "core.mailbox:UnusedMessages.use", Returns("None"), suite("core/test_message_consumption.py")
    ),
    Guard(
        "an ended branch leaves unused messages to its caller",
        "core.mailbox:UnusedMessages.end",
        without("caller", "setdefault"),
        suite("core/test_message_consumption.py"),
    ),
    Guard(
        "a completable message is held until it is completed",
        "core.mailbox:UnusedMessages.receive",
        never("completable"),
        suite("core/test_message_consumption.py"),
    ),
    Guard(
        "a message consumed in a forgotten turn does not come again",
        "core.compaction:_kept_events",
        never("consumed"),
        suite("core/test_compaction.py", "loser_gave_back"),
    ),
    # What is undone, also of turns that are forgotten.
    Guard(
        "what a forgotten turn did is undone all the same",
        "core.execution:Execution._forget",
        never("path in kept"),
        suite("core/test_undo_of_forgotten_iterations.py"),
    ),
    Guard(
        "what a compacted turn did is undone all the same",
        "core.compaction:_SettledInTrimmed.among",
        Returns("[]"),
        suite("core/test_undo_of_forgotten_iterations.py"),
    ),
    Guard(
        "what was done before a commit is not undone", "core.execution:Execution._commit", Returns("None"), suite("core/test_undo_of_forgotten_iterations.py")
    ),
    Guard("what was undone is not undone again", "core.undo_plan:operations_to_undo", always("path not in undone"), suite("core/test_undo_plan.py")),
    Guard("a block is undone as a whole only", "core.undo_plan:operations_to_undo", never("lies_within(path, blocks)"), suite("core/test_undo_plan.py")),
    Guard(
        "an execution that begins its undo as a cancel resumes it is not cancelled",
        "core.execution:Execution.may_be_told_to_unwind",
        Instead("not self.undoing", "True"),
        suite("code/test_undo.py", "in_the_moment_in_which_it_is_cancelled"),
    ),
    Guard(
        "an execution with too much to undo waits for a person",
        "core.decision:_DecisionDraft._park_for_too_much_to_undo",
        Returns("None"),
        suite("code/test_undo.py", "more_than_is_kept"),
    ),
    # What is in flight when an execution ends.
    Guard(
        "an execution that fails waits for what is in flight",
        "core.decision:_DecisionDraft._dropped",
        never("self.is_ending and not lost"),
        suite("code/test_in_flight.py", "is_recorded_and_undone"),
    ),
    Guard(
        "the loser of a race is not waited for", "core.decision:_DecisionDraft._dropped", never("lost"), suite("code/test_in_flight.py", "loser_has_no_grace")
    ),
    Guard(
        "a try that is cancelled while it waits for a thread is not begun",
        "code.step_environment:StepInfo.begin",
        Instead("not self.life.over", "True"),
        suite("code/test_in_flight.py", "waits_for_a_thread"),
    ),
    Guard(
        "an attempt whose function was not called is not in doubt",
        "runtime.in_flight:_run_attempt",
        Instead("control.begun or not running.is_cancelled", "True"),
        suite("code/test_in_flight.py", "waits_for_a_thread"),
    ),
    Guard(
        "undoing waits for what is in flight",
        "code.code_program:undo_all",
        Instead("instance.execution.opened.cancelled()", "()"),
        simulator("--no-faults", worlds=20),
    ),
    Guard(
        "what is in doubt is undone",
        "core.undo_plan:_is_to_be_undone",
        Instead("not _was_never_begun(known.outcome)", "False"),
        simulator("--no-faults", worlds=20),
    ),
    Guard(
        "what has not begun is not undone",
        "core.undo_plan:_is_to_be_undone",
        Instead("not _was_never_begun(known.outcome)", "True"),
        simulator("--no-faults", worlds=20),
    ),
    Guard(
        "what is stopped after its deadline is undone",
        "core.decision:_DecisionDraft.tick",
        Instead("e.StoppedEvent(self.now_s)", "self._deadline_exceeded(why)"),
        suite("code/test_deadline.py"),
    ),
    Guard(
        "a workflow that was cancelled has its grace before its deadline stops it",
        "core.execution:Execution.deadline_due_s",
        Instead("max(self.deadline_at_s, self.cancelling.at_s + self.grace_s)", "self.deadline_at_s"),
        suite("code/test_deadline.py"),
    ),
    Guard(
        "a sync step that was cancelled before its turn is not called",
        "runtime.step_resources:DaemonThreads._run_for",
        always("not future.cancelled()"),
        suite("runtime/test_step_threads.py"),
    ),
    Guard("a step in flight at the end is told so", "runtime.in_flight:_act_on_dropped", without("running.cancel()"), suite("code/test_in_flight.py")),
    Guard(
        "a step dropped in the commit that opened it is not begun",
        "core.decision:_DecisionDraft._dropped",
        never("path in self.begins"),
        suite("code/test_in_flight.py", "dropped_in_the_commit"),
    ),
    Guard(
        "what was in flight and did not answer is in doubt",
        "core.attempt_rules:abandoned_outcome",
        never("pending.in_flight"),
        suite("code/test_in_flight.py", "abandoned_and_in_doubt"),
    ),
    Guard(
        "an attempt that fails within the grace is not repeated",
        "core.attempt_rules:event_after_failure",
        never("pending.grace_until_s is not None"),
        suite("code/test_in_flight.py", "not_tried_again"),
    ),
    Guard(
        "what was interrupted within the grace is not begun again",
        "core.attempt_rules:event_after_loss",
        never("pending.grace_until_s is not None"),
        suite("code/test_in_flight.py", "engine_that_dies"),
    ),
    Guard(
        "an evicted execution keeps what is in its grace",
        "runtime.in_flight:_act_on_evicted",
        Instead("resident.threads.keys() | _paths_in_grace(resident)", "resident.threads.keys()"),
        suite("code/test_in_flight.py", "evicted"),
    ),
    Guard(
        "a failure that nobody awaits fails the execution",
        "code.code_program:CodeProgram._abandoned_failure",
        Returns("None"),
        suite("code/test_unawaited_tasks.py"),
    ),
    # Clocks: a timer may be late, and is never early.
    Guard(
        "a timer rings when it is surely its time",
        "core.time_bounds:TimeBounds.is_past",
        Instead("self.earliest_s", "self.latest_s"),
        suite("core/test_decision.py", "latest_time"),
    ),
    Guard(
        "a deadline counts from the latest time that it can be",
        "core.decision:_DecisionDraft.__init__",
        Instead("now.latest_s", "now.earliest_s"),
        suite("core/test_decision.py", "latest_time"),
    ),
    Guard(
        "a pause while the store is asked widens the bounds of its time",
        "runtime.store_clock:StoreClock._take",
        Instead("time_s - after_s", "time_s - before_s"),
        suite("runtime/test_store_clock.py"),
    ),
    Guard(
        "an attempt that began late has its whole time",
        "runtime.resident_executions:ResidentExecution.young",
        Returns("{}"),
        suite("runtime/test_timers_paused.py"),
    ),
    Guard(
        "a fork takes the locks that a store may wait for when the store is idle",
        "stores.sqlite.forks_and_threads:_before_fork",
        Instead("(*sorted(_open_stores, key=id), *_fork_locks)", "(*_fork_locks, *sorted(_open_stores, key=id))"),
        suite("stores/sqlite/test_forks_and_threads.py"),
    ),
    Guard(
        "an answer of a mock that was used before a retry is not given again",
        "testing.world:World._is_open",
        never("SettledEvent"),
        suite("testing/test_world_repair.py", "gets_the_next"),
    ),
    Guard(
        "what a commit in doubt would begin has surely not begun",
        "runtime.batch_runner:BatchRunner._note_unbegun",
        without("self._engine.unbegun.add"),
        suite("runtime/test_commits_in_doubt.py"),
    ),
    Guard(
        "what was committed too slowly has surely not begun",
        "runtime.batch_runner:BatchRunner._advance_batch",
        never("not is_surely_ours"),
        suite("runtime/test_commits_in_doubt.py"),
    ),
    Guard(
        "what has surely not begun is settled before others take it over",
        "runtime.engine:Engine._claim",
        without("self._settle_unbegun()"),
        suite("runtime/test_commits_in_doubt.py"),
    ),
    Guard(
        "an attempt that has gone on is not unbegun any more",
        "runtime.unbegun_attempts:UnbegunAttempts.forget",
        without("self._of.pop"),
        suite("runtime/test_commits_in_doubt.py"),
    ),
    Guard(
        "a start that took effect without an answer goes on",
        "runtime.engine:Engine.recover",
        never("not resident.undecided"),
        suite("runtime/test_commits_in_doubt.py"),
    ),
    Guard(
        "a claim that was surely not made ends nothing that runs",
        "testing.faults:FaultyStore.claim",
        Instead("NothingClaimed", "StoreUnavailable"),
        suite("runtime/test_commits_in_doubt.py"),
    ),
    Guard(
        "a claim that Postgres may have carried out is in doubt",
        "stores.postgres.store:PostgresStore.claim",
        always("was_rolled_back"),
        on_postgres("stores/postgres/test_connection_cuts.py", "claim"),
    ),
    Guard(
        "what settled during a pause is not dropped by what settled before it",
        "code.code_program:CodeProgram.drop",
        Instead("not settlement.messages", "False"),
        suite("runtime/test_pause.py"),
    ),
    Guard(
        "what settled during a pause is not dropped in a definition by what settled before it",
        "definitions.graph.operation_log:OperationLog._drop",
        never("not settlement.messages"),
        suite("runtime/test_pause.py"),
    ),
    Guard("a clock that is set back stops no timer", "stores.sqlite.steady_clock:steady_time", Returns("wall_s"), suite("stores/sqlite/test_steady_clock.py")),
    Guard(
        "the wall clock is read before the monotonic one",
        "stores.sqlite.steady_clock:SteadyClock.__call__",
        Instead("(self._wall(), self._monotonic())", "(self._monotonic(), self._wall())[::-1]"),
        suite("runtime/test_store_clock.py", "steady"),
    ),
    Guard(
        "what was committed too slowly is not acted upon",
        "runtime.decision_loop:record_answer",
        never("is_surely_ours"),
        suite("runtime/test_engine_past_its_lease.py"),
    ),
    # What is damaged, or of a newer version, is neither believed nor lost.
    Guard("a changed row is not read", "core.payload_header:without_headers", never("crc32"), suite("core/test_log_format.py")),
    Guard("a changed blob is not read", "core.values:verified_payload", never("sha256"), suite("core/test_values.py", "damaged")),
    Guard(
        "a row that could never be read is not written",
        "core.log_format:encode_row",
        without("_decode(raw)"),
        suite("core/test_log_format.py", "never_be_read"),
    ),
    Guard(
        "an execution under unknown rules is left to a newer version",
        "core.log_format:decode_rows",
        never("event.rules"),
        suite("runtime/test_quarantine.py", "rules"),
    ),
    Guard(
        "a message that can't be read is kept",
        "runtime.quarantine:postponement",
        Instead("Ack(queued.to, queued.key, postpone_to_s=now_s + quarantine_retry_s(error))", "Ack(queued.to, queued.key)"),
        suite("runtime/test_quarantine.py"),
    ),
    Guard(
        "a postponed message stays",
        "stores.memory:MemoryStore._acknowledge",
        never("ack.postpone_to_s is not None"),
        suite("stores/test_memory_store.py", "postpone"),
    ),
    Guard(
        "a postponed message stays in a file",
        "stores.sqlite.store_tables:SqliteTables._acknowledge",
        always("ack.postpone_to_s is None"),
        suite("stores/sqlite/test_sqlite_store.py", "postpone"),
    ),
    Guard(
        "an ended execution that can't be read stays ended",
        "runtime.engine:Engine._release",
        never("head.ended_at_s is not None"),
        suite("runtime/test_quarantine.py", "stays_ended"),
    ),
    Guard(
        "what the engine can't carry on is parked alone",
        "runtime.engine:Engine._note_defect",
        never("resident.exists"),
        suite("runtime/test_engine.py", "carry_on"),
    ),
    Guard(
        "what can't be carried on is parked before what is behind it",
        "runtime.resident_executions:PendingDecision.is_complete",
        Instead("isinstance(self.batch[-1].message, DivergeMessage)", "False"),
        suite("runtime/test_engine.py", "carry_on"),
    ),
    Guard("an error's text can be stored", "core.error_text:valid_utf8", Returns("text"), suite("code/test_step_exceptions.py")),
    # Capabilities and children.
    Guard(
        "an engine claims only what it has the capabilities for",
        "core.program:claimable_programs",
        always("program_requirements"),
        suite("runtime/test_capabilities.py", "not mixed"),
    ),
    Guard(
        "an engine without the capabilities decides nothing",
        "runtime.decision_loop:_expect_capabilities",
        never("resident.needs - workflow.capabilities"),
        suite("runtime/test_capabilities.py", "not mixed"),
    ),
    Guard(
        "each execution has the tools of its own definition",
        "runtime.decision_loop:_workflow_of",
        Instead("engine.releases.get((resident.key.workflow, sha256)) or engine.workflows[resident.key.workflow]", "engine.workflows[resident.key.workflow]"),
        suite("runtime/test_capabilities.py", "not mixed"),
    ),
    Guard(
        "a program that needs capabilities is known to claims in a file",
        "stores.sqlite.store_tables:SqliteTables._know",
        Returns("None"),
        suite("stores/sqlite/test_sqlite_store.py", "capabilities"),
    ),
    Guard(
        "a child that another waits for goes on",
        "core.decision:_DecisionDraft.unwatch",
        never("execution.watchers"),
        suite("code/test_children.py", "another_parent"),
    ),
    Guard(
        "a child that was merely joined goes on",
        "core.execution:Execution._unwatch",
        always("same_parent(self.started.parent, event.parent)"),
        suite("core/test_decision.py", "merely_joined"),
    ),
    # What is refused before anything runs, and what is not repeated.
    Guard("an option that does not act is refused", "code.call_options:refuse_ineffective_options", Returns("None"), suite("code/test_call_options.py")),
    Guard("an option among the arguments is refused", "code.call_options:refuse_options_among_arguments", Returns("None"), suite("code/test_call_options.py")),
    Guard("a value that would lose something is refused", "code.function_codec:RoundTripPlan.hold", Returns("None"), suite("code/test_value_round_trip.py")),
    Guard(
        "a type that can't be decoded is refused before anything runs",
        "code.function_codec:refuse_unsupported",
        Returns("None"),
        suite("code/test_value_round_trip.py"),
    ),
    Guard("a secret of a model is not logged", "core.values:secret_field_of", Returns("None"), suite("code/test_value_round_trip.py")),
    Guard(
        "an interrupted tool runs again only if it declares that",
        "code.declarations:Step.declares_repeat",
        Returns("self.idempotent is not False"),
        suite("definitions/graph/test_tool_idempotence.py"),
    ),
    Guard(
        "what may not run twice is not tried again after a timeout",
        "core.attempt_rules:event_after_failure",
        never("failure.kind == 'timeout' and not op.idempotent and not is_final"),
        suite("definitions/graph/test_tool_idempotence.py"),
    ),
    # What is code of users, and data of others, in the engine.
    Guard(
        "a codec that raises anything is an error of the store",
        "stores.encoded_store:PayloadSealer._made",
        Instead("BaseException", "ValueError"),
        suite("stores/test_encoded_workflows.py", "whatever_a_codec"),
    ),
    Guard(
        "a start that a codec refuses is told of it",
        "runtime.engine:Engine._quarantine",
        never("resident.exists"),
        suite("stores/test_encoded_workflows.py", "whatever_a_codec and encode"),
    ),
    Guard(
        "a function of a kind that raises anything fails its step",
        "definitions.graph.step_kind:_call_kind_function",
        Instead("BaseException", "ValueError"),
        suite("definitions/kinds/test_hostile_kinds.py", "function_of_a_kind"),
    ),
    Guard(
        "what finds the key of a model may raise StopIteration",
        "definitions.kinds.models.model_client:send_model_request",
        Instead("without_stop_iteration(_key)", "_key"),
        suite("definitions/kinds/test_hostile_kinds.py", "finds_the_key"),
    ),
    Guard(
        "a schema has no more parts than its bound",
        "definitions.expr.json_schema:_expect_bounded",
        Returns("None"),
        suite("definitions/expr/test_json_schema.py", "double"),
    ),
    Guard(
        "a restored loop without end has its variables",
        "definitions.graph.verb_runs:restore_iteration",
        without("run.roots.variables"),
        suite("definitions/graph/test_endless_loops.py", "restored_at"),
    ),
    Guard(
        "a cycle that only a patch has made endless continues where a compacted log resumes it",
        "definitions.graph.verb_runs:holds_cycle_turn",
        Instead("stay.turn == 0 and resumes_later(run, stay.path)", "stay.turn == 0 and run.plan.is_endless(stay.region) and resumes_later(run, stay.path)"),
        suite("definitions/graph/test_endless_loops.py", "was_patched"),
    ),
    Guard(
        "an iteration of a cycle that is patched keeps its item and what it has passed by",
        "definitions.graph.plan_patch:patched_walk",
        Instead("turned.scope, turned.stay.scope, turned.stay.tick", "frame.scope, frame.stay.scope, frame.stay.tick"),
        suite("definitions/graph/test_plan_patch.py", "turn_that_is_patched"),
    ),
    Guard(
        "a log is not compacted to one over which its execution does not replay",
        "runtime.decision_loop:_replays_over",
        Returns("True"),
        suite("definitions/graph/test_endless_loops.py", "outside_of_it"),
    ),
    Guard(
        "tokens that can't be true are estimated",
        "definitions.kinds.models.model_messages:_count",
        always("TOKENS_MAX"),
        suite("definitions/kinds/models/test_token_usage.py"),
    ),
    Guard(
        "the tools of one answer are within the budget",
        "definitions.kinds.agents.agent_task:check_tool_budget",
        Returns("None"),
        suite("definitions/kinds/agents/test_agent_task.py", "calls_of_tools"),
    ),
    Guard(
        "a path leads nowhere else",
        "definitions.kinds.file.confined_directory:path_parts",
        never('".." in found'),
        suite("definitions/kinds/file/test_confined_directory.py", "leads_elsewhere"),
    ),
    Guard(
        "no part of a path is a link to another directory",
        "definitions.kinds.file.confined_directory:_directory",
        Instead("DIRECTORY", "DIRECTORY & ~NOFOLLOW"),
        suite("definitions/kinds/file/test_confined_directory.py", "no_symbolic_link"),
    ),
    Guard(
        "no link is read as a file",
        "definitions.kinds.file.confined_directory:_read",
        Instead("NOFOLLOW", "0"),
        suite("definitions/kinds/file/test_confined_directory.py", "no_symbolic_link"),
    ),
    Guard(
        "two writers of a directory wait for one another",
        "definitions.kinds.file.confined_directory:_is_locked",
        Returns("True"),
        suite("definitions/kinds/file/test_confined_directory.py", "another_does_waits"),
    ),
    Guard(
        "a document type of XML is refused",
        "definitions.kinds.text_formats:_refuse_doctype",
        Returns("None"),
        suite("definitions/kinds/test_text_formats.py", "would_expand"),
    ),
    Guard(
        "bytes that wait decrypted are not taken for the next answer",
        "definitions.kinds.http.guarded_network:GuardedStream._has_decrypted",
        Returns("False"),
        suite("definitions/kinds/http/test_guarded_network.py", "behind_an_encrypted"),
    ),
    Guard(
        "a connection is not used again with bytes behind an answer",
        "definitions.kinds.http.guarded_network:close_response",
        never("behind"),
        suite("definitions/kinds/http", "behind"),
    ),
    Guard(
        "a connection that is retired is not used again",
        "definitions.kinds.http.guarded_network:GuardedStream.retire",
        Returns("None"),
        suite("definitions/kinds/http/test_http_exchange.py", "behind"),
    ),
    Guard(
        "a head that begins on an idle connection has the time of a head",
        "tasks.http_connections:Connection.data_received",
        without("self._end_within"),
        suite("tasks/test_http_connections.py", "on_an_idle_connection"),
    ),
    Guard(
        "no more connections are open than the limit",
        "tasks.http_connections:Admission.admit",
        never("self.limit"),
        suite("tasks/test_http_connections.py", "at_the_limit"),
    ),
    Guard(
        "a new connection displaces one that is in no request",
        "tasks.http_connections:Admission.admit",
        Instead("oldest is None", "True"),
        suite("tasks/test_http_connections.py", "at_the_limit"),
    ),
    Guard(
        "a connection that is displaced is ended",
        "tasks.http_connections:Admission.admit",
        without("oldest.transport.abort()"),
        suite("tasks/test_http_connections.py", "at_the_limit"),
    ),
    Guard(
        "a connection for which there is no room is refused",
        "tasks.http_connections:Connection.connection_made",
        never("not self._admission.admit(self)"),
        suite("tasks/test_http_connections.py", "no_room"),
    ),
    # Bounds of expressions and sandboxes, headers, and files.
    Guard(
        "an expression expands no further than its bounds",
        "definitions.expr.template:check_expansion",
        Returns("value"),
        suite("definitions/expr/test_template_limits.py", "no_more_than_one"),
    ),
    Guard(
        "a sandbox that overran is not used again",
        "definitions.kinds.sandbox.sandbox_pool:_Pool.using",
        Instead("self._put(process, False)", "self._put(process, True)"),
        suite("definitions/kinds/sandbox/test_sandbox_pool.py", "overran"),
    ),
    Guard(
        "a sandbox's answer has its bound",
        "definitions.kinds.sandbox.sandbox_process:_frame_reader",
        never("size_bytes > bytes_max"),
        suite("definitions/kinds/sandbox/test_sandbox_pool.py", "not_believed"),
    ),
    Guard(
        "headers with secrets go to no other origin",
        "definitions.kinds.http.http_exchange:HttpExchange._redirect",
        without("KEPT"),
        suite("definitions/kinds/http/test_http_exchange.py", "told_nothing"),
    ),
    Guard(
        "a new database is its owner's alone",
        "stores.sqlite.file_permissions:make_database_file",
        Instead("_make(unfinished, os.O_WRONLY, mode)", "_make(unfinished, os.O_WRONLY, 0o644)"),
        suite("stores/sqlite/test_file_permissions.py"),
    ),
    Guard(
        "what is beside a database is read by nobody else",
        "stores.sqlite.file_permissions:neighbour_mode",
        Returns("0o666"),
        suite("stores/sqlite/test_file_permissions.py"),
    ),
    # People: what is recorded is not contradicted, and what an engine has taken up is not taken back.
    Guard(
        "a decision that is recorded is not contradicted",
        "service.approvals:_open_state",
        never("decided_by is not None"),
        suite("service/test_approvals.py", "kept_until_an_engine"),
    ),
    # Triggers: each tick, delivery and event starts one execution, and what Perdure's own executions are told has a role.
    Guard(
        "an event starts an execution under an id that follows from it",
        "service.triggers.event_dispatch:_started",
        Instead("TriggeredStart(key, payload, facts)", "TriggeredStart(key + str(id(payload)), payload, facts)"),
        suite("service/triggers/test_event_triggers.py", "killed_at_any_time"),
    ),
    Guard(
        "a chain of triggers is stopped",
        "service.triggers.event_dispatch:_is_stopped",
        Instead("len(event.chain) < CHAIN_MAX", "True"),
        suite("service/triggers/test_event_triggers.py", "for_ever"),
    ),
    Guard(
        "an operator does not vote by a plain message",
        "operations.operation_table:Operation.expect_arguments_allowed",
        never("_own_workflows(arguments)"),
        suite("operations/test_own_executions.py"),
    ),
    Guard(
        "an operator does not start a proposal agent by hand as any workflow",
        "operations.operation_table:_own_workflows",
        Instead("str(arguments.get('workflow_id', ''))", "''"),
        suite("operations/test_own_executions.py", "run_workflow"),
    ),
    Guard(
        "a trigger starts none of Perdure's own workflows",
        "service.triggers.trigger_starts:triggered_start",
        without("expect_users_workflow"),
        suite("service/triggers/test_trigger_changes.py", "perdure_s_own"),
    ),
    Guard(
        "a proposal agent has the limits of its operation, whoever started it",
        "service.proposal_agent.proposal_agent_workflow:_brief",
        without("check_limits"),
        suite("service/proposal_agent/test_proposal_agent_workflow.py", "as_any_execution"),
    ),
    Guard(
        "the limit of a person is counted by the store",
        "service.active_limits:LimitedStore._limited",
        never("self._limits.per_person"),
        suite("api/test_active_limits.py", "come_at_once"),
    ),
    Guard(
        "a path is that of one trigger",
        "service.triggers.trigger_changes:_path_changes",
        never("kept.value.trigger != given_up.get(path)"),
        suite("service/triggers/test_trigger_changes.py", "one_trigger"),
    ),
    Guard(
        "a patch that an engine has judged is not said to be withdrawn",
        "service.definition_patches:withdraw_patches",
        never("PatchedEvent"),
        suite("service/test_waiting_patches.py", "taken_up"),
    ),
    Guard(
        "a content that was changed is not taken for the one of its hash",
        "definition_workflow:ContentDirectory.__getitem__",
        never("hexdigest"),
        suite("test_content_directory.py", "named_by_a_hash"),
    ),
    # What people are shown: one view of the log, and every attempt in it.
    Guard(
        "a log that does not replay has no view",
        "definitions.graph.execution_view:ViewReplay._expect_same",
        never("diverged is not None"),
        suite("proof/definitions/test_view_checks.py", "does_not_replay"),
        quick=True,
    ),
    Guard(
        "a view of an early moment knows from which turns a compacted log goes on",
        "core.replay:replay_program",
        Instead("_resumed_iterations(whole[life:])", "_resumed_iterations(events[life:])"),
        DEFINITIONS,
    ),
    # Agents of the OpenAI Agents SDK.
    Guard(
        "an interrupted write of a session adds nothing twice",
        "openai_agents.session_steps:DurableSession.add_items",
        always("step_info().attempt == 1"),
        suite("openai_agents/test_runner.py", "added_twice"),
    ),
    Guard(
        "what a tool changed in the context of a run is there after a crash",
        "openai_agents.tool_steps:_DurableCall._call_in_step",
        without("apply_changes"),
        suite("openai_agents/test_runner.py", "same_after_a_crash"),
    ),
    Guard("a revoked key is refused", "service.access_keys:_expect_not_over", never("revoked_at_s"), suite("service/test_access_keys.py", "memory")),
    Guard(
        "a key expires by the time of the store",
        "service.service_clock:ServiceClock.now_s",
        Instead("self._bounds.now().latest_s", "time.time()"),
        suite("service/test_access_keys.py", "time_of_the_store"),
    ),
    Guard(
        "a key is not cached for longer than seconds",
        "service.credentials:CredentialCache.find",
        never("until_s"),
        suite("service/test_access_keys.py", "memory"),
    ),
    Guard(
        "a key with another secret is refused",
        "service.access_keys:_secret_of",
        Instead("compare_digest(sha256, one.sha256)", "True"),
        suite("service/test_access_keys.py", "memory"),
    ),
    Guard(
        "a session with another secret is refused",
        "service.sessions:SessionVerifier.session",
        never("compare_digest"),
        suite("service/test_sessions.py", "memory"),
    ),
    Guard("a session ends with its key", "service.sessions:SessionVerifier.session", without("expect_valid"), suite("service/test_sessions.py", "memory")),
    Guard("an audit entry is not changed", "service.audit:AuditedStore._with_entry", never("AUDIT_ENTRIES"), suite("service/test_audit.py", "memory")),
    Guard(
        "a decision on an approval has an entry with the key that gave it",
        "service.audit:_message_name",
        never("APPROVAL_WORKFLOW"),
        suite("api/test_audit_of_operations.py", "a_decision_has_an_entry"),
    ),
    # MCP.
    Guard(
        "a connection to an MCP server is used with the secrets that opened it, and with no others",
        "mcp.server_session:ServerSession._connection",
        Instead("frozenset(secrets.items())", "frozenset()"),
        suite("mcp/test_server_session.py", "steps_of_each_tenant"),
    ),
    Guard(
        "a caller sees the tools that they may call, and no others",
        "mcp_server.tool_service:ToolService.tools",
        always("caller.get('operations') is None"),
        suite("mcp_server/test_tool_service.py", "each_role_sees"),
    ),
    Guard(
        "what code prints is not sent to the client",
        "mcp_server.stdio_server:take_standard_streams",
        without("os.dup2(2, 1)"),
        suite("mcp_server/test_stdio_server.py", "decides_and_reads"),
    ),
    Guard(
        "a call of a tool is one of the same caller",
        "mcp_server.operation_requests:RequestsInProcess.__init__",
        Instead("is_carried(name)", "name == b'host'"),
        suite("mcp_server/test_tool_service.py", "audit_says"),
    ),
    Guard(
        "a request for the endpoint needs a key",
        "api.api_app:ApiApp._answer_at_endpoint",
        Instead("await self._authenticate(request)", "Caller('default', 'anybody', frozenset())"),
        suite("mcp_server/test_mcp_endpoint.py", "without_a_valid_key"),
    ),
    Guard(
        "the `next` of a list that was cut is not shown, since it leads behind what is not shown",
        "mcp_server.tool_service:ToolService.call",
        never("'/items'"),
        suite("mcp_server/test_tool_service.py", "long_list_is_cut"),
    ),
    Guard("a token is signed by an algorithm that is accepted", "service.oidc:OidcVerifier._verified", never("ALGORITHMS"), suite("service/test_oidc.py")),
    Guard(
        "a token is for this service", "service.oidc:OidcVerifier._verified", Instead("list(self.settings.audiences)", "None"), suite("service/test_oidc.py")
    ),
    Guard("a token is not expired", "service.oidc:OidcVerifier.identity", never("expires_at_s + LEEWAY_S"), suite("service/test_oidc.py")),
    Guard(
        "a key of an issuer is for one algorithm",
        "service.issuer_keys:_matching",
        Instead("key.algorithm_name == algorithm", "True"),
        suite("service/test_oidc.py"),
    ),
    Guard("a key for encryption signs nothing", "service.issuer_keys:_usable", never("use"), suite("service/test_oidc.py")),
    Guard(
        "an address that is not verified names nobody",
        "service.oidc:OidcVerifier._subject",
        Instead("claims.get('email_verified') is True", "True"),
        suite("service/test_oidc.py"),
    ),
    Guard("a sign-in is of this browser", "service.oidc_sign_in:callback_code", never("compare_digest"), suite("service/test_oidc_sign_in.py")),
    Guard("a sign-in returns to this service", "service.oidc_sign_in:begin_sign_in", never("is_own_path"), suite("service/test_oidc_sign_in.py")),
    Guard("a try that was parked has an event", "core.views:_named_events", Instead("'step.parked'", "'step.noticed'"), PARKED),
    # The catalog: an editor is told of another one, and nothing is deleted or started that nobody meant to.
    Guard("of two editors of one revision one is told", "service.record_kinds:expect_revision", never("revision != version"), suite("service/test_catalog.py")),
    Guard(
        "a set deletes only as many definitions as were expected",
        "service.catalog_sync:sync_all",
        never("expect", "others"),
        suite("service/test_catalog_sync.py"),
    ),
    Guard(
        "a disabled definition is not started",
        "service.definition_starts:catalog_start",
        never("found.definition.enabled"),
        suite("service/test_definition_starts.py"),
    ),
    Guard(
        "a definition that was deleted is not found",
        "service.catalog_references:find_definition",
        never("deleted_at_s"),
        suite("service/test_catalog.py"),
    ),
    Guard(
        "a document of which a piece is missing is not used",
        "service.catalog_records:read_documents",
        never("len(parts)"),
        suite("service/test_catalog.py", "piece"),
    ),
    # Proposals: what nobody else has seen, or was seen of another version, is not published.
    Guard("nobody reviews their own proposal", f"{PROPOSALS}:_expect_may_review", never("record.on_behalf_of", "makers_of"), suite(PROPOSAL_TESTS, "memory")),
    Guard("a proposal that widens rights needs an admin", f"{PROPOSALS}:_expect_may_review", never("may"), suite(PROPOSAL_TESTS, "memory")),
    Guard("a proposal is not applied before it is approved", f"{PROPOSALS}:_expect_open", never("record.status", "status"), suite(PROPOSAL_TESTS, "memory")),
    Guard("an expired proposal is not applied", f"{PROPOSALS}:_expect_open", never("has_expired"), suite(PROPOSAL_TESTS)),
    Guard("a stale proposal is not applied", f"{PROPOSALS}:_application", without("_expect_base"), suite(PROPOSAL_TESTS, "memory")),
    Guard("a definition that does not allow it takes no proposals", f"{PROPOSALS}:propose", without("_expect_self_edit"), suite(PROPOSAL_TESTS, "memory")),
    Guard(
        "a proposal is marked in the post that publishes it",
        f"{PROPOSALS}:apply",
        Instead("Edit(author, found.value.note, besides=besides)", "Edit(author, found.value.note)"),
        suite(PROPOSAL_TESTS, "memory"),
    ),
    Guard(
        "a trial takes a recorded result only for the same input",
        "service.proposals.recorded_answers:RecordedAnswers._fitting",
        always("wanted"),
        suite("service/proposals/test_proposal_trials.py"),
    ),
)


def hunt(guard: Guard, check_command: bool = True) -> Run:
    """Run what must notice that the guard is gone.

    Raises:
        AnchorMissing: the guard is no longer where its row says.
        ValueError: the command fails with the guard in place, so that its failure says nothing.
    """
    source = guard.source()
    if check_command and (unchanged := _unchanged(guard.command)).code != 0:
        raise ValueError(f"{shown(guard.command)} fails without any change, so it says nothing about guards; mend it first\n{unchanged.printed}")
    return run_on_copy(guard.module, source, guard.command, LIMIT_S)


@cache
def _unchanged(command: tuple[str, ...]) -> Run:
    return run_on(ROOT / "src", command, LIMIT_S)


def shown(command: tuple[str, ...]) -> str:
    """A command, in short."""
    return " ".join(word for word in command if word not in (*PYTEST, "tests.proof.simulator")).replace("--worlds", "simulator --worlds")


def main() -> int:
    """Remove each guard and print a table; 1 if one was not missed."""
    parser = argparse.ArgumentParser(description="Remove each guard, and see whether the suite notices.")
    parser.add_argument("words", nargs="?", default="", help="only guards whose claim or place has this in it")
    wanted = parser.parse_args().words
    missed = 0
    for guard in (guard for guard in GUARDS if wanted in guard.claim or wanted in guard.place):
        found = hunt(guard)
        missed += not found.found_a_failure
        print(
            f"{'caught' if found.found_a_failure else 'MISSED':7} {found.seconds:5.1f} s  {guard.claim:58} {guard.place:48} {shown(guard.command)}", flush=True
        )
        if wanted and not found.found_a_failure:
            print(found.printed)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
