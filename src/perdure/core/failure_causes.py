"""Why an execution failed or needs attention: the operation that failed, its error, and a fingerprint that is equal for failures that are alike.

The head of such an execution has the type of its error and its fingerprint as attributes of Perdure's own, so that lists select by them through the index.
Their names are out of reach of users (`ADDED_PREFIX`).
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from perdure.core import events as e
from perdure.core import limits
from perdure.core.attribute_filter import AttributeCondition
from perdure.core.attributes import ADDED_PREFIX, AttributeTime, IndexedAttributes, sortable_bytes
from perdure.core.errors import ChildFailed, ErrorInfo, JoinFailed, RaceFailed, StepFailed, Timeout
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure
from perdure.core.paths import UNDO, Path, is_internal_path, path_text

DEAD_STATUSES = ("failed", "needs_attention")
MESSAGE_CHARACTERS_MAX = 300
FINGERPRINT_DIGITS = 10
NUMBER = "N"
"""Stands for every number in what fingerprints are made of."""

ERROR_TYPE, FAILED_AT, FINGERPRINT = f"{ADDED_PREFIX}errorType", f"{ADDED_PREFIX}failedAt", f"{ADDED_PREFIX}fingerprint"
"""The attributes that the head of an execution has while it is failed or needs attention, in their order."""

STEP_ERRORS = frozenset((StepFailed.code, ChildFailed.code, JoinFailed.code, RaceFailed.code, Timeout.code))
"""The errors by which a workflow fails because a step in it has failed. The error of that step says more."""

LATEST_S = 253_000_000_000.0
"""About the last time that a calendar has."""

GIVEN_UP = ("cancelled", "abandoned")
"""The outcomes of calls that were dropped because of another failure or because a race ended. They are never the cause."""


class FailureCause(NamedTuple):
    """Where an execution failed or parked (an empty path: nowhere in particular), with which error, and when."""

    path: Path
    error: ErrorInfo
    at_s: float


def failure_cause(execution: Execution) -> FailureCause | None:
    """Returns why an execution failed or needs attention; None if it has not and does not."""
    if (execution.parked is None and execution.ended is None) or execution.status not in DEAD_STATUSES:
        return None
    if execution.parked is not None:
        parked = execution.parked
        return FailureCause(parked.path, ErrorInfo(parked.reason, "; ".join(parked.detail)), parked.at_s)
    if execution.ended is not None and isinstance(execution.ended.outcome, Failure):
        return FailureCause(*_place_and_error(execution, execution.ended, execution.ended.outcome.error), execution.ended.at_s)
    return None


def _place_and_error(execution: Execution, ended: e.EndedEvent, error: ErrorInfo) -> tuple[Path, ErrorInfo]:
    """A definition records the place. Code failed by the last failure in it, if its error comes from a step; otherwise by its own exception."""
    if execution.definition is None and error.type not in STEP_ERRORS:
        return (), error
    failed = list(_failures(execution))
    if execution.definition is not None:  # among the items of a map, the one that failed first
        failed = [one for one in failed if one[3] == error and one[2][: len(ended.path)] == ended.path and ended.path and not is_internal_path(one[2])]
        return min(failed, key=lambda one: one[:2])[2] if failed else ended.path, error
    _, _, path, cause = max(failed, key=lambda one: one[:2], default=(0.0, 0, (), error))
    return path, cause


def _failures(execution: Execution) -> Iterator[tuple[float, int, Path, ErrorInfo]]:
    """Yields the failures before the execution began to end, in the order of settling. Dropped calls are left out: they are consequences."""
    for path, one in execution.settled.items():
        if path[0] == UNDO:
            return
        if isinstance(one.outcome, Failure) and not (isinstance(one.op, CallOperation) and one.outcome.kind in GIVEN_UP):
            yield one.at_s, one.number, path, one.outcome.error


# Fingerprints


def fingerprint(workflow: str, path: Path, type: str, message: str) -> str:
    """A short hash that is equal for failures that are alike: same workflow, same place, same error."""
    said = "\0".join((workflow, failure_site(path), type, normalized_message(message)))
    return sha256(said.encode(errors="surrogatepass")).hexdigest()[:FINGERPRINT_DIGITS]


def failure_site(path: Path) -> str:
    """A path without the numbers of iterations, items and repeated names, and without numbers that are words of their own in names."""
    plain: Path = tuple((re.sub(r"\b\d+\b", NUMBER, segment[0]), min(segment[1], 1)) if isinstance(segment, tuple) else (NUMBER, 0) for segment in path)
    return path_text(plain)


def normalized_message(message: str) -> str:
    """A message with its variable parts (quoted text, ids, hashes, numbers) replaced by placeholders. Normalizing twice changes nothing."""
    before = None
    while message != before:  # quotes may be nested
        before = message
        for pattern, word in _NORMALIZATIONS:
            message = pattern.sub(word, message)
    return " ".join(message.split())[:MESSAGE_CHARACTERS_MAX].rstrip()


_NORMALIZATIONS = (
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)\"[^\"\n]*\"(?!\w)|`[^`\n]*`"), "<text>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), NUMBER),
)


# In the index


def failure_attributes(execution: Execution) -> IndexedAttributes:
    """Returns the error's type, its time and the fingerprint of an execution as attributes of its head; none if it has not failed and needs no attention."""
    cause = failure_cause(execution)
    if cause is None:
        return ()
    known = fingerprint(execution.key.workflow, cause.path, cause.error.type, cause.error.message)
    at = sortable_bytes(AttributeTime(int(cause.at_s * 1e6)))
    return ((ERROR_TYPE, _form(cause.error.type)), (FAILED_AT, at), (FINGERPRINT, _form(known)))


def failure_conditions(error_type: str, fingerprint: str) -> tuple[AttributeCondition, ...]:
    """Returns the conditions that select executions by the type of their error and by their fingerprint, or its beginning; an empty text selects by neither."""
    found = []
    if error_type:
        found.append(AttributeCondition(ERROR_TYPE, ((_form(error_type), _form(error_type) + b"\0"),)))
    if fingerprint:
        behind = b"\0" if len(fingerprint) >= FINGERPRINT_DIGITS else b"\x7f"
        found.append(AttributeCondition(FINGERPRINT, ((_form(fingerprint), _form(fingerprint) + behind),)))
    return tuple(found)


def failed_since_condition(from_s: float) -> AttributeCondition:
    """Returns the condition that selects executions that have failed, or have needed attention, since a time."""
    first = AttributeTime(int(min(max(from_s, 0.0), LATEST_S) * 1e6))
    return AttributeCondition(FAILED_AT, ((sortable_bytes(first), sortable_bytes(AttributeTime(int(LATEST_S * 1e6))) + b"\0"),))


def _form(text: str) -> bytes:
    """A text as the index has it: of a long one the beginning."""
    return sortable_bytes(text.encode(errors="replace")[: limits.ATTRIBUTE_BYTES_MAX].decode(errors="ignore"))
