"""The model of the format: one table of the fields of a document, of the verbs and of the modifiers. Everything else that knows the format derives from it.

Defaults belong to format version 1 and never change within it: the hash of a definition is taken with them removed.
"""

from __future__ import annotations

from functools import cache

import msgspec

from perdure.expr import refs
from perdure.programs.format.agents import AGENT, AGENT_MESSAGE
from perdure.programs.format.file import FILE
from perdure.programs.format.http import HTTP, METHODS
from perdure.programs.format.llm import LLM
from perdure.programs.format.shapes import (
    Choice,
    Condition,
    Duration,
    Either,
    Field,
    Fields,
    Flag,
    Id,
    ListOf,
    MapOf,
    Name,
    Number,
    Plain,
    Schema,
    Shape,
    Steps,
    Text,
    Value,
    Whole,
)
from perdure.programs.format.sources import BASH

ROOTS = refs.ROOTS | {"state", "last_turn"}
"""What references may begin with besides a step; no step may be called so."""

IN_EACH = ("item", "index", "loop")
IN_REPEAT = ("index", "loop", "state", "last_turn")
AFTER_TURN = ("self", "index", "loop", "state", "last_turn")
EVERYWHERE = ("input", "vars", "execution", "trigger", "last", "steps")

DIALECTS = ("000", "001", "003", "004")
DEFAULT_VERSION = "1.0.0"
ID_PATTERN = r"[^\W\d][\w-]*"
NAME_PATTERN = r"[^@/:\s\x00-\x1f](?:[^@/:\x00-\x1f]*[^@/:\s\x00-\x1f])?"
VERSION_PATTERN = r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
_RANGE = r"[\^~]?(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*|x)){0,2}(?:-[0-9A-Za-z.-]+)?|\*"
CALL_PATTERN = rf"py:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|{NAME_PATTERN}(?:@(?:{_RANGE}))?"


class Verb(msgspec.Struct, frozen=True):
    """A verb: what stands behind it, the ports by which it is left besides `error` and `skipped`, whether it acts on the world."""

    name: str
    shape: Shape
    doc: str
    ports: tuple[str, ...] = ("success",)
    effect: bool = False


RETRY = Fields(
    "retry",
    (
        Field("max", Whole(1), "how many tries in all"),
        Field("wait", Duration(), "the time before the second try"),
        Field("factor", Number(1), "how much longer each further wait is"),
        Field("max_wait", Duration(), "the longest wait"),
        Field("only", ListOf(Text(what="the name of a type of error")), "types of errors that are tried again; others are not"),
        Field("fatal", ListOf(Text(what="the name of a type of error")), "types of errors that are not tried again"),
    ),
)

UNDO = Fields(
    "undo",
    (
        Field("tool", Text(what="the name of a tool"), "what undoes the step: a tool, or a kind such as http, all of which stands in `with`", required=True),
        Field("with", Value(roots=("self", *IN_EACH), secrets=True), "its input; `@self` is the step's result"),
        Field("timeout", Duration(), "of each try"),
        Field("retry", RETRY, "how it is tried again"),
        Field("in_doubt", Flag(), "the step is undone too when it failed or was abandoned, with null as `@self`", default=False),
        Field(
            "on_error", Choice(("park", "continue")), "when it has failed for good: the execution needs attention, or goes on with what else is to be undone"
        ),
    ),
    sugar="tool",
)

EACH = Fields(
    "each",
    (
        Field("in", Value(), "the list", required=True),
        Field("as", Name("a name"), "what the item is called in references", default="item"),
        Field("index", Name("a name"), "what its number, from 0, is called", default="index"),
        Field("concurrency", Whole(), "how many at a time; 0: all", default=0),
        Field("batch", Whole(1), "items are lists of so many"),
        Field("max", Whole(1), "more items than this fail the step"),
        Field("on_error", Choice(("fail", "skip", "null", None)), "what a failed item comes to", default="fail"),
        Field("enough", Whole(1), "so many successes are waited for, the rest is dropped"),
    ),
)

REPEAT = Fields(
    "repeat",
    (
        Field("while", Condition(roots=AFTER_TURN), "another turn as long as it holds"),
        Field("until", Condition(roots=AFTER_TURN), "another turn as long as it does not hold"),
        Field("max", Whole(1), "how many turns at most"),
        Field("endless", Flag(), "no bound is wanted", default=False),
        Field("delay", Duration(template=True, roots=AFTER_TURN), "the time between turns"),
        Field("state", Value(roots=IN_EACH), "what the first turn finds as `@state`"),
        Field("keep", Whole(), "how many turns are remembered"),
        Field(
            "undo",
            Fields("undo", (Field("keep", Whole(1), "how many", required=True),)),
            "how many of the last turns are undone, if it comes to that; absent: all",
        ),
        Field("on_max", Either((Choice(("fail", "go_on")), Id()), "'fail', 'go_on' or the id of a step"), "what the end of the turns comes to", default="fail"),
    ),
    one_of=("while", "until"),
)

TARGETS = ListOf(Id(), sugar=True)
ON = (
    Field("to", TARGETS, "where to go on", required=True),
    Field("max", Whole(1), "how often it is taken, where it leads back"),
    Field("endless", Flag(), "no bound is wanted", default=False),
    Field("on_max", TARGETS, "where to go on when it was taken so often"),
)
RULE = Fields("a rule", (Field("when", Condition(roots=("self",)), "holds if the rule is taken; absent: always"), *ON))
PORT = Fields("a port", ON, sugar="to")
CHOOSE = Fields(
    "next",
    (Field("choose", ListOf(Id(), least=1), "the closed list", required=True), Field("default", TARGETS, "where to go on when none of it was chosen")),
    one_of=("choose",),
)
WAY = Either((CHOOSE, PORT, ListOf(RULE)), "the id of a step, a list of ids, {to: …}, a list of rules, or {choose: […]}")
NEXT = Either((TARGETS, ListOf(RULE), CHOOSE, MapOf(WAY)), "the id of a step, a list of ids, a mapping of ports, a list of rules, or {choose: […]}")

APPROVE = Fields(
    "approve",
    (
        Field("title", Text(template=True), "what is asked", required=True),
        Field("details", Value(), "what helps to decide"),
        Field("form", Schema(), "what is filled in"),
        Field("assignees", ListOf(Text(template=True)), "who may decide"),
        Field("quorum", Whole(1), "how many must approve", default=1),
        Field("remind", Duration(template=True), "when those who have not decided are reminded"),
        Field("escalate", Duration(template=True), "when others are asked as well"),
        Field("escalate_to", ListOf(Text(template=True), sugar=True), "who these are"),
        Field("timeout", Duration(template=True), "how long is waited"),
        Field("on_timeout", Choice(("fail", "approve", "reject")), "what the end of that time comes to", default="fail"),
    ),
)
LISTEN = Fields(
    "listen",
    (
        Field("names", ListOf(Text(what="the name of a message", template=True), least=1, sugar=True), "the messages that are waited for", required=True),
        Field("limit", Whole(1), "how many are taken at most", default=1),
        Field("gather", Duration(template=True), "how long further ones are gathered after the first"),
        Field("timeout", Duration(template=True), "how long is waited"),
    ),
    sugar="names",
)
EMIT = Fields(
    "emit",
    (
        Field("name", Text(template=True), "the name of the message"),
        Field("body", Value(), "what it says"),
        Field(
            "to",
            Fields(
                "to",
                (
                    Field("workflow", Text(template=True), "the workflow of the receiver", required=True),
                    Field("id", Text(template=True), "the id of the receiver", required=True),
                ),
            ),
            "the execution that receives it; absent: it becomes an item of this execution's stream",
        ),
    ),
)
TASK = Fields(
    "task",
    (
        Field("type", Text(what="the type of the work"), "what is to be done", required=True),
        Field("queue", Text(what="the name of a queue"), "where it waits for a worker; absent: in the queue called as its type"),
        Field("priority", Whole(-(2**31)), "higher goes first"),
        Field("heartbeat", Duration(), "how long a worker may be silent"),
        Field("config", Value(secrets=True, expressions=False), "of a type that the engine does itself: what that is told beside its input"),
    ),
    sugar="type",
)
LOOP = Fields(
    "loop",
    (
        Field("items", Value(), "the list, read when the loop begins", required=True),
        Field("batch", Either((Whole(1), Value()), "a whole number from 1, or a reference"), "how many of them a turn has", default=1),
        *EACH.fields[1:3],
        Field("max", Whole(1), "more turns than this fail the step"),
    ),
)
FAIL = Fields(
    "fail", (Field("message", Text(template=True), "why", required=True), Field("type", Text(what="the type of the error"), "of the error")), sugar="message"
)
OPERATION = Value(roots=("self",), secrets=True, expressions=False)
PIPELINE = Either((ListOf(OPERATION, least=1), MapOf(OPERATION)), "a list of operations, {ops: [...]}, or {use: the name of a composite}")
PARALLEL = Fields(
    "parallel",
    (
        Field("steps", Steps(least=1), "each begins at once", required=True),
        Field("concurrency", Whole(), "how many at a time; 0: all", default=0),
        Field("on_error", Choice(("fail", "go_on")), "what a failed branch comes to", default="fail"),
    ),
    sugar="steps",
)

VERBS = (
    Verb("tool", Text(what="the name of a tool"), "a tool, or a registered step", effect=True),
    Verb("ts", Text(what="source text"), "TypeScript, in a sandbox"),
    Verb("python", Text(what="source text"), "Python, in a sandbox"),
    Verb("bash", BASH, "a shell command; values reach it through `env`", effect=True),
    Verb("http", HTTP, "a request", effect=True),
    Verb("file", FILE, "a file of the directory that the deployment allows", effect=True),
    Verb("call", Text(what="py:package.module.function, or workflow, or workflow@^2", pattern=CALL_PATTERN), "a function, or another workflow", effect=True),
    Verb("agent", AGENT, "an agent that decides which tools to use", effect=True),
    Verb("agent_message", AGENT_MESSAGE, "a message to the agent of this execution", effect=True),
    Verb("llm", LLM, "one request to a model", effect=True),
    Verb("pipeline", PIPELINE, "operations on tables, one after the other"),
    Verb("task", TASK, "work of any type, done by a worker", effect=True),
    Verb("approve", APPROVE, "people decide", ports=("approved", "rejected", "timeout")),
    Verb("listen", LISTEN, "waits for messages", ports=("success", "timeout")),
    Verb(
        "sleep",
        Either(
            (Fields("sleep", (Field("until", Value(), "a time", required=True),), one_of=("until",)), Duration(template=True)), "a duration, or {until: a time}"
        ),
        "waits",
    ),
    Verb("emit", EMIT, "sends a message, or adds to this execution's stream", effect=True),
    Verb("if", Condition(), "`then` if the condition holds, `else` otherwise", ports=("true", "false")),
    Verb("parallel", PARALLEL, "steps that begin at once; a mapping of results"),
    Verb("race", Steps(least=1), "steps of which the first to succeed wins"),
    Verb("do", Steps(), "steps as one; the last result"),
    Verb("test", Condition(), "true or false", ports=("true", "false")),
    Verb("loop", LOOP, "the head of a cycle that takes a list batch by batch", ports=("loop", "done")),
    Verb("return", Value(), "ends the execution with a result", ports=()),
    Verb("fail", FAIL, "ends what holds it as failed", ports=()),
    Verb("set", MapOf(Value()), "variables, from then on"),
)

WORK = ("tool", "ts", "python", "bash", "http", "file", "llm", "pipeline", "task")
"""The verbs that are calls of work, each with tries of its own."""

BLOCKS = ("if", "parallel", "race", "do")
ENDING = ("return", "fail")
"""The verbs after which a step has no result."""

SETTLING = tuple(verb.name for verb in VERBS if verb.name not in ENDING)
DONE_AGAIN = tuple(name for name in SETTLING if name != "loop")
"""The verbs that can be done for each of a list, or turn by turn; a `loop` is the head of turns itself."""

IDENTITY = (
    Field("id", Name("an id"), "by which references name it; filled in if absent"),
    Field("name", Text(), "for people"),
    Field("note", Text(), "for people"),
    Field("when", Condition(), "false: the step is skipped"),
    Field("needs", ListOf(Id(), sugar=True), "steps whose success is waited for", default=[]),
    Field("join", Either((Choice(("all", "any", "each")), Whole(1)), "all, any, each or a number"), "how many incoming paths are waited for", default="all"),
    Field("each", EACH, "once for each of a list", verbs=(*DONE_AGAIN, *ENDING)),
)
BESIDE = (
    Field("then", Steps(), "the steps if the condition holds", verbs=("if",), required=True),
    Field("else", Steps(), "the steps if it does not", verbs=("if",), default=[]),
    Field("wait", Flag(), "false: the workflow is started and not waited for", verbs=("call",), default=True),
)
MODIFIERS = (
    Field("with", Value(roots=(), secrets=True), "its input", verbs=(*WORK, "call", "agent", "emit", "return")),
    Field("env", MapOf(Value(secrets=True)), "environment variables", default={}, verbs=("bash", "task")),
    Field(
        "transform",
        Either(
            (
                Fields("transform", (Field("ts", Text(what="source text")), Field("python", Text(what="source text"))), one_of=("ts", "python")),
                Value(roots=("self",)),
            ),
            "a value, or source text",
        ),
        "what becomes of the result",
        verbs=SETTLING,
    ),
    Field("schema", Schema(), "of the result", verbs=SETTLING),
    Field("repeat", REPEAT, "again and again", verbs=DONE_AGAIN),
    Field("retry", RETRY, "how it is tried again; beside `call` of a workflow, how a child that has failed is started anew", verbs=(*WORK, "call", "agent")),
    Field(
        "timeout",
        Duration(),
        "how long it may take: each try of work; of anything else, from its beginning to its end; each item and turn for itself",
        verbs=(*WORK, "call", "agent", "agent_message", "approve", "listen", *BLOCKS),
    ),
    Field("grace", Duration(), "how long it may go on when the execution fails or is cancelled", verbs=(*WORK, "call", "agent")),
    Field("idempotent", Flag(), "whether it may be done twice", verbs=(*WORK, "call")),
    Field(
        "undo",
        Either(
            (Choice((True, False)), UNDO, Text(what="the name of a tool")),
            "a tool's name, {tool, with, timeout, retry, in_doubt, on_error}, or true beside a call of a workflow",
        ),
        "what undoes it; of a block that has completed, instead of what undoes its steps",
        default=False,
        verbs=DONE_AGAIN,
    ),
    Field("commit", Flag(), "once it has completed, nothing done before is undone any more", default=False, verbs=SETTLING),
    Field(
        "on_error",
        Either((Choice(("fail", "go_on")), Steps(error=True, least=1)), "'fail', 'go_on', or steps that run instead"),
        "what its failure comes to",
        default="fail",
    ),
    Field(
        "on_rejected",
        Choice(("cancel", "fail", "go_on")),
        "what a rejection comes to where no port leads on: the execution is cancelled, the step fails (see `on_error`), or it goes on with the decision",
        default="cancel",
        verbs=("approve",),
    ),
    Field("next", NEXT, "where to go on", ports_only=True, default=[]),
    Field("ui", Plain(), "for editors; not hashed"),
)


@cache
def step_fields() -> dict[str, Field]:
    """All fields of a step in the order in which they are written."""
    verbs = tuple(Field(verb.name, verb.shape, verb.doc) for verb in VERBS)
    return {field.name: field for field in (*IDENTITY, *verbs, *BESIDE, *MODIFIERS)}


@cache
def verbs() -> dict[str, Verb]:
    """The verbs by their names."""
    return {verb.name: verb for verb in VERBS}


SCHEDULE = Fields(
    "schedule",
    (
        Field("cron", Text(what="five fields of cron"), "when: minute, hour, day, month and weekday; or @daily and the like", required=True),
        Field("timezone", Text(what="a time zone"), "where, as Europe/London", default="UTC"),
        Field("catch_up", Whole(), "how many missed times are made up for"),
        Field("overlap", Choice(("allow", "skip", "queue", "cancel")), "what happens while the one before still runs; cancel: that one is"),
    ),
)
SCHEMES = ("github", "stripe", "slack", "standard_webhooks", "generic", "bearer", "none")
VERIFY = Fields(
    "verify",
    (
        Field("scheme", Choice(SCHEMES), "whose signature it is; generic: an HMAC of the body, none: anybody may send", required=True),
        Field("secret", Value(secrets=True), "what it is signed with: a secret, or a list of them while one is changed"),
        Field("header", Text(what="the name of a header"), "which header has the signature; beside generic and bearer"),
    ),
)
WEBHOOK = Fields(
    "webhook",
    (
        Field("path", Text(what="a path"), "behind /webhooks/", required=True),
        Field("method", Text(what=f"a method: {METHODS.replace('|', ', ')}", pattern=METHODS), "by which it is posted to", default="POST"),
        Field("headers", MapOf(Text()), "headers that a request must have"),
        Field("verify", VERIFY, "how it is known who sent it"),
        Field("map", MapOf(Text(what="a JSONPath")), "inputs, each from where in the body"),
    ),
)
TRIGGER = Fields(
    "a trigger",
    (
        Field("schedule", SCHEDULE, "at times"),
        Field("webhook", WEBHOOK, "when it is posted to"),
        Field("manual", Fields("manual", ()), "by hand: {}"),
        Field("name", Text(), "for people"),
        Field("enabled", Flag(), "whether it does anything", default=True),
        Field("with", Value(), "the input"),
    ),
    one_of=("schedule", "webhook", "manual"),
)
LIMITS = Fields(
    "limits",
    (
        Field("max_steps", Whole(1), "how many steps are opened"),
        Field("max_hops", Whole(1), "how many edges are gone along"),
        Field("max_fanout", Whole(1), "how many are opened by one"),
        Field("deadline", Duration(), "how long the execution may take"),
        Field("grace", Duration(), "how long steps in flight may go on when it fails or is cancelled; 30 s, unless this or the step says otherwise"),
        Field("max_bytes", Whole(), "how much its results may take"),
    ),
)

DOCUMENT = Fields(
    "a definition",
    (
        Field("perdure", Choice((1,)), "the version of the format", required=True),
        Field("name", Text(what="a name without @, / and :", pattern=NAME_PATTERN), "of the workflow", required=True),
        Field("version", Text(what="a version such as 1.2.0", pattern=VERSION_PATTERN), "of the definition", default=DEFAULT_VERSION),
        Field("description", Text(), "for people"),
        Field("tags", ListOf(Text()), "for finding it", default=[]),
        Field("dialect", Choice(DIALECTS), "the shape that it was read from; it decides how missing values and rejections are taken"),
        Field("input", MapOf(Schema()), "the inputs, each with its JSON Schema; one that has a default is optional", default={}),
        Field("vars", MapOf(Value()), "variables", default={}),
        Field("triggers", ListOf(TRIGGER), "what starts it", default=[]),
        Field("limits", LIMITS, "what bounds an execution", default={}),
        Field("retry", RETRY, "how steps are tried again that do not say it", default={}),
        Field("allow", Fields("allow", (Field("self_edit", Flag(), "whether it may propose changes of itself", default=False),)), "what it may do", default={}),
        Field(
            "on_failure",
            Fields(
                "on_failure",
                (Field("undo", Flag(), "what was done is undone", default=True), Field("call", Text(what="a workflow or a tool"), "is told of it")),
            ),
            "what a failure comes to",
            default={},
        ),
        Field("archive", Flag(), "what compaction of a long log replaces is kept", default=False),
        Field("order", Choice(("refs", "listed", "ports")), "what orders the steps: references, the list, or `next`", default="refs"),
        Field("steps", Steps(least=1), "the steps", required=True),
        Field("output", Value(), "the result; absent: that of the last step"),
        Field("ui", Plain(), "for editors; not hashed"),
    ),
)
