"""Lists of heads, each read from an index, so that a page costs the same among a million executions.

What few heads can satisfy is looked up first: keys, a family, and conditions that at most `FEW` heads satisfy (`FEW_IN_ORDER` in the order of an attribute).
Otherwise the list is read in its order, and what does not match is passed over. For a tenant, that order is merged from lines: the heads of one workflow and
status are one range of an index. A condition that more than `FEW` heads of the tenant satisfy may hold for none in a line, so without statuses such a list
is read by number instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from perdure.core.attribute_filter import AttributeCondition
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, head_of
from perdure.stores.protocol import Head, HeadFilter

FEW = 10_000
"""Conditions that no more heads satisfy are looked up; others are checked in the order of the list."""

FEW_IN_ORDER = 2_000
"""The same where the list is ordered by an attribute: what is looked up has to be sorted then. If more match, a page is found soon in its order."""

LAST_CHARACTERS = "\U0010ffff" * 256
"""What the last id that begins with a text can have behind it."""


async def read_heads(fetch: Fetch, which: HeadFilter) -> list[Head]:
    """See `Store.heads`. The number of a position is read before, since it never changes while its execution is there."""
    if which.limit <= 0 or which.keys == () or which.statuses == frozenset():
        return []
    query = _HeadQuery(which)
    position = None
    if which.after is not None:
        is_descending = which.order is None or which.order.descending
        at = (address_bytes(which.after.key), which.after.created_at_s, int(is_descending))
        position = next(row[0] for row in await fetch(SQL.number_at_position, *at))
    sql = query.by_attribute(position, await _rarest(fetch, which)) if which.order is not None else query.by_number(position, await _few(fetch, which))
    return [*map(head_of, await fetch(sql, *query.arguments))]


_Condition = AttributeCondition | str
"""A condition on an attribute, or the beginning of an id."""


async def _few(fetch: Fetch, which: HeadFilter) -> Sequence[_Condition]:
    """Conditions one of which each head of the list satisfies, and which few heads satisfy; empty if there are no such."""
    if which.tenant is None or which.keys is not None or which.root is not None:
        return ()
    if (found := await _first_of_few(fetch, which, (which.id_prefix, *which.where))) is not None:
        return (found,)
    each = [await _first_of_few(fetch, which, one) for one in which.any_of]
    return [found for found in each if found is not None] if None not in each else ()


async def _rarest(fetch: Fetch, which: HeadFilter) -> AttributeCondition | None:
    """The condition that the fewest heads satisfy, which each head of the list does; None if there are more than `FEW_IN_ORDER`."""
    if which.tenant is None or which.keys is not None or which.root is not None or not which.where:
        return None
    query = _HeadQuery(which)
    limit = query.given(FEW_IN_ORDER + 1)
    counts = [f"({SQL.count_up_to.format(query=query.numbers_of(condition), limit=limit)})" for condition in which.where]
    (found,) = await fetch(f"SELECT {', '.join(counts)}", *query.arguments)
    count, rarest = min(zip(found, which.where, strict=True), key=itemgetter(0))
    return rarest if count <= FEW_IN_ORDER else None


async def _first_of_few(fetch: Fetch, which: HeadFilter, conditions: Iterable[_Condition]) -> _Condition | None:
    for condition in conditions:
        if not condition:
            continue
        query = _HeadQuery(which)
        sql = SQL.count_up_to.format(query=query.numbers_of(condition), limit=query.given(FEW + 1))
        if next(row[0] for row in await fetch(sql, *query.arguments)) <= FEW:
            return condition
    return None


class _HeadQuery:
    """The text of a query, and its `arguments`."""

    def __init__(self, which: HeadFilter) -> None:
        self._which = which
        self.arguments: list[object] = []

    def given(self, value: object) -> str:
        """Adds an argument, and returns its placeholder with its type. Drivers escape texts, but not within arrays."""
        self.arguments.append(value)
        types = {str: "text", int: "bigint", float: "float8", bytes: "bytea", list: "bytea[]"}
        return f"${len(self.arguments)}::{types[type(value)]}"

    def by_number(self, position: int | None, few: Sequence[_Condition]) -> str:
        """The heads in order of creation, the newest first. `few` are the conditions to look up, if there are any."""
        which = self._which
        behind = [] if position is None else [f"heads.number < {self.given(position)}"]
        if which.keys is not None:
            named = [SQL.heads_at.format(addresses=self.given([*map(address_bytes, dict.fromkeys(which.keys))]))]
        elif which.root is not None:
            named = [SQL.heads_of_family.format(root=self.given(address_bytes(which.root)))]
        elif few:
            named = [f"heads.number = ANY(ARRAY({' UNION '.join(map(self.numbers_of, few))}))"]
        elif which.tenant is not None and (which.statuses is not None or not (which.where or which.any_of or which.id_prefix)):
            return self._merged(behind)
        else:
            named = []
        conditions = [*named, *behind, *self._conditions(), *self._names()]
        return SQL.list_heads.format(source="perdure.heads", where=_all(conditions), order="heads.number DESC", limit=self.given(which.limit))

    def by_attribute(self, position: int | None, rarest: AttributeCondition | None) -> str:
        """The heads that have an attribute, in the order of its values. `rarest` is the condition to look up, if there is one."""
        which, order = self._which, self._which.order
        assert order is not None, "the list has such an order"
        direction, further, beyond = ("DESC", ">", "<") if order.descending else ("ASC", "<", ">")
        conditions = [f"at.name = {self.given(order.name)}", SQL.is_first_value.format(further=further)]
        if rarest is not None:
            conditions.append(f"at.number = ANY(ARRAY({self.numbers_of(rarest)}))")
        elif which.tenant is not None:
            conditions.append(f"at.tenant = {self.given(which.tenant)}")
        if which.ended is False:
            conditions.append("NOT at.ended")
        if which.after is not None and position is not None:
            conditions.append(f"(at.value, at.number) {beyond} ({self.given(which.after.value)}, {self.given(position)})")
        if which.keys is not None:
            conditions.append(SQL.heads_at.format(addresses=self.given([*map(address_bytes, dict.fromkeys(which.keys))])))
        if which.root is not None:
            conditions.append(SQL.heads_of_family.format(root=self.given(address_bytes(which.root))))
        where = _all([*conditions, *self._conditions(), *self._names()])
        source, by = "perdure.attributes AS at JOIN perdure.heads ON heads.number = at.number", f"at.value {direction}, at.number {direction}"
        return SQL.list_heads.format(source=source, where=where, order=by, limit=self.given(which.limit))

    def numbers_of(self, condition: _Condition) -> str:
        """A query for the numbers of heads of the tenant that satisfy a condition on an attribute, or whose ids begin with a text."""
        if isinstance(condition, AttributeCondition):
            return f"SELECT attributes.number FROM perdure.attributes WHERE {self._attribute(condition)}"
        bounds = {"first": self.given(condition), "last": self.given(condition + LAST_CHARACTERS)}
        return SQL.heads_by_id.format(tenant=self._tenant(), **bounds)

    def _merged(self, behind: Sequence[str]) -> str:
        """The heads of a tenant, from its lines: each a workflow and a status."""
        which, tenant = self._which, self._tenant()
        lines = [*([] if which.workflow is None else [f"workflow = {self.given(which.workflow)}"]), *self._statuses("status")]
        where = _all([*behind, *self._conditions()])
        return SQL.list_heads_of_lines.format(tenant=tenant, lines=_all(lines), where=where, limit=self.given(which.limit))

    def _names(self) -> Iterator[str]:
        """The conditions that a line satisfies by itself. That on the tenant is written so that no index serves it: reading that of lines here needs a sort."""
        if self._which.tenant is not None:
            yield f"heads.tenant IS NOT DISTINCT FROM {self._tenant()}"
        if self._which.workflow is not None:
            yield f"heads.workflow = {self.given(self._which.workflow)}"
        yield from self._statuses("heads.status")

    def _statuses(self, column: str) -> Iterator[str]:
        if self._which.statuses is not None:
            yield f"{column} IN ({', '.join(map(self.given, sorted(self._which.statuses)))})"

    def _conditions(self) -> Iterator[str]:
        """Further conditions on heads."""
        which = self._which
        if which.id_prefix:
            yield f"starts_with(heads.id, {self.given(which.id_prefix)})"
        if which.created_from_s is not None:
            from_s = self.given(float(which.created_from_s))
            yield SQL.created_from.format(from_s=from_s)
        if which.ended is not None:
            yield f"heads.ended_at_s IS {'NOT ' if which.ended else ''}NULL"
        yield from map(self._has_attribute, which.where)
        if which.any_of:
            yield f"({' OR '.join(_all(map(self._has_attribute, one)) for one in which.any_of)})"

    def _has_attribute(self, condition: AttributeCondition) -> str:
        """The condition, checked for each head. (EXISTS could become a join, which reads all heads with the attribute.)"""
        return f"(SELECT TRUE FROM perdure.attributes WHERE attributes.number = heads.number AND {self._attribute(condition, of_tenant=False)} LIMIT 1)"

    def _attribute(self, condition: AttributeCondition, of_tenant: bool = True) -> str:
        spans = " OR ".join(f"(attributes.value >= {self.given(low)} AND attributes.value < {self.given(high)})" for low, high in condition.spans)
        tenant = f"attributes.tenant = {self._tenant()} AND " if of_tenant else ""
        return f"{tenant}attributes.name = {self.given(condition.name)} AND ({spans or 'FALSE'})"

    def _tenant(self) -> str:
        assert self._which.tenant is not None, "an index is read for one tenant"
        return self.given(self._which.tenant)


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions) or "TRUE"
