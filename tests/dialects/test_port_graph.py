"""Seed 003 as a definition: its steps, ports, loops and expressions, what is odd in it, and the way back."""

import copy
import random
from typing import Any

import msgspec
import pytest

from perdure import Definition, dialects
from perdure.core.errors import BadDefinition
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.compiler import compile_definition, compile_findings
from perdure.definitions.format.definition_findings import DefinitionFinding
from perdure.definitions.format.validator import definition_findings
from perdure.definitions.graph.ir import IR
from perdure.dialects.definition_reader import read_definition
from perdure.dialects.port_graph.document_reader import to_definition
from perdure.dialects.port_graph.document_writer import from_definition
from perdure.testing import World
from tests.seeds.examples_003 import INLINE


def step(name: str, kind: str = "action", config: Any = None, **following: Any) -> dict[str, Any]:
    """A step as it stands in a document; an action of the tool TOOL if nothing else is said."""
    if config is None:
        config = {"type": "TOOL"} if kind == "action" else {}
    return {"stepSlug": name, "name": name, "stepType": kind, "config": config, "nextSteps": following}


def document(*steps: dict[str, Any], **config: Any) -> dict[str, Any]:
    """A document in the shape in which tale stores it."""
    return {"name": "some", "config": config, "steps": list(steps)}


def sound(given: dict[str, Any]) -> dict[str, Any]:
    """The definition, in which nothing is wrong."""
    found = to_definition(given)
    assert [one.message for one in found.findings if one.severity == "error"] == []
    assert [one.message for one in definition_findings(found.document) if one.severity == "error"] == []
    return found.document


def ir(given: dict[str, Any]) -> IR:
    """What it compiles to."""
    return compile_definition(canonical_document(sound(given)))


def told(given: Any) -> list[tuple[str, str, str]]:
    """What is found: severity, code and pointer of each."""
    return [(one.severity, one.code, one.pointer) for one in to_definition(given).findings]


def said(given: Any, code: str) -> str:
    """The message of the only finding of this code."""
    (found,) = [one.message for one in to_definition(given).findings if one.code == code]
    return found


def edges(graph: IR) -> set[tuple[str, str, str]]:
    """Its edges: from, port, to."""
    return {(graph.nodes[edge.source].id, edge.port, graph.nodes[edge.target].id) for edge in graph.edges}


def test_the_seed_s_inline_workflow_is_a_definition_in_order_of_ports() -> None:
    found = to_definition(INLINE)
    assert found.dialect == "port_graph"
    assert found.document == {
        "perdure": 1,
        "dialect": "port_graph",
        "name": "Support triage",
        "description": "Asks, decides and replies",
        "retry": {"max": 3, "wait": 3, "factor": 2},
        "limits": {"deadline": 60, "max_hops": 10_000},
        "input": {"text": {"default": "help"}},
        "vars": {"pageSize": 50, "greeting": "@@all", "organizationId": "org_1"},
        "triggers": [{"manual": {}}],
        "order": "ports",
        "steps": [
            {"id": "begin", "name": "Begin", "do": [], "ui": {"stepType": "trigger"}, "next": {"success": ["ask"]}},
            {
                "id": "ask",
                "name": "Ask",
                "llm": {"model": "gpt-4o", "temperature": 0.2, "prompt": "Is this urgent? {{ input.text }} ({{ greeting }})"},
                "transform": {"answer": "@self.text"},
                "next": {"success": ["decide"]},
            },
            {
                "id": "decide",
                "name": "Decide",
                "test": {"braces": "steps.ask.output.data.answer == 'yes'"},
                "next": {"true": ["sign"], "false": ["each_message"]},
            },
            {
                "id": "sign",
                "name": "Sign",
                "approve": {"title": "Sign", "assignees": ["m1"], "timeout": 86400, "on_timeout": "reject", "priority": "high"},
                "next": {"approved": ["each_message"], "rejected": []},
            },
            {
                "id": "each_message",
                "name": "Each message",
                "loop": {"items": "{{ input.messages }}", "batch": 2},
                "next": {"loop": ["reply"], "done": ["count"]},
            },
            {
                "id": "reply",
                "name": "Reply",
                "tool": "mail",
                "with": {"operation": "send", "messages": "{{ loop.batch.items }}", "token": "Bearer {{ secrets.TOKEN }}"},
                "next": {"success": ["each_message"]},
            },
            {"id": "count", "name": "Count", "set": {"pageSize": "{{ pageSize + 1 }}"}},
        ],
    }
    assert [(one.code, one.pointer) for one in found.findings] == [("secret_left_out", "/workflowConfig/config/secrets/TOKEN")]
    assert "sealed" not in str(found)


def test_the_seed_s_inline_workflow_compiles_with_its_loop_as_the_head_of_a_cycle() -> None:
    graph = ir(INLINE)
    assert edges(graph) == {
        ("begin", "+", "ask"),
        ("ask", "+", "decide"),
        ("decide", "true", "sign"),
        ("decide", "false", "each_message"),
        ("sign", "approved", "each_message"),
        ("each_message", "loop", "reply"),
        ("each_message", "done", "count"),
        ("reply", "+", "each_message"),
    }
    (cycle,) = [region for region in graph.regions if region.kind == "cycle"]
    assert graph.nodes[cycle.head].id == "each_message"
    assert {graph.nodes[number].id for number in cycle.nodes} == {"each_message", "reply"}
    assert [graph.nodes[edge.source].id for edge in graph.edges if edge.back] == ["reply"]


def test_the_way_in_finds_the_dialect_and_both_shapes_say_the_same() -> None:
    about_the_run = ("input", "organizationId", "triggeredBy", "triggerData")
    inline = read_definition({name: value for name, value in INLINE.items() if name not in about_the_run})
    stored = read_definition({**INLINE["workflowConfig"], "steps": INLINE["stepsConfig"], "enabled": True})
    assert (inline.dialect, stored.dialect) == ("port_graph", "port_graph")
    assert inline.hash == stored.hash
    assert dialects.detected_dialect(INLINE) == "port_graph"


@pytest.mark.parametrize("shape", ["inline", "stored"])
def test_a_definition_is_written_back_as_it_was_read(shape: str) -> None:
    given = copy.deepcopy(INLINE)
    if shape == "stored":
        given = {**given["workflowConfig"], "steps": given["stepsConfig"]}
    first = to_definition(given)
    for definition in (first.document, canonical_document(first.document)):
        back = from_definition(definition)
        assert back.findings == ()
        assert back.document is not None
        assert canonical_document(to_definition(back.document).document) == canonical_document(first.document)


def test_what_starts_is_the_start_step_and_else_the_first_in_order() -> None:
    ordered = document({**step("b"), "order": 2}, {**step("a"), "order": 1})
    assert [one["id"] for one in sound(ordered)["steps"]] == ["a", "b"]
    started = document(step("a"), step("go", "start", success="a"))
    assert [one["id"] for one in sound(started)["steps"]] == ["go", "a"]
    assert told(document(step("a", "trigger", success="b"), step("b", "start")))[0] == ("warning", "second_start", "/steps/1/stepType")


def test_a_step_after_which_nothing_stands_ends_and_so_do_null_and_noop() -> None:
    given = document(step("a", "condition", {"expression": "x"}, true="noop", false=None), x=1)
    assert sound(given)["steps"][0]["next"] == {"true": [], "false": []}
    assert [one.code for one in compile_findings(canonical_document(sound(given)))] == []
    called = document(step("a", success="noop"), step("noop", "noop"))
    assert sound(called)["steps"] == [
        {"id": "a", "tool": "TOOL", "next": {"success": ["noop"]}},
        {"id": "noop", "do": [], "ui": {"stepType": "noop"}},
    ]


@pytest.mark.parametrize(
    ("config", "approve"),
    [
        (
            {"resourceType": "invoice", "resourceId": "{{input.id}}", "priority": "urgent", "routeHint": "invoices", "deeplink": "/invoices/7", "dueDate": 7},
            {"resource": {"type": "invoice", "id": "{{input.id}}"}, "priority": "urgent"}
            | {"route_hint": "invoices", "deep_link": "/invoices/7", "details": {"dueDate": 7}},
        ),
        ({"priority": "medium"}, {"priority": "normal"}),
        ({"priority": "{{input.how}}"}, {"details": {"priority": "{{input.how}}"}}),
        ({"priority": 3, "resourceType": "invoice"}, {"details": {"priority": 3, "resourceType": "invoice"}}),
        ({"priority": "soon", "resourceId": 7, "resourceType": "a"}, {"details": {"priority": "soon", "resourceId": 7, "resourceType": "a"}}),
    ],
    ids=["all of it", "medium", "a template", "half of it", "of other kinds"],
)
def test_an_approval_has_its_subject_its_priority_and_where_it_is_shown(config: dict[str, Any], approve: dict[str, Any]) -> None:
    given = sound(document(step("a", "approval", {"title": "Pay?", **config})))
    assert given["steps"][0]["approve"] == {"title": "Pay?", **approve}
    written = from_definition(given)
    assert written.document is not None and not written.findings
    assert sound(written.document)["steps"] == given["steps"]


def test_failure_is_the_port_error_and_default_every_port_that_says_nothing() -> None:
    given = document(
        step("a", failure="c", default="b"),
        step("b", "condition", {"expression": "true"}, true="c", default="d"),
        step("c", "approval", default="d", reject=None),
        step("d"),
    )
    following = {one["id"]: one.get("next") for one in sound(given)["steps"]}
    assert following == {
        "a": {"success": ["b"], "error": ["c"]},
        "b": {"true": ["c"], "false": ["d"]},
        "c": {"approved": ["d"], "rejected": []},
        "d": None,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (document(step("a", sucess=None)), "action has no port 'sucess'; it has success, and failure and default; did you mean 'success'?"),
        (document(step("a", "condition", {"expression": "1"}, success=None)), "condition has no port 'success'; it has true, false"),
        (document(step("a", "loop", {"items": []}, next=None)), "loop has no port 'next'; it has loop, done"),
    ],
)
def test_a_port_that_a_step_does_not_have_is_an_error(given: dict[str, Any], message: str) -> None:
    assert message in said(given, "unknown_port")
    with pytest.raises(BadDefinition):
        read_definition(given)


def test_a_target_that_is_no_step_is_an_error_with_what_was_meant() -> None:
    given = document(step("send", success="recieve"), step("receive"))
    assert said(given, "unknown_step") == "steps[0].nextSteps.success: 'recieve' is not a step; did you mean 'receive'?"


def test_a_loop_without_a_body_leads_to_itself() -> None:
    graph = ir(document(step("all", "loop", {"items": "{{ rows }}"}, done="end"), step("end"), rows=[1]))
    assert edges(graph) == {("all", "loop", "all"), ("all", "done", "end")}
    assert [(region.kind, region.nodes) for region in graph.regions if region.kind == "cycle"] == [("cycle", (0,))]


def test_a_loop_within_a_cycle_has_a_region_of_its_own() -> None:
    given = document(
        step("page", success="each"),
        step("each", "loop", {"items": "{{ steps.page.output.data }}", "itemVariable": "row", "batchSize": 1, "maxIterations": 9}, loop="work", done="more"),
        step("work", "action", {"type": "W", "parameters": {"row": "{{ row.id }} {{ loop.index }}"}}, success="each"),
        step("more", "condition", {"expression": "lastOutput.data != null"}, true="page"),
    )
    graph = ir(given)
    assert graph.nodes[1].config == {"items": "{{ steps.page.output.data }}", "as": "row", "max": 9}
    outer, inner = (region for region in graph.regions if region.kind == "cycle")
    assert (graph.nodes[outer.head].id, graph.nodes[inner.head].id) == ("page", "each")
    assert graph.regions[inner.parent] is outer


@pytest.mark.slow
def test_a_loop_that_goes_on_when_one_fails_is_led_back_to_by_failures_of_its_body() -> None:
    config = {"items": "{{ rows }}", "continueOnError": True}
    given = document(
        step("outer", "loop", config, loop="a", done="end"),
        step("a", success="inner"),
        step("inner", "loop", config, loop="b", done="c"),
        step("b", success="inner"),
        step("c", success="outer", failure="end"),
        step("end"),
        rows=[1],
    )
    led = {one["id"]: one["next"].get("error") for one in sound(given)["steps"] if "next" in one}
    assert led == {"outer": None, "a": ["outer"], "inner": None, "b": ["inner"], "c": ["end"]}
    back = from_definition(canonical_document(sound(given))).document
    assert back is not None
    assert back["steps"][1]["nextSteps"] == {"success": "inner"}
    assert to_definition(back).document["steps"] == sound(given)["steps"]


def test_variables_are_defaults_of_inputs_that_are_declared() -> None:
    schema = {"properties": {"size": {"type": "integer"}, "name": {"type": "string"}, "note": {}}, "required": ["size", "name"]}
    given = document(step("go", "start", {"inputSchema": schema}, success="a"), step("a", "action", {"type": "T", "parameters": "{{size}}{{x}}"}), size=1, x=2)
    given["config"] = {"variables": {"size": 5, "x": 2}}
    definition = sound(given)
    assert definition["input"] == {"size": {"type": "integer", "default": 5}, "name": {"type": "string"}, "note": {"default": None}}
    assert definition["vars"] == {"x": 2}


def test_nothing_is_tried_again_unless_it_says_so() -> None:
    assert sound(document(step("a")))["retry"] == {"max": 1}
    own = document(step("a", "action", {"type": "T", "retryPolicy": {"maxRetries": 4, "backoffMs": 500}, "timeout": 1500}), retryPolicy={"maxRetries": 0})
    assert sound(own)["retry"] == {"max": 1}
    assert sound(own)["steps"][0] == {"id": "a", "tool": "T", "retry": {"max": 5, "wait": 0.5, "factor": 2}, "timeout": 1.5}


def test_a_step_called_as_a_root_is_called_otherwise_and_what_reads_it_follows() -> None:
    given = document(
        step("trigger", "start", success="loop"),
        step("loop", "action", {"type": "T", "parameters": {"a": "{{ steps.trigger.output.data }} loop"}}, success="check"),
        step("check", "condition", {"expression": "steps['loop'].output.data == 1"}),
    )
    definition = sound(given)
    assert [one["id"] for one in definition["steps"]] == ["trigger_", "loop_", "check"]
    assert definition["steps"][0]["next"] == {"success": ["loop_"]}
    assert definition["steps"][1]["with"] == {"a": "{{ steps.trigger_.output.data }} loop"}
    assert definition["steps"][2]["test"] == {"braces": "steps['loop_'].output.data == 1"}


def test_an_at_sign_in_plain_text_stays_one() -> None:
    given = document(step("a", "action", {"type": "T", "parameters": {"to": "@ann", "text": "@{x} {{ 1 }}", "mail": "a@b"}}))
    assert sound(given)["steps"][0]["with"] == {"to": "@@ann", "text": "@{x} {{ 1 }}", "mail": "a@b"}
    assert from_definition(sound(given)).document["steps"][0]["config"]["parameters"] == given["steps"][0]["config"]["parameters"]  # type: ignore[index]  # it is one


ODD = [
    (document(step("a", "action", {"type": "T", "parameters": "{{ steps.b.output.data }}"})), "unknown_reference", "steps.b is no step, so it is null"),
    (document(step("ab", success="c"), step("c", "condition", {"expression": "steps.abb.output"})), "unknown_reference", "did you mean steps.ab?"),
    (document(step("a", success="c"), step("c", "condition", {"expression": "steps.a.data"})), "unknown_reference", "stands in steps.a.output.data"),
    (document(step("a", success="c"), step("c", "condition", {"expression": "steps.a.output.id"})), "unknown_reference", "what the step gave is its data"),
    (document(step("a", success="c"), step("c", "condition", {"expression": "lastOutput.id"})), "unknown_reference", "lastOutput.id is null"),
    (document(step("a", "condition", {"expression": "steps.b.output"}, true="b"), step("b")), "read_too_early", "steps.b never comes before 'a'"),
    (document(step("a", "condition", {"expression": "loop.item"})), "loop_outside", "no loop comes before this step"),
    (document(step("a", "condition", {"expression": "sise > 1"}), variables={"size": 1}), "unknown_reference", "did you mean 'size'?"),
    (document(step("a", "condition", {"expression": "sise > 1"})), "unknown_reference", "null unless the input has it"),
    (document(step("a"), variables={"left": 1}), "unread_variable", "no expression reads the variable 'left'"),
    (document(step("a"), variables={"organizationId": 1}), "variable_overridden", "counts only if that has none"),
    (document(step("a", "loop", {"items": []}, loop="b"), step("b")), "loop_not_closed", "nothing leads from 'b' back to this loop"),
    (document(step("a", "loop", {}, done=None)), "missing_field", "the data of the step before"),
    (document(step("a", "loop", {"items": [], "itemVariable": "row"})), "unread_variable", "no step reads 'row'"),
    (document(step("a", success="b"), step("b", failure="c"), step("c")), "failure_not_led", "if 'a' fails, all fails and 'c' is not told"),
    (document(step("a", "action", {"type": "T", "parameters": {"{{x}}": 1}})), "template_in_key", "{{ }} is not evaluated in the names of fields"),
    (document(step("a", "action", {"type": "set_variables", "parameters": {"variables": [{"name": "n", "value": 1}]}})), "unread_variable", "which 'a' sets"),
    (
        document(step("a", "action", {"type": "set_variables", "parameters": {"variables": [{"name": "n", "value": 1}, {"name": "m", "value": "{{ n }}"}]}})),
        "set_at_once",
        "'n' is set by this step itself",
    ),
    ({**document(step("a")), "name": "a/b"}, "renamed", "the workflow is named 'a-b'"),
    ({**document(step("a")), "version": "v2"}, "renamed", "version 2.0.0 is used"),
    ({**document(step("a")), "nmae": 1}, "unknown_field", "did you mean 'name'?"),
]


@pytest.mark.parametrize(("given", "code", "words"), ODD, ids=lambda one: one if isinstance(one, str) else "")
def test_what_is_odd_is_told_and_runs_all_the_same(given: dict[str, Any], code: str, words: str) -> None:
    found = to_definition(given)
    assert {one.severity for one in found.findings} == {"warning"}
    assert any(one.code == code and words in one.message for one in found.findings), [one.message for one in found.findings]
    compile_definition(canonical_document(sound(given)))


WRONG: list[tuple[Any, str]] = [
    (None, "wrong_type"),
    ([], "wrong_type"),
    ({}, "no_steps"),
    (document(), "no_steps"),
    (document({"stepType": "action"}), "missing_field"),
    (document(step("a", "acton")), "unknown_step_type"),
    (document(step("a"), step("a")), "duplicate_id"),
    (document(step("a", "action", {})), "missing_field"),
    (document(step("a", "condition", {})), "missing_field"),
    (document(step("a", "condition", {"expression": "1 +"})), "bad_expression"),
    (document(step("a", "action", {"type": "T", "parameters": "{{ x|nope }}"})), "bad_expression"),
    (document(step("a", "condition", {"expression": "secrets.A == 1"})), "bad_expression"),
    (document(step("a", success=5)), "wrong_type"),
    (document(step("a", "loop", {"items": [], "batchSize": 0})), "wrong_type"),
    (document(step("a", "approval", {"onTimeout": "later"})), "unknown_value"),
    (document(step("a", "llm", {"model": ""})), "wrong_type"),
    (document(step("a"), variables={"x": ["{{ y }}"]}), "template_in_variable"),
    (document(step("a", "llm", {"outputSchema": "x"})), "wrong_type"),
    (document(step("a", "action", {"type": "set_variables", "parameters": {"variables": [{"name": "n", "secure": True}]}})), "secret_set"),
    (document(step("a", "action", {"type": "set_variables", "parameters": {"variables": ["n"]}})), "wrong_type"),
]


@pytest.mark.parametrize(("given", "code"), WRONG)
def test_what_is_wrong_is_an_error(given: Any, code: str) -> None:
    assert ("error", code) in [(severity, found) for severity, found, _ in told(given)]


def native(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A definition that was never a document of the seed."""
    return {"perdure": 1, "name": "some", "order": "ports", "steps": list(steps), **more}


def test_a_definition_of_the_format_is_written_with_its_references_as_expressions() -> None:
    rows = {"all": [{"ref": "@a.n", "gte": 3}, {"not": {"ref": "@vars.x", "in": ["p", "@input.q"]}}, {"ref": "@last", "exists": True}, "@secrets_.ok?"]}
    definition = native(
        {
            "id": "a",
            "tool": "T",
            "with": {"one": "@vars.x.y", "two": "to @{input.z}, @@me", "three": "@steps.a.output.meta['a b'][0]", "k": "@secrets.K"},
            "next": "b",
        },
        {"id": "b", "test": rows, "next": {"true": "secrets_", "false": []}},
        {"id": "secrets_", "set": {"m": "@last"}},
        vars={"x": {}},
    )
    back = from_definition(definition)
    assert back.findings == ()
    assert back.document is not None
    first, second, third = back.document["stepsConfig"]
    assert first["config"] == {
        "type": "T",
        "parameters": {
            "one": "{{x.y}}",
            "two": "to {{input.z}}, @me",
            "three": '{{steps.a.output.meta["a b"][0]}}',
            "k": "{{secrets.K}}",
        },
    }
    written = '(steps.a.output.data.n >= 3) && (!(x in ["p", input.q])) && (lastOutput != null) && (steps.secrets_.output.data.ok)'
    assert second["config"] == {"expression": written}
    assert second["nextSteps"] == {"true": "secrets_", "false": "noop"}
    assert third["config"]["parameters"] == {"variables": [{"name": "m", "value": "{{lastOutput}}"}]}
    assert [one.severity for one in to_definition(back.document).findings if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("definition", "pointer"),
    [
        ({"perdure": 1, "name": "x", "steps": []}, "/order"),
        (native({"id": "a", "tool": "T"}, output="@a"), "/output"),
        (native({"id": "a", "tool": "T", "each": {"in": "@input.x"}}), "/steps/0/each"),
        (native({"id": "a", "tool": "T", "next": ["b", "c"]}), "/steps/0/next/success"),
        (native({"id": "a", "tool": "T", "next": {"success": {"to": ["a"], "max": 3}}}), "/steps/0/next/success"),
        (native({"id": "a", "tool": "T", "with": "@error.x"}), "/steps/0/with"),
        (native({"id": "a", "test": {"expr": "1 == 1"}}), "/steps/0/test"),
        (native({"id": "a", "test": {"ref": "$.x", "gt": 1}}), "/steps/0/test"),
        (native({"id": "a", "sleep": 5}), "/steps/0"),
        (native({"id": "a", "tool": "T"}, retry={"factor": 3}), "/retry/factor"),
        (native({"id": "a", "tool": "T"}, limits={"max_steps": 3}), "/limits/max_steps"),
        (native({"id": "a", "do": []}, triggers=[{"webhook": {"path": "x"}}]), "/triggers/0"),
    ],
)
def test_what_the_seed_can_t_say_is_told_and_nothing_is_written(definition: dict[str, Any], pointer: str) -> None:
    back = from_definition(definition)
    assert back.document is None
    assert pointer in [one.pointer for one in back.findings]


VALUES: list[Any] = [
    *(None, True, 0, -1, 2.5, "", "a", "b", "noop", "{{", "{{ x }}", "{{ steps.a.output.data|length }}", "@a", "@", [], {}, ["a"], {"a": "b"}, {"type": "T"}),
    *(
        {"success": "a"},
        {"loop": "b", "done": "a"},
        {"expression": "a >= 1"},
        {"items": "{{ a }}", "continueOnError": True},
        [{"name": "a", "value": "{{ b }}"}],
    ),
]


def spoilt(value: Any, chance: random.Random, share: float) -> Any:
    """`value` with some of it replaced or left out."""
    if chance.random() < share:
        return chance.choice(VALUES)
    match value:
        case list():
            return [spoilt(item, chance, share) for item in value if chance.random() > share / 4]
        case dict():
            return {key: spoilt(item, chance, share) for key, item in value.items() if chance.random() > share / 4}
        case _:
            return value


FOUND_BY_THE_CHECK = {"cycle_entered", "no_end", "root_not_here"}
"""What is wrong with a document that only the check of the definition finds that it is read as; and what is wrong in the config of a kind."""


def told_by_the_check(one: DefinitionFinding) -> bool:
    """Whether a document may be read without this error being found."""
    return one.code in FOUND_BY_THE_CHECK or (one.code == "wrong_type" and one.pointer.split("/")[3:4] == ["llm"])


def survived(seed: int) -> bool:
    """Read, check, compile and write a spoilt document; whether it was sound."""
    chance = random.Random(seed)
    found = dialects.read_foreign(spoilt(INLINE, chance, chance.choice((0.01, 0.05, 0.2))))
    if found is None or any(one.severity == "error" for one in found.findings):
        return False
    wrong = [one for one in definition_findings(found.document) if one.severity == "error"]
    assert all(told_by_the_check(one) for one in wrong), wrong
    if wrong:
        return False
    definition = canonical_document(found.document)
    wrong = [one for one in compile_findings(definition) if one.severity == "error"]
    assert all(told_by_the_check(one) for one in wrong), wrong
    if wrong:
        return False
    compile_definition(definition)
    back = from_definition(definition)
    assert back.document is not None, back.findings
    assert canonical_document(to_definition(back.document).document) == definition
    msgspec.json.encode(definition)
    return True


@pytest.mark.slow
def test_whatever_a_document_is_it_is_read_or_told_what_is_wrong() -> None:
    assert sum(survived(seed) for seed in range(300)) > 10


def test_what_an_inline_document_is_run_with_is_written_where_no_step_declares_it() -> None:
    given = {"workflowConfig": {"name": "x"}, "stepsConfig": [step("a")], "input": {"who": "Ada"}}
    found = canonical_document(to_definition(given).document)
    back = from_definition(found)
    assert back.document is not None and back.document["input"] == {"who": "Ada"}
    assert canonical_document(to_definition(back.document).document) == found
    typed = from_definition({**found, "input": {"who": {"type": "string"}}})
    assert typed.document is None and [one.pointer for one in typed.findings] == ["/input"]


def test_the_organization_of_an_inline_document_is_text_and_nothing_in_it_is_read() -> None:
    given = {"workflowConfig": {"name": "x"}, "stepsConfig": [step("a")], "organizationId": "@a"}
    found = to_definition(given)
    assert not [one for one in found.findings if one.severity == "error"]
    definition = canonical_document(found.document)
    assert not [one for one in compile_findings(definition) if one.severity == "error"]
    back = from_definition(definition)
    assert back.document is not None and back.document["organizationId"] == "@a"
    with_braces = to_definition({**given, "organizationId": "{{ input.x }}"})
    assert [(one.code, one.pointer) for one in with_braces.findings if one.severity == "error"] == [("template_in_variable", "/organizationId")]


@pytest.mark.prove
def test_whatever_many_documents_are_they_are_read_or_told_what_is_wrong() -> None:
    assert sum(survived(seed) for seed in range(1_000, 16_000)) > 500


def test_an_output_step_ends_with_its_mapping_and_else_with_what_came_last() -> None:
    ended = {"stepSlug": "done", "stepType": "output", "config": {"outputMapping": {"greeting": "{{steps.a.output}}"}}, "nextSteps": {}}
    found = sound(document({**step("a"), "nextSteps": {"success": "done"}}, ended))
    assert found["steps"][1]["return"] == {"greeting": "{{steps.a.output}}"} and "next" not in found["steps"][1]
    assert sound(document(step("a"), {**ended, "config": {}}))["steps"][1]["return"] == "@last"
    back = from_definition(found)
    assert back.document is not None and canonical_document(to_definition(back.document).document) == canonical_document(found)


def test_what_an_inline_document_is_run_with_is_its_input_unless_another_is_given() -> None:
    given = {"workflowConfig": {"name": "x"}, "stepsConfig": [step("a")], "input": {"who": "Ada"}, "organizationId": "org_1", "triggerData": {"a": 1}}
    found = to_definition(given)
    assert found.document["input"] == {"who": {"default": "Ada"}} and found.document["vars"] == {"organizationId": "org_1"}
    assert [one.pointer for one in found.findings if one.code == "unknown_field"] == ["/triggerData"]


def test_a_workflow_that_says_no_bound_has_one() -> None:
    assert sound(document(step("a")))["limits"] == {"max_hops": 10_000}


def test_input_that_may_be_left_out_is_null_whatever_its_type() -> None:
    given: dict[str, Any] = {"title": "x", "steps": [{"name": "a", "action": {"toolName": "T"}, "input": {"v": "@input.n"}}]}
    given["input_schema"] = {"properties": {"n": {"type": "string"}}}
    seen: list[Any] = []
    with World() as world:
        world.run(Definition.of(given, tools={"T": lambda v: seen.append(v)}))
    assert seen == [None]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ config.pageSize }}", 50),
        ("{{ config.variables.pageSize }}", 50),
        ("{{ config.timeout }}", 60_000),
        ("{{ variables.pageSize }}", 50),
        ("{{ variables.who }}", "Ada"),
        ("{{ variables.nobody }}", None),
        ("{{ organizationId }}", "default"),
    ],
)
def test_names_of_real_documents_are_not_null(text: str, value: Any) -> None:
    started = {"stepSlug": "s", "stepType": "start", "config": {"inputSchema": {"properties": {"who": {"type": "string"}}}}, "nextSteps": {"success": "done"}}
    ended = {"stepSlug": "done", "stepType": "output", "config": {"outputMapping": {"it": text}}, "nextSteps": {}}
    config = {"timeout": 60_000, "variables": {"pageSize": 50}}
    with World() as world:
        assert world.run(Definition.of({"workflowConfig": {"name": "x", "config": config}, "stepsConfig": [started, ended]}), who="Ada") == {"it": value}
