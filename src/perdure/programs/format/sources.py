"""What stands behind the verbs of kinds that run a source text: a part of the model of the format."""

from typing import Any

from perdure.programs.format.shapes import Choice, Either, Field, Fields, Flag, Text, Value

SOURCES = {"ts": "code", "python": "code", "bash": "command"}
"""The verbs behind which stands a source text, in which an @ is an @; and under which name, if more is said."""

COMMAND = Text(what="a command")
_COMMANDED = Fields(
    "bash",
    (
        Field("command", COMMAND, "what bash does", required=True),
        Field("cwd", Text(template=True), "where, in the working directory of the execution, or from the root", default="."),
        Field("check", Flag(), "whether an exit code other than 0 fails the step; false gives it as data", default=True),
        Field("stdin", Value(), "what it reads: text as it is, all else in JSON"),
        Field(
            "isolate", Choice((True, False, "none", "network", "all")), "from what it is kept: the network, or all but its working directory", default="none"
        ),
    ),
)
BASH = Either((COMMAND, _COMMANDED), "a command, or a mapping with one")


def sourced(transform: Any) -> tuple[str, str] | None:
    """The kind and the text of a transform that is source text; None for one that is a value."""
    match transform:
        case {"ts": str(source), **others} if not others:
            return "ts", source
        case {"python": str(source), **others} if not others:
            return "python", source
    return None
