"""The pages of kinds, made of what they declare: what stands behind the verb, what comes of it, ports, limits, whether it may be repeated, an example.

    python -m tests.docs.kinds

writes ``docs/reference/kinds``; a test compares, and runs each example to the result that its page states.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.definitions.format import model
from perdure.definitions.format.shapes import FieldsShape
from perdure.definitions.kinds.kind_descriptions import KindDescription, built_in_verbs, describe_kind
from perdure.definitions.kinds.kind_registry import OWN_KINDS, KindRegistry
from tests.docs.definitions import parts, said, table
from tests.docs.pages import ROOT
from tests.docs.reference import filled

DIRECTORY = ROOT / "docs/reference/kinds"
HEADER = "<!-- Written by `python -m tests.docs.kinds` from what the kinds declare: change that. -->"
GUIDES = {
    "agent": "agents",
    "agent_message": "agents",
    "bash": "bash",
    "call": "children",
    "file": "files",
    "http": "kinds",
    "llm": "models",
    "openapi": "openapi",
    "pipeline": "pipelines",
    "python": "sandboxes",
    "sql": "sql",
    "task": "workers",
    "tool": "definitions",
    "ts": "sandboxes",
}
"""The guide that tells of a kind."""

GIVES: dict[str, Any] = {
    "agent": {"billing": {"team": "billing"}},
    "agent_message": "Your name is Ada.",
    "bash": {"words": "6\n", "sum": "2e9d72a733ae5a6c1c1ebd6802a33dfc92854bfc3439878e5d77dac320995f54  note.txt\n", "exit_code": 0},
    "call": "receipt for 2",
    "file": {"rows": [{"item": "tea", "cents": "300"}, {"item": "coffee", "cents": "450"}], "first": "log.txt"},
    "http": {"charged": True, "id": "ch_1"},
    "llm": {"label": "bug", "tokens": 40},
    "openapi": {"name": "Tom", "adoption": "a-1"},
    "pipeline": [{"name": "tea", "price": 30}, {"name": "rice", "price": 20}, {"name": "flour", "price": 10}],
    "python": {"Ada": 2, "Grace": 1},
    "sql": [1, 1],
    "task": ["small a.png", "small b.png"],
    "tool": "ch_1",
    "ts": {"Ada": 2, "Grace": 1},
}
"""What the example of a kind comes to, run as `test_kinds` does."""


def shown() -> dict[str, KindDescription]:
    """All that there is a page of."""
    registry = KindRegistry()
    return {**{name: describe_kind(registry[name]) for name in OWN_KINDS}, **built_in_verbs()}


def page(one: KindDescription) -> str:
    """The page of a kind."""
    return "\n".join(_lines(one)) + "\n"


def _lines(one: KindDescription) -> Iterator[str]:
    yield HEADER
    yield f"\n# {one.name}: {one.title}\n"
    yield filled(one.summary if one.summary.endswith(".") else f"{one.summary[:1].upper()}{one.summary[1:]}.")
    yield f"\nTold of in [the guide](../../guides/{GUIDES[one.name]}.md)" + (f'; `pip install "perdure[{one.extra}]"`.' if one.extra else ".")
    yield "\n## What stands behind it\n"
    shape = model.verbs_by_name()[one.name].shape
    yield (
        f"{said(shape)[:1].upper()}{said(shape)[1:]}."
        if not isinstance(shape, FieldsShape)
        else "A mapping" + (f", or `{shape.sugar}` alone." if shape.sugar else ".")
    )
    seen = set[str]()
    for fields in parts(shape):
        if fields.what not in seen:
            seen.add(fields.what)
            yield f"\n### {fields.what}\n"
            yield from table(fields.fields)
    if one.input:
        yield "\n## What stands in `with`\n"
        yield from _schema(one.input)
    if one.output:
        yield "\n## What comes of it\n"
        yield from _schema(one.output)
    yield "\n## Ports\n"
    yield ", ".join(f"`{port}`" for port in one.ports) + "."
    if one.limits:
        yield "\n## Limits\n"
        yield "| what | how much | at most | and then |\n|---|---|---|---|"
        for limit in one.limits:
            yield f"| {limit['name']} | {limit['default']} | {limit['most'] or ''} | {limit['then']} |"
    yield "\n## Done again after an interruption?\n"
    yield filled(f"{one.idempotency[:1].upper()}{one.idempotency[1:]}" + ("" if one.idempotency.endswith(".") else "."))
    yield "\n## An example\n"
    yield f"```yaml\n{one.example.strip()}\n```\n"
    yield f"comes to\n\n```json\n{msgspec.json.format(msgspec.json.encode(GIVES[one.name]), indent=2).decode()}\n```"


def _schema(schema: dict[str, Any]) -> Iterator[str]:
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        yield f"```json\n{msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()}\n```"
        return
    if schema.get("description"):
        yield filled(f"{schema['description'][:1].upper()}{schema['description'][1:]}.") + "\n"
    yield "| field | type | what |\n|---|---|---|"
    for name, about in properties.items():
        kinds = about.get("type", "anything")
        yield f"| `{name}` | {' or '.join(kinds) if isinstance(kinds, list) else kinds} | {about.get('description', '')} |"


def pages() -> dict[str, str]:
    """All pages by the names of their files."""
    return {f"{name}.md": page(one) for name, one in sorted(shown().items())}


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
