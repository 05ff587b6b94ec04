"""Removal of whole months: the part `MONTH_REMOVAL` of a store that keeps the logs of executions by the month in which they began."""

from typing import Protocol

import msgspec

from perdure.stores.store_parts import PartName


class StoredMonth(msgspec.Struct, frozen=True):
    """What a store has of the executions that began in a month, such as ``2026-03``, and whether it was removed.

    `executions` still have a log there, of which `open` have not ended; `size_bytes` is the space on the disk, before the removal.
    """

    month: str
    size_bytes: int
    executions: int = 0
    open: int = 0
    removed: bool = False


class MonthRemoval(Protocol):
    """Removes months in which nothing is left, which returns their space to the disk at once."""

    async def remove_months(self, before_s: float) -> list[StoredMonth]:
        """Remove the months that ended before a time of the store and in which no execution has a log any more; return all months that ended before it.

        What is kept of pruned executions, and large values that executions of later months refer to, is moved first. Engines may work meanwhile. An
        interruption loses nothing; the next call continues.

        Raises:
            StoreError: the role may not remove tables.
        """
        ...


MONTH_REMOVAL: PartName[MonthRemoval] = PartName("month removal")
