"""The recording in the sample of the console: a refund, with literals that could be references, a call that fails, and a result that is given."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from perdure import AsyncClient
from perdure.code.declarations import Retry, Step
from perdure.recording.recording_messages import ToolAnswer, ToolCallFailed
from perdure.recording.recording_workflow import recording_workflow
from perdure.workflow_function import Workflow

REFUND = "refund-5521"

ANSWERS: dict[str, dict[str, Any]] = {
    "crm.find_customer": {"id": "c-17", "name": "Mara Lind", "email": "mara@example.org"},
    "shop.list_orders": {"orders": [{"id": "o-5521", "cents": 6_490, "charges": 2}, {"id": "o-5498", "cents": 900, "charges": 1}]},
    "bank.refund": {"refund": "rf-90031", "cents": 6_490},
    "shop.add_note": {"ok": True},
}


async def _answer(name: str, **_: Any) -> ToolAnswer:
    return ToolAnswer([{"type": "text", "text": name}], ANSWERS[name])


async def _fail(**_: Any) -> ToolAnswer:
    said = "no such mailbox: mara@example.org"
    raise ToolCallFailed(said, {"isError": True, "content": [{"type": "text", "text": said}]})


async def _count(seconds: float, **_: Any) -> ToolAnswer:
    await asyncio.sleep(seconds)
    return ToolAnswer([{"type": "text", "text": "12"}], {"pieces": 12})


def _find(name: str, _: str) -> Step[..., Any, Any] | None:
    async def call(**arguments: Any) -> ToolAnswer:
        return await _answer(name, **arguments)

    function: Callable[..., Awaitable[ToolAnswer]]
    match name:
        case "mail.send":
            function = _fail
        case "shop.count_stock":
            function = _count
        case _ if name in ANSWERS:
            function = call
        case _:
            return None
    return Step(function, name=name, retry=Retry(max=1), idempotent=False, raises=(ToolCallFailed,))


RECORDING: Workflow[..., Any] = Workflow(recording_workflow(_find), lambda: ())
"""The workflow of recordings, in an engine with the tools of the sample."""


async def record_refund(client: AsyncClient) -> None:
    """Records a refund as somebody would do it by hand."""
    recordings = client.recordings
    _ = await recordings.start(REFUND, title="Refund a double charge", input={"ticket": "T-1041"})
    _ = await recordings.call(REFUND, "crm.find_customer", {"email": "mara@example.org"})
    _ = await recordings.call(REFUND, "shop.list_orders", {"customer": "@find_customer_1.id", "limit": 20})
    _ = await recordings.call(REFUND, "bank.refund", {"order": "o-5521", "cents": 6_490})
    _ = await recordings.call(REFUND, "shop.add_note", {"order": "o-5521", "text": "Refund rf-90031 for ticket T-1041"})
    _ = await recordings.call(REFUND, "mail.send", {"to": "mara@example.org", "text": "We have given back the second charge of o-5521"})
    _ = await recordings.preset(REFUND, {"sent": True}, tool="mail.confirm", arguments={"to": "mara@example.org"})
    _ = await recordings.start("empty", title="")
    _ = await recordings.start("done", title="Restock by hand")
    _ = await recordings.call("done", "shop.list_orders", {"customer": "c-17"})
    await recordings.end("done")
