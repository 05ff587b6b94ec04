"""The attributes by which the inbox finds approvals that wait: who may decide, the priority, the due time, and what they are about.

An approval is started with all of them. Each changes with what it says: an approval that is escalated or delegated is found by its new assignees. Approvals
of versions before this module have none; `perdure.service.people.inbox` finds those by going through them.
"""

from collections.abc import Container, Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from perdure.core import limits
from perdure.core.attributes import Attributes, AttributeValue, checked_attributes
from perdure.core.paths import Key

Priority = Literal["low", "normal", "high", "urgent"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
"""The priorities of approvals, the lowest first."""

ASSIGNEE = "assignee"
"""Each assignee, a group as ``group:NAME``. It is True if anybody may decide, or if there are too many assignees for the index."""
ASKED, DUE, PRIORITY, URGENCY, WORKFLOW, EXECUTION = "asked", "due", "priority", "urgency", "workflow", "execution"
"""When the question was asked; when it is due (`NEVER`: at no time); the number of the priority; the place by priority, then by due time;
the workflow and the id of the execution that asks."""
NOTICED, NOTICE = "noticed", "notice"
"""When people were last to be notified, and why: asked, reminder or escalated."""
RESOURCE_TYPE, RESOURCE_ID = "resource_type", "resource_id"
"""What the question is about."""

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The due time of an approval that has none, so that it comes last in the order of due times."""

OPEN_STATUSES = frozenset(("pending", "running", "waiting", "paused"))
"""The statuses of the execution of an approval that people can decide on."""

ASSIGNEES_INDEXED_MAX = 48
"""The most assignees that are indexed, so that with the other attributes there are not too many values."""


class ApprovalSubject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an approval is about and how urgent it is: its priority, when it is due, the type and id of a resource, and where people find that.

    `route_hint` is for an application, which knows its own pages; `deeplink` is an address, or a path of the application.
    """

    priority: Priority = "normal"
    due_at_s: float | None = None
    resource_type: str = ""
    resource_id: str = ""
    route_hint: str = ""
    deeplink: str = ""


NO_SUBJECT = ApprovalSubject()


def approval_attributes(subject: ApprovalSubject | None, assignees: Sequence[str], timeout_s: float | None, asks: Key, asked_at_s: float) -> Attributes:
    """Returns the attributes that an approval is started with, which the execution `asks` asks for now."""
    about = subject or NO_SUBJECT
    level, due_at_s = PRIORITIES.index(about.priority), due_time(about, timeout_s, asked_at_s)
    due = NEVER if due_at_s is None else datetime.fromtimestamp(min(due_at_s, NEVER.timestamp()), UTC)
    found: dict[str, AttributeValue | Sequence[AttributeValue]] = {
        ASKED: datetime.fromtimestamp(asked_at_s, UTC),
        DUE: due,
        PRIORITY: level,
        URGENCY: f"{len(PRIORITIES) - level} {due:%Y-%m-%dT%H:%M:%S.%f}",
        ASSIGNEE: assignees_indexed(assignees, ()),
        NOTICED: datetime.fromtimestamp(asked_at_s, UTC),
        NOTICE: "asked",
    }
    further = {WORKFLOW: asks.workflow, EXECUTION: asks.id, RESOURCE_TYPE: about.resource_type, RESOURCE_ID: about.resource_id}
    return checked_attributes(found | {name: text for name, text in further.items() if text and is_indexed(text)})


def due_time(subject: ApprovalSubject | None, timeout_s: float | None, asked_at_s: float) -> float | None:
    """Returns when an approval is due: at its own due time, else when it times out; None if it has neither."""
    if subject is not None and subject.due_at_s is not None:
        return subject.due_at_s
    return None if timeout_s is None else asked_at_s + timeout_s


def assignees_indexed(assignees: Sequence[str], voted: Container[str]) -> AttributeValue | Sequence[AttributeValue]:
    """Returns the value of `ASSIGNEE`: those who may still decide; True if the index can't say who."""
    if not assignees or len(set(assignees)) > ASSIGNEES_INDEXED_MAX or not all(map(is_indexed, assignees)):
        return True
    return sorted({name for name in assignees if name not in voted})


def is_indexed(text: str) -> bool:
    """Is true of a text that can be the value of an attribute."""
    try:
        return len(text.encode()) <= limits.ATTRIBUTE_BYTES_MAX
    except UnicodeEncodeError:
        return False
