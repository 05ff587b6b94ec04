"""The shapes of the larger verbs of the model, and what is wrong with a step of such a verb beyond the shape of its value."""

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

BUDGET_SHAPE = FieldsShape(
    "budget",
    (
        FormatField("calls", WholeShape(1), "how many times the model is asked; 25 unless it says otherwise"),
        FormatField("tool_calls", WholeShape(1), "how many times it uses tools; ten for each of `calls` unless it says otherwise"),
        FormatField("tokens", WholeShape(1), "how many tokens, read and written"),
        FormatField("cost_usd", NumberShape(0), "how many US dollars"),
        FormatField("wall", DurationShape(), "how long, waiting for people included"),
    ),
)
AGENT_SHAPE = FieldsShape(
    "agent",
    (
        FormatField("prompt", TextShape(template=True), "what is to be done", required=True),
        FormatField("model", TextShape(template=True), "which of the deployment's models"),
        FormatField("system", TextShape(template=True), "what it is told first, and always"),
        FormatField("instructions", TextShape(template=True), "the same"),
        FormatField(
            "tools", ListShape(TextShape(what="the name of a tool")), "the only tools that it may use: the definition's, kinds of steps, and Perdure's own"
        ),
        FormatField("approve", ListShape(TextShape(what="the name of a tool")), "the tools before each use of which a person is asked"),
        FormatField("schema", SchemaShape(), "of its answer; absent: the answer is text"),
        FormatField(
            "context",
            EitherShape((FlagShape(), ListShape(ValueShape()), MapShape(ValueShape())), "true, a list of references, or a mapping of them"),
            "earlier results that it sees",
        ),
        FormatField("budget", BUDGET_SHAPE, "what it may use"),
        FormatField("temperature", NumberShape(0), "how much chance there is in its answers"),
        FormatField("max_tokens", WholeShape(1), "how long each answer may be"),
        FormatField("repairs", WholeShape(0), "how often it may mend an answer that does not fit; once unless it says otherwise"),
    ),
    sugar="prompt",
)
AGENT_MESSAGE = "agent_message"
"""The verb that sends a message to an agent, and the name of these messages."""

AGENT_MESSAGE_SHAPE = FieldsShape(
    AGENT_MESSAGE,
    (
        FormatField("content", ValueShape(), "what is said"),
        FormatField("message", ValueShape(), "the same"),
        FormatField("goal", ValueShape(), "the same"),
        FormatField("interrupt", FlagShape(), "whether what the agent is asking its model is given up for it", default=False),
        FormatField("await_response", FlagShape(), "whether its answer is waited for, and is the result", default=False),
        FormatField("await_timeout_ms", WholeShape(1000), "how many milliseconds it is waited for; 5 minutes unless it says otherwise"),
    ),
    sugar="content",
)


FILE_SHAPE = FieldsShape(
    "file",
    (
        FormatField("read", TextShape(template=True), "the path of a file whose content is the result"),
        FormatField("write", TextShape(template=True), "the path of a file whose place the content takes; directories above it are made"),
        FormatField("append", TextShape(template=True), "the path of a file to whose end the content is added; it is made if there is none"),
        FormatField("list", TextShape(template=True), "the path of a directory whose entries are the result; . is the one that is allowed"),
        FormatField("content", ValueShape(), "what is written; beside `write` and `append`, unless it stands in `with`"),
        FormatField(
            "as",
            ChoiceShape(("text", "json", "csv", "lines", "xml", "base64")),
            "what the content is taken for; absent: as the name ends (.json, .csv, .xml), else text. XML can only be read",
        ),
        FormatField("max_bytes", WholeShape(1), "how long a file may be that is read; up to 16,000,000", default=10_000_000),
    ),
    sugar="read",
    one_of=("read", "write", "append", "list"),
)


HTTP_METHODS = "GET|HEAD|OPTIONS|TRACE|PUT|DELETE|POST|PATCH"
_UPLOADED_FILE = FieldsShape(
    "a file",
    (
        FormatField("content", ValueShape(), "text, or bytes as {base64: …}", required=True),
        FormatField("filename", TextShape(template=True), "what it is called; absent: as the field is"),
        FormatField("type", TextShape(template=True), "its content type; absent: as its name says"),
    ),
    sugar="content",
)
HTTP_SHAPE = FieldsShape(
    "http",
    (
        FormatField("url", TextShape(template=True), "where: http:// or https://, without user and password", required=True),
        FormatField(
            "method",
            TextShape(what=f"a method: {HTTP_METHODS.replace('|', ', ')}", pattern=f"{HTTP_METHODS}|{HTTP_METHODS.lower()}", template=True),
            "GET unless it says otherwise",
        ),
        FormatField("headers", MapShape(ValueShape(secrets=True)), "headers, a list for one that is repeated, null for none; secrets may stand in them"),
        FormatField(
            "query", MapShape(ValueShape()), "what stands behind the ?, besides what stands there already; a list for what is repeated, null for nothing"
        ),
        FormatField("body", ValueShape(), "what is sent: text as it is, bytes as {base64: …}, anything else as JSON"),
        FormatField("json", ValueShape(), "what is sent, as JSON whatever it is"),
        FormatField("form", MapShape(ValueShape()), "the fields of a form that is sent; a list for one that is repeated"),
        FormatField("files", MapShape(_UPLOADED_FILE), "files that are sent, with the fields of `form`, as multipart/form-data"),
        FormatField(
            "as",
            ChoiceShape(("json", "text", "csv", "lines", "xml", "base64")),
            "what the body of the answer is taken for (csv: a list of rows, lines: a list of texts); absent: JSON if its type says so and it is, else text "
            "if it is, else {base64: …}",
        ),
        FormatField(
            "accept",
            EitherShape((ChoiceShape(("any",)), ListShape(WholeShape(400), sugar=True)), "any, or a list of statuses from 400 on"),
            "statuses from 400 on that are results as well, and no errors",
        ),
        FormatField("redirects", WholeShape(), "how many are followed at most; 0: one is the result", default=5),
        FormatField("max_bytes", WholeShape(1), "how long the body of the answer may be, unpacked; up to 16,000,000", default=10_000_000),
        FormatField(
            "idempotency_key", FlagShape(), "whether what changes something is sent under the step's key, by which the receiver knows it again", default=True
        ),
    ),
    sugar="url",
)


LLM_SHAPE = FieldsShape(
    "llm",
    (
        FormatField("model", TextShape(template=True), "which, by its name in the deployment, or vendor:model; absent: that called default"),
        FormatField("prompt", ValueShape(), "what is asked; what stands in `with` follows it"),
        FormatField("system", ValueShape(), "what the model is told before"),
        FormatField("messages", ValueShape(), "what was said before the prompt: a list of {role: user or assistant, text}"),
        FormatField("schema", SchemaShape(), "of the answer, which then is data; what does not fit is asked for again"),
        FormatField("temperature", EitherShape((NumberShape(0), ValueShape()), "a number from 0, or a reference"), "how freely it answers"),
        FormatField("max_tokens", EitherShape((WholeShape(1), ValueShape()), "a whole number from 1, or a reference"), "how long the answer may be"),
        FormatField("repairs", WholeShape(), "how often an answer that does not fit is asked for again", default=1),
    ),
    sugar="prompt",
)


COMMAND_SHAPE = TextShape(what="a command")
_COMMANDED = FieldsShape(
    "bash",
    (
        FormatField("command", COMMAND_SHAPE, "what bash does", required=True),
        FormatField("cwd", TextShape(template=True), "where, in the working directory of the execution, or from the root", default="."),
        FormatField("check", FlagShape(), "whether an exit code other than 0 fails the step; false gives it as data", default=True),
        FormatField("stdin", ValueShape(), "what it reads: text as it is, all else in JSON"),
        FormatField(
            "isolate",
            ChoiceShape((True, False, "none", "network", "all")),
            "from what it is kept: the network, or all but its working directory",
            default="none",
        ),
    ),
)
BASH_SHAPE = EitherShape((COMMAND_SHAPE, _COMMANDED), "a command, or a mapping with one")


def llm_problems(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with a request to a model beyond its shape."""
    yield from _needless_repairs("llm", step["llm"], False)


def agent_problems(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with an agent beyond its shape."""
    yield from _needless_repairs("agent", step["agent"], isinstance(step.get("next"), dict))


def agent_message_problems(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with a message to an agent beyond its shape."""
    if "timeout" not in step or not isinstance(message := step["agent_message"], dict | str):
        return
    config = message if isinstance(message, dict) else {}
    if config.get("await_response") is not True or "await_timeout_ms" in config:
        yield "timeout", "'timeout' is how long an answer is waited for: it takes 'await_response: true', and no 'await_timeout_ms'"


def _needless_repairs(verb: str, config: Any, chooses: bool) -> Iterator[tuple[str, str]]:
    """The finding of `repairs` where every answer fits: the step has no schema and does not choose the next step."""
    if isinstance(config, dict) and "repairs" in config and "schema" not in config and not chooses:
        yield f"{verb}/repairs", "'repairs' stands only beside 'schema': without one, every answer fits"
