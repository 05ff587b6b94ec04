"""Claims about errors of tools: each says what to do next."""

from collections.abc import Mapping
from typing import Any

import pytest

from perdure.mcp_server.model_tools import ModelTool
from perdure.mcp_server.operation_requests import RequestRefused
from perdure.mcp_server.tool_problems import NEXT_STEPS, OF_SERVER, OTHERWISE
from perdure.mcp_server.tool_service import ToolService
from perdure.operations.operation_table import BY_FUNCTION

TOOLS: list[ModelTool] = [*ToolService()._tools.values()]


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_each_error_that_an_operation_of_a_tool_names_has_its_own_next_step(tool: ModelTool) -> None:
    lacking = {error.code for function in tool.functions for error in BY_FUNCTION[function].errors} - NEXT_STEPS.keys()
    assert not lacking, f"add what to do next to NEXT_STEPS of tool_problems: {', '.join(sorted(lacking))}"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"status": 404, "code": "not_found", "detail": "there is none"}, NEXT_STEPS["not_found"]),
        ({"status": 404, "code": "not_found", "detail": "there is none", "next": "use another server"}, "use another server"),
        ({"status": 409, "code": "wrong_verb", "detail": "it can't be called here"}, OTHERWISE),
        ({"status": 500, "code": "store_damaged", "detail": "a row can't be read"}, OF_SERVER),
        ({"status": 502, "code": "bad_answer", "detail": "the server answered 502"}, OF_SERVER),
        ({}, OTHERWISE),
    ],
)
async def test_whatever_the_api_answers_the_last_line_says_what_to_do(problem: dict[str, Any], said: str) -> None:
    async def requests(function: Any, arguments: Mapping[str, Any]) -> Any:
        raise RequestRefused(problem)

    outcome = await ToolService().call(requests, "whoami", {})
    assert outcome.is_error and outcome.value["next"] == said
    assert outcome.text.splitlines()[-1] == f"Next: {said}"
