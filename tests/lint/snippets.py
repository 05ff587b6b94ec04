"""Snippets: the body of a workflow made a module, and the codes that are found in one."""

from textwrap import dedent, indent

from perdure.lint import lint

HEAD = """
from perdure import Context, StepFailed, SyncContext, SyncTurn, Turn, step, workflow

@step
def charge(order: str) -> str: ...

@step
async def mail(to: str) -> None: ...

@workflow
async def other(ctx: Context) -> None: ...

"""


def body(text: str, *, imports: str = "") -> str:
    """A module with one workflow that has this body."""
    head = "async def flow(ctx: Context, names: list[str], bag: set[str], flag: bool) -> object:"
    return f"{imports}\n{HEAD}\n@workflow\n{head}\n{indent(dedent(text).strip(), '    ')}\n"


def sync_body(text: str, *, imports: str = "") -> str:
    """The same with a workflow that is a plain function."""
    head = "def flow(ctx: SyncContext, names: list[str], bag: set[str]) -> object:"
    return f"{imports}\n{HEAD}\n@workflow\n{head}\n{indent(dedent(text).strip(), '    ')}\n"


def codes(source: str) -> list[str]:
    """What is found, in the order of the places."""
    return [one.code for one in lint(source)]
