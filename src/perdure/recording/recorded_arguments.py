"""The arguments of a recorded call: which of their texts are references, how they are kept, and what they become when the call is forwarded.

Only a whole text that names ``@input`` or a step of the recording is a reference. Any other text that begins with an @ is a literal. It is kept with the @
doubled, so that what is kept can be read without knowing which steps there were.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr.plain_values import MissingValueError
from perdure.definitions.expr.references import ExpressionScope, Reference, parse_reference, reference_getter
from perdure.definitions.expr.template import check_expansion


def kept_arguments(arguments: Mapping[str, Any], steps: Container[str]) -> dict[str, Any]:
    """Returns the arguments as they are kept, in a recording that has these `steps`."""

    def kept(text: str) -> str:
        is_marked = not text.startswith("@") or text.startswith("@@") or _reference(text, steps) is not None
        return text if is_marked else f"@{text}"

    found: dict[str, Any] = _with_texts(dict(arguments), kept)
    return found


def _reference(text: str, steps: Container[str]) -> Reference | None:
    try:
        found = parse_reference(text)
    except BadExpression:
        return None
    return found if found.root == "input" or (found.root == "step" and found.step in steps) else None


def kept_reference(text: Any) -> Reference | None:
    """Returns the reference that a kept value is; None if it is a literal."""
    return parse_reference(text) if isinstance(text, str) and text.startswith("@") and not text.startswith("@@") else None


def literal_text(kept: str) -> str:
    """Returns the text that a kept literal stands for."""
    return kept[1:] if kept.startswith("@@") else kept


def references_of(kept: Any) -> Iterator[Reference]:
    """Yields the references in kept arguments."""
    match kept:
        case str() if (found := kept_reference(kept)) is not None:
            yield found
        case list():
            for one in kept:
                yield from references_of(one)
        case dict():
            for one in kept.values():
                yield from references_of(one)


def forwarded_arguments(kept: Mapping[str, Any], scope: ExpressionScope) -> dict[str, Any]:
    """Returns the arguments that are forwarded: each reference as the value that it names, each literal as it was given.

    Raises:
        ExpressionFailed: a reference names nothing, or the values are too large.
    """

    def value(text: str) -> Any:
        reference = kept_reference(text)
        if reference is None:
            return literal_text(text)
        try:
            return reference_getter(reference)(scope)
        except MissingValueError as absent:
            raise ExpressionFailed("", absent.what, absent.hint) from None

    made: dict[str, Any] = check_expansion(_with_texts(dict(kept), value))
    return made


def _with_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Returns a copy of a value in which each text is replaced by what `change` makes of it. Keys stay."""
    match value:
        case str():
            return change(value)
        case list():
            return [_with_texts(one, change) for one in value]
        case dict():
            return {key: _with_texts(one, change) for key, one in value.items()}
    return value
