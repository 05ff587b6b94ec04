"""A provider to be asked over real HTTP, and a deployment whose models are there: one of each protocol, and one that has no schemas of its own."""

from collections.abc import Callable
from typing import Any

from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatMessage, ChatRequest
from perdure.fake_llm import models

KEY = "sk-canary-0123456789"
NAMES = ("small", "medium", "large", "plain")
SHAPE = {
    "type": "object",
    "properties": {"label": {"enum": ["bug", "question"]}, "confidence": {"type": "number"}},
    "required": ["label", "confidence"],
}
BUG = {"label": "bug", "confidence": 0.9}


def deployment(url: str, secret: Callable[[str], str | None] = lambda name: KEY, **more: Any) -> Deployment:
    """The models of the provider at `url`; `more` changes or adds entries."""
    known: dict[str, Any] = models(url)
    known["plain"] = {"provider": "anthropic", "model": "claude-x", "base_url": url, "price": {"input": 2, "output": 10, "cache_read": 0.2}}
    return Deployment(models={**known, **more}, secret=secret)


def said(text: str, model: str = "small", **more: Any) -> ChatRequest:
    """A request of one message."""
    return ChatRequest(model=model, messages=(ChatMessage("user", text),), **more)
