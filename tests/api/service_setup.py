"""A whole service in this process: keys, sessions and an issuer over an engine, and a browser that keeps cookies."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from perdure import App
from perdure.api.service_api import DEFAULTS, ServiceApi, ServiceSettings
from perdure.service.access_keys import KeyRequest, create_key
from perdure.service.callers import Role
from perdure.stores.protocol import Store
from tests.api.api_setup import WORKFLOWS, Answer, Api

HOST = "perdure.example.com"


class Service(Api):
    """A service, called in this process."""

    def __init__(self, service: ServiceApi) -> None:
        super().__init__(service.app)
        self.store: Store = service.app.access.store

    async def key(self, *roles: Role, tenant: str = "default", queues: tuple[str, ...] | None = None, valid_s: float | None = None) -> str:
        """A new key."""
        made = await create_key(self.store, tenant, KeyRequest(name="a key of the test", roles=roles, queues=queues, valid_s=valid_s), "test")
        return made.text

    async def by(self, key: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Sends a request with a key."""
        return await self(method, path, body, authorization=f"Bearer {key}", **headers)


class Browser:
    """A browser at a service: it keeps cookies, and says from which page a request comes."""

    def __init__(self, service: Service, page: str = f"https://{HOST}") -> None:
        self.service, self.page, self.cookies = service, page, dict[str, str]()

    async def __call__(self, method: str, path: str, body: Any = None, *, form: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """Sends a request as a page does."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {"host": HOST, **({"cookie": cookies} if cookies else {}), **({"origin": self.page} if method != "GET" else {}), **headers}
        if form is not None:
            answer = await self.service(method, path, raw=urlencode(form), content_type="application/x-www-form-urlencoded", **given)
        else:
            answer = await self.service(method, path, body, **given)
        for line in answer.cookies:
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies.pop(name, None)
            if value and "Max-Age=0" not in line:
                self.cookies[name] = value
        return answer

    async def sign_in(self, key: str) -> str:
        """Signs in by a key, and returns the CSRF token."""
        answer = await self("POST", "/login", {"key": key})
        assert answer.status == 200, answer
        return str(answer.json["csrf"])


@asynccontextmanager
async def service_in_process(
    directory: Path, settings: ServiceSettings = DEFAULTS, definitions: Path | None = None, *, engine: bool = True
) -> AsyncIterator[Service]:
    """A service over an engine, in this process."""
    async with App(WORKFLOWS, definitions=definitions, db=f"sqlite:///{directory}/service.db", engine=engine) as app:
        service = ServiceApi(app.client.access, settings)
        running = asyncio.create_task(service.run())
        try:
            yield Service(service)
        finally:
            running.cancel()
            _ = await asyncio.gather(running, return_exceptions=True)


def events_of(answer: Answer) -> list[tuple[str, Any]]:
    """The server-sent events of a stream that has ended: the name of each, and what it says."""
    found = list[tuple[str, Any]]()
    for block in answer.body.decode().split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            found.append((lines.get("event", ""), json.loads(lines["data"])))
    return found
