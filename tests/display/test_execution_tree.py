"""Displays of executions: complete, escaped, bounded, legible, and the same as the command line shows."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import App, AsyncHandle, Context, Fatal, Handle, Signal, step, workflow
from perdure.cli import plain_text
from perdure.cli.plain_text import STYLES, TextCell, TreeNode
from perdure.core.errors import ErrorInfo
from perdure.core.values import Blob
from perdure.core.views import StepState, StepView
from perdure.display import html_text
from perdure.display.execution_list import ExecutionList
from perdure.display.execution_tree import HTML_NODES_MAX, TEXT_NODES_MAX, ExecutionTree, limited_tree, value_text
from perdure.service.execution_details import ExecutionDetails
from perdure.sync_client import Client
from perdure.testing.world import World

HOSTILE = "<script>alert('1')</script>\" onload=\"x\x1b[31m&amp;"
decided = Signal("decided", str)


@step
async def charge(order: str) -> dict[str, str]:
    return {"id": f"ch_{order}"}


@step
async def refuse(order: str) -> None:
    raise Fatal(f"{order}: {HOSTILE}")


@workflow
async def pack(ctx: Context, order: str) -> str:
    return (await ctx.step(charge, order))["id"]


@workflow
async def fail(ctx: Context, order: str) -> None:
    await ctx.step(refuse, order)


@workflow
async def order(ctx: Context, order_id: str) -> str:
    ctx.set("stage", "packing")
    ctx.emit({"done": 1, "of": 2})
    await ctx.call(pack, order_id)

    async def packed(c: Context) -> None:
        await c.step(charge, "gift")

    await ctx.join(gift=packed, pause=lambda c: c.sleep("1m"))
    return await ctx.listen(decided)


@workflow
async def hostile(ctx: Context) -> str:
    await ctx.step(step(name=HOSTILE)(charge.fn), HOSTILE)
    await ctx.attempt(refuse, HOSTILE)
    ctx.set(HOSTILE, HOSTILE)
    return HOSTILE


app = App([order, hostile, fail], db="sqlite:///of-production.db")


class _Checker(HTMLParser):
    """Checks that HTML is balanced and of the allowed elements; collects its text and its colours."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "span", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "pre"}, tag
        assert {name for name, _ in attrs} <= {"style", "open"}, attrs
        assert "url(" not in str(attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(html: str) -> str:
    """The text that a browser shows, after a check of the elements."""
    checker = _Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return "".join(checker.text)


def test_a_tree_has_states_times_values_and_children(world: World) -> None:
    with world.open(app) as shop:
        handle = shop.start(order.with_(id="o1"), "o1")
        world.skip("1m")
        handle.send("other", 1)
        lines = repr(handle.tree()).splitlines()
        assert lines[:2] == ["order/o1  waiting", "  waits for the message decided (listen:decided)"]
        assert "  operations   6 completed, 1 waiting" in lines
        assert "  emitted      1 value, the last one {'done': 1, 'of': 2}" in lines and "  state        stage = 'packing'" in lines
        assert "  unread       other (1): nothing waits for a message of this name" in lines
        begin = lines.index("✓  set:stage  state: stage  0 ms  → 'packing'")
        assert lines[begin + 1 :] == [
            "✓  emit  stream  0 ms  → {'done': 1, 'of': 2}",
            "✓  call:pack  spawn  0 ms  → 'ch_o1'",
            "└── pack/default%2Forder%2Fo1:call:pack  completed",
            "    └── ✓  charge  call  0 ms  → {'id': 'ch_o1'}",
            "✓  join",
            "├── gift",
            "│   └── ✓  charge  call  0 ms  → {'id': 'ch_gift'}",
            "└── pause",
            "    └── ✓  sleep:1m  1 min",
            "…  listen:decided  receive  waiting  for 0 ms",
        ]
        shown = text_of(handle.tree()._repr_html_())
        for line in lines:
            assert line.lstrip("├─└│ ").replace("  ", " ") in shown.replace("  ", " "), line
        handle.send(decided, "yes")
        assert handle.result() == "yes"
        assert "  result       'yes'" in repr(handle.tree()) and "✓  listen:decided  receive  0 ms  → 'yes'" in repr(handle.tree())


def test_what_a_tree_gives_can_be_used_by_programs(world: World) -> None:
    with world.open(app) as shop:
        tree = shop.start(order.with_(id="o1"), "o1").tree()
        assert (tree.key.id, tree.status.status) == ("o1", "waiting")
        assert [one.path for one in tree.steps if one.kind == "spawn"] == ["call:pack"]
        assert tree.children["call:pack"].status.status == "completed"
        world.skip("1m")
        world.get("o1", order).send(decided, "yes")


def test_names_values_and_errors_of_users_are_text(world: World) -> None:
    with world.open(app) as shop:
        handle = shop.start(hostile.with_(id=HOSTILE.replace("\x1b", "")))
        tree, listed = handle.tree(), shop.client.list()
        assert isinstance(listed, ExecutionList)
        for html in (tree._repr_html_(), handle._repr_mimebundle_()["text/html"], listed._repr_html_()):
            assert "<script" not in html.lower() and 'onload="x' not in html and "\x1b" not in html
            assert "<script>alert" in text_of(html)
        assert "\x1b" not in repr(tree)
        shown = text_of(tree._repr_html_())
        assert shown.count("<script>") >= 6, "id, name of the step, error, name and value of the state, result"


def test_a_failed_part_is_expanded_and_a_successful_one_is_not() -> None:
    quiet = TreeNode((TextCell("packed"),), (), (TreeNode((TextCell("a"),), quiet=True),), quiet=True)
    loud = TreeNode((TextCell("paid"),), (TextCell("refused"),), (TreeNode((TextCell("b"),)),))
    html = html_text.tree([quiet, loud])
    assert html.startswith("<details><summary>packed") and "<details open><summary>paid" in html and html.index("refused") < html.index(">b<")


def test_a_child_that_failed_is_shown_under_the_step_that_started_it(world: World) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        await ctx.attempt(fail, "o1")
        return "over"

    run = world.start(parent)
    tree = world.call(AsyncHandle(world.access, run.key, str).tree())
    assert tree.children["call:fail"].status.status == "failed"
    assert "fail/default%2Fparent%2F1:call:fail  failed" in repr(tree)
    assert "<details open>" in tree._repr_html_()


STATES: tuple[StepState, ...] = ("completed", "failed", "waiting", "performing", "retrying")


def large(world: World, count: int, states: tuple[StepState, ...] = ("completed",)) -> ExecutionTree:
    """The tree of an execution with so many operations, in these states by turns, each with a long name and a large value."""
    with world.open(app) as shop:
        details: ExecutionDetails = shop.start(hostile.with_(id="h")).tree()._details
    error = ErrorInfo("ValueError", "x" * 10_000, "", None)
    steps = [
        StepView(
            f"step {number} {'n' * 300}", "call", "charge", state, 3, 0.0, None if state in STATES[2:] else 1.0, error=error if state == "failed" else None
        )
        for number in range(count)
        for state in (states[number % len(states)],)
    ]
    results = dict.fromkeys((one.path for one in steps), msgspec.msgpack.encode({"text": "v" * 8_000}))
    return ExecutionTree(msgspec.structs.replace(details, steps=steps, values=msgspec.structs.replace(details.values, results=results)))


@pytest.mark.slow
@pytest.mark.parametrize("states", [STATES[:1], STATES[1:2], STATES[2:3], STATES], ids=["completed", "failed", "waiting", "mixed"])
def test_ten_thousand_operations_are_displayed_in_a_bounded_size(world: World, states: tuple[StepState, ...]) -> None:
    tree = large(world, 10_000, states)
    html, text = tree._repr_html_(), repr(tree)
    assert len(html) < 500_000 and len(text.splitlines()) < 3 * TEXT_NODES_MAX and len(text) < 50_000
    assert html.count("step ") <= HTML_NODES_MAX
    assert re.search(r"… [\d,]+ (completed|more)", text_of(html))
    assert f"operations   {'10,000 ' + states[0] if len(states) == 1 else '2,000 completed'}" in text


def test_what_is_open_is_shown_before_what_has_failed_and_that_before_the_rest() -> None:
    done, bad, live = (
        TreeNode((TextCell(name),), (), (), quiet, is_open) for name, quiet, is_open in (("done", True, False), ("bad", False, False), ("live", False, True))
    )
    nodes = [*[replace(done) for _ in range(100)], replace(live), *[replace(done) for _ in range(100)], replace(bad), *[replace(done) for _ in range(100)]]
    assert plain_text.tree(limited_tree(nodes, 4)).splitlines() == ["done", "… 99 completed", "live", "… 100 completed", "bad", "… 99 completed", "done"]
    assert [node.cells[0].text for node in limited_tree(nodes, 1)] == ["… 100 completed", "live", "… 201 more"]
    assert limited_tree(nodes, 400) == tuple(nodes)


def test_of_what_lies_deep_only_the_open_part_is_shown() -> None:
    leaf = TreeNode((TextCell("leaf"),), quiet=True)
    live = TreeNode((TextCell("live"),), open=True)
    turns = [TreeNode((TextCell(f"turn {number}"),), (), tuple(replace(leaf) for _ in range(10)), quiet=True) for number in range(50)]
    open_turn = TreeNode((TextCell("turn 50"),), (), (*(replace(leaf) for _ in range(9)), live), open=True)
    assert plain_text.tree(limited_tree([*turns, open_turn], 4)).splitlines() == [
        "turn 0",
        "└── … 10 completed",
        "… 48 completed",
        "turn 49",
        "└── … 10 completed",
        "turn 50",
        "├── … 9 completed",
        "└── live",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (msgspec.msgpack.encode([1, "two", None]), "[1, 'two', None]"),
        (msgspec.msgpack.encode(list(range(1000))), "[0, 1, 2, 3, 4, 5, ...]"),
        (msgspec.msgpack.encode("line\n\x1b"), r"'line\n\x1b'"),
        (msgspec.msgpack.encode("x" * 20_000), "(19.5 KiB)"),
        (Blob("ab", 3 * 2**20), "(3.0 MiB)"),
        (b"\xc1", "(not readable: MessagePack data is malformed"),
    ],
)
def test_values_are_shortened(value: Any, shown: str) -> None:
    assert value_text(value).startswith(shown) and len(value_text(value)) <= 120


def luminance(color: str) -> float:
    """The relative luminance of a colour, as WCAG defines it."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("background", ["#ffffff", "#111111", "#1e1e1e"], ids=["light", "dark", "dark grey"])
@pytest.mark.parametrize("style", STYLES)
def test_every_style_can_be_read_on_light_and_dark_pages(style: str, background: str) -> None:
    css = html_text.STYLES[style]
    colors = re.findall("#[0-9a-f]{6}", css)
    if not colors:
        assert "color" not in css, "the colour of the page, with less opacity or bold"
        return
    lighter, darker = sorted((luminance(colors[0]), luminance(background)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3.5


def test_an_async_handle_says_what_to_await_and_a_closed_one_why_it_shows_nothing(tmp_path: Path) -> None:
    shop = App([pack], db=f"sqlite:///{tmp_path}/shop.db")
    with shop as face:
        handle = face.start(pack.with_(id="<p>"), "o1")
        handle.result()
        assert repr(handle) == "<handle of default/pack/%3Cp%3E>"
        assert handle._repr_mimebundle_()["text/plain"].startswith("pack/<p>  completed")
        said = handle._inner._repr_mimebundle_()
        assert said["text/plain"].startswith("<handle of default/pack/%3Cp%3E>\n`await handle.tree()`")
        assert "await handle.tree()" in text_of(said["text/html"])
    assert handle._repr_mimebundle_()["text/plain"].endswith("it can't be displayed: this client was closed; open another one")


def test_the_handle_of_a_client_reads_what_is_new_each_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with Client(url) as client:
        handle: Handle[str] = client.start(pack.with_(id="p"), "o1")
        assert "start an engine that knows it" in handle._repr_mimebundle_()["text/plain"]
        pack.with_(id="p", db=url).run("o1")
        assert "→ {'id': 'ch_o1'}" in handle._repr_mimebundle_()["text/plain"]


def test_a_definition_is_displayed_with_the_verbs_of_its_steps(world: World) -> None:
    from perdure import Definition

    document = {"perdure": 1, "name": "greet", "input": {}, "steps": [{"id": "hello", "tool": "hello", "with": {}}], "output": "@hello"}
    with world.open(App(definitions=Definition.of(document, tools=[hello]))) as face:
        handle = face.start("greet")
        assert handle.result() == "Hello"
        assert "✓  hello  tool  0 ms  → 'Hello'" in repr(handle.tree())


def hello() -> str:
    """Greets."""
    return "Hello"


@pytest.mark.slow
def test_displays_need_neither_the_command_line_nor_ipython(tmp_path: Path) -> None:
    program = f"""
import sys
for name in ("click", "rich", "IPython"):
    sys.modules[name] = None
from tests.display.test_execution_tree import pack, App
with App([pack], db="sqlite:///{tmp_path}/shop.db") as shop:
    handle = shop.start(pack, "o1")
    handle.result()
    handle._repr_mimebundle_(), shop.client.list()._repr_html_()
    print(handle.tree())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[2])
    assert "charge  call" in ended.stdout, ended.stderr


@pytest.mark.slow
def test_a_program_that_displays_nothing_loads_no_displays() -> None:
    program = "import sys, perdure; from perdure.sync_client import Client; print([one for one in sys.modules if one.startswith(('perdure.cli', 'IPython'))])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "[]\n"
