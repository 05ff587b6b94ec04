"""Sessions that were recorded with references, as they would have been recorded with literal arguments.

Where a model wrote "@get_user_1.id", or a text with such references in it, the copy has the value, and the truth has the reference.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.recording.session_spelling import same
from tests.recording.session_truth import INPUT, Constant, GeneratedSession, Invented, Path, RecordedCall, Reference, Target, Truth, at, children, leaves

REFERENCE = re.compile(r"(?<![\w@.])@([A-Za-z_]\w*)((?:\.\w+|\[\d+\])*)")
_KEY = re.compile(r"\.(\w+)|\[(\d+)\]")


class ReferencedSession(NamedTuple):
    """A session whose arguments have references as text."""

    input: Mapping[str, Any]
    calls: tuple[RecordedCall, ...]


def literal_copies(recorded: Iterable[ReferencedSession]) -> list[GeneratedSession]:
    """Copies of sessions with the values of their references in place of them.

    What has no reference counts as a constant if it is a number or a single word, and as invented else. Acceptable are the place that the reference names and
    the earlier places with the same value that have the same last key, or whose value is distinctive: text of eight characters or more with a digit or an @,
    or a number of four digits or more. An @ before anything but the name of a step, or "input", is text.

    Raises:
        LookupError: a reference names a step that is not earlier or has no result, or a place that is not in its result.
    """
    return [_literal_copy(session) for session in recorded]


def _literal_copy(session: ReferencedSession) -> GeneratedSession:
    results: dict[str, Any] = {INPUT: session.input}
    calls, truth = [], list[Truth]()
    names = frozenset([INPUT, *(call.name for call in session.calls)])
    for call in session.calls:
        copier = _Copier(call.name, names, dict(results), truth)
        calls.append(call._replace(arguments=copier.copy(call.arguments, ())))
        if not call.failed:
            results[call.name] = call.result
    return GeneratedSession(session.input, tuple(calls), tuple(truth))


class _Copier(NamedTuple):
    call: str
    names: frozenset[str]
    results: Mapping[str, Any]
    truth: list[Truth]

    def copy(self, value: Any, path: Path) -> Any:
        match value:
            case dict() if value:
                return {key: self.copy(part, (*path, key)) for key, part in value.items()}
            case list() if value:
                return [self.copy(part, (*path, index)) for index, part in enumerate(value)]
            case str() if (found := REFERENCE.fullmatch(value)) and found[1] in self.names:
                target, resolved = self._resolved(found)
                kind = "structure" if isinstance(resolved, dict | list) else "number" if isinstance(resolved, int | float) else "text"
                self.truth.append(Truth(self.call, path, None, self._reference(kind, target, resolved)))
                return resolved
            case str() if any(found[1] in self.names for found in REFERENCE.finditer(value)):
                return self._text(value, path)
            case _:
                single = not isinstance(value, str) or " " not in value
                self.truth.append(Truth(self.call, path, None, Constant() if single else Invented()))
                return value

    def _text(self, text: str, path: Path) -> str:
        self.truth.append(Truth(self.call, path, None, Invented()))
        copied, end = "", 0
        for found in [one for one in REFERENCE.finditer(text) if one[1] in self.names]:
            target, resolved = self._resolved(found)
            copied += text[end : found.start()]
            start, end = len(copied), found.end()
            copied += str(resolved)
            self.truth.append(Truth(self.call, path, (start, len(copied)), self._reference("embedded", target, resolved)))
        return copied + text[end:]

    def _resolved(self, found: re.Match[str]) -> tuple[Target, Any]:
        keys = tuple(key or int(index) for key, index in _KEY.findall(found[2]))
        if found[1] not in self.results:
            raise LookupError(f"{self.call} refers to {found[0]}, which is not earlier or has no result")
        return Target(found[1], keys), at(self.results[found[1]], keys)

    def _reference(self, kind: str, target: Target, value: Any) -> Reference:
        acceptable = frozenset([target, *self._equals(target, value)])
        parts = []
        for path, leaf in leaves(value) if isinstance(value, dict | list) else ():
            inner = [Target(one.step, (*one.path, *path)) for one in acceptable if one.path is not None]
            parts.append((path, frozenset([*inner, *self._equals(inner[0], leaf)])))
        return Reference(kind, acceptable, parts=tuple(parts))

    def _equals(self, target: Target, value: Any) -> Iterator[Target]:
        for step, result in self.results.items():
            for path, part in _all_parts(result, ()):
                alike = bool(path) and bool(target.path) and path[-1] == (target.path or ())[-1] and isinstance(path[-1], str)
                if same(part, value) and (alike or _is_distinctive(value)):
                    yield Target(step, path)


def _all_parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    for key, part in children(value):
        yield from _all_parts(part, (*path, key))


def _is_distinctive(value: Any) -> bool:
    match value:
        case bool() | None:
            return False
        case int() | float():
            return abs(value) >= 1000
        case str():
            return len(value) >= 8 and any(letter.isdigit() or letter == "@" for letter in value)
        case _:
            return bool(value)


def with_references(session: GeneratedSession) -> ReferencedSession:
    """A session as it would have been recorded if the model had written each reference that needs no other spelling.

    A part of a text is left literal where the characters around it would be read as parts of the reference.
    """
    results = {INPUT: session.input, **{call.name: call.result for call in session.calls}}
    calls = []
    for call in session.calls:
        truths = {truth.path: truth for truth in session.truth if truth.call == call.name and truth.span is None}
        spans = [truth for truth in session.truth if truth.call == call.name and truth.span is not None]
        calls.append(call._replace(arguments=_referenced(call.arguments, (), truths, spans, results)))
    return ReferencedSession(session.input, tuple(calls))


def _referenced(value: Any, path: Path, truths: Mapping[Path, Truth], spans: list[Truth], results: Mapping[str, Any]) -> Any:
    truth = truths.get(path)
    if truth is not None and (name := _name_of(truth, value, results)):
        return name
    if isinstance(value, str):
        for part in sorted((one for one in spans if one.path == path), key=lambda one: one.span or (0, 0), reverse=True):
            start, end = part.span or (0, 0)
            is_alone = not re.match(r"\w|\.\w|\[\d", value[end:]) and not re.search(r"[\w@.]$", value[:start])
            if is_alone and (name := _name_of(part, value[start:end], results)):
                value = value[:start] + name + value[end:]
        return value
    if isinstance(value, dict):
        return {key: _referenced(part, (*path, key), truths, spans, results) for key, part in value.items()}
    if isinstance(value, list):
        return [_referenced(part, (*path, index), truths, spans, results) for index, part in enumerate(value)]
    return value


def _name_of(truth: Truth, value: Any, results: Mapping[str, Any]) -> str:
    """The text of a reference of the truth that gives `value` as it is; "" if there is none."""
    for target in sorted(truth.origin.acceptable, key=repr) if isinstance(truth.origin, Reference) else ():
        if target.path is not None:
            source = at(results[target.step], target.path)
            if same(source, value) or (truth.span is not None and not isinstance(source, dict | list) and str(source) == value):
                return f"@{target.step}" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in target.path)
    return ""
