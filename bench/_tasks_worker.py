"""A worker for `tasks.py`, in a process of its own: it leases and completes so many tasks at a time over HTTP, on connections that it keeps."""

import asyncio
import json
import sys

HEAD = "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


class Connection:
    """A connection that is kept."""

    def __init__(self, host: str, port: int, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.host, self.port = host, port
        self.reader, self.writer = streams

    async def ask(self, path: str, body: object) -> dict[str, object]:
        """Ask, and wait for the answer."""
        raw = json.dumps(body).encode()
        self.writer.write(HEAD.format(path, self.host, len(raw)).encode() + raw)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        size_bytes = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer: dict[str, object] = json.loads(await self.reader.readexactly(size_bytes))
        return answer


async def main(host: str, port: int, at_once: int) -> None:
    """Work until there is nobody to ask any more."""
    connections = [Connection(host, port, await asyncio.open_connection(host, port)) for _ in range(at_once + 1)]
    leasing, *answering = connections
    print("ready", flush=True)
    while True:
        leased = await leasing.ask("/v1/tasks/lease", {"worker": "bench", "limit": at_once, "wait_s": 30})
        tasks = leased.get("tasks", [])
        assert isinstance(tasks, list)
        paths = [f"/v1/tasks/{task['lease']}/complete" for task in tasks]
        await asyncio.gather(*(one.ask(path, {"value": 1}) for one, path in zip(answering, paths, strict=False)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
