"""What the compiler finds wrong with definitions: each row a definition, the codes of what is found, and the words of the first."""

from typing import Any

import pytest

from perdure.core.errors import BadDefinition
from tests.definitions.format.short_definitions import codes, compile_definition, compile_findings, definition, do, tool

Document = dict[str, Any]

CONDITION = {"ref": "@input.x"}

FOUND: list[tuple[str, Document, list[str], str]] = [
    (
        "a reference to nothing",
        definition("refs", tool("fetch"), tool("b", with_={"x": "@fecth.y"})),
        ["unknown_reference"],
        "steps[1].with.x: '@fecth' is not a step or a root; did you mean '@fetch'?",
    ),
    ("a reference near nothing", definition("refs", tool("b", with_="@zzzz")), ["unknown_reference"], "steps[0].with: '@zzzz' is not a step or a root"),
    (
        "the envelope of nothing",
        definition("refs", tool("fetch"), tool("b", when={"ref": "@steps.fetsh.output.meta"})),
        ["unknown_reference"],
        "steps[1].when.ref: '@steps.fetsh' is not a step; did you mean '@steps.fetch'?",
    ),
    (
        "in the output",
        definition("refs", tool("a"), output={"x": ["@a", "@b"]}),
        ["unknown_reference"],
        "output.x[1]: '@b' is not a step or a root",
    ),
    (
        "in a rule",
        definition("ports", tool("a", next=[{"when": {"ref": "@b"}, "to": ["a"], "max": 1}])),
        ["unknown_reference"],
        "steps[0].next[0].when.ref: '@b' is not a step or a root",
    ),
    ("in an undo", definition("refs", tool("a", undo={"tool": "U", "with": "@b"})), ["unknown_reference"], "steps[0].undo.with: '@b' is not a step or a root"),
    (
        "an item by the name of another each",
        definition("refs", do("a", tool("b", with_="@row"), each={"in": [1], "as": "row"}), tool("c", with_="@row", needs=["a"])),
        ["unknown_reference"],
        "steps[1].with: '@row' is not a step or a root",
    ),
    (
        "an item outside of any each",
        definition("refs", tool("a", with_="@item")),
        ["unknown_reference"],
        "steps[0].with: '@item' is only available inside of an each",
    ),
    (
        "an item that is called otherwise",
        definition("refs", tool("a", each={"in": [1], "as": "row"}, with_="@item")),
        ["unknown_reference"],
        "steps[0].with: '@item' is only available inside of an each; the items here are called @index and @row",
    ),
    ("what loops by edges call an item", definition("ports", tool("a", with_="@item"), dialect="port_graph"), [], ""),
    (
        "an input that nobody declared",
        definition("refs", tool("a", with_="@input.emial"), input={"email": {}}),
        ["~unknown_reference"],
        "steps[0].with: '@input.emial' is not an input of this definition; did you mean '@input.email'?",
    ),
    ("an input, where none are declared", definition("refs", tool("a", with_="@input.x")), [], ""),
    (
        "a variable that nobody sets",
        definition("listed", {"id": "s", "set": {"total": 1}}, tool("a", with_=["@vars.total", "@vars.rate", "@vars.totl"]), vars={"rate": 2}),
        ["~unknown_reference"],
        "steps[1].with[2]: '@vars.totl' is not a variable of this definition; did you mean '@vars.total'?",
    ),
    (
        "a reference that can't be read",
        definition("refs", tool("a", with_="@a..b")),
        ["bad_expression"],
        "steps[0].with: '@a..b' is not a reference from character 3 on; write a name or a number after the dot",
    ),
    ("a condition that can't be read", definition("refs", tool("a", when={"ref": "@input.x", "gt": 1, "lt": 2})), ["bad_expression"], "steps[0].when: "),
    (
        "what nobody has",
        definition("refs", tool("fetch"), tool("b", needs=["fetsh"])),
        ["unknown_step"],
        "steps[1].needs[0]: 'b' needs 'fetsh', and there is no such step; did you mean 'fetch'?",
    ),
    (
        "a way to nowhere",
        definition("ports", tool("a", next="finsh"), tool("finish", needs=["a"])),
        ["unknown_step"],
        "steps[0].next: 'a' leads to 'finsh', and there is no such step; did you mean 'finish'?",
    ),
    (
        "a way into a block",
        definition("ports", tool("a", next=["b"]), do("c", tool("b"))),
        ["unknown_step"],
        "steps[0].next[0]: 'a' leads to 'b', which is inside of 'c'; connect it to 'c'",
    ),
    (
        "a way out of a block is none of ports",
        definition("ports", do("c", tool("b", next="a")), tool("a", needs=["c"])),
        ["next_without_ports"],
        "steps[0].do[0].next: 'b' has next, and its list is not ordered by ports; write order: ports, or remove next",
    ),
    (
        "next where there are no ports",
        definition("refs", tool("a", next="b"), tool("b", needs=["a"])),
        ["next_without_ports"],
        "steps[0].next: 'a' has next, and",
    ),
    (
        "the end of the turns leads on where there are no ports",
        definition("refs", tool("a", repeat={"while": CONDITION, "max": 2, "on_max": "b"}), tool("b", needs=["a"])),
        ["next_without_ports"],
        "steps[0].repeat.on_max: on_max names the step 'b', which needs order: ports; write fail or go_on",
    ),
    (
        "reading in a circle",
        definition("refs", tool("a", with_="@b"), tool("b", with_="@a")),
        ["unbounded_cycle"],
        "steps: a -> b -> a is a cycle without a bound; remove a reference or needs from it, or, to run steps repeatedly, use repeat, or order: ports with max",
    ),
    (
        "each circle is told",
        definition("refs", tool("a", with_="@b"), tool("b", with_="@a"), tool("c", needs=["d"]), tool("d", needs=["c"])),
        ["unbounded_cycle"] * 2,
        "steps: ",
    ),
    (
        "needing what comes later in a list",
        definition("listed", tool("a", needs=["c"]), tool("b"), tool("c")),
        ["unbounded_cycle"],
        "steps: a -> b -> c -> a is a cycle",
    ),
    (
        "a circle inside of a block",
        definition("refs", do("z", tool("a", with_="@b"), tool("b", with_="@a"))),
        ["unbounded_cycle"],
        "steps[0].do: a -> b -> a is a cycle",
    ),
    (
        "blocks that wait for each other",
        definition("refs", do("z", tool("a", with_="@b")), do("y", tool("b", with_="@a"))),
        ["unbounded_cycle"],
        "steps: z -> y -> z is",
    ),
    (
        "reading oneself",
        definition("refs", tool("a", with_="@a")),
        ["reads_itself"],
        "steps[0].with: 'a' reads itself; its result is @self, in repeat, undo and next",
    ),
    ("needing oneself", definition("refs", tool("a", needs=["a"])), ["reads_itself"], "steps[0].needs[0]: 'a' needs itself"),
    (
        "reading what one stands in",
        definition("listed", do("z", tool("a", with_="@z"))),
        ["reads_itself"],
        "steps[0].do[0].with: 'a' reads 'z', which contains it and ends after it",
    ),
    (
        "reading what runs inside",
        definition("listed", do("z", tool("a"), when={"ref": "@a"})),
        ["reads_itself"],
        "steps[0].when.ref: 'z' reads 'a', which is inside of it and runs later",
    ),
    (
        "a step in a cycle may read what it came to before",
        definition("ports", tool("a", with_="@a.x?", next=[{"when": CONDITION, "to": ["a"], "max": 2}])),
        [],
        "",
    ),
    (
        "reading what comes later in a list",
        definition("listed", tool("a", with_="@b"), tool("b")),
        ["~reads_later"],
        "steps[0].with: 'a' reads 'b', which runs after it and has no result yet; move one of them",
    ),
    (
        "a cycle without a bound",
        definition("ports", tool("a", next="b"), tool("b", next=[{"when": CONDITION, "to": ["a"]}])),
        ["unbounded_cycle"],
        "steps[1] (b): a -> b -> a is a cycle without a bound; add max to the edge from 'b' back to 'a', or endless: true",
    ),
    (
        "a step that leads to itself with no bound",
        definition("ports", tool("a", next="a")),
        ["unbounded_cycle"],
        "steps[0] (a): a -> a is a cycle without a bound; add max",
    ),
    (
        "a bound on another way of the cycle is none",
        definition("ports", tool("a", next=[{"to": ["b"], "max": 2}]), tool("b", next="a")),
        ["~max_without_cycle", "unbounded_cycle"],
        "steps[0].next: ",
    ),
    (
        "a bound that bounds nothing",
        definition("ports", tool("a", next=[{"to": ["b"], "max": 2}]), tool("b")),
        ["~max_without_cycle"],
        "steps[0].next: the edge from 'a' to 'b' has a bound and does not lead back, so the bound has no effect; remove it",
    ),
    (
        "into the midst of a cycle",
        definition("ports", tool("s", next=["a", "b"]), tool("a", next="b"), tool("b", next=[{"when": CONDITION, "to": ["a"], "max": 2}])),
        ["cycle_entered"],
        "steps[0] (s): 's' leads into the middle ('b') of the cycle a -> b -> a, which is entered at 'a'. Connect it to 'a'",
    ),
    (
        "no way to an end, in 004",
        definition("ports", tool("a", next="b"), tool("b", next="c"), tool("c", next="b"), dialect="token_graph"),
        ["no_end"],
        "steps[1] (b): the cycle b -> c -> b never ends; connect one of its steps to a step outside, or write endless: true",
    ),
    ("a way out by a rule that may not hold", definition("ports", tool("a", next=[{"when": CONDITION, "to": ["a"]}]), dialect="token_graph"), [], ""),
    (
        "no way out, as the last rule always holds",
        definition("ports", tool("a", next=[{"when": CONDITION, "to": ["a"]}, {"to": ["a"]}]), dialect="token_graph"),
        ["no_end"],
        "steps[0] (a): ",
    ),
    (
        "a way out by a port without a target",
        definition("ports", {"id": "a", "test": CONDITION, "next": {"true": ["a"]}}, dialect="port_graph"),
        ["~port_without_target"],
        "",
    ),
    (
        "no way out by either port",
        definition("ports", {"id": "a", "test": CONDITION, "next": {"true": ["a"], "false": ["a"]}}, dialect="port_graph"),
        ["no_end"],
        "",
    ),
    ("a way out by a return", definition("ports", tool("a", next=["b"]), {"id": "b", "return": 1, "next": ["a"]}, dialect="port_graph"), [], ""),
    ("said to be endless", definition("ports", tool("a", next=[{"to": ["a"], "endless": True}])), [], ""),
    ("bounded is an end", definition("ports", tool("a", next=[{"to": ["a"], "max": 3}])), [], ""),
    (
        "what nothing leads to in 003",
        definition("ports", tool("a"), tool("b"), dialect="port_graph"),
        ["~unreachable_step"],
        "steps[1] (b): no step leads to 'b', so it never runs",
    ),
    ("two begin, elsewhere", definition("ports", tool("a"), tool("b")), [], ""),
    (
        "behind a return",
        definition("listed", {"id": "r", "return": 1}, tool("b"), tool("c")),
        ["~unreachable_step"],
        "steps[1] (b): 'b' follows 'r', which always ends the execution, so it never runs",
    ),
    (
        "behind a return inside of a block",
        definition("listed", do("z", {"id": "r", "fail": {"message": "no"}}, tool("b"))),
        ["~unreachable_step"],
        "steps[0].do[1] (b): ",
    ),
    ("behind a return with a condition", definition("listed", {"id": "r", "when": CONDITION, "return": 1}, tool("b")), [], ""),
    ("behind what catches a failure", definition("ports", {"id": "r", "fail": {"message": "no"}, "next": {"error": ["b"]}}, tool("b")), [], ""),
    (
        "a port that is not there",
        definition("ports", {"id": "a", "approve": {"title": "?"}, "next": {"aproved": ["b"], "rejected": []}}, tool("b")),
        ["unknown_port", "~port_without_target"],
        "steps[0].next.aproved: approve has no port 'aproved'; it has approved, rejected, timeout, success, error, skipped",
    ),
    (
        "true of a tool",
        definition("ports", tool("a", next={"true": ["b"]}), tool("b")),
        ["unknown_port"],
        "steps[0].next.true: tool has no port 'true'; it has success, error, skipped",
    ),
    (
        "each has done, and not what one item came to",
        definition("ports", {"id": "a", "each": {"in": [1]}, "test": CONDITION, "next": {"true": ["b"]}}, tool("b")),
        ["unknown_port"],
        "steps[0].next.true: ",
    ),
    ("done and max of repeat", definition("ports", tool("a", repeat={"while": CONDITION, "max": 2}, next={"done": ["b"], "max": ["b"]}), tool("b")), [], ""),
    (
        "max of what is not repeated",
        definition("ports", tool("a", next={"max": ["b"]}), tool("b")),
        ["unknown_port"],
        "steps[0].next.max: tool has no port 'max'",
    ),
    ("timeout of a block that has one", definition("ports", do("a", timeout=5, next={"timeout": ["b"]}), tool("b")), [], ""),
    ("timeout of a tool is an error", definition("ports", tool("a", timeout=5, next={"timeout": ["b"]}), tool("b")), ["unknown_port"], ""),
    ("what does it says which ports it has", definition("ports", {"id": "a", "agent": "?", "next": {"sales": ["b"]}}, tool("b")), [], ""),
    (
        "a port that leads nowhere",
        definition("ports", {"id": "a", "test": CONDITION, "next": {"true": ["b"]}}, tool("b")),
        ["~port_without_target"],
        "steps[0].next: next has no entry for the port false of 'a'; add false to next, with [] if nothing follows",
    ),
    ("a port that leads nowhere, as is said", definition("ports", {"id": "a", "test": CONDITION, "next": {"true": ["b"], "false": []}}, tool("b")), [], ""),
    ("however it succeeded", definition("ports", {"id": "a", "test": CONDITION, "next": {"success": ["b"]}}, tool("b")), [], ""),
    (
        "effects that nothing orders",
        definition("refs", tool("a"), tool("b"), {"id": "c", "emit": {"body": 1}}, tool("d", needs=["a", "b", "c"])),
        ["~unordered_effects"],
        "steps[1] (b): 'a', 'b', 'c' have effects and no order between them, so they run concurrently; if one has to run first, write needs: [a] in the other",
    ),
    ("effects with something between", definition("refs", tool("a"), {"id": "b", "set": {"x": "@a"}}, tool("c", with_="@b")), [], ""),
    ("effects one of which has a condition", definition("refs", tool("a"), tool("b", when=CONDITION)), ["~unordered_effects"], "steps[1] (b): "),
    ("effects that all have conditions", definition("refs", tool("a", when=CONDITION), tool("b", when={"not": CONDITION})), [], ""),
    ("effects of branches are meant to run at once", definition("refs", {"id": "p", "parallel": {"steps": [tool("a"), tool("b")]}}), [], ""),
    ("effects in a list", definition("listed", tool("a"), tool("b")), [], ""),
    (
        "an id twice",
        definition("listed", tool("a"), do("b", tool("a"))),
        ["duplicate_id"],
        "steps[1].do[0].id: the id 'a' is taken by the step at /steps/0; give each its own",
    ),
    (
        "a root as an id",
        definition("listed", tool("input")),
        ["root_as_id"],
        "steps[0].id: @input is reserved; give the step another id, such as input_1",
    ),
    (
        "a time that is known later",
        definition("listed", tool("a", timeout="@input.t")),
        ["not_constant"],
        "steps[0].timeout: '@input.t' is not a constant",
    ),
    ("a time that is none", definition("listed", tool("a", retry={"wait": "soon"})), ["bad_duration"], "steps[0].retry.wait: "),
    ("a deadline that is none", definition("listed", tool("a"), limits={"deadline": -1}), ["bad_duration"], "limits.deadline: "),
    (
        "a number that is known later",
        definition("listed", tool("a", each={"in": [], "concurrency": "@input.n"})),
        ["not_constant"],
        "steps[0].each.concurrency: concurrency has to be a whole number from 0, found '@input.n'",
    ),
    (
        "a join that is none",
        definition("listed", tool("a", join=0)),
        ["wrong_type"],
        "steps[0].join: expected all, any, each or a whole number from 1, found 0",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "document", "expected", "words"), FOUND, ids=[row[0] for row in FOUND])
def test_it_is_found(what: str, document: Document, expected: list[str], words: str) -> None:
    assert codes(document) == expected
    assert not words or compile_findings(document)[0].message.startswith(words)


@pytest.mark.parametrize(("what", "document", "expected", "words"), FOUND, ids=[row[0] for row in FOUND])
def test_what_has_an_error_is_refused_and_what_has_a_warning_compiles(what: str, document: Document, expected: list[str], words: str) -> None:
    errors = [code for code in expected if not code.startswith("~")]
    if not errors:
        assert compile_definition(document).nodes
        return
    with pytest.raises(BadDefinition) as caught:
        compile_definition(document)
    assert [finding.code for finding in caught.value.findings] == errors


def test_a_suggestion_is_the_name_alone() -> None:
    (found, *_) = compile_findings(definition("refs", tool("fetch"), tool("b", with_={"x": "@fecth.y"})))
    assert (found.suggestion, found.pointer) == ("fetch", "/steps/1/with/x")


def test_long_cycles_are_shown_in_short() -> None:
    steps = [tool(f"s{number}", needs=[f"s{(number - 1) % 30}"]) for number in range(30)]
    (found, *_) = compile_findings(definition("refs", *steps))
    assert found.message.startswith("steps: s0 -> s1 -> s2 -> s3 -> s4 -> … 24 more … -> s29 -> s0 is a cycle")


@pytest.mark.slow
def test_many_unknown_names_are_told_quickly() -> None:
    steps = [tool(f"s{number}", needs=[f"t{number}"]) for number in range(3000)]
    assert len(compile_findings(definition("ports", *steps))) == 3000
