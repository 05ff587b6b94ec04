"""References such as ``@step.items[0].id``: their grammar, and reading them from a scope.

The grammar, without blanks::

    reference  "@" name segment* "?"?
        name       a root (``input``, ``item`` …) or the id of a step; a letter or _, then letters, digits, _ and -
    segment    "." name or digits | "[" digits "]" | "[" a quoted key "]"

The name of a step alone is its data; ``@steps.NAME.output`` is its envelope. A ``?`` at the end reads a missing value as null. Digits are an index into a list,
from 0, or a key of a mapping; negative indexes count from the end.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from perdure.core.errors import BadExpression
from perdure.definitions.expr import secret_marks
from perdure.definitions.expr.plain_values import MissingValueError, RootUnavailableError, shortened, value_kind

ROOTS = frozenset("input vars secrets execution trigger item index loop last self error steps".split())  # noqa: SIM905  # readable on one line
TEXT_CHARACTERS_MAX = 64 * 1024
"""The longest text with references."""

EXPRESSION_CHARACTERS_MAX = 8 * 1024
"""The longest expression of CEL or JSONPath, which takes at most 0.1 s to parse."""

SEGMENTS_MAX = 64

_NAME = re.compile(r"[^\W\d][\w-]*")
_SEGMENT = re.compile(
    r"""\.(?P<name>\w[\w-]*) | \[(?P<place>-?[0-9]+)\] | \[(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)')\]""", re.VERBOSE | re.DOTALL
)
_PLACE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})", re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

ValuePath = tuple[str | int, ...]


class ExpressionRead(NamedTuple):
    """One read of an expression: `root` is "step" for the data of a step, "steps" for its envelope, else the name of a root; `where` points to the text."""

    root: str
    step: str
    path: ValuePath
    where: str


class ExpressionScope(Protocol):
    """The values that expressions read. All are plain data and never modified."""

    def root(self, name: str) -> Any:
        """Returns the value of a root, or of the name that an `each` gives to its items; KeyError if it is not in scope."""

    def step(self, id: str) -> Any:
        """Returns the data of a step; None if it was skipped; KeyError if it has no result yet."""

    def envelope(self, id: str) -> Any:
        """Returns ``{"type", "data", "meta", "port"}`` of a step; KeyError as above."""


class Reference(NamedTuple):
    """A parsed reference. `optional`: a missing value is null. `written` is its source text, without the @."""

    root: str
    step: str
    path: ValuePath
    optional: bool
    written: str

    def read(self, where: str) -> ExpressionRead:
        """Returns the read of this reference."""
        return ExpressionRead(self.root, self.step, self.path, where)


def parse_reference(text: str, where: str = "") -> Reference:
    """Parses a text that is one reference, with its @.

    Raises:
        BadExpression: the text is not a reference.
    """
    ref, end = scan_reference(text, 1, where)
    if end != len(text):
        raise BadExpression(where, *_behind(text, 0, end))
    return ref


def scan_reference(text: str, start: int, where: str = "") -> tuple[Reference, int]:
    """Parses the longest reference that begins at `start`, after its @; returns it and the position after it.

    Raises:
        BadExpression: there is no reference.
    """
    if (name := _NAME.match(text, start)) is None:
        found = f"{shortened(text)!r} is not a reference: a name must follow the @ (character {start + 1})"
        raise BadExpression(where, found, "write @step.field, or @@ for a literal @", start + 1)
    path: list[str | int] = []
    end = name.end()
    while (segment := _SEGMENT.match(text, end)) is not None:
        end = segment.end()
        path.append(_key(segment))
        if len(path) > SEGMENTS_MAX:
            raise BadExpression(where, f"the reference {shortened(text)!r} goes more than {SEGMENTS_MAX} levels deep", "extract the value in a step", end)
    written = text[start:end]
    optional = text.startswith("?", end)
    return _ref(name[0], tuple(path), optional, written, where), end + optional


def _key(segment: re.Match[str]) -> str | int:
    quoted = segment["double"] if segment["double"] is not None else segment["single"]
    if quoted is not None:
        return _ESCAPE.sub(r"\1", quoted)
    bare = segment["name"] or segment["place"]
    return int(bare) if _PLACE.fullmatch(bare) else str(bare)


def _ref(name: str, path: ValuePath, optional: bool, written: str, where: str) -> Reference:
    if name == "steps":
        if len(path) < 2 or path[1] != "output":
            hint = "write @steps.NAME.output.meta, or @NAME for the data of a step alone"
            raise BadExpression(where, f"@{shortened(written)} names no step", hint)
        return Reference("steps", str(path[0]), path[2:], optional, written)
    if name == "secrets" and (len(path) != 1 or type(path[0]) is not str or optional):
        raise BadExpression(where, f"@{shortened(written)} does not name a secret", "write @secrets.NAME, without a path")
    return Reference(name, "", path, optional, written) if name in ROOTS else Reference("step", name, path, optional, written)


def _behind(text: str, start: int, end: int) -> tuple[str, str, int]:
    """Describes the error of text after the end of a reference."""
    rest, at = text[end:], end + 1
    found = f"{shortened(text[start:])!r} is not a reference from character {at} on"
    if text[end - 1] == "?":
        return found, "write a single ? at the very end", at
    if rest[0] == ".":
        return found, "write a name or a number after the dot", at
    if rest[0] == "[":
        return found, 'write [0], or ["a key"]', at
    return found, f"inside text write @{{{shortened(text[start + 1 : end], 30)}}}; for a literal @ write @@", at


def reference_getter(ref: Reference) -> Callable[[ExpressionScope], Any]:
    """Returns the function that reads a reference from a scope. A missing value raises `MissingValueError`, or is None if the reference is optional."""
    find = _GETTERS.get(ref.root, _root_getter)(ref)
    if not ref.optional:
        return find

    def or_null(scope: ExpressionScope) -> Any:
        try:
            return find(scope)
        except MissingValueError:
            return None

    return or_null


def _step_getter(ref: Reference) -> Callable[[ExpressionScope], Any]:
    name, path, written = ref.step, ref.path, ref.written

    def find(scope: ExpressionScope) -> Any:
        try:
            value = scope.step(name)
        except KeyError:
            value = _root_value(scope, name)
        if value is None and path and was_skipped(scope, name):
            return None
        return follow_path(value, path, written)

    return find


def _envelope_getter(ref: Reference) -> Callable[[ExpressionScope], Any]:
    name, path, written = ref.step, ref.path, ref.written

    def find(scope: ExpressionScope) -> Any:
        try:
            value = scope.envelope(name)
        except KeyError:
            raise MissingValueError(
                f"@{shortened(written)}: the step {shortened(name)!r} has no result here", "write ? at its end to read null, or let this step need that one"
            ) from None
        try:
            return follow_path(value, path, written)
        except MissingValueError:
            if was_skipped(scope, name):
                return None
            raise

    return find


def _root_getter(ref: Reference) -> Callable[[ExpressionScope], Any]:
    name, path, written = ref.root, ref.path, ref.written

    def find(scope: ExpressionScope) -> Any:
        try:
            value = scope.root(name)
        except KeyError:
            raise RootUnavailableError(f"@{shortened(written)}: there is no @{name} here", _MEANT.get(name, "write ? at its end to read null")) from None
        return follow_path(value, path, written)

    return find


def _secret_getter(ref: Reference) -> Callable[[ExpressionScope], Any]:
    name = str(ref.path[0])
    return lambda scope: secret_marks.secret_mark(name)


_GETTERS: dict[str, Callable[[Reference], Callable[[ExpressionScope], Any]]] = {"step": _step_getter, "steps": _envelope_getter, "secrets": _secret_getter}
_MEANT = {
    "item": "use @item only inside of each",
    "index": "use @index only inside of each or repeat",
    "loop": "use @loop only inside of each with a batch, or in a loop",
    "error": "use @error only in the steps of on_error",
    "self": "use @self only in what is evaluated after its step: repeat, undo, next",
}


def _root_value(scope: ExpressionScope, name: str) -> Any:
    try:
        return scope.root(name)
    except KeyError:
        raise MissingValueError(f"@{shortened(name)} has no result here", "write ? at its end to read null, or let this step need that one") from None


def was_skipped(scope: ExpressionScope, name: str) -> bool:
    """Returns whether a step was skipped."""
    try:
        envelope = scope.envelope(name)
    except KeyError:
        return False
    return envelope is None or (type(envelope) is dict and envelope.get("port") == "skipped")


def follow_path(value: Any, path: ValuePath, written: str) -> Any:
    """Follows a path into a value.

    Raises:
        MissingValueError: there is no such value. The message quotes `written`, and says which part of the path is missing.
    """
    for depth, key in enumerate(path):
        if type(value) is dict:
            if key in value:
                value = value[key]
                continue
            if type(key) is int and str(key) in value:
                value = value[str(key)]
                continue
        elif type(value) is list and type(key) is int and -len(value) <= key < len(value):
            value = value[key]
            continue
        raise MissingValueError(*_lost(value, path, depth, written))
    return value


def _lost(value: Any, path: ValuePath, depth: int, written: str) -> tuple[str, str]:
    key = path[depth]
    here = f"{key!r} of the path" if depth else repr(key)
    match value:
        case dict() if value:
            held = ", ".join(str(name)[:20] for name, _ in zip(value, range(5), strict=False))
            found = f"there is no {shortened(here)} among {shortened(held, 80)}{'…' if len(value) > 5 else ''}"
        case list():
            found = f"there is no {shortened(here)} in a list of {len(value)}"
        case _:
            found = f"there is no {shortened(here)} in {'an empty mapping' if value == {} else value_kind(value)}"
    return f"@{shortened(written)}: {found}", "write ? at its end to read null where it may be missing"


OUTPUT_FIELD = "output"
RequestedSteps = dict[str, tuple[bool, bool]]
"""By the id of a step: whether its data is read, and whether its envelope is."""


def steps_of_paths(paths: Iterable[ValuePath], written: str, where: str) -> RequestedSteps:
    """Returns the steps with which paths from @steps begin.

    Raises:
        BadExpression: a path does not begin with a name.
    """
    found: RequestedSteps = {}
    for path in paths:
        if not path or type(path[0]) is not str:
            raise BadExpression(where, f"{shortened(written)!r} reads all steps at once", "name a step: @steps.NAME")
        data, envelope = found.get(path[0], (False, False))
        found[path[0]] = (data or path[1:2] != (OUTPUT_FIELD,), envelope or path[1:2] == (OUTPUT_FIELD,))
    return found


def read_of_path(path: ValuePath, where: str) -> ExpressionRead:
    """Returns the read of a path from @steps."""
    rest = path[1:]
    return ExpressionRead("steps", str(path[0]), rest[1:], where) if rest[:1] == (OUTPUT_FIELD,) else ExpressionRead("step", str(path[0]), rest, where)


def step_values(scope: ExpressionScope, steps: RequestedSteps) -> dict[str, Any]:
    """Returns the values of the steps that have a result. Where both parts of a step are read, its data, a mapping, holds the envelope as ``output``."""
    found: dict[str, Any] = {}
    for name, (data, envelope) in steps.items():
        try:
            value = scope.step(name) if data else {}
            if envelope:
                value = {**(value if type(value) is dict else {}), OUTPUT_FIELD: scope.envelope(name)}
        except KeyError:
            continue
        found[name] = value
    return found
