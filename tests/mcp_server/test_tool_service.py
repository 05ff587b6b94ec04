"""Claims about calls of tools over the API: roles, tenants, errors, hostile arguments, long results, aliases, and workflows as tools."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.api.service_api import DEFAULTS
from perdure.mcp_server.bounded_results import RESULT_CHARACTERS_MAX
from perdure.mcp_server.published_workflows import PublishedWorkflows
from perdure.mcp_server.tool_service import ToolService
from perdure.mcp_server.tool_table import GREETING
from perdure.operations.operation_table import BY_FUNCTION
from perdure.service.callers import ROLES
from tests.api.service_setup import Service
from tests.mcp_server.mcp_setup import INVOICE, Tools, mcp_service, tools_of


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with mcp_service(tmp_path) as found:
        yield found


# Who may do what


async def test_each_role_sees_the_tools_that_it_may_call_and_no_others(service: Service) -> None:
    tools = ToolService()
    for role in ROLES:
        seen = await (await tools_of(service, role, tools=tools)).names()
        for one in tools._tools.values():
            may = role == "admin" or all(BY_FUNCTION[function].role in (role, None) for function in one.functions)
            assert (one.name in seen) is may, (role, one.name)


async def test_a_tool_that_is_not_in_the_list_is_refused_with_what_to_do(service: Service) -> None:
    viewer = await tools_of(service, "viewer")
    assert "start_workflow" not in await viewer.names()
    refused = await viewer.refused("start_workflow", workflow="calc", input={"a": 1})
    assert refused["code"] == "forbidden" and "operator" in refused["detail"] and "whoami" in refused["next"]


async def test_a_wrong_key_is_refused_everywhere(service: Service) -> None:
    nobody = Tools(service, "prd_nobody_0000", ToolService())
    assert (await nobody.refused("list_executions"))["code"] == "unauthenticated"
    with pytest.raises(Exception, match=r"(?i)key"):
        await nobody.names()


async def test_nothing_of_another_tenant_is_seen_or_touched(service: Service) -> None:
    ours, theirs = await tools_of(service, "admin"), await tools_of(service, "admin", tenant="other")
    started = await ours("start_workflow", workflow="greet", waitSeconds=0)
    for tool, more in (("get_execution", {}), ("list_steps", {}), ("cancel_execution", {}), ("send_message", {"name": "named", "body": "Eve"})):
        for key in ({"id": started["id"]}, {"id": started["id"], "workflow": "greet"}):
            assert (await theirs.refused(tool, **key, **more))["code"] == "not_found"
    assert (await theirs("list_executions"))["items"] == []
    _ = await ours("create_workflow", document=INVOICE)
    assert (await theirs.refused("get_workflow", workflow="invoice"))["code"] == "not_found"
    assert (await theirs("list_workflows", kind="definition"))["items"] == []


async def test_the_audit_says_which_key_has_changed_what_from_where(service: Service) -> None:
    author = await tools_of(service, "author", "viewer")
    subject = (await author("whoami"))["subject"]
    _ = await author("create_workflow", document=INVOICE, note="first")
    admin = await service.key("admin")
    entries = (await service.by(admin, "GET", "/api/audit")).json["items"]
    made = next(one["entry"] for one in entries if one["entry"]["operation"] == "catalog.create")
    assert (made["subject"], made["address"]) == (subject, "192.0.2.7") and subject.startswith("key:")


async def test_whoever_may_not_decide_on_an_approval_is_refused_as_over_http(service: Service) -> None:
    _ = await (await tools_of(service, "admin"))("create_workflow", document=ASKS)
    operator, approver = await tools_of(service, "operator", "viewer"), await tools_of(service, "approver", "viewer")
    started = await operator("start_workflow", workflow="asks")
    assert started["status"] == "waiting_approval" and "decide_approval" in started["nextStep"]
    (approval,) = started["approvals"]
    assert (await operator.refused("decide_approval", id=approval["id"], decision="approve", by="ada"))["code"] == "forbidden"
    refused = await approver.refused("decide_approval", id=approval["id"], decision="approve", by="eve")
    assert refused["code"] == "decision_refused" and "do not decide in their place" in refused["next"]
    _ = await approver("decide_approval", id=approval["id"], decision="approve", by="ada", comment="yes")
    ended = await operator("wait_for_execution", id=started["id"])
    assert ended["status"] == "completed" and ended["result"]["by"] == "ada"
    again = await approver.refused("decide_approval", id=approval["id"], decision="reject", by="ada")
    assert again["code"] in ("already_decided", "has_ended")


async def test_calls_count_for_the_limit_of_requests(tmp_path: Path) -> None:
    async with mcp_service(tmp_path, DEFAULTS._replace(rate_per_s=1.0)) as service:
        tools = await tools_of(service, "viewer")
        outcomes = await asyncio.gather(*(tools.outcome("list_executions") for _ in range(5)))
        refused = [one.value for one in outcomes if one.is_error]
        assert refused and {one["code"] for one in refused} == {"too_many_requests"} and "again" in refused[0]["next"]


# Start, wait, events


async def test_a_start_answers_with_the_result_and_its_repetition_with_the_same_execution(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    first = await tools("start_workflow", workflow="calc", input={"a": 1, "b": 2}, requestId="r1")
    assert (first["status"], first["result"], first["created"]) == ("completed", 3, True)
    again = await tools("start_workflow", workflow="calc", input={"a": 1, "b": 2}, requestId="r1")
    assert (again["id"], again["created"]) == (first["id"], False)


async def test_a_start_of_what_fails_says_so_and_how_to_go_on(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    failed = await tools("start_workflow", workflow="calc", input={"a": -1})
    assert failed["status"] == "failed" and failed["error"]["message"] == "negative"
    assert "list_steps" in failed["nextStep"] and "retry_execution" in failed["nextStep"]


async def test_a_start_of_what_waits_for_a_message_returns_at_once_and_a_wait_goes_on(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    async with asyncio.timeout(8):
        waiting = await tools("start_workflow", workflow="greet", waitSeconds=50)
    assert waiting["awaits"][0]["names"] == ["named"] and "send_message" in waiting["nextStep"]
    wait = asyncio.create_task(tools("wait_for_execution", id=waiting["id"], waitSeconds=20))
    await asyncio.sleep(0.2)
    assert not wait.done()
    _ = await tools("send_message", id=waiting["id"], name="named", body="Ada")
    async with asyncio.timeout(10):
        assert (await wait)["result"] == "Hello Ada"


async def test_a_wait_that_is_over_says_what_to_call_next(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    waiting = await tools("start_workflow", workflow="greet", waitSeconds=0)
    over = await tools("wait_for_execution", id=waiting["id"], waitSeconds=0)
    assert over["status"] in ("waiting", "running", "pending") and "wait_for_execution" in over["nextStep"]


async def test_a_start_that_no_engine_can_run_says_what_is_missing(service: Service) -> None:
    tools = await tools_of(service, "admin")
    _ = await tools("create_workflow", document={"perdure": 1, "name": "needy", "steps": [{"id": "x", "tool": "nobody_has_this"}]})
    async with asyncio.timeout(9):
        stuck = await tools("start_workflow", workflow="needy")
    assert "nobody_has_this" in stuck["missing"] and "nobody_has_this" in stuck["nextStep"]


async def test_a_deadline_cancels_what_was_started(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    started = await tools("COLLECTION_WORKFLOW_EXECUTION_CREATE", workflow_collection_id="greet", timeoutMs=300)
    ended = await tools("wait_for_execution", id=started["id"], waitSeconds=10)
    assert ended["status"] in ("failed", "cancelled") and "deadline" in json.dumps(ended)


async def test_events_since_a_cursor_are_all_events_once(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    started = await tools("start_workflow", workflow="calc", input={"a": 1})
    whole = await tools("get_execution_events", id=started["id"])
    seen, after = list[Any](), 0
    while (page := await tools("get_execution_events", id=started["id"], after=after, limit=1))["items"]:
        seen += page["items"]
        after = page["next"]
    assert seen == whole["items"] and after == whole["next"]
    assert seen[0]["type"] == "execution.created" and seen[-1]["type"] == "execution.completed"


async def test_events_are_waited_for(service: Service) -> None:
    tools = await tools_of(service, "operator", "viewer")
    started = await tools("start_workflow", workflow="greet")
    after = (await tools("get_execution_events", id=started["id"]))["next"]
    waiting = asyncio.create_task(tools("get_execution_events", id=started["id"], after=after, waitSeconds=20))
    await asyncio.sleep(0.3)
    _ = await tools("send_message", id=started["id"], name="named", body="Ada")
    async with asyncio.timeout(10):
        assert (await waiting)["items"][0]["id"] > after


# Definitions


async def test_findings_of_a_text_have_its_lines(service: Service) -> None:
    tools = await tools_of(service, "author", "viewer")
    bad = GREETING.replace("output:", "outptu:")
    checked = await tools("validate_workflow", document=bad)
    assert not checked["valid"]
    line = 1 + bad.splitlines().index('outptu: "@vars.text"')
    assert any(one["line"] == line and "outptu" in one["message"] for one in checked["findings"])
    refused = await tools.outcome("create_workflow", document=bad)
    assert refused.is_error and f"line {line}: " in refused.text and "validate_workflow" in refused.text


async def test_a_proposal_is_made_but_not_applied(service: Service) -> None:
    admin, operator = await tools_of(service, "admin"), await tools_of(service, "operator", "viewer")
    _ = await admin("create_workflow", document=INVOICE)
    before = await operator("get_workflow", workflow="invoice")
    changed = {**INVOICE, "steps": [{"id": "note", "set": {"n": 5}}]}
    made = await operator("propose_workflow_change", workflow="invoice", document=changed, baseWorkflowHash=before["hash"], note="more")
    assert made["status"] == "pending"
    assert (await operator("get_workflow", workflow="invoice"))["hash"] == before["hash"]
    stale = await operator.refused("propose_workflow_change", workflow="invoice", document=changed, baseWorkflowHash="sha256:" + "0" * 64)
    assert stale["code"] == "stale_proposal" and "get_workflow" in stale["next"]


async def test_a_search_finds_kinds_tools_of_engines_and_workflows(service: Service) -> None:
    tools = await tools_of(service, "admin")
    _ = await tools("create_workflow", document=INVOICE)
    for query, sort, name in (
        ("ask a person to approve", "kind of step", "approve"),
        ("HTTP request", "kind of step", "http"),
        ("add", "tool", "add"),
        ("invoice", "workflow", "invoice"),
        ("calc", "workflow", "calc"),
    ):
        found = await tools("search_tools", query=query, limit=5)
        assert (sort, name) in [(one["sort"], one["name"]) for one in found["items"]], (query, found)
    assert (await tools("search_tools", query="zzzqqq"))["items"] == []
    assert len((await tools("search_tools", query="", limit=3))["items"]) == 3


# What models and attackers send


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_executions", {"limit": "many"}),
        ("list_executions", {"limit": -1}),
        ("list_executions", {"limit": 10**30}),
        ("list_executions", {"limit": [1]}),
        ("list_executions", {"status": "no such status"}),
        ("list_executions", {"where": "((("}),
        ("list_executions", {"after": "\0"}),
        ("list_executions", {"nested": {"a": [1]}}),
        ("get_execution", {}),
        ("get_execution", {"id": ""}),
        ("get_execution", {"id": "\0"}),
        ("get_execution", {"id": "\ud800"}),
        ("get_execution", {"id": "x" * 100_000}),
        ("get_execution", {"id": "../../etc/passwd"}),
        ("get_execution", {"id": "'; drop table log; --"}),
        ("get_execution", {"id": 5}),
        ("get_execution", {"id": {"workflow": "a", "id": "b"}}),
        ("get_execution", {"id": "x", "workflow": None, "at": "soon"}),
        ("start_workflow", {"workflow": "\x1b[31m"}),
        ("start_workflow", {"workflow": "calc", "input": "no JSON"}),
        ("start_workflow", {"workflow": "calc", "input": [[[[]]]], "waitSeconds": 10**9}),
        ("start_workflow", {"workflow": "calc", "input": {"a": 1}, "waitSeconds": "long"}),
        ("start_workflow", {"workflow": "calc", "input": {"a": 1}, "waitSeconds": float("nan")}),
        ("start_workflow", {"workflow": "invoice@not a version"}),
        ("get_execution_events", {"id": "x", "after": -5}),
        ("read_part", {"tool": "start_workflow", "pointer": ""}),
        ("read_part", {"tool": "read_part", "pointer": ""}),
        ("read_part", {"tool": "list_executions", "pointer": "/no/such"}),
        ("read_part", {"tool": "list_executions", "pointer": "", "arguments": [1]}),
        ("create_workflow", {"document": "{"}),
        ("create_workflow", {"document": "a: &a [*a]"}),
        ("create_workflow", {"document": []}),
        ("create_workflow", {"document": {"perdure": 1}}),
        ("decide_approval", {"id": "x", "decision": "perhaps"}),
        ("", {}),
        ("no such tool \x07", {}),
        ("x" * 100_000, {}),
    ],
)
async def test_hostile_arguments_are_refused_with_a_problem(service: Service, tool: str, arguments: dict[str, Any]) -> None:
    tools = await tools_of(service, "admin")
    problem = await tools.refused(tool, arguments)
    assert len(json.dumps(problem)) < RESULT_CHARACTERS_MAX
    assert "Traceback" not in json.dumps(problem)
    assert (await tools("list_executions"))["items"] == [] or tool == "start_workflow"


async def test_arguments_that_models_get_slightly_wrong_are_understood(service: Service) -> None:
    tools = await tools_of(service, "admin")
    started = await tools("start_workflow", workflow="calc", input='{"a": 1}', waitSeconds="5", requestId=None, deadlineSeconds=None)
    assert started["result"] == 2
    assert len((await tools("list_executions", limit="1", workflow=None))["items"]) == 1
    _ = await tools("create_workflow", document=json.dumps(INVOICE))
    assert (await tools("get_workflow", workflow="invoice"))["version"] == "1.0.0"


async def test_an_argument_under_the_name_that_it_has_here_is_named_so_in_errors(service: Service) -> None:
    tools = await tools_of(service, "viewer")
    assert (await tools.refused("get_workflow"))["where"] == "/workflow"
    assert "/workflow" in (await tools.refused("get_workflow", workflow=5))["detail"]
    assert "workflow is" in (await tools.refused("get_workflow", workflo="x"))["detail"]


async def test_an_id_that_executions_of_several_workflows_have_is_refused_with_these(service: Service) -> None:
    tools, key = await tools_of(service, "admin"), await service.key("admin")
    for workflow in ("greet", "trip"):
        body = {"workflow": workflow, "id": "same", "input": {} if workflow == "greet" else {"city": "x"}}
        assert (await service.by(key, "POST", "/api/executions", body)).status == 201
    refused = await tools.refused("get_execution", id="same")
    assert refused["code"] == "ambiguous" and {one["workflow"] for one in refused["candidates"]} == {"greet", "trip"}
    assert (await tools("get_execution", id="same", workflow="trip"))["workflow"] == "trip"


# Long results


async def test_a_long_result_is_cut_and_read_on_part_by_part(service: Service) -> None:
    tools = await tools_of(service, "admin")
    text = "".join(f"{number:06d} " for number in range(9_000))
    document = {
        "perdure": 1,
        "name": "long",
        "input": {"text": {"type": "string"}},
        "vars": {"n": 0},
        "steps": [{"id": "e", "set": {"n": 1}}],
        "output": {"all/of~it": "@input.text"},
    }
    _ = await tools("create_workflow", document=document)
    started = await tools.outcome("start_workflow", workflow="long", input={"text": text})
    assert len(started.text) <= RESULT_CHARACTERS_MAX + 2_000 and "read_part" in started.text
    id, pointer, found = started.value["id"], "/result/all~1of~0it", ""
    assert pointer in started.text
    while not (part := await tools("read_part", tool="wait_for_execution", arguments={"id": id}, pointer=pointer, offset=len(found)))["isWhole"]:
        found += part["part"]
    assert found + part["part"] == text


async def test_a_long_list_is_cut_and_says_how_to_page(service: Service) -> None:
    tools = await tools_of(service, "admin")
    for number in range(60):
        _ = await tools("start_workflow", workflow="greet", waitSeconds=0, requestId=f"{number:03d}" + "x" * 700)
    listed = await tools("list_executions", limit=60)
    shown = len(listed["items"])
    assert shown < 60 and "next" not in listed and f"limit: {shown}" in listed["nextStep"]
    page = await tools("list_executions", limit=shown)
    assert len(page["items"]) == shown
    rest = await tools("list_executions", limit=shown, after=page["next"])
    assert not {one["id"] for one in page["items"]} & {one["id"] for one in rest["items"]}


# Aliases and workflows as tools


async def test_aliases_can_always_be_called_and_are_listed_only_if_that_is_wanted(service: Service) -> None:
    tools, listed = await tools_of(service, "admin"), await tools_of(service, "admin", tools=ToolService(lists_aliases=True))
    names, all_names = await tools.names(), await listed.names()
    assert not [one for one in names if one.isupper()]
    assert {"COLLECTION_WORKFLOW_CREATE", "COLLECTION_WORKFLOW_EXECUTION_CREATE"} <= set(all_names) - set(names)
    _ = await tools("COLLECTION_WORKFLOW_CREATE", data=INVOICE)
    assert [one["slug"] for one in (await tools("COLLECTION_WORKFLOW_LIST"))["items"]] == ["invoice"]
    started = await tools("COLLECTION_WORKFLOW_EXECUTION_CREATE", workflow_collection_id="invoice", input={})
    assert started["result"] == 1
    assert (await tools("COLLECTION_WORKFLOW_EXECUTION_GET", id=started["id"]))["status"] == "completed"
    assert (await tools("COLLECTION_WORKFLOW_EXECUTION_LIST", workflow_collection_id="invoice"))["items"][0]["id"] == started["id"]
    _ = await tools("COLLECTION_WORKFLOW_UPDATE", id="invoice", data={**INVOICE, "output": 2})
    _ = await tools("COLLECTION_WORKFLOW_DELETE", id="invoice")
    assert (await tools.refused("COLLECTION_WORKFLOW_GET", id="invoice@1.0.7"))["code"] == "not_found"


async def test_published_workflows_are_tools_by_choice_with_their_input_and_description(service: Service) -> None:
    admin = await tools_of(service, "admin")
    document = {**INVOICE, "name": "tax", "input": {"cents": {"type": "integer"}}, "output": "@input.cents"}
    _ = await admin("create_workflow", document=document, fields={"description": "Adds the tax"})
    assert not [one for one in await admin.names() if one.startswith("run_tax")]
    one = await tools_of(service, "admin", tools=ToolService(PublishedWorkflows(["tax"])))
    every = await tools_of(service, "admin", tools=ToolService(PublishedWorkflows(["all"])))
    assert "run_tax" in await one.names() and "run_calc" not in await one.names()
    assert {"run_tax", "run_calc", "run_greet"} <= set(await every.names())
    (tool,) = [found for found in await one._tools.tools(one.requests) if found.name == "run_tax"]
    assert "Adds the tax" in tool.description
    assert tool.input_schema["properties"]["cents"]["type"] == "integer" and tool.input_schema["required"] == ["cents"]
    assert (await one("run_tax", cents=5))["result"] == 5
    assert (await every("run_calc", a=2))["result"] == 3
    failed = await every.outcome("run_calc", a=-1)
    assert failed.is_error and failed.value["status"] == "failed" and "\nNext: list_steps" in failed.text
    assert (await one.refused("run_tax", cents="much"))["code"] == "bad_value"
    assert (await one.refused("run_calc", a=1))["code"] == "no_such_tool"
    viewer = await tools_of(service, "viewer", tools=ToolService(PublishedWorkflows(["all"])))
    assert not [found for found in await viewer.names() if found.startswith("run_t")]


async def test_the_tool_of_a_workflow_is_that_of_its_current_version(service: Service) -> None:
    admin = await tools_of(service, "admin", tools=ToolService(PublishedWorkflows(["all"])))
    _ = await admin("create_workflow", document=INVOICE)
    changed = {**INVOICE, "input": {"extra": {"type": "string"}}}
    _ = await admin("update_workflow", workflow="invoice", document=changed)
    (tool,) = [found for found in await admin._tools.tools(admin.requests) if found.name == "run_invoice"]
    assert list(tool.input_schema["properties"]) == ["extra"]
    _ = await admin("update_workflow", workflow="invoice", fields={"enabled": False})
    assert "run_invoice" not in await admin.names()


ASKS = {"perdure": 1, "name": "asks", "steps": [{"id": "sure", "approve": {"title": "Sure?", "assignees": ["ada"]}}], "output": "@sure"}
