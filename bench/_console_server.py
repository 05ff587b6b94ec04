"""The server of `bench.console`: the console and the API on a file with many executions."""

import asyncio
import sys
from pathlib import Path

from bench._http_server import TOKEN, calc, fill
from perdure import App
from perdure.api.api_server import listening_socket, url_of
from perdure.api.loopback_access import LoopbackAccess
from perdure.api.service_api import ServiceApi, ServiceServer, ServiceSettings


async def main(file: Path, count: int) -> None:
    """Serves until it is ended."""
    await fill(file, count)
    async with App([calc], db=f"sqlite:///{file}") as app:
        service = ServiceApi(app.client.access, ServiceSettings(rate_per_s=0), LoopbackAccess(TOKEN))
        listening = listening_socket("127.0.0.1", 0)
        server = ServiceServer(service, listening)
        running = asyncio.create_task(server.run())
        await server.ready()
        sys.stdout.write(url_of(listening) + "\n")
        sys.stdout.flush()
        await running


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
