"""Sums what model calls have cost, by workflow, step and model, from the records that each answer leaves."""

from typing import NamedTuple

import msgspec

from perdure.service.store_access import StoreAccess
from perdure.stores.model_usage_records import KEPT_S, MODEL_USAGE, ModelUsageEntry, days_between, decode_usage
from perdure.stores.records import PagePosition, RecordFilter, record_position

ANSWERS_MAX = 200_000
"""The most answers that one question sums."""

PAGE = 1_000


class ModelCost(msgspec.Struct, frozen=True):
    """What the answers of one model for one step of a workflow have used together. `unpriced` of them have no known price, and are not in `cost_usd`."""

    workflow: str
    step: str
    model: str
    answers: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_usd: float
    unpriced: int


class ModelCosts(msgspec.Struct, frozen=True):
    """The costs of the time from `since_s` to `until_s`, the highest first. With `is_partial`, there were more answers than are summed: those of the earliest
    days are missing.
    """

    since_s: float
    until_s: float
    costs: list[ModelCost]
    cost_usd: float
    is_partial: bool = False


class _Sum(NamedTuple):
    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def plus(self, one: ModelUsageEntry) -> "_Sum":
        return _Sum(
            self.answers + 1,
            self.input_tokens + one.input_tokens,
            self.output_tokens + one.output_tokens,
            self.cache_read_tokens + one.cache_read_tokens,
            self.cost_usd + (one.cost_usd or 0.0),
            self.unpriced + (one.cost_usd is None),
        )


async def read_model_costs(access: StoreAccess, tenant: str, within_s: float, workflow: str = "") -> ModelCosts:
    """Sums the answers of the last `within_s` seconds, of the last three months at most; with `workflow`, of that one alone."""
    end_s = (await access.store.store_time()).now_s
    begin_s = end_s - min(within_s, KEPT_S)
    sums, count = dict[tuple[str, str, str], _Sum](), 0
    for day in days_between(begin_s, end_s):
        after: PagePosition | None = None
        while count < ANSWERS_MAX:
            found = await access.store.records(RecordFilter(tenant, MODEL_USAGE, f"{day}/", after=after, limit=PAGE))
            for one in (decode_usage(record.value) for record in found):
                if begin_s <= one.at_s <= end_s and workflow in ("", one.workflow):
                    key = (one.workflow, one.step, one.model)
                    sums[key] = sums.get(key, _Sum()).plus(one)
            count += len(found)
            if len(found) < PAGE:
                break
            after = record_position(found[-1])
    costs = [ModelCost(*key, **total._asdict()) for key, total in sums.items()]
    costs.sort(key=lambda one: (-one.cost_usd, one.workflow, one.step, one.model))
    return ModelCosts(begin_s, end_s, costs, sum(one.cost_usd for one in costs), count >= ANSWERS_MAX)
