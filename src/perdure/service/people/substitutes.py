"""Who stands in for whom: the approvals of somebody who is out of office also go to their substitute and, if that one is out as well, to the next.

Each person counts once, so substitutes who name each other end the search and do not go round.
"""

from perdure.code.approval_attributes import is_indexed
from perdure.core.attribute_filter import attribute_conditions
from perdure.service.people.person_records import PEOPLE, SUBSTITUTE
from perdure.stores.protocol import ReadOnlyStore

PEOPLE_MAX = 50
"""The most people for whom one substitute is found to stand in, and the longest row of substitutes."""


async def stood_in_for(store: ReadOnlyStore, tenant: str, person: str, now_s: float) -> tuple[str, ...]:
    """Returns the people who are out of office and for whom a person stands in, directly or for another substitute who is out."""
    found: dict[str, None] = {}
    left = [person]
    while left and len(found) < PEOPLE_MAX:
        name = left.pop(0)
        if not is_indexed(name):
            continue
        for kept in await PEOPLE.page(store, tenant, where=attribute_conditions({SUBSTITUTE: name}), limit=PEOPLE_MAX):
            if kept.value.is_out(now_s) and kept.key != person and kept.key not in found:
                found[kept.key] = None
                left.append(kept.key)
    return tuple(found)[:PEOPLE_MAX]


async def with_substitutes(store: ReadOnlyStore, tenant: str, names: tuple[str, ...], now_s: float) -> tuple[str, ...]:
    """Returns people and groups, each person who is out of office followed by those who stand in."""
    found: dict[str, None] = {}
    for name in names:
        left: str | None = name
        while left is not None and left not in found and len(found) < len(names) + PEOPLE_MAX:
            found[left] = None
            kept = None if left.startswith("group:") else await PEOPLE.read(store, tenant, left)
            left = kept.value.substitute if kept is not None and kept.value.is_out(now_s) else None
    return tuple(found)
