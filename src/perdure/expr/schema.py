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


SCHEMA_WORDS = frozenset(("properties", "default", "$ref", "$defs", "anyOf", "oneOf", "allOf"))
"""Keys by which a mapping is known to be a JSON Schema, even if all its values are mappings."""


def spelled_out(given: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema that a mapping is, or of the object whose properties it has: those without a default are required."""
    is_schema = isinstance(given.get("type"), str | list) or not SCHEMA_WORDS.isdisjoint(given) or not all(isinstance(one, dict) for one in given.values())
    if not given or is_schema:
        return given
    return {"type": "object", "properties": given, "required": [name for name, about in given.items() if "default" not in about]}


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with `value`, each with its place in it; none if it fits."""
    found = compiled(schema).iter_errors(value)
    return [
        f"at {'/'.join(map(str, one.instance_path)) or 'the top'}: {cut(one.message, MESSAGE_CHARACTERS_MAX)}"
        for one, _ in zip(found, range(PROBLEMS_MAX), strict=False)
    ]


def compiled(schema: dict[str, Any] | bool) -> Any:
    """A validator, which has `is_valid` and `iter_errors`; the same one for the same schema.

    Raises:
        BadExpression: it is no schema, or refers to what is not in it.
    """
    return _validator(msgspec.json.encode(schema, order="deterministic"))


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
