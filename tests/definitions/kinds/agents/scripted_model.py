"""Models that answer by a script: what they say follows from how often they have answered before, so one who asks again after a crash is told the same."""

from collections.abc import Callable
from typing import Any

from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest, ModelUsage, ToolCall

USAGE = ModelUsage(input_tokens=100, output_tokens=10, cost_usd=0.01)


class ModelScript:
    """A model. Each answer is text, data, the names and arguments of tools, or a function of the request; `asked` are the requests that came."""

    def __init__(self, *answers: Any, usage: ModelUsage = USAGE) -> None:
        self.answers, self.usage = answers, usage
        self.asked: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> ChatAnswer:
        self.asked.append(request)
        number = sum(message.role == "assistant" for message in request.messages)
        if number >= len(self.answers):
            raise AssertionError(f"the script has no answer {number + 1}; asked with {request.messages[-1]}")
        given = self.answers[number]
        made = given(request) if callable(given) else given
        match made:
            case ChatAnswer():
                return made
            case str():
                return ChatAnswer(text=made, usage=self.usage, model=request.model)
            case [(str(), dict()), *_]:
                calls = tuple(ToolCall(f"call-{number}-{index}", name, args) for index, (name, args) in enumerate(made))
                return ChatAnswer(calls=calls, finish="tool", usage=self.usage, model=request.model)
        return ChatAnswer(data=made, usage=self.usage, model=request.model)

    @property
    def last(self) -> list[ChatMessage]:
        """The messages of the last request."""
        return list(self.asked[-1].messages)

    @property
    def results(self) -> list[tuple[str, bool]]:
        """What the model was told last of the tools that it asked for: the text, and whether it is an error."""
        last = max(index for index, message in enumerate(self.last) if message.role == "assistant")
        return [(message.text, message.is_error) for message in self.last[last + 1 :] if message.role == "tool"]


def deployed(**models: Callable[[ChatRequest], Any]) -> Deployment:
    """A deployment with these models."""
    return Deployment(models=models)
