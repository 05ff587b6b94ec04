"""Requests to models as steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

from agents import Model, ModelBehaviorError, ModelProvider, ModelResponse, Usage, UserError
from agents.items import TResponseStreamEvent
from openai.types.responses import Response, ResponseCompletedEvent, ResponseIncompleteEvent
from pydantic import TypeAdapter

from perdure.code.context import current_context
from perdure.openai_agents.agent_run import MODEL_ERRORS, StreamHandler, current_run, run_step

_RESPONSE = TypeAdapter(ModelResponse)


class DurableModel(Model):
    """A model whose requests are steps in a workflow; elsewhere, it is the model that `find` returns.

    The model is looked up in the step, because a client of a provider may need the event loop.
    """

    def __init__(self, find: Callable[[], Model]) -> None:
        self._find = find

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Asks the model, once: after a crash the recorded response is returned."""
        if current_context() is None:
            return await self._find().get_response(*args, **kwargs)
        settings = current_run().settings
        handler = settings.on_event

        async def perform() -> Any:
            model = self._find()
            response = await (model.get_response(*args, **kwargs) if handler is None else _streamed(model, handler, args, kwargs))
            return _RESPONSE.dump_python(response, mode="json", exclude_unset=True, warnings=False)

        found = await run_step("model.request", perform, settings.model, raises=MODEL_ERRORS)
        return _RESPONSE.validate_python(found)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Streams a response, outside of a workflow.

        Raises:
            UserError: in a workflow.
        """
        if current_context() is not None:
            raise UserError("A workflow can't stream an answer, which a replay would not repeat. Use PerdureRunner(on_event=...).run(agent, ...)")
        return self._find().stream_response(*args, **kwargs)


class DurableModelProvider(ModelProvider):
    """The models of another provider, as durable ones."""

    def __init__(self, inner: ModelProvider) -> None:
        self._inner = inner

    def get_model(self, model_name: str | None) -> Model:
        """Returns the durable model of a name."""
        return DurableModel(lambda: self._inner.get_model(model_name))


async def _streamed(model: Model, handler: StreamHandler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelResponse:
    """Asks a model, and gives the events of its answer to the handler while they arrive."""
    ended: Response | None = None
    async with aclosing(cast("Any", model.stream_response(*args, **kwargs))) as events:
        async for event in events:
            await handler(event)
            if isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent):
                ended = event.response
    if ended is None:
        raise ModelBehaviorError("The model ended its stream without a response")
    return ModelResponse(output=ended.output, usage=_usage(ended), response_id=ended.id)


def _usage(response: Response) -> Usage:
    used = response.usage
    if used is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.total_tokens,
        input_tokens_details=used.input_tokens_details,
        output_tokens_details=used.output_tokens_details,
    )
