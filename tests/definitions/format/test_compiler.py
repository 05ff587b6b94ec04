"""What definitions compile to: each row a definition and its edges, its regions or its nodes."""

from typing import Any

import pytest

from perdure.definitions.graph.ir import EachOptions, GraphLimits, OnFailure, RepeatOptions, RetryOptions, UndoOptions
from tests.definitions.format.short_definitions import compile_definition, definition, do, edges, node, regions, tool
from tests.definitions.graph.ir_invariants import broken

Document = dict[str, Any]

EDGES: list[tuple[str, Document, set[str]]] = [
    ("refs: what is read comes first", definition("refs", tool("a"), tool("b", with_={"x": "@a.y"})), {"a * b"}),
    ("refs: text with a reference in it", definition("refs", tool("a"), tool("b", with_="see @{a.y}")), {"a * b"}),
    ("refs: a doubled @ is no reference", definition("refs", tool("a"), tool("b", with_="@@a")), set()),
    ("refs: roots are not steps", definition("refs", tool("a"), tool("b", with_=["@input.a", "@trigger", "@last"])), set()),
    ("refs: the envelope of a step", definition("refs", tool("a"), tool("b", with_="@steps.a.output.meta")), {"a * b"}),
    ("refs: a condition", definition("refs", tool("a"), tool("b", when={"ref": "@a.ok", "eq": True})), {"a * b"}),
    ("refs: the right side of a condition", definition("refs", tool("a"), tool("b", when={"ref": "@input.n", "gt": "@a"})), {"a * b"}),
    ("refs: a CEL condition", definition("refs", tool("a"), tool("b", when={"expr": "a.n > 3 && input.ok"})), {"a * b"}),
    ("refs: a JSONPath in when begins at the steps", definition("refs", tool("a"), tool("b", when={"ref": "$.a.n", "gt": 1})), {"a * b"}),
    ("refs: what each goes over", definition("refs", tool("a"), tool("b", each={"in": "@a"}, with_="@item")), {"a * b"}),
    ("refs: names that each gives are not steps", definition("refs", tool("b", each={"in": [1], "as": "row", "index": "n"}, with_=["@row", "@n"])), set()),
    ("refs: what a repetition reads", definition("refs", tool("a"), tool("b", repeat={"until": {"ref": "@a.n"}, "max": 3})), {"a * b"}),
    ("refs: what a step has come to is read by its repetition", definition("refs", tool("b", repeat={"until": {"ref": "@b.n"}, "max": 3})), set()),
    ("refs: what the verb says", definition("refs", tool("a"), {"id": "b", "return": {"is": "@a"}}), {"a * b"}),
    ("refs: undo is read later", definition("refs", tool("a"), tool("b", undo={"tool": "U", "with": "@a"})), set()),
    ("refs: read twice is one edge", definition("refs", tool("a"), tool("b", with_=["@a", "@a.x"], when={"ref": "@a"})), {"a * b"}),
    ("refs: needs waits for success", definition("refs", tool("a"), tool("b", needs=["a"])), {"a + b"}),
    ("refs: needs says more than reading", definition("refs", tool("a"), tool("b", needs=["a"], with_="@a")), {"a + b"}),
    ("refs: a step inside of a block is read: the block comes first", definition("refs", do("a", tool("x")), tool("b", with_="@x")), {"a * b"}),
    ("refs: a step inside of a block reads: the block comes later", definition("refs", tool("a"), do("b", tool("x", with_="@a"))), {"a * b"}),
    (
        "refs: inside of a block as well",
        definition("refs", do("a", tool("x"), tool("y", with_="@x"), do("z", tool("w", with_="@y")))),
        {"x * y", "y * z"},
    ),
    ("refs: on_error may read what the step's own steps came to", definition("refs", do("a", tool("x"), on_error=[tool("y", with_=["@x", "@error"])])), set()),
    ("listed: one after the other", definition("listed", tool("a"), tool("b"), tool("c", with_="@a")), {"a * b", "b * c"}),
    ("listed: what needs the step before it comes after it alone", definition("listed", tool("a"), tool("b"), tool("c", needs=["b"])), {"a * b", "b + c"}),
    ("listed: inside of blocks as well", definition("listed", do("a", tool("x"), tool("y")), tool("b")), {"a * b", "x * y"}),
    (
        "branches of parallel begin at once, but for what they read and need",
        definition("listed", {"id": "p", "parallel": {"steps": [tool("x"), tool("y"), tool("z", with_="@x"), tool("w", needs=["y"])]}}),
        {"x * z", "y + w"},
    ),
    ("so do those of a race", definition("refs", {"id": "p", "race": [tool("x"), tool("y"), tool("z", with_="@x")]}), {"x * z"}),
    ("ports: a step", definition("ports", tool("a", next="b"), tool("b")), {"a + b"}),
    ("ports: several", definition("ports", tool("a", next=["b", "c"]), tool("b"), tool("c")), {"a + b", "a + c"}),
    ("ports: reading makes no edge", definition("ports", tool("a"), tool("b", with_="@a")), set()),
    (
        "ports: by port",
        definition("ports", {"id": "a", "test": {"ref": "@input.x"}, "next": {"true": ["b"], "false": {"to": ["b", "c"]}}}, tool("b"), tool("c")),
        {"a true b", "a false b", "a false c"},
    ),
    ("ports: success is however it succeeded, and so is done", definition("ports", tool("a", next={"success": "b"}), tool("b")), {"a + b"}),
    ("ports: done of each", definition("ports", tool("a", each={"in": [1]}, next={"done": "b", "error": "c"}), tool("b"), tool("c")), {"a + b", "a error c"}),
    ("ports: a port that leads nowhere", definition("ports", tool("a", next={"success": [], "error": "b"}), tool("b")), {"a error b"}),
    (
        "ports: rules",
        definition("ports", tool("a", next=[{"when": {"ref": "@self.x"}, "to": ["b"]}, {"to": ["c"]}]), tool("b"), tool("c")),
        {"a ? b", "a ? c"},
    ),
    (
        "ports: a choice, and what is taken if nothing was chosen",
        definition("ports", tool("a", next={"choose": ["b", "c"], "default": ["d"]}), tool("b"), tool("c"), tool("d")),
        {"a ? b", "a ? c", "a ? d"},
    ),
    ("ports: needs adds what next does not say", definition("ports", tool("a", next="b"), tool("b", needs=["a"]), tool("c", needs=["b"])), {"a + b", "b + c"}),
    (
        "ports: the end of the turns",
        definition("ports", tool("a", repeat={"until": {"ref": "@self"}, "max": 3, "on_max": "c"}, next="b"), tool("b"), tool("c")),
        {"a + b", "a max c"},
    ),
    ("ports: lists inside of blocks are listed", definition("ports", do("a", tool("x"), tool("y"), next="b"), tool("b")), {"a + b", "x * y"}),
    ("ports: a way back", definition("ports", tool("a", next=[{"to": "a", "max": 3}])), {"a ? a <-"}),
    (
        "ports: back by a port, and on when that was taken often enough",
        definition("ports", tool("a", next={"success": "b", "error": {"to": "a", "max": 3, "on_max": "c"}}), tool("b"), tool("c")),
        {"a + b", "a error a <-", "a max c"},
    ),
    (
        "003: what nothing leads to from the first step is left out",
        definition("ports", tool("a", next="c"), tool("b", next="c"), tool("c"), dialect="port_graph"),
        {"a + c"},
    ),
]


@pytest.mark.parametrize(("what", "document", "expected"), EDGES, ids=[row[0] for row in EDGES])
def test_the_edges(what: str, document: Document, expected: set[str]) -> None:
    ir = compile_definition(document)
    assert edges(ir) == expected
    assert broken(ir) == []


REGIONS: list[tuple[str, Document, dict[str, tuple[str, str, str]]]] = [
    (
        "an if has two, a missing else is empty",
        definition("listed", {"id": "i", "if": {"ref": "@input.x"}, "then": [tool("a"), tool("b")]}),
        {"body of i": ("root", "a b", "a"), "body of i (2)": ("root", "", "")},
    ),
    (
        "blocks nest",
        definition("refs", do("a", do("b", tool("c")), {"id": "p", "parallel": {"steps": [tool("x"), tool("y")]}})),
        {"body of a": ("root", "b p", "b p"), "body of b": ("body of a", "c", "c"), "body of p": ("body of a", "x y", "x y")},
    ),
    (
        "steps that stand in for what failed",
        definition("listed", tool("a", on_error=[tool("b"), tool("c")])),
        {"body of a": ("root", "b c", "b")},
    ),
    (
        "a cycle",
        definition(
            "ports", tool("a", next="b"), tool("b", next="c"), tool("c", next=[{"when": {"ref": "@self"}, "to": ["b"], "max": 2}, {"to": ["d"]}]), tool("d")
        ),
        {"cycle of b": ("root", "b c", "b")},
    ),
    (
        "a cycle in a cycle, and a block in that",
        definition(
            "ports",
            tool("a", next="b"),
            tool("b", next="c"),
            do("c", tool("x"), next=[{"when": {"ref": "@self"}, "to": ["b"], "max": 2}, {"to": ["d"]}]),
            tool("d", next={"error": {"to": "a", "endless": True}}),
        ),
        {"body of c": ("cycle of b", "x", "x"), "cycle of a": ("root", "a d", "a"), "cycle of b": ("cycle of a", "b c", "b")},
    ),
    (
        "two ways back to one head are one cycle",
        definition(
            "ports", tool("a", next="b"), tool("b", next={"error": {"to": "a", "max": 2}, "success": "c"}), tool("c", next={"error": {"to": "a", "max": 3}})
        ),
        {"cycle of a": ("root", "a b c", "a")},
    ),
]


@pytest.mark.parametrize(("what", "document", "expected"), REGIONS, ids=[row[0] for row in REGIONS])
def test_the_regions(what: str, document: Document, expected: dict[str, tuple[str, str, str]]) -> None:
    ir = compile_definition(document)
    assert regions(ir) == expected
    assert broken(ir) == []


BEGINS: list[tuple[str, Document, str]] = [
    ("where nothing leads to", definition("ports", tool("a", next="c"), tool("b", next="c"), tool("c")), "a b"),
    ("where only a way back leads to", definition("ports", tool("a", next=[{"to": "a", "max": 2}])), "a"),
    ("at the first of a circle", definition("ports", tool("a", next="b"), tool("b", next={"success": {"to": "a", "max": 2}})), "a"),
    ("at the first of each circle", definition("ports", tool("z"), tool("a", next="b"), tool("b", next={"success": {"to": "a", "max": 2}})), "z a"),
    ("in 003 at the first step", definition("ports", tool("a"), tool("b"), dialect="port_graph"), "a"),
    ("where nothing is read", definition("refs", tool("a", with_="@b"), tool("b"), tool("c")), "b c"),
    ("at the first of a list", definition("listed", tool("a"), tool("b")), "a"),
]


@pytest.mark.parametrize(("what", "document", "expected"), BEGINS, ids=[row[0] for row in BEGINS])
def test_it_begins(what: str, document: Document, expected: str) -> None:
    ir = compile_definition(document)
    assert " ".join(ir.nodes[number].id for number in ir.regions[0].entries) == expected


BOUNDS: list[tuple[str, dict[str, Any], dict[str, Any], str, int]] = [
    ("of the way back", {"to": ["a"], "max": 4}, {}, "", 4),
    ("the largest of several", {"to": ["a"], "max": 4}, {"error": {"to": ["a"], "max": 7}}, "", 7),
    ("none, as is said", {"to": ["a"], "endless": True}, {}, "", 0),
    ("none beside one, as is said", {"to": ["a"], "endless": True}, {"error": {"to": ["a"], "max": 7}}, "", 0),
    ("none in 003, where hops are bounded", {"to": ["a"]}, {"error": ["c"]}, "port_graph", 0),
    ("none in 004, where hops are bounded", {"to": ["a"]}, {"error": ["c"]}, "token_graph", 0),
]


@pytest.mark.parametrize(("what", "back", "more", "dialect", "expected"), BOUNDS, ids=[row[0] for row in BOUNDS])
def test_the_bound_of_a_cycle(what: str, back: dict[str, Any], more: dict[str, Any], dialect: str, expected: int) -> None:
    steps = tool("a", next="b"), {"id": "b", "test": {"ref": "@input"}, "next": {"true": back, "false": ["c"], **more}}, tool("c")
    ir = compile_definition(definition("ports", *steps, **({"dialect": dialect} if dialect else {})))
    assert [region.max for region in ir.regions if region.kind == "cycle"] == [expected]


def test_rules_name_their_edges_in_the_order_written() -> None:
    rules = [{"when": {"ref": "@self.x"}, "to": ["b", "c"]}, {"when": {"ref": "@self.y"}, "to": ["a"], "max": 3, "on_max": ["d"]}, {"to": ["b"]}]
    ir = compile_definition(definition("ports", tool("a", next=rules), tool("b"), tool("c"), tool("d")))
    found = [
        (rule.when, [ir.nodes[ir.edges[edge].target].id for edge in rule.edges], rule.max, [ir.nodes[ir.edges[edge].target].id for edge in rule.on_max])
        for rule in node(ir, "a").rules
    ]
    assert found == [({"ref": "@self.x"}, ["b", "c"], 0, []), ({"ref": "@self.y"}, ["a"], 3, ["d"]), (None, ["b"], 0, [])]


def test_rules_may_stand_behind_success_beside_other_ports() -> None:
    following = {"rejected": ["c"], "success": [{"when": {"ref": "@self.by"}, "to": ["b"]}, {"to": ["c"]}]}
    ir = compile_definition(definition("ports", {"id": "a", "approve": {"title": "?"}, "next": following}, tool("b"), tool("c")))
    assert edges(ir) == {"a rejected c", "a ? b", "a ? c"}
    assert len(node(ir, "a").rules) == 2


def test_a_choice_has_its_ids_and_what_is_taken_without() -> None:
    ir = compile_definition(definition("ports", tool("a", next={"choose": ["b", "c"], "default": ["c"]}), tool("b"), tool("c")))
    chooser = node(ir, "a")
    assert (chooser.choose, [ir.nodes[ir.edges[edge].target].id for edge in chooser.default]) == (("b", "c"), ["c"])
    assert edges(ir) == {"a ? b", "a ? c"}


def test_edges_left_out_in_003_leave_the_rules_right() -> None:
    steps = tool("a", next="c"), tool("b", next="c"), tool("c", next=[{"when": {"ref": "@self"}, "to": ["d"]}, {"to": ["e"]}]), tool("d"), tool("e")
    ir = compile_definition(definition("ports", *steps, dialect="port_graph"))
    assert [[ir.nodes[ir.edges[edge].target].id for edge in rule.edges] for rule in node(ir, "c").rules] == [["d"], ["e"]]
    assert broken(ir) == []


NODES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("the input", tool("a", with_={"x": 1}), "input", {"x": 1}),
    ("the verb", tool("a"), "kind", "tool"),
    ("what stands behind it", {"id": "a", "sleep": "@input.s"}, "config", "@input.s"),
    ("a call of whom", {"id": "a", "call": "other"}, "config", "other"),
    ("a call that says more", {"id": "a", "call": "other", "wait": False, "undo": True}, "config", {"target": "other", "wait": False, "undo": True}),
    ("undo of a call is no tool", {"id": "a", "call": "other", "undo": True}, "undo", None),
    ("a block's steps are regions", do("a", tool("b")), "config", None),
    ("a parallel's bounds", {"id": "a", "parallel": {"steps": [tool("b")], "concurrency": 2}}, "config", {"concurrency": 2}),
    ("the bodies of an if", {"id": "a", "if": {"ref": "@input"}, "then": [tool("b")]}, "bodies", (1, 2)),
    ("steps that stand in", tool("a", on_error=[tool("b")]), "on_error", 1),
    ("going on without", tool("a", on_error="go_on"), "on_error", "go_on"),
    ("a join", tool("a", join="any", needs=["m", "n"]), "join", "any"),
    ("a join of so many", tool("a", join=2, needs=["m", "n"]), "join", 2),
    ("a time in text", tool("a", timeout="2m"), "timeout_s", 120.0),
    ("a name", tool("a", name="Alpha"), "name", "Alpha"),
    ("a condition", tool("a", when={"ref": "@input.x"}), "when", {"ref": "@input.x"}),
    (
        "each",
        tool("a", each={"in": "@input.l", "as": "row", "concurrency": 3, "on_error": None, "enough": 1}),
        "each",
        EachOptions("@input.l", "row", concurrency=3, on_error="null", enough=1),
    ),
    (
        "repeat",
        tool("a", repeat={"until": {"ref": "@self.ok"}, "max": 3, "delay": "1m", "on_max": "go_on"}),
        "repeat",
        RepeatOptions({"ref": "@self.ok"}, until=True, max=3, delay=60.0, on_max="go_on"),
    ),
    (
        "repeat, with a delay that is known later",
        tool("a", repeat={"while": True, "max": 3, "delay": "@input.s"}),
        "repeat",
        RepeatOptions(True, max=3, delay="@input.s"),
    ),
    (
        "retry",
        tool("a", retry={"max": 5, "wait": "1s", "factor": 2, "max_wait": 60, "only": ["E"], "fatal": ["F"]}),
        "retry",
        RetryOptions(5, 1.0, 2.0, 60.0, ("E",), ("F",)),
    ),
    (
        "undo",
        tool("a", undo={"tool": "U", "with": {"x": "@self"}, "timeout": 5, "retry": {"max": 2}}),
        "undo",
        UndoOptions("U", {"x": "@self"}, 5.0, RetryOptions(2)),
    ),
    ("undo by a tool's name", tool("a", undo="U"), "undo", UndoOptions("U", "@self")),
    ("where it stands", tool("a"), "pointer", "/steps/0"),
    ("idempotent", tool("a", idempotent=False), "idempotent", False),
    ("env", {"id": "a", "bash": "ls", "env": {"X": "@input.x"}}, "env", {"X": "@input.x"}),
]


@pytest.mark.parametrize(("what", "step", "field", "expected"), NODES, ids=[row[0] for row in NODES])
def test_a_node_has(what: str, step: dict[str, Any], field: str, expected: Any) -> None:
    assert getattr(node(compile_definition(definition("refs", step, tool("m"), tool("n"))), "a"), field) == expected


def test_a_port_max_says_that_the_end_of_the_turns_is_no_failure() -> None:
    step = tool("a", repeat={"while": True, "max": 3}, next={"success": ["b"], "max": ["c"]})
    assert node(compile_definition(definition("ports", step, tool("b"), tool("c"))), "a").repeat == RepeatOptions(True, max=3, on_max="go_on")


def test_nodes_are_numbered_as_they_are_written() -> None:
    steps = do("a", tool("b"), {"id": "c", "if": {"ref": "@input"}, "then": [tool("d")], "else": [tool("e")]}, on_error=[tool("f")]), tool("g")
    ir = compile_definition(definition("listed", *steps))
    assert "".join(node.id for node in ir.nodes) == "abcdefg"
    assert [node.pointer for node in ir.nodes][3:6] == ["/steps/0/do/1/then/0", "/steps/0/do/1/else/0", "/steps/0/on_error/0"]


def test_the_definition_as_a_whole() -> None:
    document = definition(
        "listed",
        {"id": "a", "return": 1},
        version="2.0.0",
        input={"x": {"type": "string"}, "y": {"default": None}},
        vars={"v": 1},
        output=None,
        limits={"max_steps": 5, "deadline": "4h"},
        retry={"max": 2},
        on_failure={"undo": False, "call": "tell"},
        dialect="nested_steps",
    )
    ir = compile_definition(document)
    assert (ir.name, ir.version, ir.order, ir.dialect) == ("d", "2.0.0", "listed", "nested_steps")
    assert (ir.input, ir.required, ir.variables, ir.output, ir.has_output) == (document["input"], ("x",), {"v": 1}, None, True)
    assert (ir.limits, ir.retry, ir.on_failure) == (GraphLimits(max_steps=5, deadline_s=14400.0), RetryOptions(2), OnFailure(False, "tell"))
    assert ir.hash.startswith("sha256:")


def test_equal_definitions_have_equal_irs() -> None:
    reads = tool("z", with_={"all": [f"@s{number}" for number in range(20)], "text": "@{s3} @{s1} @{s2}"})
    document = definition("refs", *(tool(f"s{number}") for number in range(20)), reads)
    assert [edge.source for edge in compile_definition(document).edges] == [0, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 2, 3, 4, 5, 6, 7, 8, 9]
