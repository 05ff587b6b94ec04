"""The model of the format: tables of the fields of a document, of the verbs and of the modifiers, from which everything else derives.

Defaults belong to format version 1 and never change within it, since the hash of a definition is computed with defaults removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from perdure.definitions.expr import references
from perdure.definitions.format.dialect_rules import DIALECTS
from perdure.definitions.format.shapes import (
    ChoiceShape,
    ConditionShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FlagShape,
    FormatField,
    IdShape,
    ListShape,
    MapShape,
    NameShape,
    NumberShape,
    PlainShape,
    SchemaShape,
    Shape,
    StepsShape,
    TextShape,
    ValueShape,
    WholeShape,
)
from perdure.definitions.format.verb_shapes import (
    AGENT_MESSAGE_SHAPE,
    AGENT_SHAPE,
    BASH_SHAPE,
    FILE_SHAPE,
    HTTP_METHODS,
    HTTP_SHAPE,
    LLM_SHAPE,
    OPENAPI_SHAPE,
    SQL_SHAPE,
    agent_message_problems,
    agent_problems,
    llm_problems,
)

ROOTS = references.ROOTS | {"state", "last_turn"}
"""The roots of references besides steps; no step may have such an id."""

IN_EACH = ("item", "index", "loop")
IN_REPEAT = ("index", "loop", "state", "last_turn")
AFTER_TURN = ("self", "index", "loop", "state", "last_turn")
EVERYWHERE = ("input", "vars", "execution", "trigger", "last", "steps")

DEFAULT_VERSION = "1.0.0"
ID_PATTERN = r"[^\W\d][\w-]*"
NAME_PATTERN = r"[^@/:\s\x00-\x1f](?:[^@/:\x00-\x1f]*[^@/:\s\x00-\x1f])?"
VERSION_PATTERN = r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
_RANGE = r"[\^~]?(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*|x)){0,2}(?:-[0-9A-Za-z.-]+)?|\*"
_VERSION_CHOICE = rf"@(?:{_RANGE}|sha256:[0-9a-f]{{12,64}})|:[a-z][a-z0-9_.-]{{0,62}}"
CALL_PATTERN = rf"py:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|(?!py:){NAME_PATTERN}(?:{_VERSION_CHOICE})?"


StepCheck = Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]
"""Yields the problems of a step beyond the shapes of its fields: the path of each field, and the reason."""


class CheckedResult(msgspec.Struct, frozen=True):
    """A number in the result that is always 0, because any other fails the step, unless the value of the verb sets `switch` to false."""

    field: str
    switch: str


def no_step_problems(_: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The check of a verb without problems beyond its shape."""
    return iter(())


class FormatVerb(msgspec.Struct, frozen=True):
    """A verb, with everything that the format knows about it. Nothing else in the format asks for a verb of work by its name.

    Its value and its place in a step: `shape` is the shape of the value and `has_template` whether it may contain references. `source_field` is the name of
    the field that holds a source text, in which an @ has no meaning; the value may also be the text alone. With `own_expressions`, the value holds
    expressions of the kind itself and none of the format. `takes_env`: the step may have `env`; `values_by_env`: values reach its source text in no other
    way. `check_step` finds problems of a step beyond the shapes.

    Its run: `is_work` marks a call with attempts of its own, `effect` an effect in the world, `transforms` a sandbox that also computes a `transform`.
    `agent_role` says what the agent workflow of the definition does for it: a "task", or the delivery of a "message".

    Its end: `ports` are those besides `error` and `skipped`; with `has_own_ports`, only the implementation of the verb knows the others.
    `checked_result` is a number in its result that is usually 0. `child_output` is the field of a child's result that is the result of the step. With
    `repairs_answers`, a result that does not fit the `schema` of the value is asked for again, as by `Kind.repairs_answers`. `connection_field` is the field
    that names a connection of the deployment. `right` is the right that its steps give: see `perdure.definitions.format.document_rights`. With `is_described`,
    a document that its value names says where its requests go.
    """

    name: str
    shape: Shape
    doc: str
    ports: tuple[str, ...] = ("success",)
    effect: bool = False
    is_work: bool = False
    has_template: bool = True
    source_field: str = ""
    own_expressions: bool = False
    takes_env: bool = False
    values_by_env: bool = False
    check_step: StepCheck = no_step_problems
    transforms: bool = False
    agent_role: Literal["", "task", "message"] = ""
    has_own_ports: bool = False
    checked_result: CheckedResult | None = None
    child_output: str = ""
    repairs_answers: bool = False
    connection_field: str = ""
    right: Literal["", "commands", "requests"] = ""
    is_described: bool = False


RETRY = FieldsShape(
    "retry",
    (
        FormatField("max", WholeShape(1), "how many attempts in all"),
        FormatField("wait", DurationShape(), "the wait before the second attempt"),
        FormatField("factor", NumberShape(1), "the factor by which each further wait is longer"),
        FormatField("max_wait", DurationShape(), "the longest wait"),
        FormatField("only", ListShape(TextShape(what="an error code or class name")), "errors that are retried; others are not"),
        FormatField("fatal", ListShape(TextShape(what="an error code or class name")), "errors that are not retried"),
    ),
)

UNDO = FieldsShape(
    "undo",
    (
        FormatField(
            "tool", TextShape(what="the name of a tool"), "what undoes the step: a tool, or a kind such as http, whose whole config is in `with`", required=True
        ),
        FormatField("with", ValueShape(roots=("self", *IN_EACH), secrets=True), "its input; `@self` is the step's result"),
        FormatField("timeout", DurationShape(), "of each attempt"),
        FormatField("retry", RETRY, "its retry policy"),
        FormatField("in_doubt", FlagShape(), "the step is undone too when it failed or was abandoned, with null as `@self`", default=False),
        FormatField(
            "on_error",
            ChoiceShape(("park", "continue")),
            "when it has failed for good: the execution needs attention, or continues to undo the other steps",
        ),
    ),
    sugar="tool",
)

EACH = FieldsShape(
    "each",
    (
        FormatField("in", ValueShape(), "the list", required=True),
        FormatField("as", NameShape("a name"), "the name of the item in references", default="item"),
        FormatField("index", NameShape("a name"), "the name of its number, from 0", default="index"),
        FormatField("concurrency", WholeShape(), "how many at a time; 0: all", default=0),
        FormatField("batch", WholeShape(1), "items are lists of so many"),
        FormatField("max", WholeShape(1), "more items than this fail the step"),
        FormatField("on_error", ChoiceShape(("fail", "skip", "null", None)), "what happens when an item fails", default="fail"),
        FormatField("enough", WholeShape(1), "how many successes are enough; the other items are dropped"),
    ),
)

REPEAT = FieldsShape(
    "repeat",
    (
        FormatField("while", ConditionShape(roots=AFTER_TURN), "the next iteration begins if it holds"),
        FormatField("until", ConditionShape(roots=AFTER_TURN), "the next iteration begins if it does not hold"),
        FormatField("max", WholeShape(1), "the most iterations"),
        FormatField("endless", FlagShape(), "there is no bound on purpose", default=False),
        FormatField("delay", DurationShape(template=True, roots=AFTER_TURN), "the time between iterations"),
        FormatField("state", ValueShape(roots=IN_EACH), "the `@state` of the first iteration"),
        FormatField("keep", WholeShape(), "how many iterations are kept"),
        FormatField(
            "undo",
            FieldsShape("undo", (FormatField("keep", WholeShape(1), "how many", required=True),)),
            "how many of the last iterations are undone if the execution fails; absent: all",
        ),
        FormatField(
            "on_max",
            EitherShape((ChoiceShape(("fail", "go_on")), IdShape()), "'fail', 'go_on' or the id of a step"),
            "what happens after the last iteration",
            default="fail",
        ),
    ),
    one_of=("while", "until"),
)

TARGETS = ListShape(IdShape(), sugar=True)
ON = (
    FormatField("to", TARGETS, "the next steps", required=True),
    FormatField("max", WholeShape(1), "how often it may be taken, if it leads back"),
    FormatField("endless", FlagShape(), "there is no bound on purpose", default=False),
    FormatField("on_max", TARGETS, "the next steps when it was taken so often"),
)
RULE = FieldsShape("a rule", (FormatField("when", ConditionShape(roots=("self",)), "the rule is taken if it holds; absent: always"), *ON))
PORT = FieldsShape("a port", ON, sugar="to")
CHOOSE = FieldsShape(
    "next",
    (
        FormatField("choose", ListShape(IdShape(), least=1), "the closed list", required=True),
        FormatField("default", TARGETS, "the next steps when none was chosen"),
    ),
    one_of=("choose",),
)
WAY = EitherShape((CHOOSE, PORT, ListShape(RULE)), "the id of a step, a list of ids, {to: …}, a list of rules, or {choose: […]}")
NEXT = EitherShape(
    (TARGETS, ListShape(RULE), CHOOSE, MapShape(WAY)),
    "the id of a step, a list of ids, a mapping of ports, a list of rules, or {choose: […]}",
)

RESOURCE = FieldsShape(
    "resource",
    (
        FormatField("type", TextShape(template=True), "its type, such as invoice", required=True),
        FormatField("id", TextShape(template=True), "its id", required=True),
    ),
)
APPROVE = FieldsShape(
    "approve",
    (
        FormatField("title", TextShape(template=True), "the question", required=True),
        FormatField("details", ValueShape(), "information that helps to decide"),
        FormatField("form", SchemaShape(), "the form to fill in"),
        FormatField("assignees", ListShape(TextShape(template=True)), "who may decide"),
        FormatField("quorum", WholeShape(1), "how many must approve", default=1),
        FormatField("remind", DurationShape(template=True), "the interval of reminders"),
        FormatField("escalate", DurationShape(template=True), "the time after which further people may decide"),
        FormatField("escalate_to", ListShape(TextShape(template=True), sugar=True), "the further people"),
        FormatField("timeout", DurationShape(template=True), "the longest wait"),
        FormatField("on_timeout", ChoiceShape(("fail", "approve", "reject")), "what happens after the timeout", default="fail"),
        FormatField("priority", TextShape(what="low, normal, high or urgent", template=True), "the priority in the inbox", default="normal"),
        FormatField("due", DurationShape(template=True), "when the decision is due, from the question on"),
        FormatField("resource", RESOURCE, "what the question is about"),
        FormatField("route_hint", TextShape(template=True), "where in an application people find that"),
        FormatField("deep_link", TextShape(template=True), "the address or path of its page"),
    ),
)
LISTEN = FieldsShape(
    "listen",
    (
        FormatField(
            "names", ListShape(TextShape(what="the name of a message", template=True), least=1, sugar=True), "the messages that are waited for", required=True
        ),
        FormatField("limit", WholeShape(1), "the most messages that are received", default=1),
        FormatField("gather", DurationShape(template=True), "how long further messages are gathered after the first"),
        FormatField("timeout", DurationShape(template=True), "the longest wait"),
    ),
    sugar="names",
)
EMIT = FieldsShape(
    "emit",
    (
        FormatField("name", TextShape(template=True), "the name of the message"),
        FormatField("body", ValueShape(), "the body of the message"),
        FormatField(
            "to",
            FieldsShape(
                "to",
                (
                    FormatField("workflow", TextShape(template=True), "the workflow of the receiver", required=True),
                    FormatField("id", TextShape(template=True), "the id of the receiver", required=True),
                ),
            ),
            "the execution that receives it; absent: it becomes an item of this execution's stream",
        ),
        FormatField(
            "event", TextShape(what="the name of an event"), "the name under which the item is announced as well, so that triggers can start executions on it"
        ),
    ),
)
TASK = FieldsShape(
    "task",
    (
        FormatField("type", TextShape(what="the type of the work"), "what the worker has to do", required=True),
        FormatField("queue", TextShape(what="the name of a queue"), "the queue of the task; absent: the queue named like its type"),
        FormatField("priority", WholeShape(-(2**31)), "higher goes first"),
        FormatField("heartbeat", DurationShape(), "the longest time between two heartbeats of the worker"),
        FormatField("config", ValueShape(secrets=True, expressions=False), "the config of a type that the engine performs itself"),
    ),
    sugar="type",
)
LOOP = FieldsShape(
    "loop",
    (
        FormatField("items", ValueShape(), "the list, read when the loop begins", required=True),
        FormatField("batch", EitherShape((WholeShape(1), ValueShape()), "a whole number from 1, or a reference"), "how many items an iteration has", default=1),
        *EACH.fields[1:3],
        FormatField("max", WholeShape(1), "more iterations than this fail the step"),
    ),
)
FAIL = FieldsShape(
    "fail",
    (
        FormatField("message", TextShape(template=True), "the reason", required=True),
        FormatField("type", TextShape(what="the type of the error"), "of the error"),
    ),
    sugar="message",
)
OPERATION = ValueShape(roots=("self",), secrets=True, expressions=False)
PIPELINE = EitherShape((ListShape(OPERATION, least=1), MapShape(OPERATION)), "a list of operations, {ops: [...]}, or {use: the name of a composite}")
PARALLEL = FieldsShape(
    "parallel",
    (
        FormatField("steps", StepsShape(least=1), "the branches, which begin at once", required=True),
        FormatField("concurrency", WholeShape(), "how many at a time; 0: all", default=0),
        FormatField("on_error", ChoiceShape(("fail", "go_on")), "what happens when a branch fails", default="fail"),
    ),
    sugar="steps",
)

VERBS = (
    FormatVerb("tool", TextShape(what="the name of a tool"), "a tool, or a registered step", effect=True, is_work=True, has_template=False),
    FormatVerb(
        "ts",
        TextShape(what="source text"),
        "TypeScript, in a sandbox",
        is_work=True,
        has_template=False,
        source_field="code",
        transforms=True,
        has_own_ports=True,
    ),
    FormatVerb(
        "python",
        TextShape(what="source text"),
        "Python, in a sandbox",
        is_work=True,
        has_template=False,
        source_field="code",
        transforms=True,
        has_own_ports=True,
    ),
    FormatVerb(
        "bash",
        BASH_SHAPE,
        "a shell command; values reach it through `env`",
        effect=True,
        is_work=True,
        has_template=False,
        source_field="command",
        takes_env=True,
        values_by_env=True,
        has_own_ports=True,
        checked_result=CheckedResult("exit_code", "check"),
        right="commands",
    ),
    FormatVerb("http", HTTP_SHAPE, "a request", effect=True, is_work=True, has_own_ports=True, right="requests"),
    FormatVerb(
        "openapi",
        OPENAPI_SHAPE,
        "an operation of an API that an OpenAPI document describes",
        effect=True,
        is_work=True,
        has_own_ports=True,
        right="requests",
        is_described=True,
    ),
    FormatVerb("sql", SQL_SHAPE, "statements on a database of the deployment", effect=True, is_work=True, has_own_ports=True, connection_field="connection"),
    FormatVerb("file", FILE_SHAPE, "a file of the directory that the deployment allows", effect=True, is_work=True, has_own_ports=True),
    FormatVerb(
        "call",
        TextShape(what="py:package.module.function, or workflow, workflow@^2, workflow@sha256:…, workflow:tag", pattern=CALL_PATTERN),
        "a function, or another workflow",
        effect=True,
        has_template=False,
    ),
    FormatVerb(
        "agent",
        AGENT_SHAPE,
        "an agent that decides which tools to use",
        effect=True,
        check_step=agent_problems,
        agent_role="task",
        has_own_ports=True,
        child_output="output",
    ),
    FormatVerb(
        "agent_message",
        AGENT_MESSAGE_SHAPE,
        "a message to the agent of this execution",
        effect=True,
        check_step=agent_message_problems,
        agent_role="message",
        has_own_ports=True,
    ),
    FormatVerb("llm", LLM_SHAPE, "one request to a model", effect=True, is_work=True, check_step=llm_problems, has_own_ports=True, repairs_answers=True),
    FormatVerb("pipeline", PIPELINE, "operations on tables, one after the other", is_work=True, own_expressions=True, has_own_ports=True),
    FormatVerb("task", TASK, "work of any type, performed by a worker", effect=True, is_work=True, takes_env=True, has_own_ports=True),
    FormatVerb("approve", APPROVE, "people decide", ports=("approved", "rejected", "timeout")),
    FormatVerb("listen", LISTEN, "waits for messages", ports=("success", "timeout")),
    FormatVerb(
        "sleep",
        EitherShape(
            (FieldsShape("sleep", (FormatField("until", ValueShape(), "a time", required=True),), one_of=("until",)), DurationShape(template=True)),
            "a duration, or {until: a time}",
        ),
        "waits",
    ),
    FormatVerb("emit", EMIT, "sends a message, or adds to this execution's stream", effect=True),
    FormatVerb("if", ConditionShape(), "`then` if the condition holds, `else` otherwise", ports=("true", "false")),
    FormatVerb("parallel", PARALLEL, "steps that begin at once; a mapping of results", has_template=False),
    FormatVerb("race", StepsShape(least=1), "steps of which the first to succeed wins", has_template=False),
    FormatVerb("do", StepsShape(), "steps as one; the last result", has_template=False),
    FormatVerb("test", ConditionShape(), "true or false", ports=("true", "false")),
    FormatVerb("loop", LOOP, "the head of a cycle that takes a list batch by batch", ports=("loop", "done")),
    FormatVerb("return", ValueShape(), "ends the execution with a result", ports=()),
    FormatVerb("fail", FAIL, "ends what holds it as failed", ports=()),
    FormatVerb("set", MapShape(ValueShape()), "variables, from then on"),
)

WORK = tuple(verb.name for verb in VERBS if verb.is_work)
"""The verbs that are calls of work, each with attempts of its own."""

SOURCE_FIELDS = {verb.name: verb.source_field for verb in VERBS if verb.source_field}
"""The verbs whose value is a source text, each with the name of the field that holds it if the value is a mapping."""

_TRANSFORMS = tuple(FormatField(verb.name, verb.shape) for verb in VERBS if verb.transforms)

BLOCKS = ("if", "parallel", "race", "do")
ENDING = ("return", "fail")
"""The verbs after which a step has no result."""

SETTLING = tuple(verb.name for verb in VERBS if verb.name not in ENDING)
DONE_AGAIN = tuple(name for name in SETTLING if name != "loop")
"""The verbs that can run for each item of a list, or repeatedly; a `loop` is itself the head of a cycle."""

IDENTITY = (
    FormatField("id", NameShape("an id"), "its name in references; generated if absent"),
    FormatField("name", TextShape(), "for people"),
    FormatField("note", TextShape(), "for people"),
    FormatField("when", ConditionShape(), "false: the step is skipped"),
    FormatField("needs", ListShape(IdShape(), sugar=True), "steps that must have succeeded before", default=[]),
    FormatField(
        "join",
        EitherShape((ChoiceShape(("all", "any", "each")), WholeShape(1)), "all, any, each or a number"),
        "for how many incoming paths the step waits",
        default="all",
    ),
    FormatField("each", EACH, "once for each of a list", verbs=(*DONE_AGAIN, *ENDING)),
)
BESIDE = (
    FormatField("then", StepsShape(), "the steps if the condition holds", verbs=("if",), required=True),
    FormatField("else", StepsShape(), "the steps if it does not", verbs=("if",), default=[]),
    FormatField("wait", FlagShape(), "false: the workflow is started and not waited for", verbs=("call",), default=True),
)
MODIFIERS = (
    FormatField("with", ValueShape(roots=(), secrets=True), "its input", verbs=(*WORK, "call", "agent", "emit", "return")),
    FormatField("env", MapShape(ValueShape(secrets=True)), "environment variables", default={}, verbs=tuple(verb.name for verb in VERBS if verb.takes_env)),
    FormatField(
        "transform",
        EitherShape(
            (
                FieldsShape("transform", _TRANSFORMS, one_of=tuple(field.name for field in _TRANSFORMS)),
                ValueShape(roots=("self",)),
            ),
            "a value, or source text",
        ),
        "computes the result of the step from that of the verb",
        verbs=SETTLING,
    ),
    FormatField("schema", SchemaShape(), "of the result", verbs=SETTLING),
    FormatField("repeat", REPEAT, "runs it repeatedly", verbs=DONE_AGAIN),
    FormatField("retry", RETRY, "its retry policy; with `call` of a workflow, how a failed child is started again", verbs=(*WORK, "call", "agent")),
    FormatField(
        "timeout",
        DurationShape(),
        "how long each attempt of work may take, or any other step from its beginning to its end; each item and iteration separately",
        verbs=(*WORK, "call", "agent", "agent_message", "approve", "listen", *BLOCKS),
    ),
    FormatField("grace", DurationShape(), "how long it may continue after the execution failed or was cancelled", verbs=(*WORK, "call", "agent")),
    FormatField("idempotent", FlagShape(), "whether it may run twice", verbs=(*WORK, "call")),
    FormatField(
        "undo",
        EitherShape(
            (ChoiceShape((True, False)), UNDO, TextShape(what="the name of a tool")),
            "a tool's name, {tool, with, timeout, retry, in_doubt, on_error}, or true beside a call of a workflow",
        ),
        "what undoes it; for a completed block, it replaces the undo of its steps",
        default=False,
        verbs=DONE_AGAIN,
    ),
    FormatField("commit", FlagShape(), "once it has completed, no step before it is undone any more", default=False, verbs=SETTLING),
    FormatField(
        "on_error",
        EitherShape((ChoiceShape(("fail", "go_on")), StepsShape(error=True, least=1)), "'fail', 'go_on', or steps that run instead"),
        "what happens when it fails",
        default="fail",
    ),
    FormatField(
        "on_rejected",
        ChoiceShape(("cancel", "fail", "go_on")),
        "what happens after a rejection if no port leads on: the execution is cancelled, the step fails (see `on_error`), or continues with the decision",
        default="cancel",
        verbs=("approve",),
    ),
    FormatField("next", NEXT, "the next steps", ports_only=True, default=[]),
    FormatField("ui", PlainShape(), "for editors; not hashed"),
)


@cache
def step_fields() -> dict[str, FormatField]:
    """All fields of a step in the order in which they are written."""
    verbs = tuple(FormatField(verb.name, verb.shape, verb.doc) for verb in VERBS)
    return {field.name: field for field in (*IDENTITY, *verbs, *BESIDE, *MODIFIERS)}


@cache
def verbs_by_name() -> dict[str, FormatVerb]:
    """The verbs by their names."""
    return {verb.name: verb for verb in VERBS}


def transform_source(transform: Any) -> tuple[str, str] | None:
    """The verb and the text of a `transform` that is source text; None for one that is a value."""
    if isinstance(transform, Mapping) and len(transform) == 1:
        [(name, source)] = transform.items()
        if isinstance(source, str) and any(field.name == name for field in _TRANSFORMS):
            return name, source
    return None


SCHEDULE = FieldsShape(
    "schedule",
    (
        FormatField("cron", TextShape(what="five fields of cron"), "when: minute, hour, day, month and weekday; or @daily and the like"),
        FormatField("every", DurationShape(), "at intervals, counted from when the trigger began"),
        FormatField("once", ListShape(TextShape(what="a time with its zone")), "at these times, such as 2027-01-01T09:00:00Z"),
        FormatField("timezone", TextShape(what="a time zone"), "such as Europe/London", default="UTC"),
        FormatField("catch_up", WholeShape(), "how many missed runs are started late"),
        FormatField(
            "overlap", ChoiceShape(("allow", "skip", "queue", "cancel")), "what happens if the previous run is still in progress; cancel: it is cancelled"
        ),
        FormatField("queued_max", WholeShape(1), "with overlap: queue, how many runs may wait; default: 10"),
        FormatField("jitter", DurationShape(), "a run starts up to so much later, always as much for one time"),
        FormatField("starts", TextShape(what="a time with its zone"), "there are no runs before it"),
        FormatField("ends", TextShape(what="a time with its zone"), "there are no runs from it on"),
        FormatField("break_after", WholeShape(), "after so many failures in a row, the schedule pauses itself; 0: never"),
    ),
    one_of=("cron", "every", "once"),
)
SCHEMES = ("github", "stripe", "slack", "standard_webhooks", "generic", "bearer", "none")
VERIFY = FieldsShape(
    "verify",
    (
        FormatField("scheme", ChoiceShape(SCHEMES), "whose signature is verified; generic: an HMAC of the body, none: any sender is accepted", required=True),
        FormatField("secret", ValueShape(secrets=True), "the secret of the signature, or a list of secrets during a rotation"),
        FormatField("header", TextShape(what="the name of a header"), "the header with the signature; with generic and bearer only"),
        FormatField("prefix", TextShape(), "what comes before the signature in its header, such as sha256=; with generic and bearer only"),
        FormatField("encoding", ChoiceShape(("hex", "base64")), "of the signature, with generic only; default: hex"),
        FormatField("timestamp_header", TextShape(what="the name of a header"), "the header with the time in seconds, which is signed too; with generic only"),
        FormatField("tolerance", DurationShape(), "how old or new a signed time may be; default: 5m"),
    ),
)
WEBHOOK = FieldsShape(
    "webhook",
    (
        FormatField("path", TextShape(what="a path"), "behind /webhooks/", required=True),
        FormatField("method", TextShape(what=f"a method: {HTTP_METHODS.replace('|', ', ')}", pattern=HTTP_METHODS), "the HTTP method", default="POST"),
        FormatField("headers", MapShape(TextShape()), "headers that a request must have"),
        FormatField("verify", VERIFY, "how the sender is verified"),
        FormatField("map", MapShape(TextShape(what="a JSONPath")), "the inputs, each with its place in the body"),
        FormatField("respond", ChoiceShape(("accepted", "result")), "the answer: that the request was accepted, or the result of the execution"),
        FormatField("respond_within", DurationShape(), "how long the answer waits for the result; default: 10s"),
        FormatField("delivery_header", TextShape(what="the name of a header"), "the header with the id of a delivery, if the scheme has none"),
        FormatField("active_max", WholeShape(), "how many executions of it are in progress at a time; 0, the default: any number"),
        FormatField("queued_max", WholeShape(), "how many more that have not ended may be there, until requests are refused; default: 10000"),
    ),
)
EVENT = FieldsShape(
    "event",
    (
        FormatField(
            "on",
            ListShape(TextShape(what="the name of an event"), least=1, sugar=True),
            "completed, failed, cancelled or needs_attention of an execution, a name that code emits under, or the type of a CloudEvent",
            required=True,
        ),
        FormatField("of", TextShape(what="the name of a workflow"), "the workflow whose executions are meant; absent: any"),
        FormatField("where", ListShape(ConditionShape(roots=("self",))), "conditions on the event, which is @self, all of which must hold"),
        FormatField("map", MapShape(TextShape(what="a JSONPath")), "the inputs, each with its place in the event"),
    ),
)
TRIGGER = FieldsShape(
    "a trigger",
    (
        FormatField("schedule", SCHEDULE, "at times"),
        FormatField("webhook", WEBHOOK, "an HTTP request starts it"),
        FormatField("event", EVENT, "an event of another execution, or one that is posted, starts it"),
        FormatField("manual", FieldsShape("manual", ()), "by hand: {}"),
        FormatField("name", TextShape(), "what it is in all versions; without one, it has a name that follows from what it is"),
        FormatField("enabled", FlagShape(), "whether it is active when it is first published", default=True),
        FormatField("with", ValueShape(), "the input"),
    ),
    one_of=("schedule", "webhook", "event", "manual"),
)
LIMITS = FieldsShape(
    "limits",
    (
        FormatField("max_steps", WholeShape(1), "the most steps that are opened"),
        FormatField("max_hops", WholeShape(1), "the most transitions that are taken"),
        FormatField("max_fanout", WholeShape(1), "the most steps or items that one step opens"),
        FormatField("deadline", DurationShape(), "how long the execution may take"),
        FormatField(
            "grace", DurationShape(), "how long steps in flight may continue after it failed or was cancelled, unless the step has its own; default: 30 s"
        ),
        FormatField("max_bytes", WholeShape(), "the most bytes of its results"),
    ),
)

DOCUMENT = FieldsShape(
    "a definition",
    (
        FormatField("perdure", ChoiceShape((1,)), "the version of the format", required=True),
        FormatField("name", TextShape(what="a name without @, / and :", pattern=NAME_PATTERN), "of the workflow", required=True),
        FormatField("version", TextShape(what="a version such as 1.2.0", pattern=VERSION_PATTERN), "of the definition", default=DEFAULT_VERSION),
        FormatField("description", TextShape(), "for people"),
        FormatField("tags", ListShape(TextShape()), "for searches", default=[]),
        FormatField("dialect", ChoiceShape(DIALECTS), "the format that it was read from, which decides how missing values and rejections are handled"),
        FormatField("input", MapShape(SchemaShape()), "the inputs, each with its JSON Schema; one that has a default is optional", default={}),
        FormatField("vars", MapShape(ValueShape()), "variables", default={}),
        FormatField("triggers", ListShape(TRIGGER), "what starts executions", default=[]),
        FormatField("limits", LIMITS, "the limits of an execution", default={}),
        FormatField("retry", RETRY, "the retry policy of steps without one", default={}),
        FormatField(
            "allow",
            FieldsShape("allow", (FormatField("self_edit", FlagShape(), "whether an execution may propose changes of its definition", default=False),)),
            "what executions may do",
            default={},
        ),
        FormatField(
            "on_failure",
            FieldsShape(
                "on_failure",
                (
                    FormatField("undo", FlagShape(), "whether completed steps are undone", default=True),
                    FormatField("call", TextShape(what="a workflow or a tool"), "is called with the failure"),
                ),
            ),
            "what happens when the execution fails",
            default={},
        ),
        FormatField("archive", FlagShape(), "whether compaction keeps what it replaces in a long log", default=False),
        FormatField("order", ChoiceShape(("refs", "listed", "ports")), "what orders the steps: references, the list, or `next`", default="refs"),
        FormatField("steps", StepsShape(least=1), "the steps", required=True),
        FormatField("output", ValueShape(), "the result; absent: that of the last step"),
        FormatField("ui", PlainShape(), "for editors; not hashed"),
    ),
)
