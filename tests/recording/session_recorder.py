"""Records the calls of one session, and derives what is true of each argument from the meaning of values.

The acceptable places of a reference are all earlier results, and the input, that hold a value of the same meaning from which the argument can be derived.
Something that neither occurs there nor is made up by the model is a mistake in the scenario, and raises AssertionError.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.recording.session_spelling import Meant, Text, relation, spelled_instant
from tests.recording.session_truth import INPUT, Constant, GeneratedSession, Invented, Path, RecordedCall, Reference, Span, Target, Truth
from tests.recording.session_values import CITIES, TOPICS, Values

FAILURE = 0.05
"""How often a call fails and is repeated."""

ASIDE = 0.05
"""How often a call has nothing to do with the others."""

CHANCE_KEYS = ("rate_limit_remaining", "api_version", "revision", "sequence", "quota", "build")
"""Keys of numbers in results that have nothing to do with any other."""


class _Place(NamedTuple):
    target: Target
    value: Any
    in_text: bool


class SessionRecorder:
    """Makes one session of the calls of a scenario.

    `said` is what the user gave: the input of the session, or a `request` in words, or nothing that is known. Names of tools and keys, envelopes of results
    and echoes of arguments differ from session to session.
    """

    def __init__(self, values: Values, said: Mapping[str, Any], request: Text) -> None:
        self.values = values
        self._calls: list[RecordedCall] = []
        self._truth: list[tuple[Truth, str]] = []  # with the meaning
        self._places: dict[str, list[_Place]] = {}
        self._hidden: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._camel = values.chance(0.3)
        self._tools = values.one(("snake", "snake", "upper", "camel", "server"))
        self._envelope = values.one(("none", "none", "none", "data", "status", "result"))
        self._echo = values.chance(0.12)
        self._numbers_as_text, self._digits_as_number = values.chance(0.12), values.chance(0.2)
        self._padded, self._capital_emails = values.chance(0.25), values.chance(0.15)
        self._numbers: list[int] = []
        self._structures = 0
        self.input: Any = {}
        mode = values.random.random()
        if mode < 0.15:
            self._hidden = {part.meaning: part.value for part in _meant_in(said)}
        elif mode < 0.27:
            self.input = self._record({"request": _complete(request, said)}, INPUT, ())
        else:
            more = {"locale": "en-GB"} if values.chance(0.2) else {"verbose": False} if values.chance(0.1) else {}
            self.input = self._record({**said, **more}, INPUT, ())

    def call(self, tool: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Record one call, and now and then a failed one before it."""
        if self._calls and self.values.chance(ASIDE):
            self._aside()
        if self.values.chance(FAILURE):
            self._call(tool, arguments, None, failed=True)
        self._call(tool, arguments, result, failed=False)

    def failed_call(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Record a call that fails."""
        self._call(tool, arguments, None, failed=True)

    def session(self) -> GeneratedSession:
        """The session of all calls. What a user said that is not known must be found where the model has used it more than once."""
        failed = {call.name for call in self._calls if call.failed}
        uses: dict[str, int] = {}
        for truth, meaning in self._truth:
            if truth.origin.kind == "parameter" and truth.call not in failed:
                uses[meaning] = uses.get(meaning, 0) + 1
        found = []
        for truth, meaning in self._truth:
            origin = truth.origin
            if isinstance(origin, Reference) and origin.kind == "parameter":
                origin = origin._replace(required=uses.get(meaning, 0) > 1)
            found.append(truth._replace(origin=origin))
        return GeneratedSession(self.input, tuple(self._calls), tuple(found))

    def _call(self, tool: str, arguments: Mapping[str, Any], result: Any, *, failed: bool) -> None:
        step = re.sub(r"\W+", "_", tool)
        self._counts[step] = self._counts.get(step, 0) + 1
        name = f"{step}_{self._counts[step]}"
        literal = self._argument(dict(arguments), name, ()) if arguments else {}
        value = None if failed else self._record(self._wrapped(arguments, result), name, ())
        self._calls.append(RecordedCall(name, self._tool(tool), literal, value, failed))

    def _aside(self) -> None:
        """Record a call that uses nothing of the others: a thought, a look at one's own tasks, or at the weather."""
        values = self.values
        match values.one(("think", "tasks", "weather")):
            case "think":
                self._call("think", {"thought": values.made(f"First I check the data, then I go on with step {values.count(2, 5)}.")}, {}, failed=False)
            case "tasks":
                rows = [
                    {"id": self._chance_number(), "title": f"Check the {values.one(TOPICS)}", "done": False, "due": values.today()}
                    for _ in range(values.count(1, 4))
                ]
                self._call("list_my_tasks", {"limit": 10, "done": False}, {"tasks": rows, "count": len(rows)}, failed=False)
            case _:
                weather = {"city": values.one(CITIES), "temperature": values.count(-5, 35), "humidity": values.count(20, 100), "date": values.today()}
                self._call("get_weather", {"city": values.made(weather["city"]), "units": "metric"}, weather, failed=False)

    def _wrapped(self, arguments: Mapping[str, Any], result: Any) -> Any:
        if self._echo and isinstance(result, dict):
            result = {**result, "query": dict(arguments)}
        if isinstance(result, dict) and self.values.chance(0.1):
            result = {**result, self.values.one(CHANCE_KEYS): self._chance_number()}
        match self._envelope:
            case "data":
                return {"data": result}
            case "status":
                return {"status": "success", "request_id": f"req_{self.values.text_of(12)}", "data": result}
            case "result":
                return {"result": result, "meta": {"took_ms": self.values.count(3, 900), "date": spelled_instant(self.values.now, "day")}}
            case _:
                return result

    def _chance_number(self) -> int:
        """A number that has nothing to do with any other: a usual one, or one that was there before."""
        return self.values.one(self._numbers) if self._numbers and self.values.chance(0.4) else self.values.one((1, 5, 10, 20, 30, 50, 100))

    def _tool(self, tool: str) -> str:
        match self._tools:
            case "upper":
                return tool.upper()
            case "camel":
                return _camel(tool)
            case "server":
                return f"{self.values.style('server', ('api', 'tools', 'mcp', 'backend'))}__{tool}"
            case _:
                return tool

    def _key(self, key: str) -> str:
        return _camel(key) if self._camel else key

    def _record(self, part: Any, step: str, path: Path) -> Any:
        """The literal value of a part of a result or of the input; its places are remembered."""
        match part:
            case Meant():
                self._structures += isinstance(part.value, dict | list)
                value = self._record(part.value, step, path)
                self._structures -= isinstance(part.value, dict | list)
                if step != INPUT and not self._structures:
                    value = self._as_kept(value, path)
                if isinstance(value, int) and not isinstance(value, bool):
                    self._numbers.append(value)
                self._places.setdefault(part.meaning, []).append(_Place(Target(step, path), value, in_text=False))
                return value
            case Text():
                for inner in _meant_in(part):
                    self._places.setdefault(inner.meaning, []).append(_Place(Target(step, path), inner.value, in_text=True))
                if part.meaning:
                    self._places.setdefault(part.meaning, []).append(_Place(Target(step, path), str(part), in_text=False))
                return str(part)
            case dict():
                return {self._key(key): self._record(value, step, (*path, self._key(key))) for key, value in part.items()}
            case list():
                return [self._record(value, step, (*path, index)) for index, value in enumerate(part)]
            case _:
                return part

    def _as_kept(self, value: Any, path: Path) -> Any:
        """A value as some systems keep it: titles with white space around them, e-mail addresses with capitals."""
        key = str(path[-1]) if path else ""
        if self._padded and isinstance(value, str) and key in ("title", "subject", "description") and " " in value.strip() and value == value.strip():
            return self.values.one((f"{value} ", f" {value}", f"{value}\n"))
        if self._capital_emails and isinstance(value, str) and "@" in value and key.lower().endswith("email"):
            return ".".join(word.capitalize() for word in value.split(".")[:-1]) + f".{value.split('.')[-1]}"
        return value

    def _argument(self, part: Any, call: str, path: Path) -> Any:
        """The literal value of a part of the arguments; what is true of it is remembered."""
        match part:
            case Meant():
                return self._meant_argument(part, call, path, None)
            case Text():
                return self._text_argument(part, call, path)
            case dict() if part:
                return {self._key(key): self._argument(value, call, (*path, self._key(key))) for key, value in map(self._as_sent, part.items())}
            case list() if part:
                return [self._argument(value, call, (*path, index)) for index, value in enumerate(part)]
            case _:
                self._truth.append((Truth(call, path, None, Constant()), ""))
                return part

    def _as_sent(self, item: tuple[str, Any]) -> tuple[str, Any]:
        """An argument as some models send it: numbers of things as text, or texts of digits as numbers."""
        key, part = item
        if isinstance(part, Meant) and (key == "id" or key.endswith(("_id", "_number", "_key"))):
            if self._numbers_as_text and isinstance(part.value, int):
                return key, part.text()
            if self._digits_as_number and isinstance(part.value, str) and part.value.isdigit() and part.value[0] != "0":
                return key, part.number()
        return key, part

    def _text_argument(self, text: Text, call: str, path: Path) -> str:
        self._truth.append((Truth(call, path, None, Constant() if text.template else Invented()), ""))
        start = 0
        for part in text.parts:
            if isinstance(part, Meant):
                self._meant_argument(part, call, path, (start, start + len(str(part.value))))
            start += len(part if isinstance(part, str) else str(part.value))
        return str(text)

    def _meant_argument(self, part: Meant, call: str, path: Path, span: Span | None) -> Any:
        value = self._literal(part.value)
        origin = self._reference(part, value)
        if isinstance(origin, Reference) and origin.kind not in ("extracted", "parameter"):
            in_text = "embedded_spelling" if origin.kind in ("date_spelling", "amount_spelling") else "embedded"
            within = in_text if span is not None else "picked" if len(path) > 1 and origin.kind in ("text", "number") else origin.kind
            origin = origin._replace(kind=within, required=not part.optional, parts=self._parts(part, origin))
        if span is None or isinstance(origin, Reference):
            self._truth.append((Truth(call, path, span, origin), part.meaning))
        return value

    def _reference(self, part: Meant, value: Any) -> Reference | Invented:
        """Where a value of this meaning is before this call."""
        related = [(place, kind) for place in self._places.get(part.meaning, ()) if (kind := relation(place.value, value)) is not None]
        whole = [(place, kind) for place, kind in related if not place.in_text and kind != "extracted"]
        unknown = [Target(INPUT, None)] if part.meaning in self._hidden and relation(self._hidden[part.meaning], value) not in (None, "extracted") else []
        if whole:
            kinds = [kind for _, kind in whole]
            closest = next((kind for kind in kinds if kind in ("text", "number", "structure", "common")), kinds[0])
            return Reference(closest, frozenset([*(place.target for place, _ in whole), *unknown]))
        if unknown:
            return Reference("parameter", frozenset(unknown))
        if related or part.meaning in self._hidden:
            targets = {place.target for place, _ in related}
            if not targets or any(target.step == INPUT for target in targets):
                targets.add(Target(INPUT, None))  # a parameter of a name of one's own says that the user gave it, too
            return Reference("extracted", frozenset(targets), required=False)
        assert part.made, f"{part.meaning} = {value!r} occurs in no earlier result"
        return Invented()

    def _parts(self, part: Meant, whole: Reference) -> tuple[tuple[Path, frozenset[Target]], ...]:
        """The acceptable places of each leaf of a structure."""
        if not isinstance(part.value, dict | list):
            return ()
        found = []
        for path, leaf in self._leaves(part.value, ()):
            targets = {Target(step, (*base, *path)) for step, base in whole.acceptable if base is not None}
            if isinstance(leaf, Meant):
                own = self._reference(leaf, leaf.value)
                targets |= own.acceptable if isinstance(own, Reference) and own.required else frozenset()
            found.append((path, frozenset(targets)))
        return tuple(found)

    def _leaves(self, part: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        match part:
            case Meant(value=dict() | list()):
                yield from self._leaves(part.value, path)
            case dict() if part:
                for key, value in part.items():
                    yield from self._leaves(value, (*path, self._key(key)))
            case list() if part:
                for index, value in enumerate(part):
                    yield from self._leaves(value, (*path, index))
            case _:
                yield path, part

    def _literal(self, part: Any) -> Any:
        match part:
            case Meant():
                return self._literal(part.value)
            case Text():
                return str(part)
            case dict():
                return {self._key(key): self._literal(value) for key, value in part.items()}
            case list():
                return [self._literal(value) for value in part]
            case _:
                return part


def _meant_in(part: Any) -> Iterator[Meant]:
    match part:
        case Meant():
            yield part
            yield from _meant_in(part.value)
        case Text():
            for inner in part.parts:
                yield from _meant_in(inner)
        case dict():
            for value in part.values():
                yield from _meant_in(value)
        case list():
            for value in part:
                yield from _meant_in(value)


def _complete(request: Text, said: Mapping[str, Any]) -> Text:
    """The request in words, with all that was said and is not in it behind it."""
    mentioned = {part.meaning for part in _meant_in(request)}
    more: list[str | Meant] = []
    for key, value in said.items():
        for part in _meant_in(value):
            if part.meaning not in mentioned and isinstance(part.value, str | int):
                more += ["; " if more else " (", key.replace("_", " "), ": ", part]
    return Text((*request.parts, *more, ")")) if more else request


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)
