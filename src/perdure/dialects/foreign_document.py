"""Tools for the readers and writers of dialects: fields, findings, step ids, operators of conditions, and verified writing.

A reader never raises: what it can not read becomes a finding, and the definition is made of the rest. A writer's document is read again, and returned only if
that yields the same definition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from perdure.definitions.expr.condition import AGGREGATES, CONDITION_KEYS, OF_NOTHING, QUANTIFIERS
from perdure.definitions.expr.template import is_expression
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name, error_finding, joined_pointer, readable_location, warning_finding
from perdure.definitions.format.model import ROOTS
from perdure.definitions.format.shape_check import ShapeCheck
from perdure.definitions.format.shapes import ValueShape
from perdure.definitions.format.validator import definition_findings

Dialect = Literal["ref_dag", "nested_steps", "port_graph", "token_graph"]
Document = dict[str, Any]
T = TypeVar("T")

UNTITLED = "untitled"
SHOWN_FINDINGS_MAX = 10


class ForeignDefinition(NamedTuple):
    """A foreign document as a definition. `document` is sound where no finding is an error; pointers of findings lead into the foreign document."""

    dialect: Dialect
    document: dict[str, Any]
    findings: tuple[DefinitionFinding, ...]


class WrittenDocument(NamedTuple):
    """A definition as a foreign document; None if the dialect can not express it, with findings that point into the definition."""

    document: dict[str, Any] | None
    findings: tuple[DefinitionFinding, ...]


class FindingCollector:
    """The findings of one document."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self.findings: list[DefinitionFinding] = []

    def error(self, code: str, pointer: str, what: str, suggestion: str = "") -> None:
        """Adds an error: the document can not be used as it is."""
        self.findings.append(error_finding(code, pointer, f"{readable_location(self._document, pointer)}: {what}", suggestion))

    def warning(self, code: str, pointer: str, what: str, suggestion: str = "") -> None:
        """Adds a warning: the document can be used, and may not do what its author expects."""
        self.findings.append(warning_finding(code, pointer, f"{readable_location(self._document, pointer)}: {what}", suggestion))


class ForeignFields:
    """A mapping of a foreign document, read field by field. A null is a missing field. `left` reports the fields that were not read."""

    def __init__(self, value: Any, pointer: str, notes: FindingCollector) -> None:
        if not isinstance(value, dict):
            notes.error("wrong_type", pointer, f"expected a mapping, found {kind_of_value(value)}")
        self.value: dict[str, Any] = {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}
        self.pointer, self.notes = pointer, notes
        self._asked: set[str] = set()
        self._doubled: set[str] = set()

    def at(self, *parts: str | int) -> str:
        """The pointer of a part of it."""
        return joined_pointer(self.pointer, *parts)

    def has(self, *names: str) -> bool:
        """Whether one of these fields is there."""
        return any(self.value.get(name) is not None for name in names)

    def any(self, *names: str) -> Any:
        """The first of these that is there. They mean the same, so a second one that says something else is reported."""
        self._asked.update(names)
        first, *others = [name for name in names if self.value.get(name) is not None] or [""]
        for name in others:
            if name not in self._doubled and self.value[name] != self.value[first]:
                self._doubled.add(name)
                self.notes.warning("said_twice", self.at(name), f"{name!r} means the same as {first!r}, which is used; remove one of them")
        return self.value.get(first)

    def name_of(self, *names: str) -> str:
        """Which of these is there: the first that is, else the first of all."""
        return next((name for name in names if self.value.get(name) is not None), names[0])

    def text(self, *names: str, default: str = "") -> str:
        """A text."""
        return self._of(names, default, lambda value: isinstance(value, str), "a text")

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        return self._of(names, default, lambda value: isinstance(value, bool), "true or false")

    def whole(self, *names: str, least: int = 0) -> int | None:
        """A whole number; 3.0 is one."""
        value = self._of(names, None, lambda value: is_number(value) and value == int(value) and value >= least, f"a whole number from {least}")
        return None if value is None else int(value)

    def number(self, *names: str) -> float | int | None:
        """A number that is not negative."""
        return self._of(names, None, lambda value: is_number(value) and value >= 0, "a number from 0")

    def listed(self, *names: str) -> list[Any]:
        """A list; an empty one if it is not there."""
        return list(self._of(names, [], lambda value: isinstance(value, list), "a list"))

    def inside(self, *names: str) -> ForeignFields | None:
        """A mapping in it."""
        value = self._of(names, None, lambda value: isinstance(value, dict), "a mapping")
        return None if value is None else ForeignFields(value, self.at(self.name_of(*names)), self.notes)

    def mapping(self, *names: str) -> dict[str, Any]:
        """A mapping unchanged; an empty one if it is missing."""
        value: dict[Any, Any] = self._of(names, {}, lambda value: isinstance(value, dict), "a mapping")
        return {str(key): item for key, item in value.items()}

    def texts(self, *names: str) -> list[str]:
        """A list of texts; one text alone is a list of it."""
        value = self.any(*names)
        if isinstance(value, str):
            return [value]
        items = self.listed(*names)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                self.notes.error("wrong_type", self.at(self.name_of(*names), index), f"expected a text, found {kind_of_value(item)}")
        return [item for item in items if isinstance(item, str)]

    def ignore(self, *names: str) -> None:
        """Marks fields as read that have no meaning in a definition."""
        self._asked.update(names)

    def refuse_left(self, what: str) -> None:
        """Reports unread fields as errors: dropping them would change the meaning of the rest."""
        for name in self.value:
            if name not in self._asked:
                near = closest_name(name, self._asked)
                hint = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(self._asked))}"
                self.notes.error("unknown_field", self.at(name), f"{name[:60]!r} is not a field of {what}; {hint}", near)

    def left(self, known: Collection[str] = ()) -> None:
        """Reports unread fields as warnings."""
        for name, value in self.value.items():
            if name not in self._asked and value is not None:
                near = closest_name(name, self._asked | set(known))
                hint = f"; did you mean {near!r}?" if near else ""
                self.notes.warning("unknown_field", self.at(name), f"{name[:60]!r} is not known here and is ignored{hint}", near)

    def _of(self, names: tuple[str, ...], default: T, fits: Callable[[Any], bool], expected: str) -> Any | T:
        value = self.any(*names)
        if value is None:
            return default
        if not fits(value):
            self.notes.error("wrong_type", self.at(self.name_of(*names)), f"expected {expected}, found {kind_of_value(value)}")
            return default
        return value


class StepNames:
    """The step ids of a foreign document and their ids in the definition: the same, unless one is the name of a root or taken."""

    def __init__(self, notes: FindingCollector) -> None:
        self._notes = notes
        self._called: dict[str, str] = {}
        self._taken: set[str] = set(ROOTS)

    def __contains__(self, original: object) -> bool:
        return original in self._called

    def __iter__(self) -> Iterator[str]:
        return iter(self._called)

    def __getitem__(self, original: str) -> str:
        """Returns the id of a step in the definition; an unknown id is returned unchanged."""
        return self._called.get(original, original)

    def give(self, original: str, pointer: str) -> str:
        """Adds the id of one more step."""
        if original in self._called:
            self._notes.error("duplicate_id", pointer, f"there is another step {original[:60]!r}; give this one a name of its own")
            return self.free(original)
        called = original
        if not original.isprintable() or not 0 < len(original) <= 256:
            called = self.free("".join(filter(str.isprintable, original))[:240] or "step")
            self._notes.error("bad_id", pointer, "an id is 1 to 256 printable characters")
        elif original in ROOTS:
            called = self.free(original)
            self._notes.warning("renamed_id", pointer, f"{original!r} is a reserved name; the step is renamed to {called!r}, with all references to it")
        self._taken.add(called)
        self._called[original] = called
        return called

    def free(self, wish: str) -> str:
        """Returns an unused id that is similar to `wish`."""
        while wish in self._taken or wish in self._called:
            wish += "_"
        self._taken.add(wish)
        return wish


def is_number(value: Any) -> bool:
    """Whether it is a number, and finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def kind_of_value(value: Any) -> str:
    """The type and content of a value, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}" if len(str(value)) < 20 else "a number"
        case str():
            return f"the text {value[:40]!r}" if value else "an empty text"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case dict():
            return "a mapping"
        case _:
            return type(value).__name__


def workflow_title(*texts: str) -> str:
    """The first of these texts that is any, as the name of a workflow, which has no @, / and :."""
    clean = ("".join(" " if character in "@/:" or not character.isprintable() else character for character in text) for text in texts)
    return next((name for text in clean if (name := " ".join(text.split()))), UNTITLED)


def ms_to_s(milliseconds: float | None) -> float | int | None:
    """Milliseconds as seconds, a whole number where they are one."""
    return None if milliseconds is None else whole_if_exact(milliseconds / 1000)


def s_to_ms(duration: Any) -> int | float | None:
    """Seconds as milliseconds; None for what is no number."""
    return whole_if_exact(round(duration * 1000, 6)) if is_number(duration) else None


def whole_if_exact(number: float) -> float | int:
    """A whole number as one."""
    return int(number) if number == int(number) else number


def without_empty(mapping: dict[str, Any]) -> dict[str, Any]:
    """The mapping without what is null, or an empty text, list or mapping."""
    return {key: value for key, value in mapping.items() if value is not None and (value or isinstance(value, bool | int | float))}


NATIVE_OPERATORS = frozenset(CONDITION_KEYS)
PLAIN_OPERATORS = frozenset(("matches", *OF_NOTHING))
"""The operators whose right side is literal and holds no references."""

OPERATORS_OF_MANY = frozenset((*AGGREGATES, *QUANTIFIERS))


def native_operator(aliases: Mapping[str, str], name: str, value: Any) -> str:
    """The native operator that a name means in a dialect; empty if it means none. ``matches`` takes a JSON Schema, and text as a regular expression."""
    if name == "matches":
        return "matches_re" if isinstance(value, str) else "matches"
    return aliases.get(name, name if name in NATIVE_OPERATORS else "")


def refuse_unknown_operators(fields: ForeignFields, known: Collection[str], others: Iterable[str] = ()) -> None:
    """Note as an error each field of a condition that is none of the `known`: left out, it would change what the condition means.

    `others` are fields that are known and not looked at here.
    """
    passed = {*known, *others}
    for name in fields.value:
        if name not in passed:
            near = closest_name(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}"
            fields.notes.error("unknown_operator", fields.at(name), f"{name[:40]!r} is not an operator of a condition; {hint}", near)
    fields.ignore(*fields.value)


def write_and_verify(
    definition: Document, dialect: Dialect, write: Callable[[Document, FindingCollector], Document], read: Callable[[Document], ForeignDefinition]
) -> WrittenDocument:
    """Writes a definition, and checks that `read` returns the same definition from the result."""
    if wrong := [one for one in definition_findings(definition) if one.severity == "error"]:
        return WrittenDocument(None, tuple(wrong[:SHOWN_FINDINGS_MAX]))
    whole = canonical_document(definition)
    if computed := list(_computed(whole))[:SHOWN_FINDINGS_MAX]:
        return WrittenDocument(
            None,
            tuple(error_finding("unsayable", pointer, f"{readable_location(whole, pointer)}: dialect {dialect} cannot compute values") for pointer in computed),
        )
    notes = FindingCollector(whole)
    document = write(whole, notes)
    if notes.findings:
        return WrittenDocument(None, tuple(notes.findings[:SHOWN_FINDINGS_MAX]))
    again = read(document)
    if errors := [one for one in again.findings if one.severity == "error"]:
        return WrittenDocument(
            None, tuple(error_finding("unsayable", "", f"dialect {dialect} does not accept it: {one.message}") for one in errors[:SHOWN_FINDINGS_MAX])
        )
    asked, said = ({name: value for name, value in one.items() if name not in ("dialect", "ui")} for one in (whole, canonical_document(again.document)))
    different = list(differences(_without_sources(asked), _without_sources(said), ""))[:SHOWN_FINDINGS_MAX]
    if different:
        return WrittenDocument(
            None,
            tuple(error_finding("unsayable", pointer, f"{readable_location(whole, pointer)}: dialect {dialect} cannot express this") for pointer in different),
        )
    return WrittenDocument(document, tuple(_dialect_warning(whole, dialect)))


def _without_sources(value: Any) -> Any:
    """The value with its expressions alone: the text that one was made from says nothing more."""
    match value:
        case {"expr": str(text), "source": str()} if len(value) == 2:
            return {"expr": text}
        case dict():
            return {name: _without_sources(item) for name, item in value.items()}
        case list():
            return [_without_sources(item) for item in value]
    return value


def _computed(definition: Document) -> Iterator[str]:
    """The locations of values that are results of expressions, which a dialect would take for data."""
    fit = ShapeCheck(definition)
    fit.walk()
    for one in fit.expressions if "dialect" not in definition else ():
        if isinstance(one.shape, ValueShape) and one.shape.expressions:
            yield from _expressions(one.value, one.pointer)


def _expressions(value: Any, pointer: str) -> Iterator[str]:
    match value:
        case dict() if is_expression(value):
            yield pointer
        case dict():
            for name, item in value.items():
                yield from _expressions(item, joined_pointer(pointer, name))
        case list():
            for index, item in enumerate(value):
                yield from _expressions(item, joined_pointer(pointer, index))


def differences(one: Any, other: Any, pointer: str) -> Iterator[str]:
    """Where two values differ, as pointers into the first."""
    match one, other:
        case dict(), dict():
            for name in [*one, *(name for name in other if name not in one)]:
                if name in one and name in other:
                    yield from differences(one[name], other[name], joined_pointer(pointer, name))
                else:
                    yield joined_pointer(pointer, name)
        case list(), list() if len(one) == len(other):
            for index, (first, second) in enumerate(zip(one, other, strict=True)):
                yield from differences(first, second, joined_pointer(pointer, index))
        case _:
            if type(one) is not type(other) or one != other:
                yield pointer


def _dialect_warning(definition: Document, dialect: Dialect) -> Iterator[DefinitionFinding]:
    if definition.get("dialect") != dialect:
        text = f"in dialect {dialect} what is missing is taken in its own way, and so is what was rejected"
        yield warning_finding("other_dialect", "", text)
