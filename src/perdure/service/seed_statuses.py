"""The six statuses that other systems know an execution by, beside our own."""

from collections.abc import Iterable
from typing import Literal, get_args

from perdure.core.errors import BadValue

SeedStatus = Literal["pending", "running", "waiting_approval", "completed", "failed", "cancelled"]

SEED_STATUSES: tuple[SeedStatus, ...] = get_args(SeedStatus)


def seed_status(status: str) -> SeedStatus:
    """Returns the one of the six that says most of a status. One that has not ended, and waits for no approval, is ``running``."""
    return next((one for one in SEED_STATUSES if one == status), "running")


def statuses_of(wanted: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """Returns those of the `known` statuses that some of the six stand for.

    Raises:
        BadValue: one of `wanted` is none of the six.
    """
    chosen = frozenset(wanted)
    for one in chosen:
        if one not in SEED_STATUSES:
            raise BadValue("seedStatus", one, f"one of {', '.join(SEED_STATUSES)}")
    return frozenset(one for one in known if seed_status(one) in chosen)
