"""Serves an API for Schemathesis to ask, until it is ended. It prints its URL.

python -m tests.api.schemathesis_server DIRECTORY
"""

import asyncio
import sys
from pathlib import Path

from tests.api.api_setup import api_in_process, api_on_a_port
from tests.api.documented_requests import RequestSource, prepare


async def main(directory: Path) -> None:
    """Serves."""
    async with api_in_process(directory) as api, api_on_a_port(api.app.access) as url:
        await prepare(api, RequestSource((await api("GET", "/openapi.json")).json, 0), "e")
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
