"""A service with a webhook, and senders that sign as GitHub, Stripe, Slack and others do."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure import App, Context, Workflow, step, workflow
from perdure.api.service_api import DEFAULTS, ServiceApi, ServiceSettings
from perdure.service.triggers.trigger_records import Verification, VerificationScheme
from perdure.service.triggers.webhook_signatures import Signing, signed_headers
from tests.api.api_setup import Answer, greet
from tests.api.service_setup import Service

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GENERIC = Verification(scheme="generic", secrets=("HOOK",), header="X-Signature")
received: list[Any] = []


@step
async def note(payload: Any) -> int:
    """A step with an effect."""
    received.append(payload)
    return len(received)


@workflow
async def take(ctx: Context, payload: Any) -> Any:
    """Takes whatever comes."""
    await ctx.step(note, payload)
    return {"got": payload}


@workflow
async def add(ctx: Context, a: int, b: int = 1) -> int:
    """Adds; negative numbers are a mistake."""
    if a < 0:
        raise ValueError("negative")
    return a + b


opened = asyncio.Event()
working: list[int] = []


@step
async def hold() -> None:
    """A step that takes until it is let go."""
    working.append(1)
    await opened.wait()
    working.pop()


@workflow
async def held(ctx: Context) -> None:
    """Works until it is let go."""
    await ctx.step(hold)


HOOKED: list[Workflow[..., Any]] = [take, add, greet, held]


def how(scheme: VerificationScheme, *secrets: str) -> Verification:
    """A scheme, with the secret HOOK unless others are given."""
    if scheme == "generic":
        return msgspec.structs.replace(GENERIC, secrets=secrets or ("HOOK",))
    return Verification(scheme=scheme, secrets=() if scheme == "none" else secrets or ("HOOK",))


class Hooks(Service):
    """A service to which webhooks are sent."""

    def __init__(self, service: ServiceApi) -> None:
        super().__init__(service)
        self.sent = 0

    async def trigger(self, workflow: str = "take", verify: Verification = GENERIC, *, tenant: str = "default", **more: Any) -> dict[str, Any]:
        """A new trigger, as the API shows it. `more` are fields of its config, but for `mapping` and `input`."""
        about = {name: value for name, value in msgspec.to_builtins(verify).items() if value}
        about = {"timestampHeader" if name == "timestamp_header" else name: value for name, value in about.items()}
        asked = {"name": f"hook {workflow}", "workflowId": workflow, "variableMapping": more.pop("mapping", {}), "input": more.pop("input", {})}
        key = await self.key("admin", "author", "operator", "viewer", tenant=tenant)
        answer = await self.by(key, "POST", "/api/triggers", {**asked, "config": {"type": "webhook", "path": "in", "verify": about, **more}})
        assert answer.status == 200, answer
        return dict(answer.json)

    async def send(
        self,
        trigger: Mapping[str, Any],
        body: Any = None,
        verify: Verification = GENERIC,
        *,
        secret: str = SECRET,
        method: str = "POST",
        query: str = "",
        at_s: float | None = None,
        **headers: str,
    ) -> Answer:
        """Sends a delivery as its sender does. A `body` that is not bytes is JSON; headers that are empty are left out."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.sent += 1
        now_s = (await self.store.store_time()).now_s if at_s is None else at_s
        signed = signed_headers(verify, secret, Signing(raw, int(now_s), headers.get("webhook_id", f"msg_{self.sent}")))
        given = {name.replace("-", "_").lower(): value for name, value in signed.items()} | {"content_type": "application/json"} | headers
        where = f"{trigger['webhookUrl']}?{query}" if query else str(trigger["webhookUrl"])
        return await self(method, where, raw=raw, **{name: value for name, value in given.items() if value})


@asynccontextmanager
async def hooks_in_process(directory: Path, settings: ServiceSettings = DEFAULTS, *, engine: bool = True) -> AsyncIterator[Hooks]:
    """A service over an engine, in this process, with nothing received yet."""
    received.clear()
    working.clear()
    opened.clear()
    async with App(HOOKED, tools={"note": note.fn}, db=f"sqlite:///{directory}/service.db", engine=engine) as app:
        yield Hooks(ServiceApi(app.client.access, settings))
