"""The context of a run, in tools: each attempt of a tool gets a copy, and what it changes is recorded with its answer.

So a context is the same on every replay, although tools are not called again. This holds for the fields of a dataclass, a model of pydantic, a Struct of
msgspec or a dict, as far as they can be recorded; what can't, such as a connection, is passed on as it is.
"""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import msgspec

from perdure.core import values
from perdure.core.errors import PerdureError
from perdure.core.values import is_model

WHAT = "the context of a run"


def context_fields(context: object) -> dict[str, Any]:
    """Returns the fields of a context that tools may change. What is frozen has none."""
    kind: Any = type(context)
    if isinstance(context, dict):
        return {name: value for name, value in context.items() if isinstance(name, str)}
    if isinstance(context, msgspec.Struct):
        return {} if kind.__struct_config__.frozen else {name: getattr(context, name) for name in kind.__struct_fields__}
    if is_dataclass(context):
        return {} if kind.__dataclass_params__.frozen else {field.name: getattr(context, field.name) for field in fields(context)}
    if is_model(kind) and not getattr(kind, "model_config", {}).get("frozen"):
        return dict(vars(context))
    return {}


class ContextCopy:
    """A context for one attempt of a tool, and what the tool has changed in it."""

    def __init__(self, original: Any) -> None:
        found = context_fields(original)
        self._hints = _hints(original) if found else {}
        self._before = {name: raw for name, value in found.items() if (raw := self._recorded(name, value)) is not None}
        self.context: Any = copy.copy(original) if self._before else original
        for name in self._before:
            _set(self.context, name, copy.deepcopy(found[name]))

    def changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Returns the fields that were changed, encoded; and the names of those that were recorded and have a value now that can't be."""
        after = {name: self._recorded(name, value) for name, value in context_fields(self.context).items()}
        changed = {name: raw for name, raw in after.items() if raw is not None and raw != self._before.get(name)}
        return changed, [name for name, raw in after.items() if raw is None and name in self._before]

    def _recorded(self, name: str, value: Any) -> bytes | None:
        """Returns a value as the log has it; None if it would not arrive as it was given."""
        try:
            raw = values.encode(value, WHAT)
            arrived = values.decode(raw, self._hints.get(name, Any), WHAT)
        except PerdureError:
            return None
        return raw if type(arrived) is type(value) and arrived == value else None


def apply_changes(context: Any, changes: dict[str, bytes]) -> None:
    """Changes a context as a tool has changed its copy."""
    hints = _hints(context) if changes else {}
    for name, raw in changes.items():
        _set(context, name, values.decode(raw, hints.get(name, Any), WHAT))


def _hints(context: Any) -> dict[str, Any]:
    return {} if isinstance(context, dict) else get_type_hints(type(context))


def _set(context: Any, name: str, value: Any) -> None:
    if isinstance(context, dict):
        context[name] = value
    else:
        setattr(context, name, value)
