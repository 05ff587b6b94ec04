"""A program that is killed while a tool works: ``killed_program.py TOOL CONFIG``. It goes on with the execution ``1``, and prints what came of it."""

import asyncio
import sys

from perdure import App, Definition
from perdure.mcp import mcp_tools

TOOL, CONFIG = sys.argv[1:]
STEPS = [{"id": "s", "tool": f"raw.{TOOL}", "with": {"waits": 30}, "on_error": "go_on"}]


async def main() -> None:
    flow = Definition.of({"perdure": 1, "name": "flow", "order": "listed", "steps": STEPS}, tools=mcp_tools(CONFIG))
    async with App([flow], db="sqlite:///mcp.db") as app:
        handle = await app.start(flow.with_(id="1"))
        await handle.result(timeout="60s")
        (step,) = await handle.attempts()
        sys.stdout.write(f"{step.state} {step.error.type if step.error else step.decoded_output()}\n")


asyncio.run(main())
