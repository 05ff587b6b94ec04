"""The validator: each mistake has its sentence, its code and its place; what is right has none; and no garbage brings it down."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadDefinition
from perdure.definitions.format import model
from perdure.definitions.format.definition_edits import patch_document
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.validator import definition_findings
from perdure.dialects.definition_reader import read_definition
from tests.definitions.format.examples import EXAMPLES
from tests.definitions.format.fuzz_documents import documents, mutated
from tests.seeds.examples import EXAMPLES as FOREIGN

HEAD = "perdure: 1\nname: a\n"


def found(steps: str, head: str = "") -> list[tuple[str, str]]:
    """The code and the sentence of each finding of a definition with these steps, in YAML."""
    return [(finding.code, finding.message) for finding in of(f"{HEAD}{head}steps:\n{steps}")]


def of(text: str) -> list[Any]:
    read_ = parse_document(text)
    assert not read_.findings, read_.findings
    return definition_findings(read_.document, read_.positions)


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_wrong_with_the_examples(name: str) -> None:
    assert of(EXAMPLES[name]) == []


@pytest.mark.parametrize(
    ("steps", "code", "message"),
    [
        (
            '  - {id: fetch, tool: T}\n  - {id: b, tool: T, with: {x: "@fecth.y"}}',
            "unknown_reference",
            "steps[1] (b): '@fecth' is not a step or a root; did you mean '@fetch'?",
        ),
        ("  - {id: a, tool: T, ts: x}", "several_verbs", "steps[0] (a): a step does exactly one thing; found 'tool' and 'ts'"),
        (
            '  - {tool: T, when: {ref: "@input.a", gt: 1, lt: 2}}',
            "bad_expression",
            "steps[0].when: a row has one operator, found 'gt' and 'lt'; write a row for each, under all: […]",
        ),
        (
            '  - {tool: T, when: {any: [{ref: "@input.a", gt: 1, lt: 2}]}}',
            "bad_expression",
            "steps[0].when.any[0]: a row has one operator, found 'gt' and 'lt'; write a row for each, under all: […]",
        ),
        ("  - {id: a}", "no_verb", f"steps[0] (a): a step does exactly one thing; found nothing; name one of {', '.join(model.verbs_by_name())}"),
        ("  - {id: a, tol: T}", "unknown_field", "steps[0] (a): 'tol' is not a field of a step; did you mean 'tool'?"),
        (
            '  - {id: a, tool: T, each: {in: "@input.a", concurency: 2}}',
            "unknown_field",
            "steps[0].each: 'concurency' is not a field of each; did you mean 'concurrency'?",
        ),
        ("  - {id: a, tool: T, each: {as: x}}", "missing_field", "steps[0].each: 'in' is missing (the list)"),
        ("  - {id: a, tool: 5}", "wrong_type", 'steps[0].tool: expected the name of a tool, found 5; quote it: "5"'),
        ("  - {id: a, tool: {}}", "wrong_type", "steps[0].tool: expected the name of a tool, found an empty mapping"),
        ('  - {id: a, tool: ""}', "empty", "steps[0].tool: expected the name of a tool, found nothing"),
        ("  - 5", "wrong_type", "steps[0]: expected a step, which is a mapping, found 5"),
        (
            "  - {id: a, sleep: ten}",
            "bad_duration",
            "steps[0].sleep: 'ten' is not a duration; write seconds, or text such as '500ms', '30s', '2h 30m', '3d'",
        ),
        ("  - {id: a, tool: T, timeout: -5}", "bad_duration", "steps[0].timeout: -5 is not a duration; write seconds"),
        (
            '  - {id: a, tool: T, timeout: "@input.t"}',
            "not_constant",
            "steps[0].timeout: no reference is allowed here, because it must be constant; write seconds, or text such as '30s'",
        ),
        ("  - {id: input, tool: T}", "root_as_id", "steps[0].id: 'input' is a root, which references begin with; give it another name"),
        ("  - {id: a b, tool: T}", "bad_id", "steps[0].id: 'a b' is not an id: letters, digits, '_' and '-', beginning with a letter or '_'"),
        ("  - {id: a, tool: T}\n  - {id: a, tool: T}", "duplicate_id", "steps[1] (a): steps[0] has this id as well; give each its own"),
        ("  - {id: a, tool: T}\n  - {do: [{id: a, tool: T}]}", "duplicate_id", "steps[1].do[0] (a): steps[0] has this id as well"),
        ("  - {id: a, tool: T, then: []}", "misplaced", "steps[0] (a): 'then' is allowed only with 'if'"),
        ("  - {id: a, if: true}", "missing_field", "steps[0] (a): 'then' is missing"),
        ("  - {id: a, tool: T, wait: false}", "misplaced", "steps[0] (a): 'wait' is allowed only with 'call'"),
        ("  - {id: a, tool: T, undo: true}", "misplaced", "steps[0] (a): 'undo: true' is allowed only with 'call' of a workflow"),
        ('  - {id: a, call: "py:f"}', "bad_text", "steps[0].call: 'py:f' is not py:package.module.function, or workflow"),
        ("  - {id: a, call: w@two}", "bad_text", "steps[0].call: 'w@two' is not py:package.module.function, or workflow"),
        ("  - {id: a, tool: T, next: a}", "misplaced", "steps[0] (a): 'next' is allowed only with 'order: ports' in the definition"),
        (
            '  - {id: a, tool: T, repeat: {until: "@self.ok"}}',
            "contradiction",
            "steps[0].repeat: the loop has no bound; add max, or endless: true",
        ),
        ("  - {id: a, tool: T, repeat: {max: 3}}", "one_of", "steps[0].repeat: exactly one of 'while' and 'until' is required; found none"),
        (
            '  - {id: a, tool: T, repeat: {max: 3, while: "@self", until: "@self"}}',
            "one_of",
            "steps[0].repeat: exactly one of 'while' and 'until' is required; found 'while' and 'until'",
        ),
        ('  - {id: a, tool: T, repeat: {max: 0, while: "@self"}}', "wrong_type", "steps[0].repeat.max: expected a whole number from 1, found 0"),
        ("  - {id: a, tool: T, join: some}", "wrong_type", "steps[0].join: expected all, any, each or a number, found 'some'"),
        ("  - {id: a, tool: T, on_error: retry}", "wrong_type", "steps[0].on_error: expected 'fail', 'go_on', or steps that run instead, found 'retry'"),
        ("  - {id: a, race: []}", "wrong_type", "steps[0].race: expected a list of at least one step, found an empty list"),
        ("  - {id: a, approve: {}}", "missing_field", "steps[0].approve: 'title' is missing (the question)"),
        ("  - {id: a, approve: {title: t, on_timeout: reject}}", "contradiction", "steps[0].approve: 'on_timeout' is allowed only with 'timeout'"),
        (
            "  - {id: a, approve: {title: t, assignees: [x], quorum: 2}}",
            "contradiction",
            "steps[0].approve: a quorum of 2 can't be reached with 1 assignees; lower it, or add assignees",
        ),
        (
            "  - {id: a, approve: {title: t, assignees: [x], quorum: 2.0}}",
            "contradiction",
            "steps[0].approve: a quorum of 2 can't be reached with 1 assignees; lower it, or add assignees",
        ),
        ("  - {id: a, emit: {to: {workflow: w, id: i}}}", "contradiction", "steps[0].emit: a message to another execution needs a name; add 'name'"),
        ("  - {id: a, emit: {name: n, to: {workflow: w}}}", "missing_field", "steps[0].emit.to: 'id' is missing"),
        ("  - {id: a, listen: []}", "wrong_type", "steps[0].listen: expected a list that is not empty, found an empty list"),
        ("  - {id: a, listen: {limit: 2}}", "missing_field", "steps[0].listen: 'names' is missing"),
        (
            "  - {id: a, tool: T, needs: [fist]}\n  - {id: first, tool: T}",
            "unknown_step",
            "steps[0] (a): needs names 'fist', which is not a step; did you mean 'first'?",
        ),
        ("  - {id: a, tool: T, needs: [a]}", "not_yet", "steps[0] (a): it needs itself; remove that"),
        ('  - {id: a, tool: T, with: "@a.x"}', "not_yet", "steps[0] (a): '@a' is this step itself, and has no result yet"),
        (
            '  - {id: a, tool: T, repeat: {until: "@a.x", max: 2}}',
            "not_yet",
            "steps[0] (a): '@a' is this step itself, and has no result yet; write '@self'",
        ),
        ('  - {id: a, do: [{id: b, tool: T, with: "@a"}]}', "not_yet", "steps[0].do[0] (b): '@a' holds this step, and has no result yet"),
        ('  - {id: a, tool: T, with: "@item"}', "root_not_here", "steps[0] (a): '@item' is allowed only inside of each"),
        ('  - {id: a, tool: T, when: "@item", each: {in: "@input.a"}}', "root_not_here", "steps[0] (a): '@item' is allowed only inside of each"),
        ('  - {id: a, tool: T, with: "@item", each: {in: "@input.a", as: one}}', "root_not_here", "steps[0] (a): '@item' is allowed only inside of each"),
        ('  - {id: a, tool: T, with: "@state"}', "root_not_here", "steps[0] (a): '@state' is allowed only inside of repeat"),
        ('  - {id: a, tool: T, with: "@error"}', "root_not_here", "steps[0] (a): '@error' is allowed only in the steps of on_error"),
        ('  - {id: a, tool: T, with: "@self"}', "root_not_here", "steps[0] (a): '@self' is allowed only where the step has run"),
        ('  - {id: a, set: {x: "@secrets.X"}}', "secret_here", "steps[0] (a): '@secrets.X' is not allowed here; use secrets only in with, env, headers"),
        ('  - {id: a, return: ["@secrets.X"]}', "secret_here", "steps[0] (a): '@secrets.X' is not allowed here"),
        ('  - {id: a, tool: T, when: "@secrets.X"}', "bad_expression", "steps[0].when: '@secrets.X' reads a secret"),
        ('  - {id: a, approve: {title: "@{secrets.X}"}}', "secret_here", "steps[0] (a): '@secrets.X' is not allowed here"),
        (
            '  - {id: a, bash: "echo @{input.x}"}',
            "reference_in_bash",
            'steps[0] (a): values reach a shell through env, not through its text; write env: {NAME: "@input.name"} and "$NAME"',
        ),
        ('  - {id: a, bash: "@input.command"}', "reference_in_bash", "steps[0] (a): values reach a shell through env"),
        ('  - {id: a, tool: T, with: "@vars.x"}', "unknown_reference", "steps[0] (a): '@vars.x' is not a variable"),
        ('  - {id: a, tool: T, with: "@steps.b.output.meta"}', "unknown_reference", "steps[0] (a): '@steps.b' is not a step; did you mean '@steps.a'?"),
        ('  - {id: a, tool: T, when: {expr: "sef.x > 1"}}', "unknown_reference", "steps[0] (a): '@sef' is not a step or a root"),
        ('  - {id: a, tool: T, with: "x @{input."}', "bad_expression", "steps[0].with: '@{input.' is not closed"),
        ("  - {id: a, tool: T, schema: {type: foo}}", "bad_schema", "steps[0].schema: this is not a JSON Schema"),
        ("  - {id: a, approve: {title: t, form: {a: {type: foo}}}}", "bad_schema", "steps[0].approve.form: this is not a JSON Schema"),
        ("  - {id: a, tool: T, each: {in: [1], as: a}}", "bad_name", "steps[0].each.as: 'a' is the id of a step; choose another name"),
        ("  - {id: a, tool: T, each: {in: [1], as: x, index: x}}", "bad_name", "steps[0].each: the item and its number have one name"),
        ("  - {id: a, tool: T, each: {in: [1], as: input}}", "bad_name", "steps[0].each.as: 'input' is a root"),
        (
            '  - {id: b, tool: T, with: "@a"}\n  - {id: a, tool: T, with: "@b"}',
            "unbounded_cycle",
            "steps: b -> a -> b is a cycle without a bound",
        ),
        (
            '  - {id: x, parallel: [{id: b, tool: T, with: "@a"}, {id: a, tool: T, with: "@b"}]}',
            "unbounded_cycle",
            "steps[0].parallel: b -> a -> b is a cycle without a bound",
        ),
    ],
)
def test_each_mistake_has_its_sentence(steps: str, code: str, message: str) -> None:
    findings = found(steps)
    assert [one for one, _ in findings] == [code], findings
    assert findings[0][1].startswith(message), findings


@pytest.mark.parametrize(
    ("head", "code", "message"),
    [
        ("version: 1.2\n", "wrong_type", 'version: expected a version such as 1.2.0, found 1.2; quote it: "1.2.0"'),
        ("version: one\n", "bad_text", "version: 'one' is not a version such as 1.2.0"),
        ("on: [x]\n", "unknown_field", "the definition: 'on' is not a field of a definition; did you mean 'triggers'?"),
        ("output: '@inptu.x'\n", "unknown_reference", "output: '@inptu' is not a step or a root; did you mean '@input'?"),
        ("input: {x: {type: string, default: 5}}\n", "bad_default", 'input.x: the default does not fit the schema: at the top: 5 is not of type "string"'),
        ("input: {x: {type: strin}}\n", "bad_schema", "input.x: this is not a JSON Schema"),
        ("input: {xyz: {}}\noutput: '@input.xyy'\n", "unknown_reference", "output: '@input.xyy' is not an input; did you mean '@input.xyz'?"),
        ("vars: {x: '@a'}\n", "not_yet", "vars.x: '@a' has no result when this is read, before the first step"),
        ("vars: {x: '@secrets.X'}\n", "secret_here", "vars.x: '@secrets.X' is not allowed here"),
        (
            "triggers: [{webhook: {path: p}, schedule: {cron: '@daily'}}]\n",
            "one_of",
            "triggers[0]: exactly one of 'schedule', 'webhook', 'event' and 'manual' is required",
        ),
        ("triggers: [{webhook: {path: p}, with: '@input.x'}]\n", "root_not_here", "triggers[0].with: '@input' is not known here"),
        ("order: port\n", "wrong_type", "order: expected refs, listed or ports, found 'port'"),
        ("limits: {max_steps: 0}\n", "wrong_type", "limits.max_steps: expected a whole number from 1, found 0"),
        ("dialect: '005'\n", "wrong_type", "dialect: expected ref_dag, nested_steps, port_graph or token_graph, found '005'"),
    ],
)
def test_each_mistake_of_the_definition_has_its_sentence(head: str, code: str, message: str) -> None:
    findings = found("  - {id: a, tool: T}", head)
    assert [one for one, _ in findings] == [code], findings
    assert findings[0][1].startswith(message), findings


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("  - {id: a, tool: T, next: bb}\n  - {id: b, tool: T}", "steps[0] (a): next names 'bb', which is not a step; did you mean 'b'?"),
        ("  - {id: a, tool: T, next: {error: bb}}\n  - {id: b, tool: T}", "steps[0] (a): next names 'bb', which is not a step"),
        ("  - {id: a, tool: T, next: [{to: bb}]}\n  - {id: b, tool: T}", "steps[0] (a): next names 'bb', which is not a step"),
        ("  - {id: a, agent: x, next: {choose: [b], default: c}}\n  - {id: b, tool: T}", "steps[0] (a): next names 'c', which is not a step"),
        ("  - {id: a, tool: T, next: c}\n  - {id: b, do: [{id: c, tool: T}]}", "steps[0] (a): next leads to 'c', which is in another list of steps"),
        ("  - {id: a, tool: T, next: [{to: b, on_max: b}]}\n  - {id: b, tool: T}", "steps[0].next[0]: 'on_max' is allowed only with 'max'"),
        ("  - {id: a, tool: T, next: {to: b}}\n  - {id: b, tool: T}", "steps[0].next.to: tool has no port 'to'"),
        ("  - {id: a, tool: T, next: 5}", "steps[0].next: expected the id of a step, a list of ids"),
        ('  - {id: a, tool: T, repeat: {until: "@self", max: 1, on_max: c}}', "steps[0] (a): repeat names 'c', which is not a step"),
        ("  - {id: a, tool: T, next: b}\n  - {id: b, tool: T, next: a}", "steps[1] (b): a -> b -> a is a cycle without a bound; add max"),
    ],
)
def test_edges_are_checked_where_they_are_written(steps: str, message: str) -> None:
    findings = found(steps, "order: ports\n")
    assert findings and findings[0][1].startswith(message), findings


@pytest.mark.parametrize(
    "steps",
    [
        '  - {id: a, tool: T, with: "@item.x", each: {in: "@input.a"}}',
        '  - {id: a, tool: T, with: ["@one", "@at"], each: {in: "@input.a", as: one, index: at}}',
        '  - {id: a, do: [{id: b, tool: T, with: "@item @{index}"}], each: {in: "@input.a"}}'.replace("@item @{index}", "@{item} @{index}"),
        '  - {id: a, tool: T, with: ["@state", "@index", "@last_turn"], repeat: {until: "@self.ok", max: 2}}',
        '  - {id: a, tool: T, on_error: [{id: b, tool: T, with: "@error.message"}]}',
        '  - {id: a, tool: T, undo: {tool: U, with: {id: "@self.id", key: "@secrets.X"}}}',
        '  - {id: a, bash: env, env: {K: "@secrets.K"}}',
        '  - {id: a, http: {url: "https://x", headers: {key: "@secrets.X"}}}',
        '  - {id: b, tool: T, with: "@a"}\n  - {id: a, tool: T}',
        "  - {id: a, bash: 'git clone git@github.com:x/y'}",
        '  - {id: a, set: {x: 1}}\n  - {id: b, tool: T, needs: a, with: "@vars.x"}',
        "  - {tool: T}",
        "  - {id: größe, tool: T}\n  - {id: b-c, tool: T, with: '@größe.x', needs: größe}",
    ],
)
def test_what_can_be_seen_may_be_read(steps: str) -> None:
    assert [finding for finding in of(f"{HEAD}steps:\n{steps}") if finding.severity == "error"] == []


def test_in_a_list_nobody_reads_what_comes_later() -> None:
    listed = "order: listed\n"
    late = [("not_yet", "steps[0] (a): '@b' comes later in the list, and has no result yet")]
    assert found('  - {id: a, tool: T, with: "@b"}\n  - {id: b, tool: T}', listed) == late
    assert found('  - {id: a, tool: T, with: "@c"}\n  - {id: b, do: [{id: c, tool: T}]}', listed)[0][0] == "not_yet"
    repeated = '  - {id: r, repeat: {until: "@self", max: 2}, do: [{id: a, tool: T, with: "@b?"}, {id: b, tool: T}]}'
    assert [code for code, _ in found(repeated, listed)] == ["reads_later"]  # a warning: in the second turn there is something to read


BLOCKS: dict[str, dict[str, Any]] = {
    "do": {"do": [{"id": "inner", "tool": "T"}]},
    "if": {"if": {"ref": "@input.x"}, "then": [{"id": "inner", "tool": "T"}]},
    "parallel": {"parallel": [{"id": "inner", "tool": "T"}]},
    "race": {"race": [{"do": [{"id": "inner", "tool": "T"}]}]},
    "on_error": {"tool": "T", "on_error": [{"id": "inner", "tool": "T"}]},
}
READING_INSIDE: dict[str, Any] = {
    "repeat": {"until": "@inner.done", "max": 3},
    "when": "@inner.done",
    "each": {"in": "@inner.items"},
    "undo": {"tool": "U", "with": {"x": "@inner.y"}},
    "transform": {"x": "@inner.y"},
    "with": {"x": "@inner.y"},
    "if": "@inner.done",
}


@pytest.mark.parametrize("field", READING_INSIDE)
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_reads_what_is_in_it_in_a_list_as_in_refs(block: str, field: str) -> None:
    def codes(order: str) -> list[str]:
        step = {"id": "outer", **BLOCKS[block], field: READING_INSIDE[field]}
        return [finding.code for finding in definition_findings({"perdure": 1, "name": "a", "order": order, "steps": [step]})]

    assert codes("listed") == codes("refs")
    if field in ("repeat", "transform"):
        assert codes("listed") == []


def test_a_transform_waits_for_what_it_reads() -> None:
    assert found('  - {id: a, tool: T, transform: {x: "@b"}}\n  - {id: b, tool: T, transform: {x: "@a"}}')[0][0] == "unbounded_cycle"


def test_a_finding_has_its_line_and_column_suggestion_and_fix() -> None:
    text = f'{HEAD}steps:\n  - {{id: fetch, tool: T}}\n  - id: b\n    tol: T\n    with: {{x: "see @{{fecth.y}}"}}\n'
    field, reference = of(text)
    assert (field.line, field.column, field.pointer, field.suggestion) == (6, 5, "/steps/1/tol", "tool")
    assert (reference.line, reference.column, reference.pointer, reference.suggestion) == (7, 12, "/steps/1/with/x", "@fetch")
    assert str(reference).endswith("(line 7)")
    mended = patch_document(parse_document(text).document, [*field.fix, *reference.fix])
    assert mended["steps"][1] == {"id": "b", "tool": "T", "with": {"x": "see @{fetch.y}"}}
    assert definition_findings(mended) == []


def test_a_dialect_may_name_its_steps_as_it_likes() -> None:
    document = {"perdure": 1, "name": "a", "dialect": "nested_steps", "order": "listed", "steps": [{"id": "step[0].then[1]", "tool": "T"}]}
    assert definition_findings(document) == []
    assert [finding.code for finding in definition_findings({**document, "dialect": "nested_steps", "steps": [{"id": "\n", "tool": "T"}]})] == ["bad_id"]


def test_the_error_has_every_finding_a_line_each() -> None:
    with pytest.raises(BadDefinition) as raised:
        read_definition(f"{HEAD}steps:\n  - {{tol: T}}\n  - {{sleep: x}}\n")
    assert len(raised.value.findings) == 2
    assert str(raised.value).splitlines() == [
        "steps[0]: 'tol' is not a field of a step; did you mean 'tool'? (line 4)",
        "steps[1].sleep: 'x' is not a duration; write seconds, or text such as '500ms', '30s', '2h 30m', '3d' (line 5)",
    ]


@pytest.mark.parametrize(("text", "meant"), [("1.0", "1.0.0"), ("v1.0", "1.0.0"), ("2", "2.0.0"), ("V1.2.3", "1.2.3")])
def test_a_part_of_a_version_is_refused_with_the_whole_one(text: str, meant: str) -> None:
    document = {"perdure": 1, "name": "a", "version": text, "steps": [{"tool": "T"}]}
    (finding,) = definition_findings(document)
    assert finding.message == f"version: {text!r} is not a version such as 1.2.0; write {meant!r}"
    assert definition_findings(patch_document(document, list(finding.fix))) == []


@pytest.mark.slow
def test_there_is_an_end_to_findings() -> None:
    assert len(definition_findings({"perdure": 1, "name": "a", "steps": [{}] * 5000})) == 200


WORDS = st.sampled_from(
    [*model.step_fields(), *(field.name for field in model.DOCUMENT.fields), "in", "as", "to", "max", "ref", "all", "expr", "until", "names"]
)
TEXTS = st.sampled_from(["a", "b", "@a", "@b.x", "@input", "@{", "x @{a.b} y", "@@", "@", "$.x", "1s", "py:a.b", "@secrets.X", "go_on", "fail", "", "\ud800"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.floats() | TEXTS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | TEXTS, inner, max_size=5),
    max_leaves=25,
)


def is_a_list_of_findings(document: Any) -> None:
    for finding in definition_findings(document):
        assert finding.message and finding.code and finding.severity in ("error", "warning")


@pytest.mark.slow
@given(VALUES)
@settings(deadline=None)
def test_garbage_gives_findings(document: Any) -> None:
    is_a_list_of_findings(document)
    is_a_list_of_findings({"perdure": 1, "name": "a", "steps": document})
    is_a_list_of_findings({"perdure": 1, "name": "a", "order": "ports", "steps": [document]})


def broken(name: str, data: st.DataObject) -> Any:
    """An example in which a few values are others."""
    document = copy.deepcopy(parse_document(EXAMPLES[name]).document)
    for _ in range(data.draw(st.integers(1, 3))):
        spot: Any = document
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if not isinstance(spot[key], dict | list) or data.draw(st.integers(0, 4)) == 0:
                spot[key] = data.draw(VALUES)
                break
            spot = spot[key]
    return document


@pytest.mark.slow
@given(st.sampled_from(sorted(EXAMPLES)), st.data())
@settings(deadline=None)
def test_an_example_with_garbage_in_it_gives_findings(name: str, data: st.DataObject) -> None:
    is_a_list_of_findings(broken(name, data))


@pytest.mark.slow
@given(st.sampled_from(sorted(EXAMPLES)), st.data())
@settings(deadline=None)
def test_what_has_no_error_can_be_read_and_reads_back(name: str, data: st.DataObject) -> None:
    document = broken(name, data)
    if all(finding.severity == "warning" for finding in definition_findings(document)):
        definition = read_definition(document)
        assert read_definition(definition.canonical).hash == definition.hash


def is_read_or_refused(document: Any) -> None:
    """A document has findings, or is read, and then its canonical form is read as the same definition."""
    is_a_list_of_findings(document)
    try:
        definition = read_definition(document)
    except BadDefinition:
        return
    assert read_definition(definition.canonical).hash == definition.hash


REAL = [*(parse_document(text).document for text in EXAMPLES.values()), *(example.document for example in FOREIGN)]


@pytest.mark.slow
@given(documents())
@settings(deadline=None)
def test_any_document_made_of_the_fields_of_the_format_is_read_or_refused(document: Any) -> None:
    is_read_or_refused(document)


@pytest.mark.slow
@given(st.sampled_from(REAL).flatmap(mutated))
@settings(deadline=None)
def test_a_document_of_any_dialect_with_changes_in_it_is_read_or_refused(document: Any) -> None:
    is_read_or_refused(document)


@pytest.mark.prove
@given(documents(), st.sampled_from(REAL).flatmap(mutated))
@settings(max_examples=10_000, deadline=None)
def test_many_documents_are_read_or_refused(made: Any, changed: Any) -> None:
    is_read_or_refused(made)
    is_read_or_refused(changed)


@pytest.mark.prove
@given(st.one_of(VALUES, st.builds(lambda steps: {"perdure": 1, "name": "a", "steps": steps}, VALUES)), st.sampled_from(sorted(EXAMPLES)), st.data())
@settings(max_examples=20_000, deadline=None)
def test_much_garbage_gives_findings(document: Any, name: str, data: st.DataObject) -> None:
    is_a_list_of_findings(document)
    is_a_list_of_findings(broken(name, data))
