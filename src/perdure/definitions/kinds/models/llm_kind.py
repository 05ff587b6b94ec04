"""The kind ``llm``: a step that sends one request to a model. An answer that does not fit the schema is repaired by a further call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.core.errors import Fatal
from perdure.definitions.graph.step_kind import Kind, KindResult, Limit
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_fallback import request_answer
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest

DEFAULT_MODEL = "default"
"""The model of a step that names none."""

TIMEOUT = "10m"

EXAMPLE = """
perdure: 1
name: sort
input: {text: {type: string, default: It crashes when I press Save}}
steps:
  - id: classify
    llm:
      model: small
      system: You sort what customers write.
      prompt: "Classify: @{input.text}"
      schema: {label: {enum: [bug, question]}, confidence: {type: number}}
output: {label: "@classify.label", tokens: "@steps.classify.output.meta.usage.input_tokens"}
"""


def llm_kind(deployment: Deployment) -> Kind:
    """The kind ``llm`` for the models of a deployment."""

    async def run(config: dict[str, Any], input: Any = None, env: Any = None) -> KindResult:
        wanted = step_request(config, input)
        return step_result(await request_answer(wanted, deployment, config.get("stream") is True), wanted)

    return Kind(
        "llm",
        run,
        title="Ask a model",
        summary="One request to a language model; with a schema the answer is data that fits it, and what does not fit is asked for again.",
        icon="sparkles",
        limits=(
            Limit("timeout", TIMEOUT, None, "the attempt fails, and the next follows as `retry` says"),
            Limit("repairs", "1", None, "the step fails with `bad_answer`, which lists what does not fit"),
        ),
        idempotency="yes: asking again changes nothing, and costs again; the key goes along as Idempotency-Key",
        check=_check,
        timeout=TIMEOUT,
        extra="agents",
        example=EXAMPLE,
    )


def step_request(config: dict[str, Any], input: Any = None) -> ChatRequest:
    """The request of a step: earlier messages, the prompt with the step's input, and the repairs so far.

    Raises:
        Fatal: the config is not a valid request.
    """
    said = config.get("messages") or []
    if not isinstance(said, list):
        raise Fatal("messages of an llm step must be a list of {role: user or assistant, text: …}")
    messages = [_message(one, index) for index, one in enumerate(said)]
    prompt = "\n\n".join(_text(one) for one in (config.get("prompt"), input) if one is not None)
    if prompt:
        messages.append(ChatMessage("user", prompt))
    for one in config.get("repair") or ():
        messages += _repair(str(one["answer"]), str(one["wrong"]))
    if not messages or messages[-1].role != "user":
        raise Fatal("an llm step needs a prompt, or messages of which the last is a user's")
    try:
        return ChatRequest(
            model=str(config.get("model") or DEFAULT_MODEL),
            messages=tuple(messages),
            system=_text(config.get("system") or ""),
            schema=config.get("schema"),
            temperature=msgspec.convert(config.get("temperature"), float | None),
            max_tokens=msgspec.convert(config.get("max_tokens"), int | None),
        )
    except msgspec.ValidationError as error:
        raise Fatal(f"temperature and max_tokens of an llm step are numbers: {error}") from None


def _message(given: Any, index: int) -> ChatMessage:
    match given:
        case {"role": "user" | "assistant" as role, "text": text} | {"role": "user" | "assistant" as role, "content": text}:
            return ChatMessage(role, _text(text))
    raise Fatal(f"messages[{index}] of an llm step must be {{role: user or assistant, text: …}}")


def _repair(answer: str, wrong: str) -> list[ChatMessage]:
    """The answer of the model, and the message that asks for its repair."""
    asked = ChatMessage("user", f"That does not fit what was asked for: {wrong}. Answer again, completely, with data that fits the schema and nothing else.")
    return [ChatMessage("assistant", answer), asked] if answer.strip() else [asked]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def step_result(answer: ChatAnswer, wanted: ChatRequest) -> KindResult:
    """The result of a step with its metadata. With a schema it is the data; an answer that is not data is kept in ``meta.text``."""
    usage = {name: getattr(answer.usage, name) for name in answer.usage.__struct_fields__}
    meta: dict[str, Any] = {
        "llm": {"model": answer.model, "temperature": wanted.temperature, "provider": answer.provider, "name": answer.answered_by or wanted.model},
        "finish": answer.finish,
        "usage": usage,
    }
    if wanted.schema is None:
        return KindResult({"text": answer.text, "finish": answer.finish, "model": answer.model, "usage": usage}, meta)
    return KindResult(answer.data, {**meta, "text": answer.text} if answer.text else meta)


def _check(config: Any) -> Iterator[tuple[str, str]]:
    if isinstance(config, dict) and config.get("prompt") is None and not config.get("messages"):
        yield "", "nothing is asked: say a prompt, or messages"
