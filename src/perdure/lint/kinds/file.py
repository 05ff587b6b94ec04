"""Kinds about the file itself."""

from perdure.lint.finding import Kind

KINDS = (
    Kind(
        "PD000",
        "unreadable",
        "error",
        "A file that is no Python",
        "What can't be parsed can't be looked into, so nothing is known of its workflows.",
        "mend it, or leave it out",
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
    Kind(
        "PD001",
        "unused-ignore",
        "warning",
        "An ignore that nothing needs",
        "It would hide the next finding on its line, which nobody has thought about.",
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
