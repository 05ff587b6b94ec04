"""All operations: the function of each, its route over HTTP, and the role that it needs.

The HTTP API, its documents and the client for a server are made from this table: parameters, results, descriptions and errors are those of the functions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from perdure.code.call_options import DEFAULT_TENANT
from perdure.core import errors
from perdure.core.errors import Forbidden
from perdure.core.paths import Key
from perdure.operations import (
    on_access,
    on_approvals,
    on_catalog,
    on_dead_letters,
    on_deliveries,
    on_events,
    on_execution_changes,
    on_executions,
    on_kinds,
    on_notifications,
    on_people,
    on_proposals,
    on_queues,
    on_recordings,
    on_runs,
    on_secrets,
    on_system,
    on_triggers,
    on_upkeep,
)
from perdure.service.callers import LOCAL, Caller, Role
from perdure.service.change_plans import PlannedVerb
from perdure.service.execution_operations import StartRequest
from perdure.service.queries import INTERNAL_WORKFLOWS, ExecutionFilter
from perdure.service.wire_types import SecretText, Version

NO_DEFAULT: Any = inspect.Parameter.empty

FILLED_IN = ("tenant", "secret", "author", "caller", "public_url", "server", "allowed")
"""Parameters that the server knows, and no request gives. Perdure's own client sends the tenant, which has to be that of its key."""

WAITING_ARGUMENTS = ("wait", "wait_s")
"""Parameters by which a caller chooses to wait for what an execution or an engine does."""

GROUPS = {"execution_changes": "executions"}
"""The group of operations of a module, if that is not its name."""

_RAISES = re.compile(r"^ {4}Raises:\n((?: {8}.*\n?)+)", re.MULTILINE)
_ERROR_NAMES = re.compile(r"^ {8}(?P<names>[A-Z]\w+(?:, [A-Z]\w+)*): ", re.MULTILINE)


class OperationParameter(NamedTuple):
    """A parameter of an operation: its name, its type with annotations, and its default (`NO_DEFAULT`: it must be given)."""

    name: str
    type: Any
    default: Any


class Operation:
    """An operation: its function, and its method, path and role over HTTP.

    ``{workflow}`` and ``{id}`` in a path are those of the parameter `key`; any other name in braces is that of a parameter. One that `is_repeatable` has the
    same effect when it is performed a second time with the same arguments, and does not fail then; those that only read are. One `for_workers` is also for keys
    that are limited to queues. One that `is_store_wide` concerns all tenants, so it is for callers of the default tenant, which is that of the operators of the
    service. Without a role, it is for everybody who has proved who they are. With `is_workflow_optional`, a new key needs no workflow: the operation knows it.
    One that `waits_for_answer` ends when an execution, a tool or a person has answered, which may take any time.
    `other_names` are further JSON names of its fields, by which clients of other systems give them, each with its own.
    Its `name` is that of its function, below the module's, unless it is given.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        method: str,
        path: str,
        role: Role | None,
        *,
        is_repeatable: bool = False,
        for_workers: bool = False,
        is_store_wide: bool = False,
        is_workflow_optional: bool = False,
        waits_for_answer: bool = False,
        other_names: Mapping[str, str] | None = None,
        name: str = "",
    ) -> None:
        self.other_names = other_names or {}
        self.function, self.method, self.path, self.role = function, method, path, role
        self.is_repeatable, self.for_workers, self.is_store_wide = is_repeatable or method == "GET", for_workers, is_store_wide
        self.is_workflow_optional, self.waits_for_answer = is_workflow_optional, waits_for_answer
        module = function.__module__.rpartition(".on_")[2]
        self.name = name or f"{GROUPS.get(module, module)}.{function.__name__.rstrip('_')}"

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def parameters(self) -> tuple[OperationParameter, ...]:
        """The parameters behind the store."""
        _, *given = inspect.signature(self.function).parameters.values()
        return tuple(OperationParameter(one.name, self._hints[one.name], one.default) for one in given)

    @cached_property
    def filled_in(self) -> tuple[str, ...]:
        """The names of the parameters that the server fills in."""
        return tuple(one.name for one in self.parameters if one.name in FILLED_IN)

    @cached_property
    def is_start(self) -> bool:
        """Is true of an operation that starts an execution of an id that the caller chooses."""
        return any(one.type is StartRequest for one in self.parameters)

    @cached_property
    def takes_idempotency_key(self) -> bool:
        """Is true of an operation whose requests may have an idempotency key: one that changes something. That of a start is its id.

        Of one that is given a secret no trace may be kept, not even a hash of the request; it can be repeated without a key.
        """
        return self.method != "GET" and self.role != "viewer" and not self.is_start and not self.takes_secret

    @cached_property
    def version_field(self) -> str | None:
        """The name of the field of the result that is its version; None if it has none."""
        hints = get_type_hints(self.result, include_extras=True) if isinstance(self.result, type) else {}
        return next((name for name, kind in hints.items() if kind == Version), None)

    @cached_property
    def expects_version(self) -> bool:
        """Is true of an operation that changes a record, or one execution, only while it is at a version."""
        named = {one.name for one in self.parameters}
        return self.method != "GET" and self.role != "viewer" and ("revision" in named or "key" in named)

    @cached_property
    def _waiting_arguments(self) -> tuple[OperationParameter, ...]:
        return tuple(one for one in self.parameters if one.name in WAITING_ARGUMENTS)

    def may_wait(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a request with these arguments may take as long as an execution, a tool or a person does."""
        return self.waits_for_answer or any(arguments.get(one.name, one.default) for one in self._waiting_arguments)

    @cached_property
    def has_plan(self) -> bool:
        """Is true of an operation on one execution of which `executions.plan` says what it would do."""
        return self.name.startswith("executions.") and self.function.__name__ in get_args(PlannedVerb)

    @cached_property
    def shows_secret(self) -> bool:
        """Is true of an operation whose result has a secret that is shown once."""
        return SecretText in get_type_hints(self.result, include_extras=True).values() if isinstance(self.result, type) else False

    @cached_property
    def takes_secret(self) -> bool:
        """Is true of an operation that is given a secret."""
        return any(one.type == SecretText for one in self.parameters)

    @cached_property
    def spread(self) -> frozenset[str]:
        """The names of the parameters whose fields are those of the request itself. See `Nested`."""
        return frozenset(one.name for one in self.parameters if one.name not in FILLED_IN and one.default is NO_DEFAULT and _is_struct(one.type))

    @cached_property
    def is_stream(self) -> bool:
        """Is true of an operation that yields what it finds, one after the other."""
        return get_origin(self._hints["return"]) is AsyncGenerator

    @cached_property
    def result(self) -> Any:
        """The type of the result, or of each thing that a stream yields."""
        return get_args(self._hints["return"])[0] if self.is_stream else self._hints["return"]

    @cached_property
    def description(self) -> str:
        """The description of the function, without its errors."""
        return inspect.cleandoc(_RAISES.sub("", self.function.__doc__ or "")).strip()

    @cached_property
    def errors(self) -> tuple[type[errors.PerdureError], ...]:
        """The errors that the function says it raises."""
        section = _RAISES.search(self.function.__doc__ or "")
        named = [name for found in _ERROR_NAMES.finditer(section[1]) for name in found["names"].split(", ")] if section else []
        return tuple(getattr(errors, name) for name in named)

    def bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the arguments that a client sends, by name: those that are not defaults, nor known to the server alone."""
        given = inspect.signature(self.function).bind(None, *args, **kwargs).arguments
        defaults = {one.name: one.default for one in self.parameters if one.name not in FILLED_IN or one.name == "tenant"}
        return {name: value for name, value in given.items() if name in defaults and value is not defaults[name]}

    def arguments_of(self, planned: Operation, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments of the plan of an operation, whose arguments are given."""
        known = {one.name for one in self.parameters}
        return {name: value for name, value in given.items() if name in known} | {"verb": planned.function.__name__}

    def expect_allowed(self, caller: Caller) -> None:
        """Checks that a caller may call this.

        Raises:
            Forbidden: they lack the role, have a key that is limited to queues, for work that is in none, or are of a tenant that does not operate the service.
        """
        if self.role is not None:
            caller.expect(self.role, self.name)
        if caller.queues is not None and not self.for_workers:
            raise Forbidden(caller.subject, self.name, self.role or "", f"{caller.subject} is limited to work in queues, and may not call {self.name}")
        if self.is_store_wide and caller.tenant != DEFAULT_TENANT and caller.subject != LOCAL.subject:
            why = f"{self.name} concerns all tenants, so {caller.subject} of the tenant {caller.tenant} may not call it. It needs a key of {DEFAULT_TENANT}"
            raise Forbidden(caller.subject, self.name, self.role or "", why)

    def is_allowed(self, caller: Caller) -> bool:
        """Is true if a caller may call this; what its arguments are may still be refused."""
        try:
            self.expect_allowed(caller)
        except Forbidden:
            return False
        return True

    def expect_arguments_allowed(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Checks that a caller may call this with these arguments.

        Raises:
            Forbidden: a start brings its own definition, which only an author may publish; or what Perdure's own executions do, such as approvals, would be
                told, or begun with any input, without the operation, and the role, that is there for it.
        """
        request = arguments.get("request")
        if self.function is on_execution_changes.start and isinstance(request, StartRequest) and request.definition is not None:
            caller.expect("author", f"{self.name} with a definition of its own")
        is_plain = self.function in PLAIN_COMMANDS or (self.function is on_dead_letters.requeue and _begins_anew(arguments))
        if is_plain and (own := _own_workflows(arguments)):
            caller.expect("admin", f"{self.name} of {min(own)}, which is Perdure's own")


_START = (on_execution_changes.start, on_execution_changes.rerun, on_execution_changes.fork, on_catalog.start_document, on_runs.run_workflow)
_TELL = (on_execution_changes.send, on_execution_changes.ask, on_execution_changes.preset, on_execution_changes.start_bulk)
PLAIN_COMMANDS = frozenset((*_START, *_TELL))
"""The operations that begin an execution with anything, or tell it anything. A dead letter that is requeued with edits or another version begins anew too."""


def _begins_anew(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments.get("edits")) or arguments.get("version") is not None


def _own_workflows(arguments: Mapping[str, Any]) -> set[str]:
    """The workflows of Perdure's own that a command is about."""
    key, request, which = arguments.get("key"), arguments.get("request"), arguments.get("which")
    named = {str(arguments.get("workflow_id", "")), *((key.workflow,) if isinstance(key, Key) else ())}
    if isinstance(request, StartRequest):
        named.add(request.key.workflow)
    if isinstance(which, ExecutionFilter):
        named |= {which.workflow} if which.workflow else set(INTERNAL_WORKFLOWS) if which.internal else set()
    return named & set(INTERNAL_WORKFLOWS)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


_ONE = "/api/executions/{workflow}/{id}"
_APPROVAL = "/api/approvals/{id}"
_PROPOSAL = "/api/proposals/{proposal}"
_TRIGGER = "/api/triggers/{trigger}"
_RECORDING = "/api/recordings/{recording}"

OPERATIONS: tuple[Operation, ...] = (
    Operation(on_execution_changes.start, "POST", "/api/executions", "operator", is_repeatable=True),
    Operation(on_executions.page, "GET", "/api/executions", "viewer"),
    Operation(on_executions.changes, "GET", "/api/events/stream", "viewer"),
    Operation(on_executions.counts, "GET", "/api/execution-counts", "viewer"),
    Operation(on_executions.model_costs, "GET", "/api/model-costs", "viewer"),
    Operation(on_executions.agent_memories, "GET", "/api/agent-memories", "viewer"),
    Operation(on_executions.forget_memory, "DELETE", "/api/agent-memories/{agent}/{memory}", "operator"),
    Operation(on_executions.find, "GET", "/api/execution-search", "viewer"),
    Operation(on_executions.by_id, "GET", "/api/execution-ids/{id}", "viewer"),
    Operation(on_executions.selected, "POST", "/api/executions/select", "viewer", is_repeatable=True),
    Operation(on_execution_changes.bulk, "POST", "/api/executions/batch", "operator"),
    Operation(on_execution_changes.start_bulk, "POST", "/api/executions/bulk", "operator"),
    Operation(on_execution_changes.plan, "POST", f"{_ONE}/plan", "viewer", is_repeatable=True),
    Operation(on_executions.summary, "GET", f"{_ONE}/summary", "viewer"),
    Operation(on_executions.read, "GET", _ONE, "viewer"),
    Operation(on_executions.status, "GET", f"{_ONE}/status", "viewer"),
    Operation(on_executions.input, "GET", f"{_ONE}/input", "viewer"),
    Operation(on_executions.traces, "GET", f"{_ONE}/steps", "viewer"),
    Operation(on_executions.steps, "GET", f"{_ONE}/operations", "viewer"),
    Operation(on_executions.graph, "GET", f"{_ONE}/graph", "viewer"),
    Operation(on_executions.passages, "GET", f"{_ONE}/graph/passages", "viewer"),
    Operation(on_executions.conditions, "GET", f"{_ONE}/graph/conditions", "viewer"),
    Operation(on_executions.definition, "GET", f"{_ONE}/definition", "viewer"),
    Operation(on_executions.tokens, "GET", f"{_ONE}/tokens", "viewer"),
    Operation(on_executions.details, "GET", f"{_ONE}/details", "viewer"),
    Operation(on_executions.family, "GET", f"{_ONE}/family", "viewer"),
    Operation(on_executions.state, "GET", f"{_ONE}/state", "viewer"),
    Operation(on_executions.result, "GET", f"{_ONE}/result", "viewer"),
    Operation(on_executions.stream, "GET", f"{_ONE}/stream", "viewer"),
    Operation(on_executions.live_text, "GET", f"{_ONE}/live-text", "viewer"),
    Operation(on_executions.events, "GET", f"{_ONE}/events", "viewer"),
    Operation(on_executions.log, "GET", f"{_ONE}/log", "viewer"),
    Operation(on_execution_changes.send, "POST", f"{_ONE}/messages", "operator", is_repeatable=True),
    Operation(on_execution_changes.ask, "POST", f"{_ONE}/ask", "operator", waits_for_answer=True),
    Operation(on_execution_changes.cancel, "POST", f"{_ONE}/cancel", "operator", is_repeatable=True),
    Operation(on_execution_changes.terminate, "POST", f"{_ONE}/terminate", "operator", is_repeatable=True),
    Operation(on_execution_changes.pause, "POST", f"{_ONE}/pause", "operator", is_repeatable=True),
    Operation(on_execution_changes.resume, "POST", f"{_ONE}/resume", "operator"),
    Operation(on_execution_changes.evict, "POST", f"{_ONE}/evict", "operator", is_repeatable=True),
    Operation(on_execution_changes.undo, "POST", f"{_ONE}/undo", "operator"),
    Operation(on_execution_changes.retry, "POST", f"{_ONE}/retry", "operator"),
    Operation(on_execution_changes.rerun, "POST", f"{_ONE}/rerun", "operator"),
    Operation(on_execution_changes.fork, "POST", f"{_ONE}/fork", "operator"),
    Operation(on_execution_changes.preset, "POST", f"{_ONE}/preset", "operator"),
    Operation(on_execution_changes.patch, "POST", f"{_ONE}/patch", "author"),
    Operation(on_execution_changes.withdraw_patches, "POST", f"{_ONE}/patch/withdraw", "author"),
    Operation(on_catalog.page, "GET", "/api/workflows", "viewer"),
    Operation(on_catalog.create, "POST", "/api/workflows", "author"),
    Operation(on_catalog.validate, "POST", "/api/workflows/validate", "viewer", is_repeatable=True),
    Operation(on_catalog.preview, "POST", "/api/workflows/preview", "viewer", is_repeatable=True),
    Operation(on_catalog.sync, "POST", "/api/workflows/sync", "author", is_repeatable=True),
    Operation(on_catalog.sync_all, "POST", "/api/workflows/sync-all", "author"),
    Operation(on_catalog.read, "GET", "/api/workflows/{definition}", "viewer"),
    Operation(on_catalog.update, "PUT", "/api/workflows/{definition}", "author"),
    Operation(on_catalog.delete, "DELETE", "/api/workflows/{definition}", "author"),
    Operation(on_catalog.history, "GET", "/api/workflows/{definition}/history", "viewer"),
    Operation(on_catalog.release, "POST", "/api/workflows/{definition}/release", "author", is_repeatable=True),
    Operation(on_catalog.roll_back, "POST", "/api/workflows/{definition}/rollback", "author"),
    Operation(on_catalog.move_tag, "PUT", "/api/workflows/{definition}/tags/{tag}", "author"),
    Operation(on_catalog.remove_tag, "DELETE", "/api/workflows/{definition}/tags/{tag}", "author"),
    Operation(on_catalog.draft, "GET", "/api/workflows/{definition}/draft", "viewer"),
    Operation(on_catalog.save_draft, "PUT", "/api/workflows/{definition}/draft", "author"),
    Operation(on_catalog.discard_draft, "DELETE", "/api/workflows/{definition}/draft", "author"),
    Operation(on_catalog.version, "GET", "/api/workflow-versions/{reference}", "viewer"),
    Operation(on_catalog.resolve, "GET", "/api/workflow-versions/{reference}/name", "viewer"),
    Operation(on_catalog.graph, "GET", "/api/workflow-versions/{reference}/graph", "viewer"),
    Operation(on_catalog.diff, "GET", "/api/workflow-diff", "viewer"),
    Operation(on_catalog.outcomes, "GET", "/api/workflow-outcomes", "viewer"),
    Operation(on_catalog.versions_in_use, "GET", "/api/workflow-versions-in-use", "viewer"),
    Operation(on_catalog.recent_inputs, "GET", "/api/workflow-inputs", "viewer"),
    Operation(on_catalog.start, "POST", "/api/workflow-versions/{reference}/executions", "operator", is_workflow_optional=True),
    Operation(on_catalog.start_document, "POST", "/api/inline-executions", "author", is_workflow_optional=True),
    Operation(on_proposals.page, "GET", "/api/proposals", "viewer"),
    Operation(on_proposals.read, "GET", _PROPOSAL, "viewer"),
    Operation(on_proposals.create, "POST", "/api/workflows/{definition}/proposals", "operator"),
    Operation(on_proposals.review, "POST", f"{_PROPOSAL}/review", "author"),
    Operation(on_proposals.apply, "POST", f"{_PROPOSAL}/apply", "author"),
    Operation(on_proposals.try_, "POST", f"{_PROPOSAL}/try", "viewer", is_repeatable=True),
    Operation(on_proposals.try_document, "POST", "/api/workflows/{definition}/try", "viewer", is_repeatable=True),
    Operation(on_recordings.page, "GET", "/api/recordings", "viewer"),
    Operation(on_recordings.start, "POST", "/api/recordings", "operator"),
    Operation(on_recordings.read, "GET", _RECORDING, "viewer"),
    Operation(on_recordings.call, "POST", f"{_RECORDING}/calls", "operator", waits_for_answer=True),
    Operation(on_recordings.cancel_call, "POST", f"{_RECORDING}/cancel-call", "operator", is_repeatable=True),
    Operation(on_recordings.preset, "POST", f"{_RECORDING}/presets", "operator"),
    Operation(on_recordings.set_input, "PATCH", f"{_RECORDING}/input", "operator", is_repeatable=True),
    Operation(on_recordings.end, "POST", f"{_RECORDING}/end", "operator", waits_for_answer=True),
    Operation(on_recordings.suggestions, "POST", f"{_RECORDING}/suggestions", "viewer", is_repeatable=True),
    Operation(on_recordings.definition, "POST", f"{_RECORDING}/definition", "viewer", is_repeatable=True),
    Operation(on_recordings.save, "POST", f"{_RECORDING}/save", "author"),
    Operation(on_proposals.start_agent, "POST", "/api/proposal-agents", "operator"),
    Operation(on_proposals.read_agent, "GET", "/api/proposal-agents/{agent}", "viewer"),
    Operation(on_runs.run_workflow, "POST", "/api/triggers/manual/run", "operator"),
    Operation(on_triggers.page, "GET", "/api/triggers", "viewer"),
    Operation(on_triggers.create, "POST", "/api/triggers", "author"),
    Operation(on_triggers.read, "GET", _TRIGGER, "viewer"),
    Operation(on_triggers.update, "PATCH", _TRIGGER, "author", is_repeatable=True),
    Operation(on_triggers.delete, "DELETE", _TRIGGER, "author"),
    Operation(on_triggers.enable, "POST", f"{_TRIGGER}/enable", "operator", is_repeatable=True),
    Operation(on_triggers.disable, "POST", f"{_TRIGGER}/disable", "operator", is_repeatable=True),
    Operation(on_triggers.pause, "POST", f"{_TRIGGER}/pause", "operator", is_repeatable=True),
    Operation(on_triggers.resume, "POST", f"{_TRIGGER}/resume", "operator", is_repeatable=True),
    Operation(on_triggers.run, "POST", f"{_TRIGGER}/run", "operator"),
    Operation(on_deliveries.page, "GET", f"{_TRIGGER}/deliveries", "viewer"),
    Operation(on_deliveries.replay_many, "POST", f"{_TRIGGER}/deliveries/replay", "operator"),
    Operation(on_deliveries.read, "GET", f"{_TRIGGER}/deliveries/{{delivery}}", "viewer"),
    Operation(on_deliveries.replay, "POST", f"{_TRIGGER}/deliveries/{{delivery}}/replay", "operator"),
    Operation(on_deliveries.send_sample, "POST", f"{_TRIGGER}/sample-delivery", "operator"),
    Operation(on_events.post, "POST", "/api/cloudevents", "operator", is_repeatable=True),
    Operation(on_triggers.preview, "GET", f"{_TRIGGER}/preview", "viewer"),
    Operation(on_triggers.preview_config, "POST", "/api/triggers/preview", "viewer", is_repeatable=True),
    Operation(on_triggers.backfill, "POST", f"{_TRIGGER}/backfill", "operator", is_repeatable=True),
    Operation(on_runs.approve, "POST", f"{_ONE}/approve", "approver"),
    Operation(on_runs.complete, "POST", f"{_ONE}/complete", "operator"),
    Operation(on_runs.report_status, "POST", f"{_ONE}/status", "operator"),
    Operation(on_runs.enqueue, "POST", f"{_ONE}/enqueue", "operator", is_repeatable=True),
    Operation(on_runs.decide, "POST", "/api/v1/approvals/{id}/decide", "approver", other_names={"decided_by": "decidedBy"}),
    Operation(on_kinds.kinds, "GET", "/api/kinds", "viewer"),
    Operation(on_kinds.tools, "GET", "/api/tools", "viewer"),
    Operation(on_kinds.references, "POST", "/api/workflows/references", "viewer", is_repeatable=True),
    Operation(on_kinds.definition_format, "GET", "/api/definition-format", "viewer"),
    Operation(on_approvals.waiting, "GET", "/api/approvals", "viewer"),
    Operation(on_approvals.count, "GET", "/api/approvals/count", "viewer"),
    Operation(on_approvals.find, "GET", "/api/approval-search", "viewer"),
    Operation(on_approvals.read, "GET", _APPROVAL, "viewer"),
    Operation(on_approvals.vote, "POST", f"{_APPROVAL}/decide", "approver"),
    Operation(on_approvals.delegate, "POST", f"{_APPROVAL}/delegate", "approver"),
    Operation(on_approvals.sign_link, "POST", f"{_APPROVAL}/links", "admin", is_repeatable=True),
    Operation(on_approvals.vote_by_link, "POST", "/api/approval-links/decide", "approver"),
    Operation(on_approvals.complete, "POST", "/api/completions/complete", "operator", for_workers=True),
    Operation(on_approvals.fail, "POST", "/api/completions/fail", "operator", for_workers=True),
    Operation(on_approvals.heartbeat, "POST", "/api/completions/heartbeat", "operator", is_repeatable=True, for_workers=True),
    Operation(on_dead_letters.groups, "GET", "/api/dead-letters", "viewer"),
    Operation(on_dead_letters.counts, "GET", "/api/dead-letter-counts", "viewer"),
    Operation(on_dead_letters.requeue, "POST", "/api/dead-letters/{workflow}/{id}/requeue", "operator"),
    Operation(on_dead_letters.discard, "POST", "/api/dead-letters/{workflow}/{id}/discard", "operator"),
    Operation(on_queues.statuses, "GET", "/api/queues", "viewer", is_store_wide=True),
    Operation(on_queues.read, "GET", "/api/queues/{queue}", "viewer", is_store_wide=True),
    Operation(on_queues.declare, "PUT", "/api/queues/{queue}/declaration", "operator", is_repeatable=True, is_store_wide=True),
    Operation(on_queues.change, "PATCH", "/api/queues/{queue}", "admin", is_repeatable=True, is_store_wide=True),
    Operation(on_queues.remove, "DELETE", "/api/queues/{queue}", "admin", is_repeatable=True, is_store_wide=True),
    Operation(on_queues.processes, "GET", "/api/engines", "viewer", is_store_wide=True),
    Operation(on_upkeep.export, "GET", f"{_ONE}/export", "admin"),
    Operation(on_upkeep.import_, "POST", "/api/imports", "admin", is_store_wide=True),
    Operation(on_upkeep.verify, "POST", "/api/upkeep/verify", "admin", is_store_wide=True),
    Operation(on_upkeep.prune, "POST", "/api/upkeep/prune", "admin"),
    Operation(on_upkeep.archives, "GET", f"{_ONE}/archives", "viewer"),
    Operation(on_upkeep.prune_archives, "POST", "/api/upkeep/prune-archives", "admin", is_store_wide=True),
    Operation(on_upkeep.prune_values, "POST", "/api/upkeep/prune-values", "admin", is_store_wide=True),
    Operation(on_upkeep.prune_months, "POST", "/api/upkeep/prune-months", "admin", is_store_wide=True),
    Operation(on_notifications.list_rules, "GET", "/api/notification-rules", "admin"),
    Operation(on_notifications.read_rule, "GET", "/api/notification-rules/{rule}", "admin"),
    Operation(on_notifications.save_rule, "PUT", "/api/notification-rules/{rule}", "admin"),
    Operation(on_notifications.remove_rule, "DELETE", "/api/notification-rules/{rule}", "admin"),
    Operation(on_notifications.try_rule, "POST", "/api/notification-rules/{rule}/test", "admin"),
    Operation(on_people.page, "GET", "/api/people", "admin"),
    Operation(on_people.read_person, "GET", "/api/people/{person}", None),
    Operation(on_people.save_person, "PUT", "/api/people/{person}", None),
    Operation(on_secrets.names, "GET", "/api/secrets", "admin"),
    Operation(on_secrets.save, "PUT", "/api/secrets/{name}", "admin", is_repeatable=True),
    Operation(on_secrets.remove, "DELETE", "/api/secrets/{name}", "admin"),
    Operation(on_access.list_keys, "GET", "/api/keys", "admin"),
    Operation(on_access.create_key, "POST", "/api/keys", "admin"),
    Operation(on_access.read_key, "GET", "/api/keys/{id}", "admin"),
    Operation(on_access.revoke_key, "DELETE", "/api/keys/{id}", "admin", is_repeatable=True),
    Operation(on_access.rotate_key, "POST", "/api/keys/{id}/rotate", "admin"),
    Operation(on_access.list_sessions, "GET", "/api/sessions", "admin"),
    Operation(on_access.revoke_session, "DELETE", "/api/sessions/{id}", "admin"),
    Operation(on_access.list_audit, "GET", "/api/audit", "admin"),
    Operation(on_access.whoami, "GET", "/api/whoami", None, for_workers=True),
    Operation(on_system.status, "GET", "/api/system", "viewer"),
)

BY_FUNCTION = {one.function: one for one in OPERATIONS}
