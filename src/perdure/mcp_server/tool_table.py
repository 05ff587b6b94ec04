"""The table of tools: which operations models have, under which names, and what each is told to them.

A line makes a tool of an operation. Its parameters, checks, results, errors and role are those of the operation. What needs several operations, such as to
start a workflow and wait for it, is in `composed_tools`. Models propose changes; they have no tools to review or apply a proposal, nor for keys and secrets.
"""

from __future__ import annotations

from perdure.mcp_server.composed_tools import COMPOSED_TOOLS
from perdure.mcp_server.model_tools import ModelTool, SingleOperationTool
from perdure.mcp_server.tool_search import GET_STEP_KIND, SEARCH_TOOLS
from perdure.operations import (
    on_access,
    on_approvals,
    on_catalog,
    on_dead_letters,
    on_execution_changes,
    on_executions,
    on_kinds,
    on_proposals,
    on_recordings,
    on_runs,
    on_system,
    on_triggers,
)

_OF_WORKFLOW = {"workflow": "definition"}
_SLUG = {"workflow": "The slug of the definition, such as invoice."}
_REFERENCE = {"workflow": "The slug of the definition, or a version of it: invoice, invoice@1.2.0, invoice@^1, invoice:production."}
_INPUTS = {"input": "The input that replaces that of the other: an object of values by name."}
_FILTERS = ("seedStatus", "workflowId", "internal", "descending", "orderBy", "errorType", "failedSince", "fingerprint")
_PAGE = {"limit": 20}

GREETING = """
perdure: 1
name: greet
input: {name: {type: string}}
vars: {text: ""}
steps:
  - {id: say, set: {text: "Hello @{input.name}"}}
output: "@vars.text"
""".lstrip()
COUNTED = {"perdure": 1, "name": "invoice", "allow": {"self_edit": True}, "vars": {"n": 0}, "steps": [{"id": "note", "set": {"n": 2}}], "output": "@vars.n"}

CATALOG: tuple[ModelTool, ...] = (
    SingleOperationTool(
        "list_workflows",
        on_catalog.page,
        "Lists the workflows that can be started: definitions of the catalog, and code that running engines have (`code`).",
        {"text": "invoice", "limit": 10},
        left_out=("tag", "hasDraft"),
        preset=_PAGE,
        about={"kind": "Only definitions, or only code.", "enabled": "Only those that are enabled, or are not."},
    ),
    SingleOperationTool(
        "get_workflow",
        on_catalog.version,
        "Reads a version of a definition: its document as it was written (`received`), its hash, and the JSON Schema of its input.",
        {"workflow": "invoice"},
        names={"workflow": "reference"},
        about=_REFERENCE,
    ),
    SingleOperationTool(
        "list_workflow_versions",
        on_catalog.history,
        "Lists the published versions of a definition, newest first, with who published each and why.",
        {"workflow": "invoice"},
        names=_OF_WORKFLOW,
        fixed={"versionsOnly": True},
        preset=_PAGE,
        about={**_SLUG, "before": "The `next` of the page before, to read the one behind it."},
    ),
    SingleOperationTool(
        "compare_workflow_versions",
        on_catalog.diff,
        "Shows what differs between two versions of definitions, step by step.",
        {"before": "invoice@1.0.0", "after": "invoice"},
        about={"before": "The one version: a slug, or slug@version.", "after": "The other version."},
    ),
    SingleOperationTool(
        "validate_workflow",
        on_catalog.validate,
        "Checks a document and stores nothing. Findings have the line, what is wrong and what to do. Do this before create_workflow.",
        {"document": GREETING},
        about={"slug": "The slug that it would have; one is made of its name by default."},
    ),
    SingleOperationTool(
        "create_workflow",
        on_catalog.create,
        "Publishes a document as a new workflow of the catalog. To change one that is there, use update_workflow or propose_workflow_change.",
        {
            "document": GREETING,
            "note": "the first version",
        },
        about={"slug": "The name by which it is started; one is made of the name of the document by default.", "fields": "Its name, description and tags."},
    ),
    SingleOperationTool(
        "update_workflow",
        on_catalog.update,
        "Publishes a document as the next version of a workflow, or changes its description, tags or switch. Executions go on with the version they have.",
        {"workflow": "invoice", "fields": {"description": "Sends an invoice"}},
        names=_OF_WORKFLOW,
        about={**_SLUG, "fields": "Its name, description, tags and switch, as far as they change.", "part": "Which part of the version number rises."},
    ),
    SingleOperationTool(
        "delete_workflow",
        on_catalog.delete,
        "Deletes a workflow from the catalog. Its versions and its history are kept, and executions go on.",
        {"workflow": "invoice", "note": "no longer used"},
        names=_OF_WORKFLOW,
        about=_SLUG,
    ),
    SingleOperationTool(
        "roll_back_workflow",
        on_catalog.roll_back,
        "Makes an earlier version of a workflow the current one again.",
        {"workflow": "invoice", "target": "1.0.0"},
        names=_OF_WORKFLOW,
        left_out=("workflowHash",),
        about={**_SLUG, "target": "The number or the hash of the version."},
    ),
    SingleOperationTool(
        "propose_workflow_change",
        on_proposals.create,
        "Proposes a document as the next version of a workflow, which has to allow that (allow: {self_edit: true}). A person reviews and applies it.",
        {
            "workflow": "invoice",
            "document": COUNTED,
            "baseWorkflowHash": "sha256:…",
            "note": "counts to 2",
        },
        names={**_OF_WORKFLOW, "document": "proposalJson"},
        about={
            **_SLUG,
            "document": "The whole new definition: an object, or its text in YAML or JSON.",
            "baseWorkflowHash": "The `hash` that get_workflow shows. Without it, a new workflow of this slug is proposed.",
            "note": "What changes and why, for the person who reviews it.",
        },
    ),
    SingleOperationTool(
        "try_workflow_change",
        on_proposals.try_document,
        "Runs a changed document on what past executions have recorded, in virtual time, and performs nothing. Shows what would have come out.",
        {
            "workflow": "invoice",
            "document": COUNTED,
            "last": 3,
        },
        names=_OF_WORKFLOW,
        about={
            **_SLUG,
            "last": "How many past executions.",
            "mocks": "Results of steps that have recorded none, by their ids.",
            "executions": "The ids of the executions, in place of the last ones.",
            "until": "The id of the step at which to stop.",
        },
    ),
    SingleOperationTool(
        "list_proposals",
        on_proposals.page,
        "Lists proposed changes of workflows and where each stands.",
        {"workflow": "invoice", "open": True},
        names=_OF_WORKFLOW,
        preset=_PAGE,
        about={**_SLUG, "open": "Only those that are pending or approved, or are not."},
    ),
    SingleOperationTool(
        "get_proposal",
        on_proposals.read,
        "Reads a proposal: its document, its diff, and what the reviewer has said.",
        {"proposal": "p1"},
        left_out=("definition",),
        about={"proposal": "The id of the proposal."},
    ),
    SingleOperationTool(
        "propose_from_words",
        on_proposals.start_agent,
        "Has a model of an engine write or change a workflow, check and try it, and file it as a proposal. get_proposal_agent says how far it is.",
        {"words": "Greet whoever signs up by name", "new": True},
        left_out=("instructions",),
        about={
            "words": "What the workflow should do, or what should be different.",
            "definition": "The slug of the workflow to change, or of a new one.",
            "new": "Write a new workflow.",
            "model": "A name that the engine knows; its default model if none is given.",
            "maxTurns": "How many model calls it may make.",
            "maxCostUsd": "How much it may cost.",
            "agentId": "An id by which it is found when it is asked for again.",
        },
    ),
    SingleOperationTool(
        "get_proposal_agent",
        on_proposals.read_agent,
        "Says what a proposal agent has done, and how it has ended: its proposal, or the document that came nearest with its findings.",
        {"agent": "a1"},
        about={"agent": "Its id, as propose_from_words has answered."},
    ),
    SingleOperationTool(
        "get_definition_format",
        on_kinds.definition_format,
        "Reads the JSON Schema of definitions and the operators of conditions. It is long: read parts of it by read_part. search_tools finds kinds of steps.",
        {},
    ),
)
"""Tools for the catalog."""

EXECUTIONS: tuple[ModelTool, ...] = (
    SingleOperationTool(
        "run_document",
        on_catalog.start_document,
        "Starts a definition once that is not in the catalog, for example to try it. Then call wait_for_execution with the id.",
        {"document": GREETING, "input": {"name": "Ada"}},
        left_out=("version", "strict", "graceSeconds", "queue", "lane", "priority", "ttlSeconds", "debounceSeconds", "singleton"),
        read_by="get_execution",
        about={
            "until": "The id of a step, to perform only what leads to it.",
            "workflow": "The name of the workflow; one is made of that of the document by default.",
            "id": "The id of the execution; a random one by default.",
            "delaySeconds": "Start it after this time.",
            "deadlineSeconds": "Cancel it after this time.",
        },
    ),
    SingleOperationTool(
        "list_executions",
        on_executions.page,
        "Lists executions, newest first, with their statuses.",
        {"workflow": "invoice", "status": ["failed", "needs_attention"], "limit": 10},
        left_out=_FILTERS,
        preset=_PAGE,
        about={
            "workflow": "Only those of this workflow.",
            "idPrefix": "Only those whose id begins so.",
            "status": "Only these: pending, running, waiting, waiting_approval, paused, needs_attention, completed, failed, cancelled.",
            "where": "A condition on attributes, such as customer=c1.",
        },
    ),
    SingleOperationTool(
        "find_execution",
        on_executions.find,
        "Finds one execution by its id, the beginning of it, @latest, or @failed.",
        {"text": "@latest"},
        about={"text": "The id or its beginning, workflow/id, @latest, or @failed (the latest that failed)."},
    ),
    SingleOperationTool("get_execution", on_executions.read, "Reads an execution: status, input, result, what it waits for, and its error.", {"id": "o1"}),
    SingleOperationTool(
        "list_steps",
        on_executions.traces,
        "Lists the steps of an execution with their inputs, outputs, attempts and errors.",
        {"id": "o1", "limit": 20},
        preset=_PAGE,
        about={"after": "The number of the last step that was read."},
    ),
    SingleOperationTool(
        "get_execution_state",
        on_executions.state,
        "Reads the values that a workflow has set for queries, such as its progress.",
        {"id": "o1"},
        about={"name": "Only the value of this name."},
    ),
    SingleOperationTool(
        "list_emitted_values",
        on_executions.stream,
        "Reads the values that an execution has emitted so far, after a number.",
        {"id": "o1", "after": 0},
        left_out=("follow",),
        about={"after": "The number of the last value that was read."},
    ),
    SingleOperationTool(
        "count_executions",
        on_executions.counts,
        "Counts what goes on: what runs, needs attention, waits for people, and has failed lately.",
        {},
        about={"failedSinceSeconds": "Failures of so many last seconds; a day by default."},
    ),
    SingleOperationTool(
        "send_message",
        on_execution_changes.send,
        "Sends a message to an execution that waits for one of this name; get_execution shows which it awaits (`awaits`).",
        {"id": "o1", "name": "paid", "body": {"cents": 500}},
        about={
            "body": "What it says: any JSON.",
            "messageKey": "Of several messages with the same key one is received.",
            "mayCome": "Keep it for an execution that does not exist yet.",
        },
    ),
    SingleOperationTool(
        "cancel_execution",
        on_execution_changes.cancel,
        "Cancels an execution. It stops, undoes what it has done, and ends as cancelled.",
        {"id": "o1", "reason": "ordered twice"},
        left_out=("wait",),
        is_destructive=True,
    ),
    SingleOperationTool("pause_execution", on_execution_changes.pause, "Pauses an execution: it begins no further step.", {"id": "o1"}, left_out=("wait",)),
    SingleOperationTool(
        "resume_execution", on_execution_changes.resume, "Continues an execution that is paused or needs attention.", {"id": "o1"}, left_out=("wait",)
    ),
    SingleOperationTool(
        "retry_execution",
        on_execution_changes.retry,
        "Continues an execution that has failed or needs attention, from what failed; earlier steps are not performed again.",
        {"id": "o1", "reason": "the service is up again"},
        left_out=("wait",),
    ),
    SingleOperationTool(
        "rerun_execution",
        on_execution_changes.rerun,
        "Starts a new execution with the input of another, from the beginning.",
        {"id": "o1"},
    ),
    SingleOperationTool(
        "fork_execution",
        on_execution_changes.fork,
        "Starts a new execution with the results of another up to a step, and performs the rest anew.",
        {"id": "o1", "fromStep": "charge"},
        about={**_INPUTS, "fromStep": "The id of the first step that is performed anew."},
    ),
    SingleOperationTool(
        "preset_result",
        on_execution_changes.preset,
        "Supplies the result of a step without performing it: one that waits, is still to come, or has failed.",
        {"id": "o1", "step": "charge", "value": {"receipt": "r1"}},
        about={"value": "The result: any JSON."},
    ),
    SingleOperationTool(
        "patch_execution",
        on_execution_changes.patch,
        "Changes the definition by which one execution runs on, without touching what it has done. Try it first with dryRun.",
        {"id": "o1", "change": [{"op": "replace", "path": "/steps/0/set/n", "value": 3}], "dryRun": True},
        about={
            "change": "A JSON Patch of the present definition.",
            "definition": "The whole new definition, in place of a change.",
            "base": "Only while this is the hash of the present definition.",
        },
    ),
)
"""Tools for executions."""

PEOPLE_AND_REPAIR: tuple[ModelTool, ...] = (
    SingleOperationTool(
        "list_approvals",
        on_approvals.waiting,
        "Lists the questions to people that wait for an answer, with who may decide and the form of the answer.",
        {"workflow": "invoice"},
        left_out=("groups", "resourceType", "resourceId"),
        preset=_PAGE,
        about={
            "mine": "Only those on which you may still decide.",
            "assignee": "Only those on which this person may decide.",
            "group": "Only those that are assigned to this group.",
            "workflow": "Only those of executions of this workflow.",
            "execution": "Only those of the execution of this id.",
            "priority": "Only those of this priority.",
            "overdue": "Only those that should have been decided by now.",
            "order": "Which come first.",
        },
    ),
    SingleOperationTool(
        "get_approval",
        on_approvals.read,
        "Reads one approval: its question, who may decide, its form, and the votes so far.",
        {"id": "a1"},
        about={"id": "The id of the approval, from list_approvals."},
    ),
    SingleOperationTool(
        "decide_approval",
        on_runs.decide,
        "Decides on an approval. Do this only when the person who may decide has told you their decision.",
        {"id": "a1", "decision": "approve", "by": "ada", "comment": "she said so in the chat"},
        names={"by": "decidedBy", "comment": "comments"},
        left_out=("wait",),
        is_destructive=True,
        about={
            "id": "The id of the approval, from list_approvals.",
            "decision": "The answer.",
            "by": "The person whose decision it is; the key itself by default.",
            "comment": "Why.",
            "value": "What the form asks for, if the approval has one.",
        },
    ),
    SingleOperationTool(
        "delegate_approval",
        on_approvals.delegate,
        "Lets another person decide on an approval in place of one who may.",
        {"id": "a1", "by": "ada", "to": "bob", "note": "is away"},
        left_out=("groups", "wait"),
        about={"id": "The id of the approval, from list_approvals.", "to": "Who decides then.", "by": "Who gives it away.", "note": "Why."},
    ),
    SingleOperationTool(
        "list_failures",
        on_dead_letters.counts,
        "Counts the executions that have failed or need attention, grouped by what failed, with one of each group.",
        {"workflow": "invoice"},
        left_out=_FILTERS,
        about={
            "workflow": "Only those of this workflow.",
            "status": "Only failed, or only needs_attention.",
            "idPrefix": "Only those whose id begins so.",
            "where": "A condition on attributes, such as customer=c1.",
        },
    ),
    SingleOperationTool(
        "requeue_failure",
        on_dead_letters.requeue,
        "Runs a failed execution again from what failed; with `edits` of its input, as a new execution from the beginning.",
        {"id": "o1", "edits": {"cents": 500}},
        left_out=("wait",),
        about={"edits": "Values of the input that are replaced, by name."},
    ),
    SingleOperationTool(
        "discard_failure",
        on_dead_letters.discard,
        "Gives a failed execution up: it ends as cancelled, and is not listed as a failure any more.",
        {"id": "o1", "reason": "was a test"},
        left_out=("wait",),
        is_destructive=True,
    ),
    SingleOperationTool(
        "list_triggers",
        on_triggers.page,
        "Lists what starts workflows by itself: schedules, webhooks and events.",
        {"workflow": "invoice"},
        names={"workflow": "workflowId"},
        preset=_PAGE,
        about={"workflow": "Only those that start this workflow.", "type": "Only those of this type.", "enabled": "Only those that are enabled, or are not."},
    ),
    SingleOperationTool(
        "run_trigger",
        on_triggers.run,
        "Starts what a trigger starts, now.",
        {"trigger": "t1"},
        names={"requestId": "clientRequestId"},
        about={
            "trigger": "The id of the trigger, from list_triggers.",
            "payload": "What it brings.",
            "requestId": "Any text: a repetition with the same one starts nothing more.",
        },
    ),
    SingleOperationTool(
        "pause_trigger",
        on_triggers.pause,
        "Pauses a trigger: it starts nothing until it is resumed.",
        {"trigger": "t1", "reason": "the service is down"},
        about={"trigger": "The id of the trigger, from list_triggers."},
    ),
    SingleOperationTool(
        "resume_trigger",
        on_triggers.resume,
        "Resumes a paused trigger.",
        {"trigger": "t1"},
        about={"trigger": "The id of the trigger, from list_triggers."},
    ),
    SingleOperationTool("get_system_status", on_system.status, "Reads how the server and its database are, and how much goes on.", {}),
    SingleOperationTool("whoami", on_access.whoami, "Says who you are to this server, and which roles you have.", {}, hidden=("operations", "logsUrl")),
)
"""Tools for approvals, failures, triggers and the server."""

_RECORDING = {"recording": "The id of the recording."}
_CHOICES = {
    **_RECORDING,
    "steps": "Only these steps, by their names.",
    "order": "recorded: in the order of the calls; references: each waits only for those that it refers to.",
    "failed": "Also calls without a result.",
    "accept": "The suggested references that are meant.",
}

RECORDINGS: tuple[ModelTool, ...] = (
    SingleOperationTool(
        "start_recording",
        on_recordings.start,
        "Starts a recording: tools that you then call in it become the steps of a workflow. A process with the tools has to run: perdure mcp --record.",
        {"recording": "s1", "title": "greets users", "input": {"user": 42}},
        about={
            "recording": "The id that it gets; a random one by default.",
            "title": "What it is about.",
            "input": "Values that calls name as @input.x, and that are other ones in a later run.",
            "deadlineSeconds": "End it after this time.",
        },
    ),
    SingleOperationTool(
        "call_in_recording",
        on_recordings.call,
        "Calls a tool of an MCP server and records the call as a step. Name earlier results as @step.field, and inputs as @input.x.",
        {"recording": "s1", "tool": "shop.get_user", "arguments": {"id": "@input.user"}},
        about={
            **_RECORDING,
            "tool": "Its full name, server.tool.",
            "arguments": "Its arguments, with references as texts.",
            "callId": "Any text: a repetition with the same one makes no second call.",
        },
    ),
    SingleOperationTool(
        "preset_in_recording",
        on_recordings.preset,
        "Gives the result of a call that is not made, as a step of the recording.",
        {"recording": "s1", "tool": "shop.get_user", "arguments": {"id": 7}, "result": {"name": "Ada"}},
        about={
            **_RECORDING,
            "result": "The result: any JSON.",
            "step": "The step that has it, in place of a tool.",
            "tool": "The tool that would be called, in place of a step.",
            "arguments": "The arguments of that tool.",
        },
    ),
    SingleOperationTool(
        "set_recording_input",
        on_recordings.set_input,
        "Sets values that calls of a recording name as @input.x.",
        {"recording": "s1", "input": {"user": 43}},
        about=_RECORDING,
    ),
    SingleOperationTool(
        "list_recordings",
        on_recordings.page,
        "Lists recordings, newest first.",
        {"open": True},
        preset=_PAGE,
        about={"open": "Only those that are open, or not."},
    ),
    SingleOperationTool(
        "get_recording",
        on_recordings.read,
        "Reads a recording: its input, and its calls with their results.",
        {"recording": "s1"},
        about={**_RECORDING, "after": "The number of the last call that was read."},
    ),
    SingleOperationTool(
        "suggest_for_recording",
        on_recordings.suggestions,
        "Finds what literals in the arguments of a recording may have been: references to earlier results or the input, and loops. Each has a `key`.",
        {"recording": "s1"},
        about=_CHOICES,
    ),
    SingleOperationTool(
        "preview_recording",
        on_recordings.definition,
        "Makes the definition of a recording, and stores nothing. Findings say what is to be corrected.",
        {"recording": "s1", "name": "greets"},
        about={**_CHOICES, "name": "The name of the workflow."},
    ),
    SingleOperationTool(
        "save_recording",
        on_recordings.save,
        "Publishes the definition of a recording as a workflow, or as its next version.",
        {"recording": "s1", "slug": "greets", "note": "recorded"},
        about={**_CHOICES, "slug": "The name by which the workflow is started.", "draft": "Keep it as a draft, in place of publishing it."},
    ),
    SingleOperationTool(
        "end_recording", on_recordings.end, "Ends a recording; it can be saved after that, too.", {"recording": "s1"}, about=_RECORDING, is_destructive=True
    ),
)
"""Tools to record what tools are called, and to make a workflow of it."""

TOOLS: tuple[ModelTool, ...] = (*COMPOSED_TOOLS, SEARCH_TOOLS, GET_STEP_KIND, *EXECUTIONS, *CATALOG, *PEOPLE_AND_REPAIR, *RECORDINGS)
"""All tools of Perdure, in the order of the list."""
