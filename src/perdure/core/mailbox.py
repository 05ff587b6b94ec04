"""The mailbox: messages that arrived and were not received, and received messages that return to it if a branch has not used them.

A branch that loses its race or is cancelled puts back what it received and did not use. It uses its messages when it next settles a step, a child or
a send, or begins an iteration of a loop. A sleep, a further receive, a kept value or state uses nothing. A completable message is held until it is
completed, whatever else the branch does. A branch that returns or fails leaves its unused messages to the branch that called it.
"""

from bisect import insort
from collections.abc import Iterable

import msgspec

from perdure.core.operations import CallOperation, KeepOperation, Operation, ReceiveOperation, SendOperation, SpawnOperation
from perdure.core.paths import Key, Path
from perdure.core.values import Value


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that is in the mailbox or was received from it."""

    number: int
    name: str
    body: Value
    at_s: float
    key: str = ""
    sender: Key | None = None


class Mailbox:
    """Messages by number and by name, in order of arrival, and open receives by name, in order of opening."""

    __slots__ = ("_by_name", "_receivers", "messages")

    def __init__(self) -> None:
        self.messages: dict[int, ReceivedMessage] = {}
        self._by_name: dict[str, list[int]] = {}
        self._receivers: dict[str, dict[Path, None]] = {}

    def __len__(self) -> int:
        return len(self.messages)

    def put(self, message: ReceivedMessage) -> None:
        """Puts a message in its place by number, unless it is there already."""
        if message.number not in self.messages:
            self.messages[message.number] = message
            insort(self._by_name.setdefault(message.name, []), message.number)

    def remove(self, numbers: Iterable[int]) -> tuple[ReceivedMessage, ...]:
        """Removes these messages and returns them."""
        taken = tuple(self.messages.pop(number) for number in numbers)
        for message in taken:
            numbers_of_name = self._by_name[message.name]
            numbers_of_name.remove(message.number)
            if not numbers_of_name:
                del self._by_name[message.name]
        return taken

    def matching(self, receive: ReceiveOperation) -> tuple[int, ...]:
        """Returns the numbers of the first messages that `receive` accepts, at most its limit."""
        if len(receive.names) == 1:
            return tuple(self._by_name.get(receive.names[0], ())[: receive.limit])
        found = [number for name in dict.fromkeys(receive.names) for number in self._by_name.get(name, ())[: receive.limit]]
        return tuple(sorted(found)[: receive.limit])

    def wait(self, path: Path, receive: ReceiveOperation) -> None:
        """Records that the receive at `path` is open."""
        for name in receive.names:
            self._receivers.setdefault(name, {})[path] = None

    def leave(self, path: Path, receive: ReceiveOperation) -> None:
        """Records that the receive at `path` is no longer open."""
        for name in receive.names:
            waiting = self._receivers.get(name)
            if waiting is not None:
                waiting.pop(path, None)
                if not waiting:
                    del self._receivers[name]

    def receivers(self, name: str) -> tuple[Path, ...]:
        """Returns the open receives that accept messages of this name, in order of opening."""
        return tuple(self._receivers.get(name, ()))


def uses_messages(path: Path, op: Operation) -> bool:
    """Whether a branch that settles this operation uses the messages that it received before.

    A call under an internal name (a condition or a transform in a sandbox) computes a value and is not a step.
    """
    match op:
        case CallOperation():
            last = path[-1]
            return isinstance(last, int) or last[1] != 0
        case SpawnOperation() | SendOperation():
            return True
        case KeepOperation(role="turn"):
            return True
    return False


class UnusedMessages:
    """The receives of one execution whose messages are not used yet, by the path of the branch that made them.

    A branch begins before anything happens under its path. The execution as a whole never puts anything back, so messages that are received outside of
    branches count as used at once.
    """

    __slots__ = ("_branches", "_ended", "_held", "_unused")

    def __init__(self) -> None:
        self._branches: dict[Path, int] = {}
        self._unused: dict[Path, list[Path]] = {}
        self._ended: dict[Path, list[Path]] = {}
        self._held: dict[Path, set[int]] = {}

    def begin(self, branch: Path) -> None:
        """Begins a branch. Another may begin at the same path within it, and ends first."""
        self._branches[branch] = self._branches.get(branch, 0) + 1

    def end(self, branch: Path) -> None:
        """Ends a branch that has returned or failed: its unused messages pass to its caller, which uses them with its next step."""
        self._branches[branch] -= 1
        if self._branches[branch]:
            return
        del self._branches[branch]
        for inner in self._ended.pop(branch, ()):
            self._unused.setdefault(branch, []).extend(self._unused.pop(inner, ()))
        if branch in self._unused:
            if caller := self._branch_of(branch):
                self._ended.setdefault(caller, []).append(branch)
            else:
                del self._unused[branch]

    def forget(self, path: Path) -> None:
        """Forgets the branches that began below `path`: they are abandoned with it, and no `end` follows for them."""
        depth = len(path)
        for branch in [one for one in self._branches if len(one) > depth and one[:depth] == path]:
            del self._branches[branch]

    def give_back(self, branch: Path) -> list[Path]:
        """Removes and returns the receives under a lost or cancelled branch whose messages return to the mailbox."""
        depth = len(branch)
        for inner in [path for path in self._ended if path[:depth] == branch]:
            del self._ended[inner]
        unused = [path for one in [one for one in self._unused if one[:depth] == branch] for path in self._unused.pop(one)]
        held = [path for path in self._held if path[:depth] == branch]
        for path in held:
            del self._held[path]
        return unused + held

    def __bool__(self) -> bool:
        """Whether there are unused messages."""
        return bool(self._unused)

    def receive(self, path: Path, numbers: Iterable[int], completable: bool) -> None:
        """Records that the receive at `path` has settled with the messages of these numbers."""
        if completable:
            self._held[path] = set(numbers)
        elif branch := self._branch_of(path):
            self._unused.setdefault(branch, []).append(path)

    def use(self, path: Path) -> None:
        """Marks messages as used by the operation at `path`: those of its branch, of the branches that ended in it, and of the branches around it."""
        if not self._unused:
            return
        for inner in self._ended.pop(self._branch_of(path), ()):
            self._unused.pop(inner, None)
        for end in range(len(path) + 1):
            self._unused.pop(path[:end], None)

    def complete(self, path: Path, number: int) -> None:
        """Records that a message is completed."""
        self._held[path].discard(number)
        if not self._held[path]:
            del self._held[path]

    def holds(self, path: Path, number: int) -> bool:
        """Whether a completable message is held and not completed yet."""
        return number in self._held.get(path, ())

    def _branch_of(self, path: Path) -> Path:
        """Returns the innermost branch that `path` lies in, or the empty path."""
        if self._branches:
            for end in range(len(path), 0, -1):
                if path[:end] in self._branches:
                    return path[:end]
        return ()
