"""Claims about the signals that a workflow names: their schemas are known before it runs, wherever its code names them, and no others are."""

import dataclasses

from perdure import Context, Signal, SyncContext, workflow
from perdure.code.declared_signals import message_schemas


@dataclasses.dataclass
class Payment:
    cents: int
    by: str = ""


paid = Signal("paid", Payment)
packed = Signal("packed", str)
anything = Signal("anything")
unused = Signal("unused", int)
paid_again = Signal("paid", str)


@workflow
async def plain(ctx: Context) -> None:
    await ctx.listen(paid)
    await ctx.listen(anything)
    await ctx.listen(Signal("here", int))


@workflow
async def in_branches(ctx: Context) -> None:
    await ctx.join(lambda c: c.listen(packed), waits_for_payment)


async def waits_for_payment(c: Context) -> None:
    await c.listen(paid)
    await waits_for_payment(c)


@workflow
async def twice(ctx: Context) -> None:
    await ctx.listen(paid)
    await ctx.listen(paid_again)
    await ctx.listen(packed)


@workflow
def plain_function(ctx: SyncContext) -> None:
    ctx.listen(packed)


def test_the_signals_that_a_workflow_names_have_the_schemas_of_their_types() -> None:
    found = message_schemas(plain.code)
    assert [*found] == ["paid"], "one without a type has no schema, and one that is made in the workflow is not known before"
    (payment,) = found["paid"]["$defs"].values()
    assert payment["properties"]["cents"] == {"type": "integer"} and payment["required"] == ["cents"]


def test_signals_of_branches_and_of_what_the_workflow_closes_over_are_found() -> None:
    assert [*message_schemas(in_branches.code)] == ["packed", "paid"]
    own = Signal("own", bool)

    @workflow
    async def closes_over(ctx: Context) -> None:
        await ctx.listen(own)

    assert message_schemas(plain_function.code) == {"packed": {"type": "string"}}
    assert message_schemas(closes_over.code) == {"own": {"type": "boolean"}}


def test_a_name_with_two_types_has_no_schema() -> None:
    assert message_schemas(twice.code) == {"packed": {"type": "string"}}
