"""Claims about what the catalog says of tools when a definition is checked: those of the engine of this process are held against what steps give to them."""

from pathlib import Path
from typing import Any

from perdure import App

DOCUMENT = """
perdure: 1
name: sums
steps:
  - {id: good, tool: add, with: {a: 1, b: 2}}
  - {id: bad, tool: add, with: {a: "one", c: 3}}
  - {id: elsewhere, tool: of_another_engine, with: {x: 1}}
"""


def add(a: int, b: int) -> int:
    return a + b


async def said(app: App) -> list[tuple[str, int, str]]:
    found: Any = await app.client.catalog.validate(DOCUMENT)
    return [(one.code, one.line, one.severity) for one in found.findings if "argument" in one.code]


async def test_arguments_of_a_known_tool_are_checked_with_a_definition(tmp_path: Path) -> None:
    async with App([], tools=[add], db=f"sqlite:///{tmp_path}/it.db") as app:
        assert await said(app) == [("missing_argument", 6, "warning"), ("bad_argument", 6, "warning"), ("unknown_argument", 6, "warning")]
        saved = await app.client.catalog.create(DOCUMENT)
        assert saved.version == "1.0.0", "they are warnings: a tool may change"


async def test_where_no_engine_with_the_tool_runs_nothing_is_said_of_it(tmp_path: Path) -> None:
    async with App([], db=f"sqlite:///{tmp_path}/it.db", engine=False) as app:
        assert await said(app) == []
