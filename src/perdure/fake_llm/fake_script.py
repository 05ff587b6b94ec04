"""Scripts of a fake provider, and the common form of the requests that they answer.

A script is a list of rules in YAML or JSON; the first rule that matches and is not used up answers. A conversation that no real provider would accept is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core.errors import BadValue
from perdure.definitions.format.document_parser import parse_document


class RequestTurn(NamedTuple):
    """One message: its role and text, the tool calls in it by id, the call whose result it is, and what was thought before it."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    asks: tuple[str, ...] = ()
    answers: str = ""
    thinking: str = ""


class FakeRequest(NamedTuple):
    """A request. `answer_tool` is the tool that must carry data; `has_schema` says whether the text of the answer must be data."""

    protocol: str
    model: str
    turns: tuple[RequestTurn, ...]
    tools: tuple[str, ...] = ()
    answer_tool: str = ""
    has_schema: bool = False

    @property
    def number(self) -> int:
        """The number of the requested answer in the conversation, from 1 on."""
        return 1 + sum(turn.role == "assistant" for turn in self.turns)

    @property
    def system(self) -> str:
        """The text of the system prompt."""
        return "\n".join(turn.text for turn in self.turns if turn.role == "system")

    @property
    def prompt(self) -> str:
        """The messages since the last answer."""
        return "\n".join(turn.text for turn in self._latest() if turn.role == "user")

    @property
    def results(self) -> str:
        """The results of tools since the last answer."""
        return "\n".join(turn.text for turn in self._latest() if turn.role == "tool")

    def _latest(self) -> tuple[RequestTurn, ...]:
        last = max((number for number, turn in enumerate(self.turns) if turn.role == "assistant"), default=-1)
        return self.turns[last + 1 :]


class RequestRejected(Exception):
    """A request that the vendor would refuse: with this HTTP status, and in its words for such an error."""

    def __init__(self, status: int, message: str, kind: str = "invalid") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def expect(found: Any, kind: type, where: str) -> Any:
    """The value if it has this type.

    Raises:
        Refused: it has another.
    """
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise RequestRejected(400, f"{where}: expected {_NAMES[kind]}, found {msgspec.json.encode(found).decode()[:60]}")
    return found


_NAMES = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


def checked_conversation(turns: list[RequestTurn]) -> tuple[RequestTurn, ...]:
    """Checks that every tool result answers an earlier call, and that every call is answered.

    Raises:
        Refused: that is not so.
    """
    open_ids = set[str]()
    for turn in turns:
        if turn.role == "tool":
            if turn.answers not in open_ids:
                raise RequestRejected(400, f"the result of a tool is for {turn.answers!r}, which the message before did not ask for")
            open_ids.discard(turn.answers)
            continue
        if open_ids and turn.role in ("user", "assistant") and not (turn.role == "assistant" and turn.asks):
            raise RequestRejected(400, f"these calls of tools have no result: {', '.join(sorted(open_ids))}")
        open_ids |= set(turn.asks)
    if open_ids:
        raise RequestRejected(400, f"these calls of tools have no result: {', '.join(sorted(open_ids))}")
    if not any(turn.role != "system" for turn in turns):
        raise RequestRejected(400, "messages: at least one message is required")
    return tuple(turns)


PIECES_MAX = 200


def text_pieces(text: str) -> list[str]:
    """A text in the pieces in which it is streamed: its words, or more in each piece if there are very many."""
    words = re.findall(r"\S+\s*|^\s+", text)
    size = -(-len(words) // PIECES_MAX) or 1
    return ["".join(words[begin : begin + size]) for begin in range(0, len(words), size)]


def signature_of(thinking: str) -> str:
    """The signature of what was thought."""
    return f"signed-{sha256(thinking.encode()).hexdigest()[:24]}"


def checked_thinking(thinking: str, signature: Any, where: str) -> str:
    """What was thought, if it comes back as it was sent.

    Raises:
        RequestRejected: it does not.
    """
    if signature != signature_of(thinking):
        raise RequestRejected(400, f"{where}: Invalid `signature` in `thinking` block")
    return thinking


def text_of(content: Any, where: str) -> str:
    """The text of a message, which may be a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = expect(content, list, where)
    return "".join(str(expect(part, dict, where).get("text", part.get("refusal", ""))) for part in parts)


Mishap = Literal["rate_limit", "overloaded", "server", "context_length", "auth", "forbidden", "not_found", "quota"]
Protocol = Literal["openai", "openai-chat", "anthropic"]

Script = tuple["ScriptRule", ...]


class RequestPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The condition of a rule; all of its parts must hold. `contains` and `matches` (a regular expression) apply to the messages since the last answer,
    `tool_result` to the tool results among them, `system` to the system prompt; `turn` is the number of the answer, from 1.
    """

    contains: str = ""
    matches: str = ""
    system: str = ""
    tool_result: str = ""
    model: str = ""
    turn: int = 0
    protocol: Protocol | None = None

    def holds(self, seen: FakeRequest) -> bool:
        """Whether a request is one of these."""
        return (
            self.contains in seen.prompt
            and re.search(self.matches, seen.prompt) is not None
            and self.system in seen.system
            and self.tool_result in seen.results
            and self.model in ("", seen.model)
            and self.turn in (0, seen.number)
            and self.protocol in (None, seen.protocol)
        )


class ScriptedToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of the model. Without an `id` it gets one. Arguments that are text are sent unchanged, JSON or not."""

    name: str
    args: dict[str, Any] | str = {}
    id: str = ""


class ScriptedReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer: `text`, `json` (data, in the way that the request asks for), tool calls, or a refusal, after some `thinking`, which is signed and has to come
    back unchanged. `finish` overrides the usual reason.
    """

    text: str = ""
    thinking: str = ""
    json: Any = msgspec.UNSET
    calls: tuple[ScriptedToolCall, ...] = ()
    refusal: str = ""
    finish: Literal["stop", "length", "filter"] | None = None


class ScriptedError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error: a `kind` of the vendor, or a `status`. `body` is sent unchanged, JSON or not, with any status, even 200. `retry_after` is in seconds, or a text
    that is sent unchanged, such as a date.
    """

    kind: Mishap | None = None
    status: int = 0
    message: str = ""
    retry_after: float | str | None = None
    body: str | None = None


class ScriptedUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens that are reported: `input` has those of the cache in it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class ScriptRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule: a pattern and its answer, used `times` times, or always with `repeat`, after `delay`. Of an answer that is streamed, a piece comes every
    `pace`.
    """

    when: RequestPattern = RequestPattern()
    answer: ScriptedReply | str | None = None
    error: ScriptedError | Mishap | int | None = None
    usage: ScriptedUsage | None = None
    times: int = 1
    repeat: bool = False
    delay: float | str = 0
    pace: float | str = 0

    @property
    def delay_s(self) -> float:
        """The delay of the answer, in seconds."""
        return duration_seconds(self.delay, "delay")

    @property
    def pace_s(self) -> float:
        """The time between two pieces, in seconds."""
        return duration_seconds(self.pace, "pace")

    @property
    def reply(self) -> ScriptedReply:
        """The answer, with plain text in its long form."""
        return ScriptedReply(text=self.answer) if isinstance(self.answer, str) else self.answer or ScriptedReply()

    @property
    def mishap(self) -> ScriptedError | None:
        """The error in place of an answer, in its long form."""
        match self.error:
            case int(status):
                return ScriptedError(status=status)
            case str(kind):
                return ScriptedError(kind=kind)
        return self.error


def parse_script(given: Sequence[Any] | Mapping[str, Any]) -> Script:
    """Parses a script: a list of rules, or a mapping with them under `rules`.

    Raises:
        BadValue: it is invalid; the error names the rule and the problem.
    """
    rules = given.get("rules") if isinstance(given, Mapping) else given
    if not isinstance(rules, list | tuple):
        raise BadValue("script", given, "a list of rules, or {rules: […]}")
    return tuple(_rule(rule, number) for number, rule in enumerate(rules, 1))


def _rule(given: Any, number: int) -> ScriptRule:
    if isinstance(given, ScriptRule):
        return given
    try:
        rule = msgspec.convert(given, ScriptRule)
        _ = re.compile(rule.when.matches), rule.delay_s, rule.pace_s
    except (msgspec.ValidationError, re.error, BadValue) as error:
        raise BadValue(f"rule {number} of the script", given, f"one: {error}") from None
    if (rule.answer is None) == (rule.error is None):
        raise BadValue(f"rule {number} of the script", given, "one with an answer or an error, and not both")
    return rule


def load(file: str | Path) -> Script:
    """Loads a script from a YAML or JSON file.

    Raises:
        BadValue: it is invalid.
        OSError: it can't be read.
    """
    path = Path(file)
    read = parse_document(path.read_bytes())
    for finding in read.findings:
        raise BadValue(str(path), path.name, f"YAML or JSON: {finding}")
    return parse_script(read.document)
