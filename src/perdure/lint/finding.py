"""What is found, and the kinds of it: plain data, for people, editors and scripts."""

from typing import Literal

import msgspec

Severity = Literal["error", "warning"]
"""An error breaks replay, or fails whenever it runs. A warning is right today, and may not be after a deploy, a crash, or a year."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of what breaks replay: `why` it does, the `fix` in words that end a sentence, a `bad` module that has it and a `good` one that has not."""

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    fix: str
    bad: str
    good: str


class Finding(msgspec.Struct, frozen=True):
    """One place in a file. Lines and columns count from 1, columns in characters; the end is behind the last one.

    `workflow` is the one by which the place is reached, or empty if the module shows none.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    kind: str
    severity: Severity
    message: str
    workflow: str = ""
