"""Seed 004: where nodes lead, what they are given, and what is written again."""

from typing import Any

import pytest

from perdure.dialects.foreign_document import ForeignDefinition
from perdure.dialects.token_graph import document_reader, document_writer
from perdure.dialects.token_graph.document_writer import from_definition


def made(*nodes: dict[str, Any], **fields: Any) -> ForeignDefinition:
    """What nodes are read as."""
    return document_reader.to_definition({"nodes": list(nodes), **fields})


def steps(found: ForeignDefinition) -> dict[str, dict[str, Any]]:
    """The steps by their ids."""
    return {step["id"]: step for step in found.document["steps"]}


CEL = {"type": "cel", "expression": "output.again == true"}
AGAIN = {"ref": "@self.again", "eq": True}


def looped(most: int, **loop: Any) -> ForeignDefinition:
    """A node `b` behind `a`, with a loop."""
    return made(
        {"id": "a", "dependents": ["b"]},
        {"id": "b", "loop": {"condition": CEL, "max_iterations": most, **loop}, "dependents": ["c"]},
        *({"id": name} for name in ("c", "d", "e")),
    )


@pytest.mark.parametrize(
    ("loop", "fields"),
    [
        ({}, {"repeat": {"while": AGAIN, "max": 3, "on_max": "go_on"}, "next": "c"}),
        ({"timeout_path": ["d"], "break_path": ["e"]}, {"repeat": {"while": AGAIN, "max": 3, "on_max": "d"}, "next": "e"}),
        ({"timeout_path": ["d", "e"]}, {"repeat": {"while": AGAIN, "max": 3, "on_max": "b_timeout"}, "next": "c"}),
        ({"loop_back_to": "b", "delay_ms": 500}, {"repeat": {"while": AGAIN, "max": 3, "delay": 0.5, "on_max": "go_on"}, "next": "c"}),
        ({"loop_back_to": "a"}, {"next": [{"when": AGAIN, "to": "a", "max": 2}, {"when": AGAIN, "to": []}, {"to": "c"}]}),
        ({"loop_back_to": "a", "timeout_path": ["d"]}, {"next": [{"when": AGAIN, "to": "a", "max": 2, "on_max": "d"}, {"to": "c"}]}),
        ({"enabled": False}, {"next": "c"}),
    ],
)
def test_a_loop_is_repeat_or_a_rule(loop: dict[str, Any], fields: dict[str, Any]) -> None:
    found = looped(3, **loop)
    assert not found.findings
    assert {name: steps(found)["b"].get(name) for name in fields} == fields


def test_a_loop_that_may_run_once_does_not_lead_back() -> None:
    assert steps(looped(1, loop_back_to="a", timeout_path=["d"]))["b"]["next"] == [{"when": AGAIN, "to": "d"}, {"to": "c"}]


def test_several_ends_of_a_loop_over_itself_come_behind_a_step_that_does_nothing() -> None:
    assert steps(looped(3, timeout_path=["d", "e"]))["b_timeout"] == {"id": "b_timeout", "do": [], "next": ["d", "e"]}


def test_a_loop_without_a_break_path_goes_on_by_the_branch() -> None:
    branch = {"rules": [{"condition": "output.x > 1", "next_nodes": ["c"]}], "default": ["d"]}
    loop = {"condition": CEL, "max_iterations": 2}
    rules = [{"when": {"ref": "@self.x", "gt": 1}, "to": "c"}, {"to": "d"}]
    assert steps(made({"id": "b", "loop": loop, "branch": branch}, {"id": "c"}, {"id": "d"}))["b"]["next"] == rules
    found = made({"id": "b", "loop": {**loop, "break_path": ["c"]}, "branch": branch}, {"id": "c"}, {"id": "d"})
    assert steps(found)["b"]["next"] == "c"
    assert [one.code for one in found.findings] == ["branch_unused", "unreachable_step"]


def test_a_rule_that_leads_nowhere_goes_by_the_default() -> None:
    branch = {"rules": [{"condition": "output.x > 1", "next_nodes": []}, {"condition": "output.x > 0", "next_nodes": ["c"]}], "default": ["d"]}
    assert [rule["to"] for rule in steps(made({"id": "b", "branch": branch}, {"id": "c"}, {"id": "d"}))["b"]["next"]] == ["d", "c", "d"]


def test_edges_of_one_condition_are_one_rule() -> None:
    edges = [{"from": "a", "to": name, "condition": "output.x > 1"} for name in ("b", "c")] + [{"from": "a", "to": "d"}]
    found = made(*({"id": name} for name in "abcd"), edges=edges)
    assert steps(found)["a"]["next"] == [{"when": {"ref": "@self.x", "gt": 1}, "to": ["b", "c"]}, {"to": "d"}]


def test_a_dependency_leads_to_who_depends_on_it_unless_it_leads_on_by_itself() -> None:
    assert steps(made({"id": "a"}, {"id": "b", "dependencies": ["a"]}))["a"]["next"] == "b"
    branch = {"rules": [{"condition": "true", "next_nodes": ["c"]}]}
    assert steps(made({"id": "a", "branch": branch}, {"id": "b", "dependencies": ["a"]}, {"id": "c"}))["a"]["next"] == [{"when": {"expr": "true"}, "to": "c"}]


def test_with_a_node_that_depends_on_others_or_stands_in_an_unused_branch_nothing_begins() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["c"]}]}
    found = made({"id": "a", "branch": branch}, {"id": "b", "dependencies": ["a"]}, {"id": "c"})
    assert [steps(found)[name].get("when") for name in "abc"] == [None, False, None]
    assert [one.code for one in found.findings] == ["unreachable_step"]
    loop = {"condition": CEL, "max_iterations": 2, "break_path": ["b"]}
    found = made({"id": "a", "loop": loop, "branch": branch}, {"id": "b"}, {"id": "c"})
    assert [steps(found)[name].get("when") for name in "abc"] == [None, None, False]


def test_what_comes_after_a_node_that_runs_once_per_token_does_so_too() -> None:
    behind = {"id": "c", "dependents": ["d"]}, {"id": "d", "dependents": ["e"]}, {"id": "e"}
    found = made({"id": "a", "dependents": ["c"]}, {"id": "b", "dependents": ["c"]}, *behind)
    assert [steps(found)[name].get("join") for name in "abcde"] == [None, None, "each", "each", "each"]
    waiting = made({"id": "a", "dependents": ["c"]}, {"id": "b", "dependents": ["c"]}, {"id": "c", "wait_for_all": True, "dependents": ["d"]}, {"id": "d"})
    assert not any("join" in step for step in waiting.document["steps"])


@pytest.mark.parametrize(
    ("node", "fields"),
    [
        ({"config": {"action": "stripe.charge", "amount": "$nodes.a.total"}}, {"tool": "stripe.charge", "with": {"amount": "@a.total"}}),
        ({"config": {"text": "${$nodes.a.x} of ${$nodes.a['y z']} $5"}}, {"tool": "b", "with": {"text": '@{a.x} of @{a["y z"]} $5'}}),
        ({"config_ref": {"type_url": "svc.x/Config@1"}}, {"tool": "svc.x", "with": "@a"}),
        ({"type": "http", "config": {"url": "$inputs.url"}}, {"http": {"url": "@input.url"}}),
        (
            {"type": "http", "config": {"url": "api.flights.com/search", "method": "POST", "params": {"origin": "NYC"}, "headers": {"X": "@1"}}},
            {"http": {"url": "https://api.flights.com/search", "method": "POST", "query": {"origin": "NYC"}, "headers": {"X": "@@1"}}},
        ),
        (
            {
                "config": {
                    "action": "openapi_action",
                    "openapi_url": "api.weather.com/openapi.json",
                    "operation_id": "getWeather",
                    "params": {"city": "$inputs.x"},
                }
            },
            {"openapi": {"url": "https://api.weather.com/openapi.json", "operation": "getWeather", "params": {"city": "@input.x"}}},
        ),
        (
            {"type": "openapi_action", "config": {"openapi_url": "https://x.example", "operation_id": "getWeather", "auth_profile": "weatherapi"}},
            {"openapi": {"url": "https://x.example", "operation": "getWeather", "auth": "weatherapi"}},
        ),
        ({"type": "openapi_action", "config": {"city": "Rome"}}, {"task": {"type": "openapi_action"}, "with": {"city": "Rome"}}),
        ({"type": "http", "config": {"city": "Rome"}}, {"task": {"type": "http"}, "with": {"city": "Rome"}}),
        ({"retry": 4, "limits": {"deadline_s": 9}}, {"tool": "b", "with": "@a", "retry": {"max": 4}, "timeout": 9}),
        (
            {"retry": {"max_attempts": 2, "backoff_ms": 250, "multiplier": 3}, "timeout_ms": 10},
            {"tool": "b", "with": "@a", "retry": {"max": 2, "wait": 0.25, "factor": 3}, "timeout": 0.01},
        ),
        ({"compensator": {"action": "undo.it"}}, {"tool": "b", "with": "@a", "undo": {"tool": "undo.it", "with": "@self"}}),
    ],
)
def test_a_node_is_a_verb_with_its_input(node: dict[str, Any], fields: dict[str, Any]) -> None:
    found = made({"id": "a", "dependents": ["b"]}, {"id": "b", "type": "task", **node})
    assert not found.findings
    assert steps(found)["b"] == {"id": "b", **fields}


@pytest.mark.parametrize("ref", ["sha256:1", "cas://sha256:1"])
@pytest.mark.parametrize("held", ["sha256:1", "cas://sha256:1"])
def test_the_content_of_a_config_ref_is_the_config_with_or_without_its_scheme(ref: str, held: str) -> None:
    for given in ({"type_url": "svc.x/1", "cas_ref": ref}, ref):
        found = document_reader.to_definition({"nodes": [{"id": "a", "config_ref": given}]}, {held: {"action": "send", "to": "x"}})
        assert not found.findings and found.document["steps"] == [{"id": "a", "tool": "send", "with": {"to": "x"}}]


REFERRING: list[dict[str, Any]] = [
    {"config_ref": {"type_url": "svc.x/1", "cas_ref": "sha256:of-it"}},
    {"config_ref": "cas://sha256:of-it"},
    {"type": "human", "config_ref": {"type_url": "svc.human/1", "cas_ref": "sha256:of-it"}, "human_config": {"timeout_hours": 1}},
    {"branch": {"rules": [{"condition": {"type": "schema_validation", "schema_ref": "cas://sha256:of-it"}, "next_nodes": ["b"]}]}},
    {"branch": {"rules": [{"condition": {"type": "python_sandbox", "code_ref": "cas://sha256:of-it"}, "next_nodes": ["b"]}]}},
    {"type": "migration", "config": {"to_version": "2.0", "transform": "cas://sha256:of-it"}},
]


@pytest.mark.parametrize("node", REFERRING)
def test_content_that_nothing_has_or_of_another_kind_is_refused_with_its_name(node: dict[str, Any]) -> None:
    document = {"nodes": [{"id": "a", **node}, *([{"id": "b"}] if "branch" in node else [])]}
    for blobs, code in (({}, "unknown_blob"), ({"sha256:of-it": 3}, "bad_blob"), ({"sha256:of-it": object()}, "bad_blob")):
        found = [one for one in document_reader.to_definition(document, blobs).findings if one.severity == "error"]
        assert [one.code for one in found] == [code] and "sha256:of-it" in found[0].message


@pytest.mark.parametrize(
    ("policy", "comes_to"),
    [("auto_approve", "approve"), ("auto_approve_after_timeout", "approve"), ("auto_reject", "reject"), ("fail", "fail"), (None, "reject")],
)
def test_the_end_of_an_approval_follows_its_policy(policy: str | None, comes_to: str) -> None:
    found = made({"id": "a", "type": "human", "human_config": {"timeout_hours": 0.5, "escalation_policy": policy}})
    assert (found.document["steps"][0]["approve"]["timeout"], found.document["steps"][0]["approve"]["on_timeout"]) == (1800, comes_to)


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([{"id": "a", "dependents": ["nobody"]}], "unknown_step"),
        ([{"id": "a", "dependencies": ["nobody"]}], "unknown_step"),
        ([{"id": "a", "config": {"x": "$nodes.nobody.y"}}], "unknown_reference"),
        ([{"id": "a"}, {"id": "a"}], "duplicate_id"),
        ([{"type": "task"}], "missing_field"),
        ([{"id": "a", "type": "human", "human_config": {"escalation_policy": "shrug"}}], "unknown_value"),
        ([{"id": "a", "type": "human", "branch": {"rules": []}}], "unsupported"),
        ([{"id": "a", "branch": {"type": "random"}}], "unknown_type"),
        ([{"id": "a", "branch": {"rules": [{"next_nodes": []}]}}], "missing_field"),
        ([{"id": "a", "loop": {"max_iterations": 2}}], "missing_field"),
        ([{"id": "a", "compensator": {}}], "missing_field"),
        ([], "no_steps"),
    ],
)
def test_what_is_wrong_is_an_error(nodes: list[dict[str, Any]], code: str) -> None:
    assert [one.code for one in made(*nodes).findings if one.severity == "error"] == [code]


def test_nodes_with_ids_that_are_no_names_are_referred_to_safely() -> None:
    found = made(
        {"id": "a b", "dependents": ["c"]}, {"id": "c", "branch": {"rules": [{"condition": "ctx['a b'].output.x + 1 > 2", "next_nodes": ["in"]}]}}, {"id": "in"}
    )
    assert steps(found)["c"]["next"][0]["when"] == {
        "expr": 'dyn(double(steps["a b"].output.data.x) + 1.0) > 2',
        "source": "ctx['a b'].output.x + 1 > 2",
    }
    assert steps(found)["c"]["with"] == '@steps["a b"].output.data'
    renamed = made({"id": "error", "dependents": ["b"]}, {"id": "b", "config": {"x": "$nodes.error.y"}})
    assert steps(renamed)["error_"]["next"] == "b"
    assert steps(renamed)["b"]["with"] == {"x": "@error_.y"}


def test_limits_are_those_of_the_seed_unless_the_document_has_its_own() -> None:
    assert made({"id": "a"}).document["limits"] == {"max_hops": 100, "max_fanout": 10}
    own = made({"id": "a", "limits": {"max_hops": 7}}, metadata={"max_fanout": 3, "deadline_s": 60})
    assert own.document["limits"] == {"max_hops": 7, "max_fanout": 3, "deadline": 60}


def test_what_the_seed_has_no_words_for_is_not_written() -> None:
    head = {"perdure": 1, "name": "x", "dialect": "token_graph", "order": "ports", "limits": {"max_hops": 100, "max_fanout": 10}}
    for step in ({"id": "a", "sleep": 3}, {"id": "a", "tool": "a", "with": "@input", "on_error": "go_on"}, {"id": "a", "tool": "a", "with": "@vars.x"}):
        found = document_writer.from_definition({**head, "steps": [step]})
        assert found.document is None
        assert found.findings


def test_a_loop_that_looks_at_the_status_of_a_request_sees_any() -> None:
    loop = {"condition": {"type": "cel", "expression": "output.status != 200"}, "max_iterations": 5}
    found = made({"id": "a", "type": "http", "config": {"url": "https://a.example"}, "loop": loop})
    assert steps(found)["a"]["http"] == {"url": "https://a.example", "accept": "any"}


def test_at_a_migration_the_other_version_is_called_and_its_result_returned() -> None:
    transform = "def main(input):\n    return input['results']"
    config = {"from_version": "1.5", "to_version": "2.0", "transform": transform}
    found = made({"id": "a", "dependents": ["b"]}, {"id": "b", "type": "migration", "config": config})
    assert not found.findings and found.document["version"] == "1.5.0"
    given = {"input": "@input", "results": {"a": "@a?"}, "from_version": "1.5", "to_version": "2.0"}
    assert steps(found)["b"] == {"id": "b", "python": transform, "with": given, "next": "b_to"}
    assert steps(found)["b_to"] == {"id": "b_to", "call": "untitled@2.0", "with": "@b", "next": "b_end"}
    assert steps(found)["b_end"] == {"id": "b_end", "return": "@b_to"}


def test_a_migration_without_a_transform_hands_on_what_the_execution_was_given() -> None:
    found = made({"id": "b", "type": "migration", "config": {"to_version": "2.0"}})
    assert steps(found)["b"] == {"id": "b", "do": [], "next": "b_to"} and steps(found)["b_to"]["with"] == "@input"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "bad_version"),
        ({"to_version": "next"}, "bad_version"),
        ({"to_version": "2", "transform": "cas://sha256:nobody"}, "unknown_blob"),
        ({"from_version": "2.0", "to_version": "2.0"}, "same_version"),
    ],
)
def test_a_migration_that_leads_nowhere_is_an_error(config: dict[str, Any], code: str) -> None:
    found = made({"id": "b", "type": "migration", "config": config})
    assert [(one.severity, one.code) for one in found.findings] == [("error", code)]


def test_nothing_comes_behind_a_migration() -> None:
    found = made({"id": "b", "type": "migration", "config": {"to_version": "2.0"}, "dependents": ["c"]}, {"id": "c"})
    assert [(one.severity, one.code) for one in found.findings if one.severity == "error"] == [("error", "unsupported")]


@pytest.mark.parametrize(
    "node",
    [
        {"id": "b", "type": "migration", "config": {"to_version": "2.0"}},
        {"id": "b", "type": "migration", "config": {"from_version": "1.0", "to_version": "2.0", "transform": "def main(input):\n    return input"}},
        {"id": "b", "type": "http", "config": {"url": "https://a.example", "params": {"q": "$nodes.a.x"}, "headers": {"X": "@1"}}},
        {
            "id": "b",
            "type": "openapi_action",
            "config": {"openapi_url": "https://x.example", "operation_id": "getWeather", "params": {"q": "$nodes.a.x"}, "auth_profile": "weatherapi"},
        },
        {"id": "b", "type": "http", "config": {"url": "https://a.example"}, "loop": {"condition": CEL, "max_iterations": 2}},
    ],
)
@pytest.mark.parametrize("as_ir", [False, True])
def test_handovers_and_requests_are_written_as_they_were_read(node: dict[str, Any], as_ir: bool) -> None:
    found = made({"id": "a", "dependents": ["b"]}, node)
    back = from_definition(found.document, as_ir)
    assert back.document is not None, back.findings
    assert [one["config"] for one in back.document["nodes"] if one["id"] == "b"] == [node["config"]]
