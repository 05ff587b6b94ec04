"""Operations of APIs as tools of agents.

A step of the agent reads the documents before the first request to the model. Its result, the tools with their schemas, is in the log, so a replay offers what
was offered and judges calls as they were judged, whatever the documents say by then.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from perdure.code.declarations import Step
from perdure.code.step_environment import step_info
from perdure.definitions.kinds.agents.agent_task import ApiSource
from perdure.definitions.kinds.agents.agent_tools import AgentTool
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.openapi.document_sources import load_document
from perdure.definitions.kinds.openapi.openapi_kind import perform_operation
from perdure.definitions.kinds.openapi.operation_schemas import OperationTool, operation_tool

DOCUMENT_S = 30.0
"""The time in which each document has to be there."""

OPENAPI_ACTION = "openapi_action"


def description_step(deployment: Deployment) -> Step[Any, Any, Any]:
    """The step that reads documents, and returns their operations as tools: a list for each of its `ApiSource`."""

    async def describe_apis(apis: tuple[ApiSource, ...]) -> list[list[OperationTool]]:
        found = list[list[OperationTool]]()
        for api in apis:
            sourced = await load_document(api.openapi, deployment, step_info().key, DOCUMENT_S)
            found.append([operation_tool(sourced.document, name) for name in api.operations])
        return found

    return Step(describe_apis, name="describe_apis", idempotent=True)


def api_tools(apis: Sequence[ApiSource], described: Sequence[Sequence[OperationTool]], deployment: Deployment) -> list[AgentTool]:
    """The tools that were described for these operations."""
    return [_tool(api.openapi, one, deployment) for api, tools in zip(apis, described, strict=True) for one in tools]


def _tool(source: Mapping[str, Any], described: OperationTool, deployment: Deployment) -> AgentTool:
    async def call(params: dict[str, Any]) -> Any:
        return await perform_operation({**source, "operation": described.operation, "params": params}, None, deployment)

    step: Step[Any, Any, Any] = Step(call, name=described.name, idempotent=described.repeats)
    return AgentTool(described.name, step, described.description, described.schema, leads=partial(_as_params, step))


def _as_params(step: Step[Any, Any, Any], args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    return step, {"params": dict(args)}


def openapi_action_tool(deployment: Deployment) -> AgentTool:
    """The built-in tool by which an agent calls any operation of any API that the deployment lets it reach."""

    async def openapi_action(openapi_url: str, operation_id: str, params: dict[str, Any] | None = None, auth_profile: str = "") -> Any:
        config = {"url": openapi_url, "operation": operation_id, "params": params or {}}
        return await perform_operation(config | ({"auth": auth_profile} if auth_profile else {}), None, deployment)

    about = (
        "Call an operation of an API that an OpenAPI document describes. operation_id is its operationId, or its method and path such as GET /pets/{id}. params"
        " has its parameters by name, and its body under body; a wrong call says what was expected. auth_profile names an auth profile that you were told of."
    )
    text = {"type": "string", "minLength": 1}
    properties = {"openapi_url": text, "operation_id": text, "params": {"type": "object"}, "auth_profile": text}
    schema = {"type": "object", "properties": properties, "required": ["openapi_url", "operation_id"], "additionalProperties": False}
    step: Step[Any, Any, Any] = Step(openapi_action, name=OPENAPI_ACTION, idempotent=True)  # `perform_operation` refuses to repeat what is not
    return AgentTool(OPENAPI_ACTION, step, about, schema)
