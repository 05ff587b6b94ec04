"""What went wrong, in a line, and what to do next, in another."""

from urllib.parse import quote

from perdure.cli import words
from perdure.core.errors import AlreadyThere, ExecutionFailed, LinkRefused, NeedsAttention, NotFound, PerdureError
from perdure.core.paths import Key

COLUMNS_MAX = 600
"""How long a line of a complaint may be: messages hold what users wrote."""


def complaint(error: BaseException) -> str:
    """The error in one or two lines. The messages of Perdure's own errors say what to do, where that is always the same."""
    match error:
        case ExecutionFailed(key=Key() as key, error=info):
            return complaint_lines(f"{name(key)} failed: {info.type}: {info.message}", f"perdure logs {name(key)} shows what led there")
        case NeedsAttention(key=Key() as key, reason=("diverged" | "paused")):
            return complaint_lines(str(error), f"perdure show {name(key)} shows where it stands, perdure resume {name(key)} lets it go on")
        case NeedsAttention(key=Key() as key):
            return complaint_lines(str(error), f"perdure show {name(key)} shows where it stands, perdure retry {name(key)} has it go on")
        case AlreadyThere(key=Key() as key):
            return complaint_lines(f"there is an execution {name(key)} already", "give the new one another id with --id, or none")
        case LinkRefused():
            return complaint_lines(str(error), "perdure approve ID --link makes one, with the PERDURE_SECRET that those have who use it")
        case NotFound():
            return complaint_lines(str(error), "perdure ls lists those that there are")
        case PerdureError():
            return complaint_lines(str(error))
        case ModuleNotFoundError(name=("click" | "rich") as missing):
            return complaint_lines(f"{missing} is not installed", 'pip install "perdure[cli]"')
        case _:
            return complaint_lines(f"{type(error).__name__}: {error}", "this is a defect of Perdure; --debug shows where, please report it")


def name(key: Key) -> str:
    """An execution in a form that every command takes, and that people can read where that is possible."""
    plain = f"{_readable(key.workflow)}/{_readable(key.id)}"
    return plain if plain == plain.strip() and plain[0] not in "@-" else str(key).partition("/")[2]


def _readable(part: str) -> str:
    return "".join(character if character.isprintable() and character not in "/%" else quote(character, safe="") for character in part)


def complaint_lines(*lines: str) -> str:
    """Lines that may be shown: without escapes, passwords, or more than people read."""
    return "\n".join(words.cut(words.clean(words.without_passwords(line)), COLUMNS_MAX) for line in lines)
