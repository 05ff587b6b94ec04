"""What can come of a request besides a result: which of it is tried again, as the step's retry says, and which fails the step at once.

Only what is safe is tried again: what was not carried out for sure, or may be carried out twice. No text of these has a header or what was sent.
"""

from __future__ import annotations

from perdure.core.errors import Fatal, RetryAfter


class RequestError(Fatal):
    """What the step says is no request: `where` in it, as a JSON pointer, is `what`."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"http{where}: {what}")
        self.where, self.what = where, what


class AddressRefused(Fatal):
    """Where a URL, a name or a redirect leads is not for everybody to reach, and the deployment does not allow it."""


class NoResponse(Exception):
    """There was no answer, or no whole one: the connection could not be made, or broke, or the time was over. Tried again."""


class InDoubt(Fatal):
    """There was no whole answer, so it is not known whether the request was carried out, and it may not be sent twice."""


class ResponseRefused(Fatal):
    """There was an answer that can't be the result: too large, not what was asked for, or a redirect that is not followed."""


class StatusRefused(Fatal):
    """The status of the answer says that it is no use to try again. `status` is it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StatusTransient(Exception):
    """The status of the answer says that it may be otherwise later. Tried again. `status` is it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StatusDelayed(StatusTransient, RetryAfter):
    """The same from a server that says when: tried again in `after_s` seconds."""

    def __init__(self, status: int, message: str, after_s: float) -> None:
        RetryAfter.__init__(self, after_s, message)
        self.status = status
