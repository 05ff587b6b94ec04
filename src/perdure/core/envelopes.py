"""Mail: what travels between executions, queues and the outside, as the store sees it."""

import msgspec

from perdure.core.attributes import IndexedAttributes
from perdure.core.paths import Address, Key


class NewExecution(msgspec.Struct, frozen=True, gc=False):
    """What a send says of the execution that it starts, should there be none yet.

    `program` is as `perdure.core.program.program_name` makes it, ``order@2`` or, unpinned, ``order@``; `root` is the topmost
    ancestor, by which an engine can restrict itself to one family of executions. In a `queue`, it is handed over in the turn of its `lane`
    and as the limits of the queue allow, for as long as it lives. By its `attributes` it is found.
    """

    program: str
    root: Key
    queue: str = ""
    lane: str = ""
    priority: int = 0
    attributes: IndexedAttributes = ()


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """A message on its way: sending the same key to the same address twice is the same as once.

    `due_at_s` is the store's time from which it may be delivered (0: at once). With `opens`, a head is made when the
    address has none. Work for a queue has its `lane` and its `priority` there. `refers` are the blobs that its body refers to and that the
    store has already: of each, the names that it may be kept under.
    """

    to: Address
    key: str
    body: bytes
    due_at_s: float = 0.0
    opens: NewExecution | None = None
    lane: str = ""
    priority: int = 0
    refers: tuple[tuple[str, ...], ...] = ()


class QueuedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that arrived: numbered by the store in order of arrival, the order in which it is delivered to an execution.

    `deliveries` counts how often it was handed to a worker, this time included (0 for mail to an execution).
    """

    number: int
    to: Address
    key: str
    body: bytes
    due_at_s: float
    deliveries: int = 0
    lane: str = ""
    priority: int = 0


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Mail that is dealt with and leaves the store; acknowledging what is gone does nothing.

    Of work that is given up while somebody may be doing it in a transaction, `answer` is the key of the mail that would have settled it.
    With `postpone_to_s` the mail stays where it is, in its order, held by nobody: it is due again at that time of the store.
    `unleased` is sent if it was there, and nobody had leased it.
    """

    to: Address
    key: str
    answer: str = ""
    postpone_to_s: float | None = None
    unleased: OutgoingMessage | None = None
