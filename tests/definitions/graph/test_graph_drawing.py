"""Pictures of graphs: what they show, that nothing in them overlaps or can be mistaken for markup, and that they stay readable and bounded."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadDefinition
from perdure.definitions.graph.graph_drawing import mermaid_drawing, svg_drawing_of, text_drawing, text_width
from perdure.definitions.graph.graph_picture import STATE_SIGNS, make_picture
from perdure.definitions.graph.ir import IR, GraphNode
from perdure.definitions.graph.shown_graph import PictureState, shown_graph
from perdure.definitions.graph.step_texts import condition_text, edge_labels, step_detail, step_modifiers
from perdure.definitions.graph.svg_drawing import DARK_COLORS, FAINT_COLORS, GROUND_COLORS, INK_COLORS, LIGHT_COLORS, LayoutLink, lay_out_graph
from tests.definitions.format.short_definitions import compile_definition, definition, do, tool
from tests.definitions.format.test_compiler_random import nests, structures
from tests.definitions.graph.svg_layout import apart, overlapping, rectangles

RELEASE = definition(
    "ports",
    tool("start", next=["poll"]),
    tool("poll", next=[{"when": {"ref": "@self.pending"}, "to": ["poll"], "max": 20}, {"to": ["check"]}]),
    {"id": "check", "test": {"ref": "@poll.ok", "eq": True}, "next": {"true": ["ship", "tell"], "false": {"to": ["start"], "max": 3, "on_max": ["stop"]}}},
    do("ship", {"id": "build", "parallel": {"steps": [tool("amd64"), tool("arm64")]}}, tool("push", on_error=[tool("roll_back")]), next=["done"]),
    {"id": "tell", "if": {"ref": "@input.public"}, "then": [tool("mail", each={"in": "@input.people", "concurrency": 5})], "next": ["done"]},
    {"id": "stop", "fail": {"message": "tried & <failed>"}},
    {"id": "done", "return": "@ship"},
)
STATES: dict[str, PictureState] = {
    "start": "completed",
    "poll": "completed",
    "check": "completed",
    "ship": "performing",
    "build": "completed",
    "amd64": "completed",
    "push": "waiting",
    "tell": "skipped",
}


def taken(ir: IR, *pairs: str) -> set[int]:
    """The numbers of the edges between the steps of these pairs, written ``a-b``."""
    return {number for number, edge in enumerate(ir.edges) if f"{ir.nodes[edge.source].id}-{ir.nodes[edge.target].id}" in pairs}


PLAN = """\
d 1.0.0  13 steps, order ports

○ start  tool T
│
○ poll   tool T
├─ @self.pending ≤ 20 ↺ poll
╰─ otherwise → check
○ check  test @poll.ok = true
├─ true → ship, tell
├─ false ≤ 3 ↺ start
╰─ max → stop
○ ship   do
│ ╭ inside
│ │ ○ build  parallel
│ │ │ ╭ inside
│ │ │ │ ○ amd64  tool T
│ │ │ │ ○ arm64  tool T
│ │ │ ╰
│ │ │
│ │ ○ push   tool T
│ │   ╭ on error
│ │   │ ○ roll_back  tool T
│ │   ╰
│ ╰
╰─→ done
○ tell   if @input.public
│ ╭ then
│ │ ○ mail  tool T · each @input.people, 5 at a time
│ ╰
│ ╭ else: nothing
│ ╰
│
○ done   return @ship
○ stop   fail tried & <failed>
"""


def test_a_plan_in_a_terminal() -> None:
    assert text_drawing(shown_graph(compile_definition(RELEASE))) == PLAN


ACTUAL = """\
✓ start  tool T
┃
✓ poll   tool T
├═ @self.pending ≤ 20 ↺ poll
╰═ otherwise ⇒ check
✓ check  test @poll.ok = true
├═ true ⇒ ship, tell
├─ false ≤ 3 ↺ start
╰─ max → stop
▶ ship   do  (performing)
│ ╭ inside
│ │ ✓ build  parallel
│ │ │ ╭ inside
│ │ │ │ ✓ amd64  tool T
│ │ │ │ ○ arm64  tool T
│ │ │ ╰
│ │ │
│ │ … push   tool T  (waiting)
"""


def test_what_has_come_of_it_in_a_terminal() -> None:
    ir = compile_definition(RELEASE)
    assert ACTUAL in text_drawing(shown_graph(ir, STATES, taken(ir, "start-poll", "poll-poll", "poll-check", "check-ship", "check-tell")))


def test_lines_are_no_wider_than_the_terminal() -> None:
    wide = definition("listed", tool("説明" * 30, name="説明" * 40), tool("b", when={"ref": "@input." + "x" * 300}))
    assert all(text_width(line) <= 40 for line in text_drawing(shown_graph(compile_definition(wide)), columns=40).splitlines())


@pytest.mark.slow
def test_a_terminal_shows_the_first_of_thousands() -> None:
    lines = text_drawing(shown_graph(compile_definition(definition("listed", *(tool(f"s{number}") for number in range(5000)))))).splitlines()
    assert lines[-1] == "… and 4,700 more"
    assert len(lines) < 700


def test_what_is_deeply_nested_is_cut() -> None:
    steps = tool("leaf")
    for number in range(40):
        steps = do(f"b{number}", steps)
    ir = compile_definition(definition("listed", steps))
    assert "…" in text_drawing(shown_graph(ir))
    assert ET.fromstring(svg_drawing_of(shown_graph(ir))) is not None


FLOWCHART = """\
flowchart TD
    subgraph b2["b · do"]
        n3["x<br/>tool T"]
    end
    subgraph c2["#8634; at most 3 iterations"]
        n0["a<br/>tool T"]
        n1{"t<br/>test @input.x"}
    end
    n0 --> n1
    n1 -->|"true"| b2
    n1 -.->|"#8634; false ≤ 3"| n0
"""


def test_a_plan_as_mermaid() -> None:
    steps = tool("a", next=["t"]), {"id": "t", "test": {"ref": "@input.x"}, "next": {"true": ["b"], "false": {"to": ["a"], "max": 3}}}, do("b", tool("x"))
    assert mermaid_drawing(shown_graph(compile_definition(definition("ports", *steps)))) == FLOWCHART


def test_what_has_come_of_it_as_mermaid() -> None:
    ir = compile_definition(RELEASE)
    found = mermaid_drawing(shown_graph(ir, STATES, taken(ir, "start-poll", "check-ship")))
    assert 'n0["✓ start<br/>tool T"]' in found
    assert "n0 ==> n1" in found and 'n2 ==>|"true"| b3' in found and 'n2 -->|"true"| b9' in found
    assert re.search(r"class n0,n1,n2,b4,n5 completed$", found, re.MULTILINE)
    assert "classDef failed" not in found


HOSTILE = [
    '"]; click n0 call alert()',
    "<script>alert(1)</script>",
    "`**md**`",
    "end",
    "%% comment",
    "a\nb\x00c\u202ed",
    "#quot;",
    "x" * 500,
    "--> n0",
    "<!-- & -->",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_never_taken_for_markup(name: str) -> None:
    ir = compile_definition(definition("ports", tool("a", name=name, next=[{"when": {"ref": "@self", "eq": name}, "to": ["b"]}]), tool("b", name=name)))
    lines = mermaid_drawing(shown_graph(ir)).splitlines()
    node = r'    n\d\["[^"<>`&{}]*(<br/>[^"<>`&{}]*)*"\]'
    assert [
        re.fullmatch(pattern, line) is not None for pattern, line in zip(["flowchart TD", node, node, r'    n0 -->\|"[^"<>`&{}]*"\| n1'], lines, strict=True)
    ] == [True] * 4
    drawn = ET.fromstring(svg_drawing_of(shown_graph(ir)).encode())
    assert {element.tag.rpartition("}")[2] for element in drawn.iter()} == {"svg", "title", "style", "rect", "defs", "marker", "path", "g", "text"}
    assert len(text_drawing(shown_graph(ir)).splitlines()) == 5


@pytest.mark.slow
def test_mermaid_stays_below_what_mermaid_takes() -> None:
    layers = [
        tool(f"s{number}", next=[f"s{after}" for after in range(number // 10 * 10 + 10, number // 10 * 10 + 20) if after < 1000]) for number in range(1000)
    ]
    lines = mermaid_drawing(shown_graph(compile_definition(definition("ports", *layers)))).splitlines()
    assert sum("-->" in line for line in lines) < 500
    assert re.search(r'left_out\["… 700 more steps and [\d.,]+ more edges"\]', lines[-1])


def test_svg_shows_each_step_and_when_edges_are_taken() -> None:
    drawn = ET.fromstring(svg_drawing_of(shown_graph(compile_definition(RELEASE))))
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"start", "poll", "check", "ship", "roll_back", "then", "on error", "fail tried & <failed>", "each @input.people, 5 at a time"} <= set(words)
    assert {"true", "false ≤ 3", "otherwise", "@self.pending ≤ 20", "max"} <= set(words)
    assert "▶" not in words


def test_svg_shows_what_has_come_of_it() -> None:
    ir = compile_definition(RELEASE)
    drawn = ET.fromstring(svg_drawing_of(shown_graph(ir, STATES, taken(ir, "start-poll", "poll-poll", "check-tell"))))
    groups = {group[0].text: group.get("class") for group in drawn.iter("{http://www.w3.org/2000/svg}g")}
    assert groups["ship: performing"] == "block performing" and groups["tell: skipped"] == "block skipped" and groups["arm64: not reached"] == "box not_reached"
    ways = [str(path.get("class")) for path in drawn.iter("{http://www.w3.org/2000/svg}path")]
    assert ways.count("way taken") == 2 and ways.count("way taken dashed") == 1 and ways.count("way back dashed") == 1
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"✓ completed", "▶ performing", "– skipped", "… waiting", "○ not reached"} <= set(words)


def test_blocks_are_boxes_around_what_stands_in_them() -> None:
    boxes = rectangles(svg_drawing_of(shown_graph(compile_definition(RELEASE))))
    for outer, inner in [("ship", "build"), ("build", "amd64"), ("build", "arm64"), ("push", "roll_back"), ("ship", "push"), ("tell", "mail")]:
        x, y, right, bottom = boxes[outer]
        inner_x, inner_y, inner_right, inner_bottom = boxes[inner]
        assert x < inner_x and y < inner_y and inner_right < right and inner_bottom < bottom, (outer, inner)


@pytest.mark.slow
def test_svg_of_thousands_says_what_is_left_out() -> None:
    drawn = svg_drawing_of(shown_graph(compile_definition(definition("listed", *(tool(f"s{number}") for number in range(3000))))))
    assert "… and 2,000 more steps" in drawn


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(structures(), nests()), st.lists(st.sampled_from(sorted(STATE_SIGNS)), min_size=1))
def test_any_graph_can_be_drawn_without_overlaps(document: dict[str, Any], states: list[PictureState]) -> None:
    try:
        ir = compile_definition(document)
    except BadDefinition:
        return
    overlay = {node.id: states[number % len(states)] for number, node in enumerate(ir.nodes)}
    assert all(node.id in text_drawing(shown_graph(ir, overlay)) for node in ir.nodes)
    assert mermaid_drawing(shown_graph(ir, overlay)).count("subgraph ") == len(re.findall(r"^ *end$", mermaid_drawing(shown_graph(ir, overlay)), re.MULTILINE))
    assert overlapping(svg_drawing_of(shown_graph(ir, overlay)), ir) == []


@st.composite
def layers(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[LayoutLink]]:
    count = draw(st.integers(1, 12))
    boxes = draw(st.lists(st.tuples(st.floats(30, 200), st.floats(20, 120)), min_size=count, max_size=count))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1])
    pairs = draw(st.lists(ends, max_size=20, unique=True)) if count > 1 else []
    return boxes, [LayoutLink(*pair, draw(st.none() | st.tuples(st.floats(10, 150), st.just(15.0)))) for pair in pairs]


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(layers())
def test_boxes_and_labels_are_apart_and_lines_lead_down_past_them(given: tuple[list[tuple[float, float]], list[LayoutLink]]) -> None:
    boxes, links = given
    layout = lay_out_graph(boxes, links)
    rectangles = [(x, y, x + boxes[number][0], y + boxes[number][1]) for number, (x, y) in enumerate(layout.corners)]
    for link, route in zip(links, layout.routes, strict=True):
        assert (route.label is None) == (link.label is None)
        if route.label and link.label:
            half, half_height = link.label[0] / 2, link.label[1] / 2
            rectangles.append((route.label[0] - half, route.label[1] - half_height, route.label[0] + half, route.label[1] + half_height))
    for number, one in enumerate(rectangles):
        assert one[0] + 0.01 >= 0 and one[2] <= layout.width + 0.01 and one[3] <= layout.height + 0.01
        assert all(apart(one, other) for other in rectangles[:number])
    for link, route in zip(links, layout.routes, strict=True):
        source, target = rectangles[link.source], rectangles[link.target]
        assert source[0] <= route.points[0][0] <= source[2] and route.points[0][1] == source[3]
        assert target[0] <= route.points[-1][0] <= target[2] and route.points[-1][1] == target[1]
        assert all(above[1] < below[1] for above, below in zip(route.points, route.points[1:], strict=False))
        own = {link.source, link.target}
        for (x, y), (next_x, next_y) in zip(route.points, route.points[1:], strict=False):
            if x == next_x:
                line = x, y + 0.01, x, next_y - 0.01
                assert all(apart(line, box) for number, box in enumerate(rectangles[: len(boxes)]) if number not in own)


def test_few_lines_cross() -> None:
    links = [LayoutLink(0, 1), LayoutLink(0, 2), LayoutLink(1, 4), LayoutLink(2, 3), LayoutLink(3, 5), LayoutLink(4, 5)]
    corners = lay_out_graph([(50.0, 20.0)] * 6, links).corners
    assert (corners[1][0] < corners[2][0]) == (corners[4][0] < corners[3][0])


def test_a_chain_is_straight() -> None:
    layout = lay_out_graph([(50.0, 20.0), (90.0, 20.0), (30.0, 20.0)], [LayoutLink(0, 1), LayoutLink(1, 2)])
    middles = [x + size / 2 for (x, _), size in zip(layout.corners, (50.0, 90.0, 30.0), strict=True)]
    assert max(middles) - min(middles) < 0.5


@pytest.mark.parametrize(("colors", "dark"), [(LIGHT_COLORS, False), (DARK_COLORS, True)], ids=["light", "dark"])
def test_words_can_be_read_on_every_ground(colors: dict[str, tuple[str, str]], dark: bool) -> None:
    for ground in (GROUND_COLORS[dark], *(ground for ground, _ in colors.values())):
        assert contrast(INK_COLORS[dark], ground) > 7
        assert contrast(FAINT_COLORS[dark], ground) > 4.5
    assert all(contrast(edge, ground) > 3 for name, (ground, edge) in colors.items() if name != "faint")


CONDITIONS: list[tuple[Any, str]] = [
    ({"ref": "@a.b"}, "@a.b"),
    ("@a.b", "@a.b"),
    ({"ref": "@a.b", "gte": 0.8}, "@a.b ≥ 0.8"),
    ({"ref": "@a", "in": ["x", "y"]}, "@a in x, y"),
    ({"ref": "@a", "exists": False}, "@a is missing"),
    ({"ref": "@a", "empty": True}, "@a is empty"),
    ({"ref": "$.a[*].n", "sum": {"gt": 10}}, "$.a[*].n sum > 10"),
    ({"all": [{"ref": "@a"}, {"any": [{"ref": "@b"}, {"ref": "@c", "eq": None}]}]}, "@a and (@b or @c = null)"),
    ({"not": {"ref": "@a"}}, "not @a"),
    ({"expr": "self.n > 3"}, "self.n > 3"),
    ({"python": "def evaluate(output, context): ..."}, "Python condition"),
    (True, "true"),
]


@pytest.mark.parametrize(("given", "expected"), CONDITIONS, ids=[row[1] for row in CONDITIONS])
def test_conditions_in_a_few_words(given: Any, expected: str) -> None:
    assert condition_text(given) == expected


DETAILS: list[tuple[GraphNode, str, list[str]]] = [
    (GraphNode("a", "tool", config="SEND"), "tool SEND", []),
    (GraphNode("a", "sleep", config=259200), "sleep 3d", []),
    (GraphNode("a", "sleep", config=90), "sleep 90s", []),
    (GraphNode("a", "sleep", config={"until": "@input.t"}), "sleep until @input.t", []),
    (GraphNode("a", "call", config={"target": "other@^2", "wait": False}), "call other@^2", []),
    (GraphNode("a", "listen", config={"names": ["x", "y"]}), "listen x, y", []),
    (GraphNode("a", "set", config={"x": 1, "y": 2}), "set x, y", []),
    (GraphNode("a", "parallel", config={"concurrency": 2}), "parallel 2 at a time", []),
    (GraphNode("a", "python", config="import os"), "python", []),
    (GraphNode("a", "tool", config="T", when={"ref": "@b"}, join="any"), "tool T", ["when @b", "join any"]),
]


@pytest.mark.parametrize(("node", "expected", "more"), DETAILS, ids=[row[1] for row in DETAILS])
def test_what_a_step_does_in_a_few_words(node: GraphNode, expected: str, more: list[str]) -> None:
    assert (step_detail(node), step_modifiers(node)) == (expected, more)


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        ([{"to": ["b"]}], [""]),
        ([{"when": {"ref": "@self.x"}, "to": ["b"]}, {"to": ["c"]}], ["@self.x", "otherwise"]),
        ([{"when": {"ref": "@self.x"}, "to": ["b"]}, {"when": {"ref": "@self.y"}, "to": ["b"]}], ["@self.x or @self.y"]),
        ([{"to": ["a"], "max": 3, "on_max": ["b"]}], ["≤ 3", "after 3 times"]),
        ({"choose": ["b", "c"], "default": ["c"]}, ["chosen", "otherwise"]),
        ({"success": ["b"], "error": ["c"]}, ["", "error"]),
        ({"error": {"to": ["a"], "max": 2}}, ["error ≤ 2"]),
    ],
)
def test_when_an_edge_is_taken(following: Any, expected: list[str]) -> None:
    assert edge_labels(compile_definition(definition("ports", tool("a", next=following), tool("b", needs=["c"]), tool("c"))))[: len(expected)] == expected


def test_several_edges_between_two_steps_are_one_line() -> None:
    steps = {"id": "a", "approve": {"title": "?"}, "next": {"approved": ["b"], "rejected": ["b"], "timeout": ["b"]}}, tool("b")
    (line,) = make_picture(shown_graph(compile_definition(definition("ports", *steps)))).groups[0].lines
    assert line.label == "approved / rejected / timeout"


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG."""
    lights = sorted((luminance(one), luminance(other)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
