"""The shapes of the larger verbs of the model, and the checks of such steps beyond the shape of the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.definitions.format.shapes import (
    ChoiceShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FlagShape,
    FormatField,
    ListShape,
    MapShape,
    NumberShape,
    SchemaShape,
    TextShape,
    ValueShape,
    WholeShape,
)

PROFILE_PATTERN = "[a-z][a-z0-9_]{0,62}"
_DESCRIBED_BY = (
    FormatField("url", TextShape(template=True), "the URL of the document"),
    FormatField("file", TextShape(template=True), "the path of the document, below the directory that the deployment allows"),
)
_AUTH = FormatField(
    "auth", TextShape(what="an auth profile: a to z, digits and _", pattern=PROFILE_PATTERN), "which of the deployment's auth profiles; absent: none"
)
_SERVER_VARIABLES = FormatField("variables", MapShape(ValueShape()), "values for the variables in the URL of the document's server; absent: their defaults")
_API_OPERATIONS = FieldsShape(
    "operations",
    (
        FormatField(
            "openapi", FieldsShape("openapi", (*_DESCRIBED_BY, _AUTH, _SERVER_VARIABLES), one_of=("url", "file"), sugar="url"), "the API", required=True
        ),
        FormatField(
            "operations",
            ListShape(TextShape(what="the id of an operation, or its method and path"), least=1),
            "its operations, each of which is a tool",
            required=True,
        ),
    ),
)
BUDGET_SHAPE = FieldsShape(
    "budget",
    (
        FormatField("calls", WholeShape(1), "the most requests to the model; default: 25"),
        FormatField("tool_calls", WholeShape(1), "the most tool calls; default: ten for each of `calls`"),
        FormatField("tokens", WholeShape(1), "the most tokens, input and output"),
        FormatField("cost_usd", NumberShape(0), "the most US dollars"),
        FormatField("wall", DurationShape(), "the longest time, with waits for people"),
        FormatField("shared", TextShape(), "a name: calls, tokens and cost_usd are then limits of all agents of the root execution that name it, together"),
    ),
)
AGENT_SHAPE = FieldsShape(
    "agent",
    (
        FormatField("prompt", TextShape(template=True), "the task", required=True),
        FormatField("model", TextShape(template=True), "which of the deployment's models"),
        FormatField("system", TextShape(template=True), "the system prompt"),
        FormatField("instructions", TextShape(template=True), "the same"),
        FormatField(
            "tools",
            ListShape(EitherShape((TextShape(what="the name of a tool"), _API_OPERATIONS), "the name of a tool, or {openapi: …, operations: […]}")),
            "the only tools that it may use: the definition's, kinds of steps, Perdure's own, and operations of an API",
        ),
        FormatField("approve", ListShape(TextShape(what="the name of a tool")), "the tools whose every use a person has to approve"),
        FormatField("schema", SchemaShape(), "of its answer; absent: the answer is text"),
        FormatField(
            "context",
            EitherShape((FlagShape(), ListShape(ValueShape()), MapShape(ValueShape())), "true, a list of references, or a mapping of them"),
            "earlier results that it sees",
        ),
        FormatField("budget", BUDGET_SHAPE, "its limits"),
        FormatField("temperature", NumberShape(0), "the sampling temperature"),
        FormatField("max_tokens", WholeShape(1), "how long each answer may be"),
        FormatField("repairs", WholeShape(0), "how often it may correct an answer that does not fit; default: once"),
        FormatField("stream", FlagShape(), "whether readers see its answers while they come", default=False),
    ),
    sugar="prompt",
)
AGENT_MESSAGE = "agent_message"
"""The verb that sends a message to an agent, and the name of these messages."""

AGENT_MESSAGE_SHAPE = FieldsShape(
    AGENT_MESSAGE,
    (
        FormatField("content", ValueShape(), "the content of the message"),
        FormatField("message", ValueShape(), "the same"),
        FormatField("goal", ValueShape(), "the same"),
        FormatField("interrupt", FlagShape(), "whether the message interrupts the agent's current request to its model", default=False),
        FormatField("await_response", FlagShape(), "whether the step waits for the answer, which is its result", default=False),
        FormatField("await_timeout_ms", WholeShape(1000), "the longest wait for the answer in milliseconds; default: 5 minutes"),
    ),
    sugar="content",
)


FILE_SHAPE = FieldsShape(
    "file",
    (
        FormatField("read", TextShape(template=True), "the path of a file whose content is the result"),
        FormatField("write", TextShape(template=True), "the path of a file that the content replaces; missing directories are created"),
        FormatField("append", TextShape(template=True), "the path of a file to which the content is appended; a missing file is created"),
        FormatField("list", TextShape(template=True), "the path of a directory whose entries are the result; . is the one that is allowed"),
        FormatField("content", ValueShape(), "what is written, with `write` and `append`, unless it is in `with`"),
        FormatField(
            "as",
            ChoiceShape(("text", "json", "csv", "lines", "xml", "base64")),
            "what the content is taken for; absent: as the name ends (.json, .csv, .xml), else text. XML can only be read",
        ),
        FormatField("max_bytes", WholeShape(1), "the most bytes of a file that is read; up to 16,000,000", default=10_000_000),
    ),
    sugar="read",
    one_of=("read", "write", "append", "list"),
)


HTTP_METHODS = "GET|HEAD|OPTIONS|TRACE|PUT|DELETE|POST|PATCH"
_UPLOADED_FILE = FieldsShape(
    "a file",
    (
        FormatField("content", ValueShape(), "text, or bytes as {base64: …}", required=True),
        FormatField("filename", TextShape(template=True), "its file name; absent: that of the field"),
        FormatField("type", TextShape(template=True), "its content type; absent: by its file name"),
    ),
    sugar="content",
)
HTTP_SHAPE = FieldsShape(
    "http",
    (
        FormatField("url", TextShape(template=True), "the URL: http:// or https://, without user and password", required=True),
        FormatField(
            "method",
            TextShape(what=f"a method: {HTTP_METHODS.replace('|', ', ')}", pattern=f"{HTTP_METHODS}|{HTTP_METHODS.lower()}", template=True),
            "default: GET",
        ),
        FormatField("headers", MapShape(ValueShape(secrets=True)), "headers; a list repeats one, null removes one; they may contain secrets"),
        FormatField("query", MapShape(ValueShape()), "query parameters, added to those of the URL; a list repeats one, null removes one"),
        FormatField("body", ValueShape(), "the body: text, bytes as {base64: …}, anything else as JSON"),
        FormatField("json", ValueShape(), "the body, always as JSON"),
        FormatField("form", MapShape(ValueShape()), "the body, as the fields of a form; a list repeats one"),
        FormatField("files", MapShape(_UPLOADED_FILE), "files to upload, with the fields of `form`, as multipart/form-data"),
        FormatField(
            "as",
            ChoiceShape(("json", "text", "csv", "lines", "xml", "base64")),
            "how the body of the response is parsed (csv: a list of rows, lines: a list of texts); absent: JSON if its type says so and it is valid, else text "
            "if it is, else {base64: …}",
        ),
        FormatField(
            "accept",
            EitherShape((ChoiceShape(("any",)), ListShape(WholeShape(400), sugar=True)), "any, or a list of statuses from 400 on"),
            "statuses from 400 on that are results and not errors",
        ),
        FormatField("redirects", WholeShape(), "the most redirects that are followed; 0: a redirect is the result", default=5),
        FormatField("max_bytes", WholeShape(1), "the most bytes of the decompressed body of the response; up to 16,000,000", default=10_000_000),
        FormatField("idempotency_key", FlagShape(), "whether requests that change something have the idempotency key of the step", default=True),
    ),
    sugar="url",
)


OPENAPI_SHAPE = FieldsShape(
    "openapi",
    (
        *_DESCRIBED_BY,
        FormatField("operation", TextShape(what="the id of an operation, or its method and path"), "its operationId, or GET /pets/{id}", required=True),
        FormatField("params", MapShape(ValueShape()), "the parameters by name, wherever they go, and `body`; names that occur twice as query.id"),
        _AUTH,
        _SERVER_VARIABLES,
        FormatField(
            "check_response",
            ChoiceShape(("warn", "fail", "ignore")),
            "what happens if the response is not as the document says: it is in `problems` of the result, the step fails, or it is not checked",
            default="warn",
        ),
        *(field for field in HTTP_SHAPE.fields if field.name in ("as", "accept", "redirects", "max_bytes", "idempotency_key")),
    ),
    one_of=("url", "file"),
)


CONNECTION_PATTERN = "[a-z][a-z0-9_]{0,62}"
_RESULT = FormatField(
    "result",
    ChoiceShape(("rows", "row", "value", "count")),
    "rows: a list of mappings; row: the only row, or null; value: its only column; count: how many rows were changed or returned; absent: rows of a query, "
    "else count",
)
_EXPECT = FormatField("expect", WholeShape(), "how many rows it has to change or return; any other number fails the step, and nothing of it is kept")
_SQL_STATEMENT = FieldsShape(
    "a statement",
    (FormatField("statement", TextShape(what="a statement"), "its text, with placeholders :name for values of `with`", required=True), _RESULT, _EXPECT),
    sugar="statement",
)
SQL_SHAPE = FieldsShape(
    "sql",
    (
        FormatField("connection", TextShape(what="a connection: a to z, digits and _", pattern=CONNECTION_PATTERN), "which of the deployment's", required=True),
        FormatField("query", TextShape(what="a statement"), "a statement that only reads, with placeholders :name for values of `with`"),
        FormatField(
            "execute",
            EitherShape((TextShape(what="a statement"), ListShape(_SQL_STATEMENT, least=1)), "a statement, or a list of statements"),
            "a statement, with placeholders :name for values of `with`; or a list of them, which are one transaction, and whose results are a list",
        ),
        _RESULT,
        _EXPECT,
        FormatField("max_rows", WholeShape(1), "how many rows a statement may return; up to 100,000", default=1_000),
    ),
    one_of=("query", "execute"),
)


LLM_SHAPE = FieldsShape(
    "llm",
    (
        FormatField("model", TextShape(template=True), "the model by its name in the deployment, or vendor:model; absent: the one named default"),
        FormatField("prompt", ValueShape(), "the prompt, followed by `with`"),
        FormatField("system", ValueShape(), "the system prompt"),
        FormatField("messages", ValueShape(), "the messages before the prompt: a list of {role: user or assistant, text}"),
        FormatField("schema", SchemaShape(), "of the answer, which then is data; an answer that does not fit is requested again"),
        FormatField("temperature", EitherShape((NumberShape(0), ValueShape()), "a number from 0, or a reference"), "the sampling temperature"),
        FormatField("max_tokens", EitherShape((WholeShape(1), ValueShape()), "a whole number from 1, or a reference"), "the most tokens of the answer"),
        FormatField("repairs", WholeShape(), "how often an answer that does not fit is requested again", default=1),
        FormatField("stream", FlagShape(), "whether readers see the answer while it comes", default=False),
    ),
    sugar="prompt",
)


COMMAND_SHAPE = TextShape(what="a command")
_COMMANDED = FieldsShape(
    "bash",
    (
        FormatField("command", COMMAND_SHAPE, "the command for bash", required=True),
        FormatField(
            "cwd", TextShape(template=True), "the directory of the command, relative to the working directory of the execution, or absolute", default="."
        ),
        FormatField("check", FlagShape(), "whether an exit code other than 0 fails the step; false: the result has it", default=True),
        FormatField("stdin", ValueShape(), "its standard input: text, or anything else as JSON"),
        FormatField(
            "isolate",
            ChoiceShape((True, False, "none", "network", "all")),
            "what it is isolated from: the network, or all but its working directory",
            default="none",
        ),
    ),
)
BASH_SHAPE = EitherShape((COMMAND_SHAPE, _COMMANDED), "a command, or a mapping with one")


def llm_problems(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the problems of a request to a model beyond its shape."""
    yield from _needless_repairs("llm", step["llm"], False)


def agent_problems(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the problems of an agent beyond its shape."""
    yield from _needless_repairs("agent", step["agent"], isinstance(step.get("next"), dict))


def agent_message_problems(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the problems of a message to an agent beyond its shape."""
    if "timeout" not in step or not isinstance(message := step["agent_message"], dict | str):
        return
    config = message if isinstance(message, dict) else {}
    if config.get("await_response") is not True or "await_timeout_ms" in config:
        yield "timeout", "'timeout' is the longest wait for an answer: it needs 'await_response: true', and excludes 'await_timeout_ms'"


def _needless_repairs(verb: str, config: Any, chooses: bool) -> Iterator[tuple[str, str]]:
    """The finding of `repairs` where every answer fits: the step has no schema and does not choose the next step."""
    if isinstance(config, dict) and "repairs" in config and "schema" not in config and not chooses:
        yield f"{verb}/repairs", "'repairs' is allowed only with 'schema', because without one every answer fits; remove it"
