"""Scripts: what a fake provider is told to answer. A list of rules in YAML or JSON, of which the first that fits and is not used up answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.core.errors import BadValue
from perdure.fake_llm.seen import Seen
from perdure.programs.code.durations import seconds
from perdure.programs.format.parse import parsed

Mishap = Literal["rate_limit", "overloaded", "server", "context_length", "auth", "forbidden", "not_found", "quota"]
Protocol = Literal["openai", "openai-chat", "anthropic"]

Script = tuple["Rule", ...]


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which requests a rule answers: all that is said must hold. `contains` and `matches` (a regular expression) are about what was said since the last
    answer, `tool_result` about the results of tools in it, `system` about the system's words; `turn` is the number of the answer, from 1."""

    contains: str = ""
    matches: str = ""
    system: str = ""
    tool_result: str = ""
    model: str = ""
    turn: int = 0
    protocol: Protocol | None = None

    def holds(self, seen: Seen) -> bool:
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


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that the model asks for. Without an `id` it is given one. Arguments that are text are sent as they stand, JSON or not."""

    name: str
    args: dict[str, Any] | str = {}
    id: str = ""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer: `text`, `json` (data, by whichever way the request asks for it), tools that are asked for, a refusal. `finish` if it is not as usual."""

    text: str = ""
    json: Any = msgspec.UNSET
    calls: tuple[Asked, ...] = ()
    refusal: str = ""
    finish: Literal["stop", "length", "filter"] | None = None


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error: a `kind` that the vendor has, or a `status`. `body` is sent as it stands, JSON or not, with any status, 200 too."""

    kind: Mishap | None = None
    status: int = 0
    message: str = ""
    retry_after: float | None = None
    body: str | None = None


class Used(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens that are reported: `input` has those of the cache in it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is answered to which requests: `times` often, or again and again with `repeat`, after `delay`."""

    when: When = When()
    answer: Reply | str | None = None
    error: Error | Mishap | int | None = None
    usage: Used | None = None
    times: int = 1
    repeat: bool = False
    delay: float | str = 0

    @property
    def delay_s(self) -> float:
        """How long it takes."""
        return seconds(self.delay, "delay")

    @property
    def reply(self) -> Reply:
        """The answer."""
        return Reply(text=self.answer) if isinstance(self.answer, str) else self.answer or Reply()

    @property
    def mishap(self) -> Error | None:
        """The error in place of an answer."""
        match self.error:
            case int(status):
                return Error(status=status)
            case str(kind):
                return Error(kind=kind)
        return self.error


def script(given: Sequence[Any] | Mapping[str, Any]) -> Script:
    """The script that plain data is: a list of rules, or a mapping with them under `rules`.

    Raises:
        BadValue: it is none; with which rule, and what is wrong with it.
    """
    rules = given.get("rules") if isinstance(given, Mapping) else given
    if not isinstance(rules, list | tuple):
        raise BadValue("script", given, "a list of rules, or {rules: […]}")
    return tuple(_rule(rule, number) for number, rule in enumerate(rules, 1))


def _rule(given: Any, number: int) -> Rule:
    if isinstance(given, Rule):
        return given
    try:
        rule = msgspec.convert(given, Rule)
        _ = re.compile(rule.when.matches), rule.delay_s
    except (msgspec.ValidationError, re.error, BadValue) as error:
        raise BadValue(f"rule {number} of the script", given, f"one: {error}") from None
    if (rule.answer is None) == (rule.error is None):
        raise BadValue(f"rule {number} of the script", given, "one with an answer or an error, and not both")
    return rule


def load(file: str | Path) -> Script:
    """The script in a file, YAML or JSON.

    Raises:
        BadValue: it is none; with what is wrong.
        OSError: it can't be read.
    """
    path = Path(file)
    read = parsed(path.read_bytes())
    for finding in read.findings:
        raise BadValue(str(path), path.name, f"YAML or JSON: {finding}")
    return script(read.document)
