"""JSON Schema: whether a value is of a shape. A thin face of `jsonschema-rs`, which is optional.

What refers elsewhere is refused, never fetched. Patterns are matched in time proportional to the text, so they have no look-around and no backreferences.
"""

from functools import lru_cache
from typing import Any

import msgspec

from perdure.core.errors import BadExpression, MissingExtra
from perdure.expr.values import cut

PROBLEMS_MAX = 10
MESSAGE_CHARACTERS_MAX = 500
"""How much of a problem is told: a schema with a long enum would be told as a whole."""

SCHEMA_BYTES_MAX = 1024 * 1024

LISTED_BYTES_MAX = 64 * 1024 * 1024
"""How much memory a list of problems may take: each has a copy of what does not fit, or of what it should fit, and all are made at once."""


SCHEMA_WORDS = frozenset(("properties", "default", "$ref", "$defs", "anyOf", "oneOf", "allOf"))
"""Keys by which a mapping is known to be a JSON Schema, even if all its values are mappings."""


def spelled_out(given: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema that a mapping is, or of the object whose properties it has: those without a default are required."""
    is_schema = isinstance(given.get("type"), str | list) or not SCHEMA_WORDS.isdisjoint(given) or not all(isinstance(one, dict) for one in given.values())
    if not given or is_schema:
        return given
    return {"type": "object", "properties": given, "required": [name for name, about in given.items() if "default" not in about]}


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with `value`, each with its place in it; none if it fits. Of what is very large the first problem, or only that there is one."""
    validator = compiled(schema)
    if validator.is_valid(value):
        return []
    size, value_bytes = len(_canonical(schema)), len(msgspec.msgpack.encode(value, enc_hook=repr))
    if size * value_bytes <= LISTED_BYTES_MAX:
        return [_told(one) for one, _ in zip(validator.iter_errors(value), range(PROBLEMS_MAX), strict=False)]
    if _alternatives(schema) * value_bytes <= LISTED_BYTES_MAX:
        try:
            validator.validate(value)
        except _library().ValidationError as first:
            return [_told(first)]
    return [f"somewhere: a value of {value_bytes:,} bytes does not fit, and is too large for this schema to say where; check a part of it"]


def _told(problem: Any) -> str:
    return f"at {'/'.join(map(str, problem.instance_path)) or 'the top'}: {cut(problem.message, MESSAGE_CHARACTERS_MAX)}"


def _alternatives(schema: Any) -> int:
    """How many alternatives a schema has in all: a problem with several of them has each one's own problem with it."""
    match schema:
        case dict():
            own = sum(len(schema[name]) for name in ("anyOf", "oneOf") if isinstance(schema.get(name), list))
            return own + sum(map(_alternatives, schema.values()))
        case list():
            return sum(map(_alternatives, schema))
    return 0


def _canonical(schema: dict[str, Any] | bool) -> bytes:
    return msgspec.json.encode(schema, order="deterministic")


def compiled(schema: dict[str, Any] | bool) -> Any:
    """A validator, which has `is_valid` and `iter_errors`; the same one for the same schema.

    Raises:
        BadExpression: it is no schema, or refers to what is not in it.
    """
    return _validator(_canonical(schema))


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    library = _library()
    if len(schema) > SCHEMA_BYTES_MAX:
        raise BadExpression("", f"a schema has {len(schema):,} bytes", f"{SCHEMA_BYTES_MAX:,} are the most")
    try:
        return library.validator_for(msgspec.json.decode(schema), retriever=_refuse, pattern_options=library.RegexOptions())
    except (library.ValidationError, library.ReferencingError, ValueError) as error:
        why = getattr(error, "message", "") or str(error).splitlines()[0]
        hint = "copy what it refers to into it" if "registry" in why else "see json-schema.org"
        raise BadExpression("", f"no JSON Schema: {cut(why, 150)}", hint) from None


def _library() -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise MissingExtra("JSON Schema", "jsonschema-rs", "definitions") from None
    return jsonschema_rs


def _refuse(address: str) -> Any:
    raise ValueError(f"a schema may not refer to {address}: copy what it means into the schema")
