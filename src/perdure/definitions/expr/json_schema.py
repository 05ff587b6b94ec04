"""Validates values against JSON Schema with `jsonschema-rs`, an optional dependency.

References to other documents are refused, never fetched. Patterns match in time proportional to the text, so they have no look-around and no back-references.
"""

from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr.plain_values import shortened

PROBLEMS_MAX = 10
MESSAGE_CHARACTERS_MAX = 500
"""The longest text of a problem; without this limit, a long enum would be quoted in full."""

SCHEMA_BYTES_MAX = 1024 * 1024

PARTS_MAX = 1_000_000
"""The most parts of a schema with all references resolved: a value may be checked against each of them."""

LISTED_BYTES_MAX = 64 * 1024 * 1024
"""The memory that a list of problems may take: each has a copy of the value or of its schema, and all of them are made at once."""


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITIONS = ("$defs", "definitions")

SCHEMA_WORDS = frozenset(("properties", "default", "$ref", "$defs", "anyOf", "oneOf", "allOf"))
"""Keys that identify a mapping as a JSON Schema, even if all its values are mappings."""


def full_schema(given: dict[str, Any]) -> dict[str, Any]:
    """Returns a mapping that is a JSON Schema unchanged, else the schema of an object with these properties; those without a default are required."""
    is_schema = isinstance(given.get("type"), str | list) or not SCHEMA_WORDS.isdisjoint(given) or not all(isinstance(one, dict) for one in given.values())
    if not given or is_schema:
        return given
    return {"type": "object", "properties": given, "required": [name for name, about in given.items() if "default" not in about]}


class SchemaProblem(NamedTuple):
    """What does not fit: the place as a JSON pointer (empty: the whole value, or it is not known), and the text for users, which begins with the place."""

    place: str
    text: str


def schema_problems(schema: dict[str, Any], value: Any) -> list[str]:
    """Returns the texts of the problems of `value`, as `find_problems` has them."""
    return [one.text for one in find_problems(schema, value)]


def find_problems(schema: dict[str, Any], value: Any) -> list[SchemaProblem]:
    """Returns the problems of `value`; none if it is valid. For a very large value, only the first one, or that there is one."""
    validator = compile_schema(schema)
    if validator.is_valid(value):
        return []
    size, value_bytes = len(_canonical(schema)), len(msgspec.msgpack.encode(value, enc_hook=repr)) * _repetitions(schema, value)
    if size * value_bytes <= LISTED_BYTES_MAX:
        return [_problem_of(one) for one, _ in zip(validator.iter_errors(value), range(PROBLEMS_MAX), strict=False)]
    if _alternatives(schema) * value_bytes <= LISTED_BYTES_MAX:
        try:
            validator.validate(value)
        except _library().ValidationError as first:
            return [_problem_of(first)]
    return [SchemaProblem("", "somewhere: the value does not fit, and is too large or too deep for this schema to say where; check a part of it")]


def _problem_of(problem: Any) -> SchemaProblem:
    place = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in problem.instance_path)
    return SchemaProblem(place, f"at {place.removeprefix('/') or 'the top'}: {shortened(problem.message, MESSAGE_CHARACTERS_MAX)}")


def _alternatives(schema: Any) -> int:
    """Counts the alternatives of a schema: a problem with several of them includes the problems of each."""
    match schema:
        case dict():
            own = sum(len(schema[name]) for name in ("anyOf", "oneOf") if isinstance(schema.get(name), list))
            return own + sum(map(_alternatives, schema.values()))
        case list():
            return sum(map(_alternatives, schema))
    return 0


def _repetitions(schema: dict[str, Any], value: Any) -> int:
    """Returns how often a part of a value may occur in a list of problems because the schema refers to its own parts. A schema that leads back to itself in
    several ways repeats a part that often at each level of the value."""
    try:
        whole, ways = _Expanded(schema).of(schema)
        times = max(1, whole // max(1, _nodes(schema)))
        return min(times * (ways ** _depth(value) if ways > 1 else 1), LISTED_BYTES_MAX + 1)
    except RecursionError:
        return LISTED_BYTES_MAX + 1


class _Expanded:
    """Counts the parts of a schema with each reference resolved, and the ways in which references lead back to a schema that is being counted."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._known: dict[int, tuple[int, int] | None] = {}

    def of(self, schema: Any) -> tuple[int, int]:
        """Returns the number of its parts, and of those ways."""
        if isinstance(schema, dict):
            is_top = schema is self._root
            found = [self.of(child) for name, child in schema.items() if not (is_top and name in DEFINITIONS)]
            found += [self._of_target(schema[name]) for name in REFERENCES if isinstance(schema.get(name), str)]
        else:
            found = [self.of(child) for child in schema] if isinstance(schema, list) else []
        return _bounded(1 + sum(nodes for nodes, _ in found)), _bounded(sum(ways for _, ways in found))

    def _of_target(self, reference: str) -> tuple[int, int]:
        target = self._target(reference)
        if id(target) not in self._known:
            self._known[id(target)] = None
            self._known[id(target)] = self.of(target)
        return self._known[id(target)] or (1, 1)

    def _target(self, reference: str) -> Any:
        """Returns the target of a reference. One by name, not by location, may lead to any part, and counts as a reference to the whole schema."""
        found: Any = self._root
        try:
            for part in unquote(reference.removeprefix("#")).split("/")[1:]:
                part = part.replace("~1", "/").replace("~0", "~")
                found = found[int(part) if isinstance(found, list) else part]
        except (LookupError, TypeError, ValueError):
            return self._root
        return found


def _bounded(count: int) -> int:
    return min(count, LISTED_BYTES_MAX)


def _nodes(schema: Any) -> int:
    children = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return 1 + sum(map(_nodes, children))


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + max(map(_depth, children), default=0)


def _canonical(schema: dict[str, Any] | bool) -> bytes:
    return msgspec.json.encode(schema, order="deterministic")


def compile_schema(schema: dict[str, Any] | bool) -> Any:
    """Compiles a schema to a validator, which has `is_valid` and `iter_errors`; returns the same validator for the same schema.

    Raises:
        BadExpression: it is not a JSON Schema, or refers to something outside of it.
    """
    return _validator(_canonical(schema))


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    library = _library()
    if len(schema) > SCHEMA_BYTES_MAX:
        raise BadExpression("", f"a schema has {len(schema):,} bytes", f"write at most {SCHEMA_BYTES_MAX:,}")
    _expect_bounded(msgspec.json.decode(schema))
    try:
        return library.validator_for(msgspec.json.decode(schema), retriever=_refuse, pattern_options=library.RegexOptions())
    except (library.ValidationError, library.ReferencingError, ValueError) as error:
        why = getattr(error, "message", "") or str(error).splitlines()[0]
        hint = "copy the schema that it refers to into it" if "registry" in why else "see json-schema.org"
        raise BadExpression("", f"this is not a JSON Schema: {shortened(why, 150)}", hint) from None


def _expect_bounded(schema: Any) -> None:
    """Refuses a schema whose parts refer to others again and again, since a value would be checked against each of them as often.

    Raises:
        BadExpression: the schema has too many parts when its references are resolved.
    """
    try:
        parts, _ = _Expanded(schema).of(schema)
    except RecursionError:
        parts = PARTS_MAX + 1
    if parts > PARTS_MAX:
        what = f"with its references resolved, a schema has more than {PARTS_MAX:,} parts"
        raise BadExpression("", what, "refer to each definition from fewer places, or nest it less deeply")


def _library() -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise MissingExtra("JSON Schema", "jsonschema-rs", "definitions") from None
    return jsonschema_rs


def _refuse(address: str) -> Any:
    raise ValueError(f"a schema may not refer to {address}: copy what it means into the schema")
