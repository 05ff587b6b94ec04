"""JSON Schema: whether a value is of a shape. A thin face of `jsonschema-rs`, which is optional; what refers elsewhere is refused, never fetched."""

from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

PROBLEMS_MAX = 10


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with `value`, each with its place in it; none if it fits."""
    found = _validator(msgspec.json.encode(schema, order="deterministic")).iter_errors(value)
    return [f"at {'/'.join(map(str, one.instance_path)) or 'the top'}: {one.message}" for one, _ in zip(found, range(PROBLEMS_MAX), strict=False)]


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    return jsonschema_rs.validator_for(msgspec.json.decode(schema), retriever=_refuse)


def _refuse(address: str) -> Any:
    raise ValueError(f"a schema may not refer to {address}: copy what it means into the schema")
