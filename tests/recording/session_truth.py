"""What a recorded session is, and what is true of each of its arguments.

A session is a sequence of tool calls with literal arguments and results, as a recording of a language model has them. Its truth says of each argument leaf,
or part of its text, whether it came from an earlier result or the input (`Reference`), is always the same (`Constant`), or was made up (`Invented`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
"""Keys and indexes that lead from a value to a part of it."""

Span = tuple[int, int]
"""The start and the end of a part of a text."""

INPUT = "input"
"""The name by which a target means the input of the session and not a step."""


class RecordedCall(NamedTuple):
    """One tool call. A call that failed has no result."""

    name: str
    tool: str
    arguments: Any
    result: Any
    failed: bool


class Target(NamedTuple):
    """A place in the result of a step, or in the input. Without a path it is any parameter, where the input is not known or is words."""

    step: str
    path: Path | None


class Reference(NamedTuple):
    """The value came from one of the `acceptable` places, which all hold the same thing.

    `kind` says how the value is written:

    - as there: `text`, `number`, `structure`; `common` for a small number, a boolean, null or a short word; `picked` for a text or a number that stands inside
      an object or a list of the arguments;
    - in another spelling: `number_spelling`, `date_spelling`, `amount_spelling`, `letter_case`, `trimmed`;
    - in a text: `embedded`, or `embedded_spelling` for a date or an amount in another spelling;
    - `extracted`: it is a part of a longer text there, which is never required;
    - `parameter`: of an input that is not known.

    What is not `required` may be found or not: neither is counted. `parts` are the acceptable places of each leaf of a structure that was passed on as a whole,
    by the path of the leaf from the structure.
    """

    kind: str
    acceptable: frozenset[Target]
    required: bool = True
    parts: tuple[tuple[Path, frozenset[Target]], ...] = ()


class Constant(NamedTuple):
    """The model writes the same in every session."""

    kind: str = "constant"


class Invented(NamedTuple):
    """The model has made it up, or knows it from elsewhere."""

    kind: str = "invented"


class Truth(NamedTuple):
    """What is true of the argument of a call at a path, or of the part of its text at `span`.

    A text with parts of its own has one truth for the text around them, whose span is None, and one for each part.
    """

    call: str
    path: Path
    span: Span | None
    origin: Reference | Constant | Invented


class GeneratedSession(NamedTuple):
    """A session and all that is true of its arguments. Its input is empty if it is not known."""

    input: Mapping[str, Any]
    calls: tuple[RecordedCall, ...]
    truth: tuple[Truth, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All values in `value` that have no parts, with their paths; an empty object or list is one."""
    if not (value and isinstance(value, dict | list)):
        yield path, value
    for key, part in children(value):
        yield from leaves(part, (*path, key))


def children(value: Any) -> Iterator[tuple[str | int, Any]]:
    """The direct parts of an object or a list, with their keys; of anything else none."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def at(value: Any, path: Path) -> Any:
    """The part of `value` at `path`; KeyError, IndexError or TypeError if there is none."""
    for key in path:
        value = value[key]
    return value
