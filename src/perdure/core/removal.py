"""What is said of an execution whose log was removed, in place of what it had done."""

from datetime import UTC, datetime

from perdure.core.errors import ErrorInfo
from perdure.core.events import Ended, Removed
from perdure.core.ops import Err

REMOVED = "removed"
"""The kind of the error that stands in the place of a result."""

DIGEST_BYTES = 16
"""How much is kept of the SHA-256 of an input and of a result: enough to tell whether a value is the same."""


def said(removed: Removed) -> str:
    """That it was removed, in words."""
    of_result = f", the SHA-256 of its result began with {removed.result.hex()}" if removed.result else ""
    return f"it was removed at {datetime.fromtimestamp(removed.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC{of_result}"


def end_of(removed: Removed) -> Ended:
    """How it ended, as far as that was kept."""
    outcome = Err(REMOVED, 1, ErrorInfo("Removed", said(removed))) if removed.error is None else removed.error
    return Ended(removed.status, outcome, removed.ended_at_s)
