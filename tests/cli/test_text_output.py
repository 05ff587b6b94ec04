"""From data to text: what is drawn says the same in a pipe and on a terminal, fits its width, and can't upset the terminal."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli import execution_views, plain_text, rich_text, terminal_text
from perdure.cli.plain_text import TextCell, TextTable, TreeNode, cell
from perdure.cli.terminal import Screen
from perdure.core.errors import ErrorInfo
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.service.queries import ListedExecution

NOW_S = 1_000_000.0
ODD = ["plain", "two words", "日本語のキー", "naïve café", "🦀🦀", "a\x1b[31mred", "line\nbreak", "\u202eright to left", "[bold]x[/bold]", "\udc80", "\u200b"]


def table_of(texts: list[str]) -> TextTable:
    return TextTable(("NAME", "STATUS"), tuple((cell(text), plain_text.status_cell("waiting")) for text in texts))


def test_columns_stand_below_each_other_whatever_is_in_them() -> None:
    lines = plain_text.table(table_of(ODD)).splitlines()
    assert len(lines) == len(ODD) + 1
    assert {
        terminal_text.width(line.rpartition("  ")[0]) + 2 if "waiting" in line else terminal_text.width(line[: line.index("STATUS")]) for line in lines
    } == {terminal_text.width(lines[0][: lines[0].index("STATUS")])}


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_table_is_no_wider_than_the_terminal(columns: int) -> None:
    drawn = rich_text.table(table_of([*ODD, "x" * 300]), Screen(True, columns, color=False))
    assert max(terminal_text.width(line) for line in drawn.splitlines()) <= columns
    assert len(drawn.splitlines()) == len(ODD) + 2


@given(st.text())
def test_nothing_from_outside_reaches_the_terminal_as_a_command(text: str) -> None:
    cleaned = terminal_text.clean(text)
    assert "\x1b" not in cleaned
    assert len(cleaned.splitlines()) <= 1
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in cleaned)
    cleaned.encode()


def test_markup_of_rich_is_text() -> None:
    assert "[bold]x[/bold]" in rich_text.table(table_of(["[bold]x[/bold]"]), Screen(True, 80, color=True))


def test_colours_are_drawn_on_a_terminal_that_wants_them_only() -> None:
    content = TextTable(("STATUS",), ((plain_text.status_cell("failed"),),))
    assert "\x1b[" in rich_text.table(content, Screen(True, 80, color=True))
    assert "\x1b[" not in rich_text.table(content, Screen(True, 80, color=False))
    assert "\x1b[" not in plain_text.table(content)


def step(path: str, state: str = "completed", **more: object) -> StepView:
    given = {"path": path, "kind": "call", "target": "load", "state": state, "attempt": 1, "opened_at_s": NOW_S - 3, "settled_at_s": NOW_S - 2.5, **more}
    return StepView(**given)  # type: ignore[arg-type]  # the fields are those of StepView


STEPS = [
    step("join", kind="keep", target="join"),
    step("join/a/load"),
    step("join/b/sleep:3d", "waiting", kind="sleep", target="", settled_at_s=None, due_at_s=NOW_S + 7200),
    step("audit/~0/load"),
    step("audit/~1/load", "performing", settled_at_s=None, attempt=2),
    step("pay", "failed", target="charge", attempt=3, error=ErrorInfo("Declined", "no\nmoney")),
    step("pay/x", "retrying", settled_at_s=None, due_at_s=NOW_S + 1),
    step("a%2Fb", target="naïve ☕"),
]

TREE = """\
…  join
├── a
│   └── ✓  load  call  500 ms
└── b
    └── …  sleep:3d  waiting  due in 2 h  for 3.0 s
audit
├── turn 0
│   └── ✓  load  call  500 ms
└── turn 1
    └── ▶  load  call  performing  2 attempts  for 3.0 s
✗  pay  call charge  failed  3 attempts  500 ms
   Declined: no …
└── ↻  x  call load  retrying  due in 1.0 s  for 3.0 s
✓  a%2Fb  call naïve ☕  500 ms"""


def test_steps_are_a_tree_by_path() -> None:
    assert plain_text.tree(execution_views.step_tree(STEPS, NOW_S)) == TREE


def test_a_terminal_without_unicode_gets_the_same_tree_in_ascii() -> None:
    plain = plain_text.tree(execution_views.step_tree(STEPS[:-1], NOW_S, unicode=False), unicode=False)
    assert plain.startswith(".  join\n|-- a\n")
    assert plain.replace(" …", "").isascii()


@pytest.mark.parametrize("columns", [30, 60, 120])
def test_a_tree_is_no_wider_than_the_terminal_and_loses_no_line(columns: int) -> None:
    drawn = rich_text.tree(execution_views.step_tree(STEPS, NOW_S), Screen(True, columns)).splitlines()
    assert max(map(terminal_text.width, drawn)) <= columns
    assert len(drawn) == len(TREE.splitlines())


def test_the_tree_of_a_terminal_says_what_that_of_a_pipe_says() -> None:
    drawn = rich_text.tree(execution_views.step_tree(STEPS, NOW_S), Screen(True, 200))
    assert drawn == TREE


def test_a_tree_that_is_too_long_says_only_how_much_is_well() -> None:
    turns = [step(f"audit/~{number}/load") for number in range(500)]
    nodes = execution_views.step_tree([step("first"), *turns, step("audit/~500/load", "failed"), step("last")], NOW_S)
    assert execution_views.shortened_tree(nodes, 2000) == nodes
    short = plain_text.tree(execution_views.shortened_tree(nodes, 20)).splitlines()
    assert [line.rpartition("  call")[0] or line for line in short] == [
        "✓  first", "audit", "├── 500 completed", "└── turn 500", "    └── ✗  load", "✓  last",
    ]  # fmt: skip


def test_an_empty_tree_and_an_empty_table_are_nothing_much() -> None:
    assert plain_text.tree([]) == ""
    assert plain_text.table(TextTable(("A", "B"), ())) == "A  B"
    assert plain_text.tree([TreeNode((TextCell("x"),))]) == "x"


def test_an_event_is_a_line() -> None:
    event = PublicEvent(24, "step.retrying", Key("t", "w", "i"), NOW_S, "pay", {"attempt": 1, "error": "no\nluck", "due_at_s": NOW_S + 1})
    text = plain_text.line(execution_views.event_cells(event))
    assert text == "   24  1970-01-12T13:46:40.000Z  step.retrying         pay           attempt=1, error=no\\nluck, due=1970-01-12T13:46:41.000Z"


def test_a_story_has_the_traceback_of_what_failed_and_of_nothing_else() -> None:
    error = ErrorInfo("Declined", "no", "Traceback:\n  File x\n")
    failed = PublicEvent(3, "step.failed", Key("t", "w", "i"), NOW_S, "pay", {"attempt": 2})
    lines = [plain_text.line(cells) for cells in execution_views.event_story(failed, {"pay": error}.get)]
    assert [line.strip() for line in lines[1:]] == ["Declined: no", "Traceback:", "File x"]
    assert len(list(execution_views.event_story(PublicEvent(4, "step.completed", failed.source, NOW_S, "pay"), {"pay": error}.get))) == 1


def test_a_story_leaves_out_the_frames_of_perdure_itself() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/x/site-packages/perdure/runtime/step_runner.py", line 41, in perform\n    result = await thread\n             ^^^^^^\n'
        '  File "/home/perdure/shop.py", line 12, in charge\n    raise ValueError(1)\n'
        "ValueError: 1\n"
    )
    failed = PublicEvent(3, "step.failed", Key("t", "w", "i"), NOW_S, "pay")
    lines = [plain_text.line(cells).strip() for cells in execution_views.event_story(failed, lambda _: ErrorInfo("ValueError", "1", trace))]
    assert lines[2:] == ["Traceback (most recent call last):", 'File "/home/perdure/shop.py", line 12, in charge', "raise ValueError(1)", "ValueError: 1"]


def test_an_execution_that_no_engine_knows_is_marked_unless_it_has_ended() -> None:
    def note(status: str, version: int) -> str:
        one = ListedExecution(Key("default", "order", "o1"), status, version, 1, NOW_S - 60, NOW_S, None, None)
        return execution_views.execution_table([one], {"order@1", "order@"}, NOW_S).rows[0][-1].text

    assert note("pending", 0) == note("waiting", 1) == note("failed", 2) == ""
    assert note("waiting", 2) == "no running engine knows order@2"


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (0, "0 ms"), (-1, "0 ms"), (0.0124, "12 ms"), (0.9996, "1.0 s"), (3.44, "3.4 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"),
        (302, "5 min 2 s"), (3600, "1 h"), (3725, "1 h 2 min"), (86400 * 3 + 3600 * 4 + 5, "3 d 4 h"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(length_s: float, text: str) -> None:
    assert terminal_text.duration(length_s) == text


@pytest.mark.parametrize(("size_bytes", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 * 2**30, "5.0 GiB"), (2**50, "1024.0 TiB")])
def test_a_size_has_one_unit(size_bytes: int, text: str) -> None:
    assert terminal_text.size(size_bytes) == text


@given(st.text(), st.integers(0, 20))
def test_what_is_cut_fits(text: str, columns: int) -> None:
    assert terminal_text.width(terminal_text.truncate(terminal_text.clean(text), columns)) <= columns


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["x", "界", "e\u0301"])
def test_a_line_of_a_million_characters_is_cut_at_once(letter: str) -> None:
    began_s = time.monotonic()
    shown = terminal_text.truncate(letter * 1_000_000, 80)
    assert terminal_text.width(shown) in (79, 80) and shown == letter * ((len(shown) - 1) // len(letter)) + "…"
    assert time.monotonic() - began_s < 5.0


def test_a_cut_keeps_all_that_finds_room() -> None:
    assert [terminal_text.truncate("a界b", columns) for columns in range(5)] == ["", "…", "a…", "a…", "a界b"]
