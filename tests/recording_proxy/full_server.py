"""An MCP server with much that a proxy passes through: progress, resources and prompts, and the end of a call."""

import asyncio
import os
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP

server: Any = FastMCP("full")


def mark(what: str) -> None:
    """Says in a file that something has happened."""
    Path(os.environ["MARKS"], what).touch()


@server.tool(annotations={"readOnlyHint": True})  # type: ignore[untyped-decorator]  # the library is not imported for types here
async def get_user(id: int) -> dict[str, Any]:
    """A user by id."""
    return {"id": id, "name": "Ada"}


@server.tool  # type: ignore[untyped-decorator]  # the library is not imported for types here
async def work(ctx: Context, parts: int) -> str:
    """Works in parts, and tells of them."""
    for part in range(parts):
        await ctx.report_progress(part + 1, parts, f"part {part + 1}")
    return "worked"


@server.tool  # type: ignore[untyped-decorator]  # the library is not imported for types here
async def wait(s: float) -> str:
    """Waits, or until there is a file "go", and says when it is cancelled."""
    go = Path(os.environ["MARKS"], "go")
    mark("begun")
    try:
        async with asyncio.timeout(s):
            while not go.exists():  # noqa: ASYNC240  # it takes no time
                await asyncio.sleep(0.02)
    except TimeoutError:
        return "waited"
    except asyncio.CancelledError:
        mark("cancelled")
        raise
    return "waited"


@server.tool  # type: ignore[untyped-decorator]  # the library is not imported for types here
async def picture() -> list[Any]:
    """Text and a picture."""
    from mcp_types import ImageContent, TextContent

    return [TextContent(type="text", text="a dot"), ImageContent(type="image", data="aGk=", mime_type="image/png")]


@server.resource("notes://today")  # type: ignore[untyped-decorator]  # the library is not imported for types here
def today() -> str:
    """What is noted for today."""
    return "buy milk"


@server.resource("notes://{day}")  # type: ignore[untyped-decorator]  # the library is not imported for types here
def of_day(day: str) -> str:
    """What is noted for a day."""
    return f"nothing on {day}"


@server.prompt  # type: ignore[untyped-decorator]  # the library is not imported for types here
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name} kindly"


if __name__ == "__main__":
    server.run(show_banner=False)
