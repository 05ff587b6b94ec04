"""Payloads: blobs read lately, kept in memory for a while, since what is replayed twice is read twice."""

from perdure.core.values import intact
from perdure.stores.looking import Looking

RECENT = 16
"""How many are kept."""


class Payloads:
    """The blobs of a store, by hash."""

    __slots__ = ("_recent", "_store")

    def __init__(self, store: Looking) -> None:
        self._store = store
        self._recent: dict[str, bytes] = {}

    async def get(self, sha256: str) -> bytes:
        """The payload of a blob.

        Raises:
            LogDamaged: it is missing, or was changed since it was written.
            SealedPayload: a codec has encoded it, and none is given here.
        """
        raw = self._recent.pop(sha256, None)
        if raw is None:
            raw = intact(sha256, await self._store.blob(sha256))
        self._recent[sha256] = raw
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        return raw
