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
    agent_message_problems,
    agent_problems,
    llm_problems,
)

ROOTS = references.ROOTS | {"state", "last_turn"}
"""What references may begin with besides a step; no step may be called so."""

IN_EACH = ("item", "index", "loop")
IN_REPEAT = ("index", "loop", "state", "last_turn")
AFTER_TURN = ("self", "index", "loop", "state", "last_turn")
EVERYWHERE = ("input", "vars", "execution", "trigger", "last", "steps")

DEFAULT_VERSION = "1.0.0"
ID_PATTERN = r"[^\W\d][\w-]*"
NAME_PATTERN = r"[^@/:\s\x00-\x1f](?:[^@/:\x00-\x1f]*[^@/:\s\x00-\x1f])?"
VERSION_PATTERN = r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
_RANGE = r"[\^~]?(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*|x)){0,2}(?:-[0-9A-Za-z.-]+)?|\*"
CALL_PATTERN = rf"py:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|{NAME_PATTERN}(?:@(?:{_RANGE}))?"


StepCheck = Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]
"""What is wrong with a step beyond the shapes of its fields: the path of each field, and the reason."""


class CheckedResult(msgspec.Struct, frozen=True):
    """A number in the result that is always 0, as any other fails the step, unless the value of the verb sets `switch` to false."""

    field: str
    switch: str


def no_step_problems(_: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The check of a verb whose shape says everything."""
    return iter(())


class FormatVerb(msgspec.Struct, frozen=True):
    """A verb, with everything that the format knows about it. Nothing else in the format asks for a verb of work by its name.

    Its value and its place in a step: `shape` is the shape of the value and `has_template` whether references can stand in it. `source_field` is the name of
    the field that holds a source text, in which an @ is an @; the value may also be the text alone. With `own_expressions`, the value holds expressions of
    the kind itself and none of the format. `takes_env`: `env` may stand beside it; `values_by_env`: values reach its source text in no other way.
    `check_step` says what is wrong with a step of it beyond the shapes.

    Its run: `is_work` marks a call with attempts of its own, `effect` an effect in the world, `transforms` a sandbox that also computes a `transform`.
    `agent_role` says what the agent workflow of the definition does for it: a "task", or the delivery of a "message".

    Its end: `ports` are those besides `error` and `skipped`; with `has_own_ports`, only what performs the verb knows by which others a step may end.
    `checked_result` is a number in its result that is usually 0. `child_output` is the field of a child's result that is the result of the step. With
    `repairs_answers`, a result that does not fit the `schema` of the value is asked for again, as by `Kind.repairs_answers`.
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


RETRY = FieldsShape(
    "retry",
    (
        FormatField("max", WholeShape(1), "how many tries in all"),
        FormatField("wait", DurationShape(), "the time before the second try"),
        FormatField("factor", NumberShape(1), "how much longer each further wait is"),
        FormatField("max_wait", DurationShape(), "the longest wait"),
        FormatField("only", ListShape(TextShape(what="an error code or class name")), "errors that are tried again; others are not"),
        FormatField("fatal", ListShape(TextShape(what="an error code or class name")), "errors that are not tried again"),
    ),
)

UNDO = FieldsShape(
    "undo",
    (
        FormatField(
            "tool", TextShape(what="the name of a tool"), "what undoes the step: a tool, or a kind such as http, all of which stands in `with`", required=True
        ),
        FormatField("with", ValueShape(roots=("self", *IN_EACH), secrets=True), "its input; `@self` is the step's result"),
        FormatField("timeout", DurationShape(), "of each try"),
        FormatField("retry", RETRY, "how it is tried again"),
        FormatField("in_doubt", FlagShape(), "the step is undone too when it failed or was abandoned, with null as `@self`", default=False),
        FormatField(
            "on_error",
            ChoiceShape(("park", "continue")),
            "when it has failed for good: the execution needs attention, or goes on with what else is to be undone",
        ),
    ),
    sugar="tool",
)

EACH = FieldsShape(
    "each",
    (
        FormatField("in", ValueShape(), "the list", required=True),
        FormatField("as", NameShape("a name"), "what the item is called in references", default="item"),
        FormatField("index", NameShape("a name"), "what its number, from 0, is called", default="index"),
        FormatField("concurrency", WholeShape(), "how many at a time; 0: all", default=0),
        FormatField("batch", WholeShape(1), "items are lists of so many"),
        FormatField("max", WholeShape(1), "more items than this fail the step"),
        FormatField("on_error", ChoiceShape(("fail", "skip", "null", None)), "what a failed item comes to", default="fail"),
        FormatField("enough", WholeShape(1), "so many successes are waited for, the rest is dropped"),
    ),
)

REPEAT = FieldsShape(
    "repeat",
    (
        FormatField("while", ConditionShape(roots=AFTER_TURN), "another turn as long as it holds"),
        FormatField("until", ConditionShape(roots=AFTER_TURN), "another turn as long as it does not hold"),
        FormatField("max", WholeShape(1), "how many turns at most"),
        FormatField("endless", FlagShape(), "no bound is wanted", default=False),
        FormatField("delay", DurationShape(template=True, roots=AFTER_TURN), "the time between turns"),
        FormatField("state", ValueShape(roots=IN_EACH), "what the first turn finds as `@state`"),
        FormatField("keep", WholeShape(), "how many turns are remembered"),
        FormatField(
            "undo",
            FieldsShape("undo", (FormatField("keep", WholeShape(1), "how many", required=True),)),
            "how many of the last turns are undone, if it comes to that; absent: all",
        ),
        FormatField(
            "on_max",
            EitherShape((ChoiceShape(("fail", "go_on")), IdShape()), "'fail', 'go_on' or the id of a step"),
            "what the end of the turns comes to",
            default="fail",
        ),
    ),
    one_of=("while", "until"),
)

TARGETS = ListShape(IdShape(), sugar=True)
ON = (
    FormatField("to", TARGETS, "where to go on", required=True),
    FormatField("max", WholeShape(1), "how often it is taken, where it leads back"),
    FormatField("endless", FlagShape(), "no bound is wanted", default=False),
    FormatField("on_max", TARGETS, "where to go on when it was taken so often"),
)
RULE = FieldsShape("a rule", (FormatField("when", ConditionShape(roots=("self",)), "holds if the rule is taken; absent: always"), *ON))
PORT = FieldsShape("a port", ON, sugar="to")
CHOOSE = FieldsShape(
    "next",
    (
        FormatField("choose", ListShape(IdShape(), least=1), "the closed list", required=True),
        FormatField("default", TARGETS, "where to go on when none of it was chosen"),
    ),
    one_of=("choose",),
)
WAY = EitherShape((CHOOSE, PORT, ListShape(RULE)), "the id of a step, a list of ids, {to: …}, a list of rules, or {choose: […]}")
NEXT = EitherShape((TARGETS, ListShape(RULE), CHOOSE, MapShape(WAY)), "the id of a step, a list of ids, a mapping of ports, a list of rules, or {choose: […]}")

APPROVE = FieldsShape(
    "approve",
    (
        FormatField("title", TextShape(template=True), "what is asked", required=True),
        FormatField("details", ValueShape(), "what helps to decide"),
        FormatField("form", SchemaShape(), "what is filled in"),
        FormatField("assignees", ListShape(TextShape(template=True)), "who may decide"),
        FormatField("quorum", WholeShape(1), "how many must approve", default=1),
        FormatField("remind", DurationShape(template=True), "when those who have not decided are reminded"),
        FormatField("escalate", DurationShape(template=True), "when others are asked as well"),
        FormatField("escalate_to", ListShape(TextShape(template=True), sugar=True), "who these are"),
        FormatField("timeout", DurationShape(template=True), "how long is waited"),
        FormatField("on_timeout", ChoiceShape(("fail", "approve", "reject")), "what the end of that time comes to", default="fail"),
    ),
)
LISTEN = FieldsShape(
    "listen",
    (
        FormatField(
            "names", ListShape(TextShape(what="the name of a message", template=True), least=1, sugar=True), "the messages that are waited for", required=True
        ),
        FormatField("limit", WholeShape(1), "how many are taken at most", default=1),
        FormatField("gather", DurationShape(template=True), "how long further ones are gathered after the first"),
        FormatField("timeout", DurationShape(template=True), "how long is waited"),
    ),
    sugar="names",
)
EMIT = FieldsShape(
    "emit",
    (
        FormatField("name", TextShape(template=True), "the name of the message"),
        FormatField("body", ValueShape(), "what it says"),
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
    ),
)
TASK = FieldsShape(
    "task",
    (
        FormatField("type", TextShape(what="the type of the work"), "what is to be done", required=True),
        FormatField("queue", TextShape(what="the name of a queue"), "where it waits for a worker; absent: in the queue called as its type"),
        FormatField("priority", WholeShape(-(2**31)), "higher goes first"),
        FormatField("heartbeat", DurationShape(), "how long a worker may be silent"),
        FormatField("config", ValueShape(secrets=True, expressions=False), "of a type that the engine does itself: what that is told beside its input"),
    ),
    sugar="type",
)
LOOP = FieldsShape(
    "loop",
    (
        FormatField("items", ValueShape(), "the list, read when the loop begins", required=True),
        FormatField("batch", EitherShape((WholeShape(1), ValueShape()), "a whole number from 1, or a reference"), "how many of them a turn has", default=1),
        *EACH.fields[1:3],
        FormatField("max", WholeShape(1), "more turns than this fail the step"),
    ),
)
FAIL = FieldsShape(
    "fail",
    (FormatField("message", TextShape(template=True), "why", required=True), FormatField("type", TextShape(what="the type of the error"), "of the error")),
    sugar="message",
)
OPERATION = ValueShape(roots=("self",), secrets=True, expressions=False)
PIPELINE = EitherShape((ListShape(OPERATION, least=1), MapShape(OPERATION)), "a list of operations, {ops: [...]}, or {use: the name of a composite}")
PARALLEL = FieldsShape(
    "parallel",
    (
        FormatField("steps", StepsShape(least=1), "each begins at once", required=True),
        FormatField("concurrency", WholeShape(), "how many at a time; 0: all", default=0),
        FormatField("on_error", ChoiceShape(("fail", "go_on")), "what a failed branch comes to", default="fail"),
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
    ),
    FormatVerb("http", HTTP_SHAPE, "a request", effect=True, is_work=True, has_own_ports=True),
    FormatVerb("file", FILE_SHAPE, "a file of the directory that the deployment allows", effect=True, is_work=True, has_own_ports=True),
    FormatVerb(
        "call",
        TextShape(what="py:package.module.function, or workflow, or workflow@^2", pattern=CALL_PATTERN),
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
    FormatVerb("task", TASK, "work of any type, done by a worker", effect=True, is_work=True, takes_env=True, has_own_ports=True),
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
"""The verbs that can be done for each of a list, or turn by turn; a `loop` is the head of turns itself."""

IDENTITY = (
    FormatField("id", NameShape("an id"), "by which references name it; filled in if absent"),
    FormatField("name", TextShape(), "for people"),
    FormatField("note", TextShape(), "for people"),
    FormatField("when", ConditionShape(), "false: the step is skipped"),
    FormatField("needs", ListShape(IdShape(), sugar=True), "steps whose success is waited for", default=[]),
    FormatField(
        "join",
        EitherShape((ChoiceShape(("all", "any", "each")), WholeShape(1)), "all, any, each or a number"),
        "how many incoming paths are waited for",
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
        "what becomes of the result",
        verbs=SETTLING,
    ),
    FormatField("schema", SchemaShape(), "of the result", verbs=SETTLING),
    FormatField("repeat", REPEAT, "again and again", verbs=DONE_AGAIN),
    FormatField(
        "retry", RETRY, "how it is tried again; beside `call` of a workflow, how a child that has failed is started anew", verbs=(*WORK, "call", "agent")
    ),
    FormatField(
        "timeout",
        DurationShape(),
        "how long it may take: each try of work; of anything else, from its beginning to its end; each item and turn for itself",
        verbs=(*WORK, "call", "agent", "agent_message", "approve", "listen", *BLOCKS),
    ),
    FormatField("grace", DurationShape(), "how long it may go on when the execution fails or is cancelled", verbs=(*WORK, "call", "agent")),
    FormatField("idempotent", FlagShape(), "whether it may be done twice", verbs=(*WORK, "call")),
    FormatField(
        "undo",
        EitherShape(
            (ChoiceShape((True, False)), UNDO, TextShape(what="the name of a tool")),
            "a tool's name, {tool, with, timeout, retry, in_doubt, on_error}, or true beside a call of a workflow",
        ),
        "what undoes it; of a block that has completed, instead of what undoes its steps",
        default=False,
        verbs=DONE_AGAIN,
    ),
    FormatField("commit", FlagShape(), "once it has completed, nothing done before is undone any more", default=False, verbs=SETTLING),
    FormatField(
        "on_error",
        EitherShape((ChoiceShape(("fail", "go_on")), StepsShape(error=True, least=1)), "'fail', 'go_on', or steps that run instead"),
        "what its failure comes to",
        default="fail",
    ),
    FormatField(
        "on_rejected",
        ChoiceShape(("cancel", "fail", "go_on")),
        "what a rejection comes to where no port leads on: the execution is cancelled, the step fails (see `on_error`), or it goes on with the decision",
        default="cancel",
        verbs=("approve",),
    ),
    FormatField("next", NEXT, "where to go on", ports_only=True, default=[]),
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
        FormatField("cron", TextShape(what="five fields of cron"), "when: minute, hour, day, month and weekday; or @daily and the like", required=True),
        FormatField("timezone", TextShape(what="a time zone"), "where, as Europe/London", default="UTC"),
        FormatField("catch_up", WholeShape(), "how many missed times are made up for"),
        FormatField("overlap", ChoiceShape(("allow", "skip", "queue", "cancel")), "what happens while the one before still runs; cancel: that one is"),
    ),
)
SCHEMES = ("github", "stripe", "slack", "standard_webhooks", "generic", "bearer", "none")
VERIFY = FieldsShape(
    "verify",
    (
        FormatField("scheme", ChoiceShape(SCHEMES), "whose signature it is; generic: an HMAC of the body, none: anybody may send", required=True),
        FormatField("secret", ValueShape(secrets=True), "what it is signed with: a secret, or a list of them while one is changed"),
        FormatField("header", TextShape(what="the name of a header"), "which header has the signature; beside generic and bearer"),
    ),
)
WEBHOOK = FieldsShape(
    "webhook",
    (
        FormatField("path", TextShape(what="a path"), "behind /webhooks/", required=True),
        FormatField("method", TextShape(what=f"a method: {HTTP_METHODS.replace('|', ', ')}", pattern=HTTP_METHODS), "by which it is posted to", default="POST"),
        FormatField("headers", MapShape(TextShape()), "headers that a request must have"),
        FormatField("verify", VERIFY, "how it is known who sent it"),
        FormatField("map", MapShape(TextShape(what="a JSONPath")), "inputs, each from where in the body"),
    ),
)
TRIGGER = FieldsShape(
    "a trigger",
    (
        FormatField("schedule", SCHEDULE, "at times"),
        FormatField("webhook", WEBHOOK, "when it is posted to"),
        FormatField("manual", FieldsShape("manual", ()), "by hand: {}"),
        FormatField("name", TextShape(), "for people"),
        FormatField("enabled", FlagShape(), "whether it does anything", default=True),
        FormatField("with", ValueShape(), "the input"),
    ),
    one_of=("schedule", "webhook", "manual"),
)
LIMITS = FieldsShape(
    "limits",
    (
        FormatField("max_steps", WholeShape(1), "how many steps are opened"),
        FormatField("max_hops", WholeShape(1), "how many edges are gone along"),
        FormatField("max_fanout", WholeShape(1), "how many are opened by one"),
        FormatField("deadline", DurationShape(), "how long the execution may take"),
        FormatField("grace", DurationShape(), "how long steps in flight may go on when it fails or is cancelled; 30 s, unless this or the step says otherwise"),
        FormatField("max_bytes", WholeShape(), "how much its results may take"),
    ),
)

DOCUMENT = FieldsShape(
    "a definition",
    (
        FormatField("perdure", ChoiceShape((1,)), "the version of the format", required=True),
        FormatField("name", TextShape(what="a name without @, / and :", pattern=NAME_PATTERN), "of the workflow", required=True),
        FormatField("version", TextShape(what="a version such as 1.2.0", pattern=VERSION_PATTERN), "of the definition", default=DEFAULT_VERSION),
        FormatField("description", TextShape(), "for people"),
        FormatField("tags", ListShape(TextShape()), "for finding it", default=[]),
        FormatField("dialect", ChoiceShape(DIALECTS), "the shape that it was read from; it decides how missing values and rejections are taken"),
        FormatField("input", MapShape(SchemaShape()), "the inputs, each with its JSON Schema; one that has a default is optional", default={}),
        FormatField("vars", MapShape(ValueShape()), "variables", default={}),
        FormatField("triggers", ListShape(TRIGGER), "what starts it", default=[]),
        FormatField("limits", LIMITS, "what bounds an execution", default={}),
        FormatField("retry", RETRY, "how steps are tried again that do not say it", default={}),
        FormatField(
            "allow",
            FieldsShape("allow", (FormatField("self_edit", FlagShape(), "whether it may propose changes of itself", default=False),)),
            "what it may do",
            default={},
        ),
        FormatField(
            "on_failure",
            FieldsShape(
                "on_failure",
                (
                    FormatField("undo", FlagShape(), "what was done is undone", default=True),
                    FormatField("call", TextShape(what="a workflow or a tool"), "is told of it"),
                ),
            ),
            "what a failure comes to",
            default={},
        ),
        FormatField("archive", FlagShape(), "what compaction of a long log replaces is kept", default=False),
        FormatField("order", ChoiceShape(("refs", "listed", "ports")), "what orders the steps: references, the list, or `next`", default="refs"),
        FormatField("steps", StepsShape(least=1), "the steps", required=True),
        FormatField("output", ValueShape(), "the result; absent: that of the last step"),
        FormatField("ui", PlainShape(), "for editors; not hashed"),
    ),
)
