"""The messages that start the execution which looks for what people are notified of, one in a tenant, and have it look at once."""

from perdure.core import messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.operations import NOTICES_WORKFLOW
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.service.execution_operations import signal_message
from perdure.service.wire_types import NO_ARGUMENTS
from perdure.stores.protocol import HeadFilter, ReadOnlyStore

CHANGED = "rules changed"
WATCH_ID = "watch"
ENDED_MAX = 1_000


async def watch_messages(store: ReadOnlyStore, tenant: str, why: str) -> tuple[OutgoingMessage, ...]:
    """Returns the messages. Of several under one `why`, one arrives. An execution that somebody has ended is followed by another one."""
    going = await store.heads(HeadFilter(tenant=tenant, workflow=NOTICES_WORKFLOW, ended=False, limit=1))
    if going:
        return _messages_to(going[0].key, why)
    ended = await store.heads(HeadFilter(tenant=tenant, workflow=NOTICES_WORKFLOW, limit=ENDED_MAX))
    return _messages_to(Key(tenant, NOTICES_WORKFLOW, f"{WATCH_ID}-{len(ended) + 1}"), why)


def _messages_to(key: Key, why: str) -> tuple[OutgoingMessage, ...]:
    start = messages.StartMessage(1, NO_ARGUMENTS, 1)
    signal = signal_message(CHANGED, None, why)
    opens = NewExecution(program_name(NOTICES_WORKFLOW, 1), key)
    return (
        OutgoingMessage(key, "start", messages.encode_message(start), opens=opens),
        OutgoingMessage(key, f"message:{signal.key}", messages.encode_message(signal)),
    )
