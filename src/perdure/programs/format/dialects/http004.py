"""Nodes of the type `http` whose config says a URL: requests, with params as their query. Any other is work for a worker of that type.

Where a loop or a branch looks at what came of it, an answer of any status is its output, as their conditions read ``output.status``; else a status from 400
on is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.programs.format.dialects.reading import Fields
from perdure.programs.format.dialects.values004 import Values

HTTP = "http"
FIELDS = {"url": "url", "method": "method", "headers": "headers", "params": "query", "query": "query", "body": "body", "json": "json", "form": "form"}
"""What a config may say, and what that is called in a definition."""

SCHEME = "https://"
"""That of a URL which says none, as ``api.example/search``."""


def is_request(config: Fields) -> bool:
    """Whether a config says where a request goes."""
    return isinstance(config.value.get("url"), str)


def request(config: Fields, values: Values, is_judged: bool) -> dict[str, Any]:
    """The request that a config is. What else stands in it is left out, and told of."""
    found = {FIELDS[name]: values.read(config.any(name), config.at(name)) for name in config.value if name in FIELDS and config.has(name)}
    url = str(found["url"])
    if "://" not in url.partition("?")[0] and not url.startswith("@"):
        found["url"] = SCHEME + url
    config.left(FIELDS)
    return found | ({"accept": "any"} if is_judged else {})


def config_of(http: Any, value: Callable[[Any], Any]) -> dict[str, Any]:
    """A request as the config of a node; `value` writes a template."""
    fields: dict[str, Any] = {"url": http} if isinstance(http, str) else http
    return {"params" if name == "query" else name: value(given) for name, given in fields.items() if name != "accept"}
