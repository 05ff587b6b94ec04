"""Looking: the part of a store that changes nothing. Whoever asks for no more of it can be shown to change nothing."""

from typing import Protocol

from perdure.core.mail import Mail
from perdure.core.paths import Address, Key
from perdure.stores.base import ALL, Filter, Head, Lease, Log, Moment


class Looking(Protocol):
    """What is there. Each method is that of a `Store`; who asks twice may find that others have written in between."""

    async def read(self, key: Key, after: int = 0) -> Log | None:
        """See `Store.read`."""
        ...

    async def heads(self, which: Filter = ALL) -> list[Head]:
        """See `Store.heads`."""
        ...

    async def mail(self, to: Address) -> list[Mail]:
        """See `Store.mail`."""
        ...

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        ...

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        ...

    async def leases(self) -> list[Lease]:
        """See `Store.leases`."""
        ...

    async def moment(self) -> Moment:
        """See `Store.moment`."""
        ...

    async def close(self) -> None:
        """See `Store.close`."""
        ...
