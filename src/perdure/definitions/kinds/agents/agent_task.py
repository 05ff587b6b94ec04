"""The task of an agent, its budget and its result: plain data, as logs hold it."""

from typing import Any

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core import error_codes
from perdure.core.errors import Fatal
from perdure.definitions.graph.ir import RetryOptions
from perdure.definitions.kinds.models.model_messages import Attachment, ModelUsage

CALLS_MAX = 25
"""The default limit of model calls."""

TOOL_CALLS_PER_CALL = 10
"""The default limit of tool calls for each model call."""


class Budget(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The limits of an agent: model calls, tool calls, tokens read and written, US dollars, and time (seconds, or text such as ``"10m"``).

    None means no limit; `tool_calls` is then ten times `calls`, if that has a limit. Either all tools that one answer calls run, or none. Each retry of the
    execution grants the budget again. The last model call may exceed `tokens` and `cost_usd`; the next one is refused.

    With `shared`, a name, `calls`, `tokens` and `cost_usd` are the limits of all agents together that name it and have the same root execution. `tokens` and
    `cost_usd` may then be exceeded by one call of each agent, those in flight when the limit is reached; `calls` are not.
    """

    calls: int | None = CALLS_MAX
    tool_calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall: float | str | None = None
    shared: str = ""

    @property
    def tool_calls_max(self) -> int | None:
        """The limit of tool calls."""
        if self.tool_calls is not None or self.calls is None:
            return self.tool_calls
        return self.calls * TOOL_CALLS_PER_CALL

    @property
    def wall_s(self) -> float | None:
        """The time in seconds.

        Raises:
            BadValue: it is not a duration.
        """
        return None if self.wall is None else duration_seconds(self.wall, "Budget(wall)")


class SpentBudget(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The usage of an agent so far. `cost_usd` is None if the price of a part is unknown."""

    calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def and_(self, usage: ModelUsage) -> "SpentBudget":
        """Adds one model call."""
        return SpentBudget(
            calls=self.calls + 1,
            tool_calls=self.tool_calls,
            input_tokens=self.input_tokens + usage.input_tokens,
            output_tokens=self.output_tokens + usage.output_tokens,
            cache_read_tokens=self.cache_read_tokens + usage.cache_read_tokens,
            cost_usd=None if self.cost_usd is None or usage.cost_usd is None else self.cost_usd + usage.cost_usd,
        )

    def together(self, other: "SpentBudget") -> "SpentBudget":
        """Adds what another agent has spent."""
        return SpentBudget(
            calls=self.calls + other.calls,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cost_usd=None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd,
        )

    def and_tools(self, count: int) -> "SpentBudget":
        """Adds tool calls."""
        return msgspec.structs.replace(self, tool_calls=self.tool_calls + count)

    def since(self, before: "SpentBudget") -> "SpentBudget":
        """Subtracts what was spent before."""
        return SpentBudget(
            calls=self.calls - before.calls,
            tool_calls=self.tool_calls - before.tool_calls,
            input_tokens=self.input_tokens - before.input_tokens,
            output_tokens=self.output_tokens - before.output_tokens,
            cache_read_tokens=self.cache_read_tokens - before.cache_read_tokens,
            cost_usd=None if self.cost_usd is None or before.cost_usd is None else self.cost_usd - before.cost_usd,
        )


class ApiSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Operations of an API that are tools of an agent: `openapi` has the fields of a step `openapi` that say where its document is and who is authorized."""

    openapi: dict[str, Any]
    operations: tuple[str, ...]


class AgentTask(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A task for an agent. Fields that are left out keep the agent's defaults; a fork with another task can change the model or raise the budget.

    `attachments` are images and files for the model.
    `input` is data for the prompt; `context` holds previews of earlier results by step id. `tools` restricts the agent's tools, `apis` are further ones.
    `choose` is a closed list of next steps, of which the answer names at least one (or none, if `may_choose_none`). With `listens`, the agent reads messages
    while it works; a `session` only answers messages. `step` and `version` name the step of the definition that asks. `retry` is the retry policy of model
    calls. With `stream`, the texts of its answers are live text of the execution while they come.
    """

    prompt: str = ""
    retry: RetryOptions | None = None
    attachments: tuple[Attachment, ...] = ()
    input: Any = None
    context: dict[str, Any] | None = None
    model: str = ""
    system: str = ""
    tools: tuple[str, ...] | None = None
    apis: tuple[ApiSource, ...] = ()
    schema: dict[str, Any] | None = None
    budget: Budget | None = None
    approve: tuple[str, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    repairs: int | None = None
    stream: bool | None = None
    choose: tuple[str, ...] = ()
    may_choose_none: bool = False
    listens: bool = False
    session: bool = False
    step: str = ""
    version: str = ""


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call, and whether its result was an error."""

    tool: str
    failed: bool = False


class AgentResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result of an agent: its answer (data if there is a schema, else text), what it spent, its tool calls in order, and the model that answered."""

    output: Any = None
    spent: SpentBudget = SpentBudget()
    tools: tuple[ToolUse, ...] = ()
    model: str = ""


def budget_exceeded(what: str, why: str) -> Fatal:
    """The error for a budget that is used up. `what` becomes the name of its type: exceeded_calls, exceeded_tokens, exceeded_cost or deadline_exceeded."""
    error: Fatal = type(what, (Fatal,), {"__module__": __name__})(why)
    return error


MORE = "retry the execution to grant it once more, or fork it with a larger one"

EXCEEDED = ("exceeded_calls", "exceeded_tokens", "exceeded_cost", "deadline_exceeded")
"""The error types of a budget that is used up."""


def check_budget(budget: Budget, spent: SpentBudget, times: int) -> None:
    """Refuses another model call if the budget, which was granted `times` times, is used up by what the agent has spent, or all agents that share it.

    Raises:
        Fatal: it is used up; the type of the error names the limit.
    """
    whose = f" of the shared budget {budget.shared!r}" if budget.shared else ""
    if budget.calls is not None and spent.calls >= budget.calls * times:
        raise budget_exceeded(error_codes.EXCEEDED_CALLS, f"{spent.calls:,} of {budget.calls * times:,} model calls{whose} are used; {MORE}")
    if budget.tokens is not None and spent.tokens >= budget.tokens * times:
        raise budget_exceeded(error_codes.EXCEEDED_TOKENS, f"{spent.tokens:,} of {budget.tokens * times:,} tokens{whose} are used; {MORE}")
    if budget.cost_usd is None:
        return
    if spent.cost_usd is None:
        raise budget_exceeded(
            error_codes.EXCEEDED_COST,
            f"the cost so far{whose} is not known, so {budget.cost_usd * times:g} USD can't be kept as a limit. Give the model a price, or limit the tokens",
        )
    if spent.cost_usd >= budget.cost_usd * times:
        raise budget_exceeded(error_codes.EXCEEDED_COST, f"{spent.cost_usd:.6g} of {budget.cost_usd * times:g} USD{whose} are used; {MORE}")


def check_tool_budget(budget: Budget, spent: SpentBudget, asked: int, times: int) -> None:
    """Refuses the `asked` tool calls of an answer if the budget, which was granted `times` times, does not allow all of them.

    Raises:
        Fatal: it does not; the type of the error is exceeded_calls.
    """
    most = budget.tool_calls_max
    if most is not None and spent.tool_calls + asked > most * times:
        used = f"{spent.tool_calls:,} of {most * times:,} tool calls are used"
        raise budget_exceeded(error_codes.EXCEEDED_CALLS, f"an answer of the model asks for {asked:,} tools, and {used}; {MORE}")
