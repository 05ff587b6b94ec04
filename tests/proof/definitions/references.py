"""References and conditions as random definitions use them, read the plainest way: a second reading of what `expr` does, which shares nothing with it."""

import re
from collections.abc import Callable, Iterator

from tests.proof.definitions.facts import Json

ROOTS = frozenset("input vars secrets execution trigger item index loop last self error steps state".split())  # noqa: SIM905  # a line reads better

WHOLE = re.compile(r"@([A-Za-z_][\w-]*)((?:\.[\w-]+|\[\d+\])*)(\?)?")
INSIDE = re.compile(r"@@|@\{([A-Za-z_][\w-]*)((?:\.[\w-]+|\[\d+\])*)(\?)?\}")
PART = re.compile(r"\.([\w-]+)|\[(\d+)\]")

Root = Callable[[str], Json]
"""What stands behind a name: a root's or a step's. KeyError if nothing does."""


class Missing(Exception):
    """A reference leads nowhere."""


def evaluate(value: Json, root: Root) -> Json:
    """A value with the references in it replaced.

    Raises:
        Missing: one leads nowhere, and does not say that it may.
    """
    match value:
        case str() if found := WHOLE.fullmatch(value):
            return _read(found, root)
        case str():
            return INSIDE.sub(lambda found: "@" if found[0] == "@@" else _text(_read(found, root)), value)
        case list():
            return [evaluate(one, root) for one in value]
        case dict():
            return {key: evaluate(one, root) for key, one in value.items()}
    return value


def holds(condition: Json, root: Root) -> bool:
    """Whether a condition of rows, all, any and not holds.

    Raises:
        Missing: a reference in it leads nowhere.
    """
    match condition:
        case bool():
            return condition
        case {"all": list(parts)}:
            return all(answers(parts, root))
        case {"any": list(parts)}:
            return any(answers(parts, root))
        case {"not": part}:
            return not holds(part, root)
        case {"ref": reference, **rest}:
            left = evaluate(reference, root)
            if not rest:
                return left is not None and left is not False and left != 0 and left != ""
            ((operator, right),) = rest.items()
            return _compared(left, str(operator), evaluate(right, root))
    raise ValueError(f"{condition!r} is not a condition that is known here")


def answers(conditions: list[Json], root: Root) -> list[bool]:
    """The answer of each; all are asked, so that each may be missing something."""
    return [holds(condition, root) for condition in conditions]


def reads(value: Json) -> Iterator[str]:
    """The names with which references in `value` begin, wherever they stand."""
    match value:
        case str() if found := WHOLE.fullmatch(value):
            yield found[1]
        case str():
            yield from (found[1] for found in INSIDE.finditer(value) if found[1])
        case list():
            for one in value:
                yield from reads(one)
        case dict():
            for one in value.values():
                yield from reads(one)


def _compared(left: Json, operator: str, right: Json) -> bool:
    match operator:
        case "eq":
            return bool(left == right)
        case "neq":
            return bool(left != right)
        case "gt":
            return bool(left > right)
        case "gte":
            return bool(left >= right)
        case "lt":
            return bool(left < right)
        case "lte":
            return bool(left <= right)
        case "in":
            return left in right
    raise ValueError(f"{operator!r} is not an operator that is known here")


def _read(found: re.Match[str], root: Root) -> Json:
    name, path, may_miss = found.groups()
    try:
        value = root(name)
        for key, number in PART.findall(path):
            if value is None and name not in ROOTS:
                return None
            value = value[key] if key else value[int(number)]
    except (KeyError, IndexError, TypeError) as error:
        if may_miss:
            return None
        raise Missing(found[0]) from error
    return value


def _text(value: Json) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
    return str(value)
