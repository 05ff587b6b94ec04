"""Claims about the usage that is counted: what a provider does not say, or says wrongly, is estimated, so that no budget is void."""

import math
from typing import Any

import pytest

from perdure.definitions.kinds.models.model_client import send_model_request
from perdure.definitions.kinds.models.model_errors import ModelRejected
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ModelUsage, ToolCall, checked_usage
from tests.definitions.kinds.agents.scripted_model import deployed
from tests.definitions.kinds.models.scripted_provider import said

ABSURD: tuple[Any, ...] = (0, -5, math.nan, math.inf, -math.inf, 10**30, True, None, "many", [])
TEXT = "x" * 4_000


@pytest.mark.parametrize("told", ABSURD, ids=repr)
def test_tokens_that_are_absent_or_absurd_are_estimated_and_such_a_cost_is_not_known(told: Any) -> None:
    counted = checked_usage(ModelUsage(told, told, told, told, None if told == 0 else told), ChatAnswer(text=TEXT), said(TEXT * 2))
    assert counted.is_estimated and 2_000 <= counted.input_tokens < 2_100 and 1_000 <= counted.output_tokens < 1_020
    assert (counted.cache_read_tokens, counted.cache_write_tokens, counted.cost_usd) == (0, 0, None)


def test_what_can_be_true_is_counted_as_it_is_said() -> None:
    for usage in (ModelUsage(100, 10, 40, 60, 0.0), ModelUsage(1, 1), ModelUsage(10**6, 10**5, cost_usd=12.5)):
        assert checked_usage(usage, ChatAnswer(text="x"), said("Hi")) == usage
    whole = checked_usage(ModelUsage(100.0, 7.0), ChatAnswer(text="x"), said("Hi"))  # type: ignore[arg-type]  # what a function may say
    assert (whole.input_tokens, whole.output_tokens) == (100, 7) and type(whole.input_tokens) is int


def test_the_cache_has_no_more_tokens_than_there_are() -> None:
    counted = checked_usage(ModelUsage(100, 10, 90, 90), ChatAnswer(text="x"), said("Hi"))
    assert (counted.cache_read_tokens, counted.cache_write_tokens) == (90, 10)


def test_arguments_of_tools_count_in_an_estimate() -> None:
    assert checked_usage(ModelUsage(), ChatAnswer(calls=(ToolCall("1", "look", {"text": TEXT}),)), said("Hi")).output_tokens >= 1_000


async def test_a_function_in_place_of_a_provider_is_held_to_the_same() -> None:
    async def free(request: Any) -> Any:
        return ChatAnswer(text=TEXT, usage=ModelUsage(-1, math.nan, cost_usd=-5.0))  # type: ignore[arg-type]  # the absurdity itself

    async def other(request: Any) -> Any:
        return "Hi"

    counted = (await send_model_request(said("Hi", "free"), deployed(free=free))).usage
    assert counted.is_estimated and counted.output_tokens >= 1_000 and counted.cost_usd is None
    with pytest.raises(ModelRejected, match="returned str; have it return an Answer"):
        await send_model_request(said("Hi", "other"), deployed(other=other))
