"""Records what an answer of a model has used, for who wants to know what workflows cost. The outcome of the step does not depend on it."""

from __future__ import annotations

import logging
from typing import NamedTuple

from perdure.code.step_environment import StepInfo, current_resources, step_info
from perdure.core.errors import StoreUnavailable
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest
from perdure.stores.model_usage_records import KEPT_S, ModelUsageEntry, encode_usage, usage_key
from perdure.stores.protocol import Post
from perdure.stores.records import RecordChange

logger = logging.getLogger("perdure.model_usage")


class Asker(NamedTuple):
    """The workflow and the step that ask a model."""

    workflow: str
    step: str


async def record_usage(request: ChatRequest, answer: ChatAnswer, asker: Asker | None, purpose: str = "") -> None:
    """Records the usage of an answer that the running step has received; nothing if no step runs here. The `purpose` tells several of one attempt apart."""
    try:
        info, store = step_info(), current_resources.get().store
    except LookupError:
        return
    if store is None:
        return
    workflow, step = asker or Asker(info.execution.workflow, _step_of(info))
    used, key = answer.usage, info.execution
    try:
        at_s = (await store.store_time()).now_s
        entry = ModelUsageEntry(
            workflow=workflow,
            step=step,
            model=answer.answered_by or request.model,
            execution=f"{key.workflow}/{key.id}",
            at_s=at_s,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cost_usd=used.cost_usd,
        )
        change = RecordChange(
            usage_key(key.tenant, at_s, f"{info.key}:{info.attempt}{f':{purpose}' if purpose else ''}"), 0, encode_usage(entry), expires_at_s=at_s + KEPT_S
        )
        _ = await store.commit([Post(records=(change,))])
    except StoreUnavailable as error:
        logger.warning("what %s has used is not in the list of costs, as it could not be recorded: %s. Its log has it", info.key, error)


def _step_of(info: StepInfo) -> str:
    """The name of the step in its workflow; a request for a repair counts as its step."""
    names = [segment[0] for segment in info.path if isinstance(segment, tuple) and segment[0] != "repair"]
    return str(names[-1]) if names else ""
