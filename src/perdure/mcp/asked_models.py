"""A model that answers what a server asks while it performs a call (*sampling*), if the configuration of the server allows it.

The model sees what the server sends, and nothing else: it has no tools and knows nothing of the execution. What it costs counts for the step that calls the
tool. Nothing of it is in the log: a call that is made again asks again.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.code.step_environment import StepInfo
from perdure.definitions.kinds.agents.attachments import attachment_of
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import Attachment, ChatMessage, ChatRequest
from perdure.mcp.elicited_approvals import CallOfStep
from perdure.mcp.server_configs import Sampling

STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool": "endTurn", "filter": "refusal"}
"""Why an answer has ended, in the words of the protocol."""


class SamplingRefused(Exception):
    """The server asks a model more than it may, or what the model can't be asked. The server is told, and decides how the call goes on."""


class SampledAnswer(NamedTuple):
    """The answer of a model, with its name, and why it has ended, in the words of the protocol."""

    text: str
    model: str
    stop_reason: str


class AskedModel(CallOfStep):
    """Asks the model that a `server` is `allowed`, on behalf of one call of a tool. It is made in the step that calls, whose secrets and name it uses."""

    def __init__(self, server: str, allowed: Sampling, info: StepInfo, deployment: Deployment) -> None:
        super().__init__(info)
        self._server, self._allowed, self._deployment = server, allowed, deployment
        self._context = contextvars.copy_context()
        self._requests, self._left_s = 0, allowed.timeout_s

    async def ask(self, asked: Mapping[str, Any]) -> SampledAnswer:
        """Asks the model what a server asks: ``sampling/createMessage`` as JSON of the protocol.

        Raises:
            SamplingRefused: it asks too often, or takes too long, or the model can't be asked this, or has failed.
        """
        allowed = self._allowed
        self._requests += 1
        if self._requests > allowed.requests:
            raise SamplingRefused(f"{self._server} may ask a model {allowed.requests} times in one call, and has")
        request = sampling_request(allowed.model, asked, allowed.max_tokens)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answering = loop.create_task(self._answer(request, self._requests), context=self._context)
        try:
            async with asyncio.timeout(max(self._left_s, 0.0)):
                return cut(await answering, asked.get("stopSequences") or ())
        except TimeoutError:
            raise SamplingRefused(f"the model {allowed.model} has not answered within the {allowed.timeout_s:g} s that {self._server} has for a call") from None
        except Exception as error:  # a provider fails in many ways; the call goes on without the answer
            raise SamplingRefused(f"the model {allowed.model} has not answered: {error}") from error
        finally:
            _ = answering.cancel()
            self._left_s -= loop.time() - began_s

    async def _answer(self, request: ChatRequest, number: int) -> SampledAnswer:
        from perdure.definitions.kinds.models.model_fallback import request_answer  # here, as it takes a library that is optional

        answer = await request_answer(request, self._deployment, purpose=f"sampling-{number}")
        return SampledAnswer(answer.text, answer.model or request.model, STOP_REASONS[answer.finish])


def sampling_request(model: str, asked: Mapping[str, Any], tokens_max: int) -> ChatRequest:
    """Returns what a server asks as a request to a model.

    Raises:
        SamplingRefused: a message has something else than text, images and audio.
    """
    wanted = asked.get("maxTokens")
    return ChatRequest(
        model=model,
        messages=tuple(_message(one) for one in asked.get("messages") or ()),
        system=str(asked.get("systemPrompt") or ""),
        temperature=asked.get("temperature"),
        max_tokens=min(wanted, tokens_max) if isinstance(wanted, int) and wanted > 0 else tokens_max,
    )


def _message(one: Mapping[str, Any]) -> ChatMessage:
    content = one.get("content")
    parts = content if isinstance(content, list) else [content]
    texts, attached = list[str](), list[Attachment]()
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case _ if (found := attachment_of(part)) is not None and one.get("role") == "user":
                attached.append(found)
            case _:
                kind = part.get("type") if isinstance(part, Mapping) else msgspec.json.encode(part).decode()[:100]
                raise SamplingRefused(f"a message of {one.get('role')} has {kind}, which the model can't be sent; send text, or images from the user")
    role: Literal["user", "assistant"] = "assistant" if one.get("role") == "assistant" else "user"
    return ChatMessage(role, "\n".join(texts), attachments=tuple(attached))


def cut(answer: SampledAnswer, stops: Sequence[str]) -> SampledAnswer:
    """Returns an answer up to the first of the texts at which it was to stop, since not every provider takes them."""
    ends = [at for stop in stops if stop and (at := answer.text.find(stop)) >= 0]
    return answer._replace(text=answer.text[: min(ends)], stop_reason="stopSequence") if ends else answer
