"""Places: where Perdure remembers what is its own beside an operation, and how an operation is shown."""

from perdure.core.ops import Op, kind, target
from perdure.core.paths import Path, text


def reply_path(path: Path, number: int) -> Path:
    """Where the reply to message `number`, received at `path`, is remembered."""
    return (*path, (f"reply:{number}", 1))


def aside(path: Path) -> Path:
    """Where it is remembered that the value of an operation could not be kept or read; no operation of a program has an empty name."""
    return (*path, ("", 1))


def asked_text(path: Path, op: Op) -> str:
    """An operation as people read it in a diff."""
    aim = target(op)
    return f"{text(path)} ({kind(op)} {aim})" if aim else f"{text(path)} ({kind(op)})"
