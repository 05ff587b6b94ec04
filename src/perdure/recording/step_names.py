"""Names the steps of a recording after their tools: ``files.readFile`` becomes ``read_file_1``, then ``read_file_2``."""

import re

BASE_CHARACTERS_MAX = 60

_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_NAME = re.compile(r"[^a-z0-9]+")


_STEP = re.compile(rf"[a-z][a-z0-9_]{{0,{BASE_CHARACTERS_MAX - 1}}}_[1-9][0-9]{{0,8}}")


def is_step_name(text: str) -> bool:
    """Returns whether a step of a recording can have this name."""
    return _STEP.fullmatch(text) is not None


def plain_tool_name(tool: str) -> str:
    """Returns the name that a tool has on its server: ``read_file`` of ``files.read_file``."""
    return tool.partition(".")[2] or tool


def step_base(tool: str) -> str:
    """Returns the name of the steps of a tool, without their number. Tools of two servers with one name have one base, and are numbered together."""
    words = _WORD_BOUNDARY.sub("_", plain_tool_name(tool)).lower()
    base = _NO_NAME.sub("_", words).strip("_")[:BASE_CHARACTERS_MAX].rstrip("_")
    return base if base[:1].isalpha() else f"call_{base}".rstrip("_")
