"""Reads and checks the arguments of an operation. Problems are collected with JSON pointers, not raised.

While a definition is checked, references are unresolved. Such a value is `OPEN` and is valid everywhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression
from perdure.definitions.expr.plain_values import short_value_text, shortened
from perdure.definitions.expr.regular_expressions import compile_regex
from perdure.definitions.expr.secret_marks import escape_pointer_key
from perdure.definitions.format.definition_findings import closest_name
from perdure.definitions.format.shapes import is_template
from perdure.definitions.kinds.pipeline import pipeline_rows
from perdure.definitions.kinds.pipeline.pipeline_rows import Path

OPEN: Any = object()
"""The value of a reference that is not resolved yet."""

NOWHERE: Path = ("",)
"""The path that stands for one that is not known."""

SOURCE_CHARACTERS_MAX = 64 * 1024


class ArgumentProblem(NamedTuple):
    """A problem and its location."""

    pointer: str
    what: str


class FieldColumn(NamedTuple):
    """A field that an operation reads, and its name in the result."""

    path: Path
    name: str
    default: Any = None


class ArgumentReader:
    """The arguments of one operation at `pointer`; with `is_open`, references in them are not resolved yet."""

    def __init__(self, given: Mapping[str, Any], pointer: str = "", is_open: bool = False) -> None:
        self.given, self.pointer, self.is_open = given, pointer, is_open
        self.problems: list[ArgumentProblem] = []

    def wrong(self, at: str, what: str) -> None:
        """Records a problem of a field, or of all arguments (empty)."""
        self.problems.append(ArgumentProblem(f"{self.pointer}/{escape_pointer_key(at)}" if at else self.pointer, what))

    def known(self, names: Iterable[str]) -> None:
        """Complain of all that is not among these fields."""
        known = sorted(names)
        for one in self.given:
            if one not in known:
                meant = closest_name(one, known)
                hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}"
                self.wrong(one, f"{shortened(repr(one))} is not a field of it; {hint}")

    def open(self, value: Any) -> bool:
        """Whether a value is a reference that is not resolved yet."""
        return self.is_open and is_template(value)

    def take(self, name: str, what: str, fits: Callable[[Any], bool], default: Any = OPEN) -> Any:
        """The value of a field; `OPEN` if it is unknown or wrong. A field without a default is required."""
        value = self.given.get(name)
        if value is None and default is not OPEN:
            return default
        if value is None:
            self.wrong("" if name not in self.given else name, f"{name!r} is missing: {what}")
        elif not self.open(value):
            if fits(value):
                return value
            self.wrong(name, f"{name} is {what}, not {short_value_text(value)}")
        return OPEN

    def text(self, name: str, what: str = "text", default: Any = OPEN) -> Any:
        """A text that is not empty."""
        return self.take(name, what, lambda value: isinstance(value, str) and value != "", default)

    def whole(self, name: str, default: Any = OPEN) -> Any:
        """A whole number from 0; one that is written as 3.0 is one as well."""
        found = self.take(name, "a whole number from 0", _is_whole, default)
        return int(found) if type(found) is float else found

    def flag(self, name: str, default: bool = False) -> Any:
        """True or false."""
        return self.take(name, "true or false", lambda value: isinstance(value, bool), default)

    def choice(self, name: str, options: Sequence[str], default: Any = OPEN) -> Any:
        """One of some words."""
        return self.take(name, f"one of {', '.join(options)}", lambda value: isinstance(value, str) and value in options, default)

    def path(self, name: str, default: Any = OPEN) -> Path:
        """The path to a field."""
        found = self.text(name, "the path to a field, such as price or address.city", default)
        return NOWHERE if found is OPEN or found is None else self.path_of(found, name)

    def path_of(self, value: Any, at: str) -> Path:
        """The path that a value is."""
        if self.open(value):
            return NOWHERE
        if isinstance(value, str):
            try:
                return pipeline_rows.parse_path(value)
            except ValueError as error:
                self.wrong(at, str(error))
        else:
            self.wrong(at, f"a field is text such as price or address.city, not {short_value_text(value)}")
        return NOWHERE

    def items(self, name: str, default: Any = OPEN) -> list[Any]:
        """A list, or a single value as a list of one. Empty if it is unknown."""
        value = self.take(name, "a list", lambda one: one != [] and isinstance(one, str | dict | list), default)
        return [] if value is OPEN or value is None else value if isinstance(value, list) else [value]

    def columns(self, name: str, default: Any = OPEN) -> list[FieldColumn]:
        """Fields: a list of paths and of ``{field, as, default}``, a single one of these, or a mapping from new names to these."""
        value = self.take(name, "fields: a list of paths, or {name: path}", lambda one: one != [] and one != {} and isinstance(one, str | dict | list), default)
        if value is OPEN or value is None:
            return []
        if isinstance(value, dict) and "field" not in value:
            found = [self._column(one, f"{name}/{escape_pointer_key(key)}", key) for key, one in value.items()]
        else:
            several = value if isinstance(value, list) else [value]
            found = [self._column(one, f"{name}/{place}" if several is value else name, None) for place, one in enumerate(several)]
        twice = {one.name for one in found if one.path != NOWHERE and sum(one.name == other.name for other in found) > 1}
        for called in sorted(twice):
            self.wrong(name, f"two fields would be called {called!r}; name one otherwise: {{field: …, as: …}}")
        return found

    def _column(self, value: Any, at: str, called: str | None) -> FieldColumn:
        if not isinstance(value, dict):
            path = self.path_of(value, at)
            return FieldColumn(path, called or pipeline_rows.path_name(path))
        inner = ArgumentReader(value, f"{self.pointer}/{at}", self.is_open)
        inner.known(("field", "default", *(("as",) if called is None else ())))
        path, name = inner.path("field"), inner.text("as", default="")
        self.problems += inner.problems
        return FieldColumn(path, called or (name if name is not OPEN and name else pipeline_rows.path_name(path)), value.get("default"))

    def pattern(self, name: str) -> Any:
        """A regular expression, compiled; `OPEN`, if it is not known or wrong."""
        source = self.text(name, "a regular expression (RE2)")
        if source is OPEN:
            return OPEN
        try:
            return compile_regex(source)
        except BadExpression as bad:
            self.wrong(name, f"{bad.what}; {bad.hint}")
            return OPEN


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1 and 0 <= value < 2**53
