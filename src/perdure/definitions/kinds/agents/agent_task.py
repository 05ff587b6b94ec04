"""Tasks: what an agent is asked to do, within which budget, and what comes of it. Plain data, as it stands in logs."""

from typing import Any

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core.errors import Fatal
from perdure.definitions.graph.ir import RetryOptions
from perdure.definitions.kinds.models.model_messages import ModelUsage

CALLS_MAX = 25
"""How many model calls an agent has unless it is said otherwise."""

TOOL_CALLS_PER_CALL = 10
"""How many tool calls an agent has for each of its model calls unless it is said otherwise."""


class Budget(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an agent may use: model calls, calls of tools, tokens (those read and those written), US dollars, and time (seconds, or text such as ``"10m"``).

    None: no bound; of `tool_calls` ten for each of `calls`, if these have one. All tools that one answer asks for are called, or none of them.
    A retry of the execution grants it once more. The last model call may go beyond `tokens` and `cost_usd`: it is the next that is not made.
    """

    calls: int | None = CALLS_MAX
    tool_calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall: float | str | None = None

    @property
    def tool_calls_max(self) -> int | None:
        """How many calls of tools it may make."""
        if self.tool_calls is not None or self.calls is None:
            return self.tool_calls
        return self.calls * TOOL_CALLS_PER_CALL

    @property
    def wall_s(self) -> float | None:
        """The time, in seconds.

        Raises:
            BadValue: it is none.
        """
        return None if self.wall is None else duration_seconds(self.wall, "Budget(wall)")


class SpentBudget(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was used so far. `cost_usd` None: the price of some of it is not known."""

    calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        """All of them, read and written."""
        return self.input_tokens + self.output_tokens

    def and_(self, usage: ModelUsage) -> "SpentBudget":
        """With one more model call."""
        return SpentBudget(
            calls=self.calls + 1,
            tool_calls=self.tool_calls,
            input_tokens=self.input_tokens + usage.input_tokens,
            output_tokens=self.output_tokens + usage.output_tokens,
            cache_read_tokens=self.cache_read_tokens + usage.cache_read_tokens,
            cost_usd=None if self.cost_usd is None or usage.cost_usd is None else self.cost_usd + usage.cost_usd,
        )

    def and_tools(self, count: int) -> "SpentBudget":
        """With so many more calls of tools."""
        return msgspec.structs.replace(self, tool_calls=self.tool_calls + count)

    def since(self, before: "SpentBudget") -> "SpentBudget":
        """Without what was used before."""
        return SpentBudget(
            calls=self.calls - before.calls,
            tool_calls=self.tool_calls - before.tool_calls,
            input_tokens=self.input_tokens - before.input_tokens,
            output_tokens=self.output_tokens - before.output_tokens,
            cache_read_tokens=self.cache_read_tokens - before.cache_read_tokens,
            cost_usd=None if self.cost_usd is None or before.cost_usd is None else self.cost_usd - before.cost_usd,
        )


class AgentTask(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an agent is to do. What it leaves out is as the agent has it; a fork with another task has another model, or a larger budget.

    `input` is data that the prompt is about; `context` previews of earlier results, by the ids of their steps. `tools` are the only ones of the agent's tools
    that may be used. `choose` is a closed list of next steps, of which the answer names at least one, or none if `may_choose_none`. With `listens`, messages
    may come meanwhile; a `session` does nothing but answer them. `step` of the version `version` of a definition is who asks, if one does. `retry` says how
    often and when the model is asked again that could not be asked.
    """

    prompt: str = ""
    retry: RetryOptions | None = None
    input: Any = None
    context: dict[str, Any] | None = None
    model: str = ""
    system: str = ""
    tools: tuple[str, ...] | None = None
    schema: dict[str, Any] | None = None
    budget: Budget | None = None
    approve: tuple[str, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    repairs: int | None = None
    choose: tuple[str, ...] = ()
    may_choose_none: bool = False
    listens: bool = False
    session: bool = False
    step: str = ""
    version: str = ""


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that was asked for, and whether what it came to was an error."""

    tool: str
    failed: bool = False


class AgentResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an agent came to: its answer (text, or data if there is a schema), what that took, the tools in the order asked for, and the model that answered."""

    output: Any = None
    spent: SpentBudget = SpentBudget()
    tools: tuple[ToolUse, ...] = ()
    model: str = ""


def budget_exceeded(what: str, why: str) -> Fatal:
    """The error that a budget is used up. Its type is called `what`: exceeded_calls, exceeded_tokens, exceeded_cost or deadline_exceeded."""
    error: Fatal = type(what, (Fatal,), {"__module__": __name__})(why)
    return error


MORE = "retry the execution to grant it once more, or fork it with a larger one"

EXCEEDED = ("exceeded_calls", "exceeded_tokens", "exceeded_cost", "deadline_exceeded")
"""The types of errors by which a budget ends an agent."""


def check_budget(budget: Budget, spent: SpentBudget, times: int) -> None:
    """Refuse a further model call of an agent that has used up its budget, which was granted `times` times.

    Raises:
        Fatal: it has; of a type that says of what.
    """
    if budget.calls is not None and spent.calls >= budget.calls * times:
        raise budget_exceeded("exceeded_calls", f"{spent.calls:,} of {budget.calls * times:,} model calls are used; {MORE}")
    if budget.tokens is not None and spent.tokens >= budget.tokens * times:
        raise budget_exceeded("exceeded_tokens", f"{spent.tokens:,} of {budget.tokens * times:,} tokens are used; {MORE}")
    if budget.cost_usd is None:
        return
    if spent.cost_usd is None:
        raise budget_exceeded("exceeded_cost", f"what was used of {budget.cost_usd * times:g} USD is not known: give the model a price, or bound the tokens")
    if spent.cost_usd >= budget.cost_usd * times:
        raise budget_exceeded("exceeded_cost", f"{spent.cost_usd:.6g} of {budget.cost_usd * times:g} USD are used; {MORE}")


def check_tool_budget(budget: Budget, spent: SpentBudget, asked: int, times: int) -> None:
    """Refuse the tools that an answer asks for, `asked` of them, if these are more than the budget has left, which was granted `times` times.

    Raises:
        Fatal: they are, of the type exceeded_calls.
    """
    most = budget.tool_calls_max
    if most is not None and spent.tool_calls + asked > most * times:
        used = f"{spent.tool_calls:,} of {most * times:,} tool calls are used"
        raise budget_exceeded("exceeded_calls", f"an answer of the model asks for {asked:,} tools, and {used}; {MORE}")
