"""What is seen of a request: the conversation as every protocol means it, and the refusal of what none would take."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec


class Turn(NamedTuple):
    """One message: who says it, its text, the tools that it asks for by their ids, and whose result it is."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    asks: tuple[str, ...] = ()
    answers: str = ""


class Seen(NamedTuple):
    """A request. `answer_tool` is the tool by which data has to be answered; `has_schema`, whether the text of the answer has to be data."""

    protocol: str
    model: str
    turns: tuple[Turn, ...]
    tools: tuple[str, ...] = ()
    answer_tool: str = ""
    has_schema: bool = False

    @property
    def number(self) -> int:
        """Which answer of the conversation is asked for, from 1 on."""
        return 1 + sum(turn.role == "assistant" for turn in self.turns)

    @property
    def system(self) -> str:
        """What the system says."""
        return "\n".join(turn.text for turn in self.turns if turn.role == "system")

    @property
    def prompt(self) -> str:
        """What was said since the last answer."""
        return "\n".join(turn.text for turn in self._latest() if turn.role == "user")

    @property
    def results(self) -> str:
        """The results of tools since the last answer."""
        return "\n".join(turn.text for turn in self._latest() if turn.role == "tool")

    def _latest(self) -> tuple[Turn, ...]:
        last = max((number for number, turn in enumerate(self.turns) if turn.role == "assistant"), default=-1)
        return self.turns[last + 1 :]


class Refused(Exception):
    """A request that the vendor would refuse: with this HTTP status, and in its words for such an error."""

    def __init__(self, status: int, message: str, kind: str = "invalid") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def want(found: Any, kind: type, where: str) -> Any:
    """What stands there, if it is of this kind.

    Raises:
        Refused: it is not.
    """
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise Refused(400, f"{where}: expected {_NAMES[kind]}, found {msgspec.json.encode(found).decode()[:60]}")
    return found


_NAMES = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


def whole(turns: list[Turn]) -> tuple[Turn, ...]:
    """A conversation in which every result of a tool answers what was asked for before, and everything asked for is answered.

    Raises:
        Refused: it is not so.
    """
    open_ids = set[str]()
    for turn in turns:
        if turn.role == "tool":
            if turn.answers not in open_ids:
                raise Refused(400, f"the result of a tool is for {turn.answers!r}, which the message before did not ask for")
            open_ids.discard(turn.answers)
            continue
        if open_ids and turn.role in ("user", "assistant") and not (turn.role == "assistant" and turn.asks):
            raise Refused(400, f"these calls of tools have no result: {', '.join(sorted(open_ids))}")
        open_ids |= set(turn.asks)
    if open_ids:
        raise Refused(400, f"these calls of tools have no result: {', '.join(sorted(open_ids))}")
    if not any(turn.role != "system" for turn in turns):
        raise Refused(400, "messages: at least one message is required")
    return tuple(turns)


def text_of(content: Any, where: str) -> str:
    """The text of a message, which may be a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = want(content, list, where)
    return "".join(str(want(part, dict, where).get("text", part.get("refusal", ""))) for part in parts)
