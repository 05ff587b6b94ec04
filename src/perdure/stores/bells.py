"""Bells: who wants to be called when something has changed, within one process."""

from collections.abc import Callable


class Bells:
    """Those who are called, in the order in which they asked."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings: list[Callable[[], None]] = []

    def enlist(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` from now on; return what ends that."""
        self._rings.append(ring)
        return lambda: self._rings.remove(ring) if ring in self._rings else None

    def ring(self) -> None:
        """Call them all."""
        for ring in tuple(self._rings):
            ring()
