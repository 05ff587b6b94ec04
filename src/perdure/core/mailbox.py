"""The mailbox: messages that arrived and were not consumed, first in first out by their number, and who waits for them."""

from bisect import insort
from collections.abc import Iterable

import msgspec

from perdure.core.ops import Receive
from perdure.core.paths import Key, Path
from perdure.core.values import Value


class Letter(msgspec.Struct, frozen=True, gc=False):
    """A message in the mailbox, or taken from it."""

    number: int
    name: str
    body: Value
    at_s: float
    key: str = ""
    sender: Key | None = None


class Mailbox:
    """Messages by number and by name, and open receives by name, each in order."""

    __slots__ = ("_by_name", "_receivers", "letters")

    def __init__(self) -> None:
        self.letters: dict[int, Letter] = {}
        self._by_name: dict[str, list[int]] = {}
        self._receivers: dict[str, dict[Path, None]] = {}

    def __len__(self) -> int:
        return len(self.letters)

    def put(self, letter: Letter) -> None:
        """Put a message in its place by number; one that is there already stays."""
        if letter.number not in self.letters:
            self.letters[letter.number] = letter
            insort(self._by_name.setdefault(letter.name, []), letter.number)

    def remove(self, numbers: Iterable[int]) -> tuple[Letter, ...]:
        """Take these messages out."""
        taken = tuple(self.letters.pop(number) for number in numbers)
        for letter in taken:
            numbers_of_name = self._by_name[letter.name]
            numbers_of_name.remove(letter.number)
            if not numbers_of_name:
                del self._by_name[letter.name]
        return taken

    def matching(self, receive: Receive) -> tuple[int, ...]:
        """The numbers of the first messages that `receive` accepts, at most its limit."""
        if len(receive.names) == 1:
            return tuple(self._by_name.get(receive.names[0], ())[: receive.limit])
        found = [number for name in dict.fromkeys(receive.names) for number in self._by_name.get(name, ())[: receive.limit]]
        return tuple(sorted(found)[: receive.limit])

    def wait(self, path: Path, receive: Receive) -> None:
        """Note that the receive at `path` is open."""
        for name in receive.names:
            self._receivers.setdefault(name, {})[path] = None

    def leave(self, path: Path, receive: Receive) -> None:
        """Note that the receive at `path` is open no longer."""
        for name in receive.names:
            waiting = self._receivers.get(name)
            if waiting is not None:
                waiting.pop(path, None)
                if not waiting:
                    del self._receivers[name]

    def receivers(self, name: str) -> tuple[Path, ...]:
        """The open receives that accept messages of this name, the earliest opened first."""
        return tuple(self._receivers.get(name, ()))
