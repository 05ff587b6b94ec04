"""Findings and rules as plain data, for people, editors and scripts, with the rules about the file itself."""

from typing import Literal

import msgspec

Severity = Literal["error", "warning"]
"""An error breaks replay, or fails whenever it runs. A warning is right today, and may not be after a deploy, a crash, or a year."""


class LintRule(msgspec.Struct, frozen=True):
    """A rule: `why` a violation breaks replay, the `fix` as the end of a sentence, and a `bad` and a `good` example module."""

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    fix: str
    bad: str
    good: str


class LintFinding(msgspec.Struct, frozen=True):
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


FILE_RULES = (
    LintRule(
        "PD000",
        "unreadable",
        "error",
        "A file that is not Python",
        "What can't be parsed can't be looked into, so nothing is known of its workflows.",
        "correct it, or leave it out",
        """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str -> str:
    return f"Hello {name}"
""",
        """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Hello {name}"
""",
    ),
    LintRule(
        "PD001",
        "unused-ignore",
        "warning",
        "An ignore that nothing needs",
        "It would hide the next finding on its line, which has not been considered.",
        "remove the comment, or name the code that is meant",
        """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Hello {name}"  # perdure: ignore[PD101]
""",
        """
from datetime import datetime

from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    ctx.log.info("began", at=datetime.now().isoformat())  # perdure: ignore[PD101]
    return f"Hello {name}"
""",
    ),
)
