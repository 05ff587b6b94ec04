"""Further routes of operations, under the paths and field names of other systems, so that their clients work without a change.

An execution has one address, its workflow and its id. Other systems name it by its id alone; where executions of several workflows have that, such a route
refuses and lists them. Every command has such a route, but for `resume`, which there decides an approval by its resume token.
"""

from collections.abc import Callable, Mapping
from typing import Any

from perdure.operations import on_catalog, on_events, on_execution_changes, on_executions, on_kinds, on_proposals, on_runs
from perdure.operations.operation_table import BY_FUNCTION, OPERATIONS, Operation


class RouteAlias:
    """A further route of an operation. ``{execution}`` in its path is the id of an execution of whatever workflow.

    `names` are the JSON names of fields here, each with that of the operation. With `body_as`, the whole body is that field. `fixed` are fields that the route
    itself gives.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        method: str,
        path: str,
        *,
        names: Mapping[str, str] | None = None,
        body_as: str = "",
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self.function, self.method, self.path = function, method, path
        self.names, self.body_as, self.fixed = names or {}, body_as, fixed or {}

    @property
    def operation(self) -> Operation:
        """The operation."""
        return BY_FUNCTION[self.function]


_BY_ID = "/api/executions/{execution}"
_ONE = "/api/executions/{workflow}/{id}"
_OF_DEFINITION = "/api/workflows/{definition}/proposals"
_RUN = {"tag": "reference", "inputs": "input"}

ALIASES: tuple[RouteAlias, ...] = (
    RouteAlias(on_executions.read, "GET", _BY_ID),
    RouteAlias(on_executions.traces, "GET", f"{_BY_ID}/steps"),
    *(
        RouteAlias(one.function, "POST", one.path.replace(_ONE, _BY_ID))
        for one in OPERATIONS
        if one.method == "POST" and one.path.startswith(f"{_ONE}/") and one.function is not on_execution_changes.resume
    ),
    RouteAlias(on_runs.approve, "POST", f"{_BY_ID}/resume", fixed={"approve": True}),
    RouteAlias(on_runs.run_workflow, "POST", "/api/workflows/{workflowId}/run"),
    RouteAlias(on_executions.page, "GET", "/api/workflows/{workflowId}/executions"),
    RouteAlias(on_proposals.page, "GET", _OF_DEFINITION),
    RouteAlias(on_proposals.read, "GET", f"{_OF_DEFINITION}/{{proposal}}"),
    RouteAlias(on_proposals.review, "POST", f"{_OF_DEFINITION}/{{proposal}}/review"),
    RouteAlias(on_proposals.apply, "POST", f"{_OF_DEFINITION}/{{proposal}}/apply"),
    RouteAlias(on_proposals.try_, "POST", f"{_OF_DEFINITION}/{{proposal}}/try"),
    RouteAlias(on_events.post, "POST", "/api/events", body_as="event"),
    RouteAlias(on_runs.decide, "POST", "/approvals/{id}/decide"),
    *(
        alias
        for root in ("", "/api/v1")
        for alias in (
            RouteAlias(on_catalog.start, "POST", f"{root}/runs", names=_RUN),
            RouteAlias(on_executions.read, "GET", f"{root}/runs/{{execution}}"),
            RouteAlias(on_execution_changes.patch, "PATCH", f"{root}/runs/{{execution}}", body_as="change"),
            RouteAlias(on_execution_changes.patch, "POST", f"{root}/runs/{{execution}}/patch", body_as="change"),
            RouteAlias(on_kinds.kinds, "GET", f"{root}/node-types"),
        )
    ),
)
