"""The failures of a request: which are retried by the policy of the step, and which fail it at once.

Only safe retries happen: of a request that was certainly not carried out, or that may be carried out twice. No message contains a header or a body.
"""

from __future__ import annotations

from perdure.core.errors import Fatal, RetryAfter


class RequestError(Fatal):
    """The step is not a valid request; `where` is the JSON pointer of the problem, `what` describes it."""

    code = "request_error"

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"http{where}: {what}")
        self.where, self.what = where, what


class AddressRefused(Fatal):
    """A URL, a name or a redirect leads to an address that is not public, and the deployment does not allow it."""

    code = "address_refused"


class NoResponse(Exception):
    """There was no complete response: the connection could not be made or broke, or the time was over. The step is retried."""

    code = "no_response"


class InDoubt(Fatal):
    """There was no complete response, so it is not known whether the server carried out the request, which may not be sent twice."""

    code = "in_doubt"


class ResponseRefused(Fatal):
    """The response can't be the result: it is too large, not of the expected format, or a redirect that is not followed."""

    code = "response_refused"


class StatusRefused(Fatal):
    """The `status` of the response means that a retry is useless."""

    code = "status_refused"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StatusTransient(Exception):
    """The `status` of the response means that a retry may succeed. The step is retried."""

    code = "status_transient"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StatusDelayed(StatusTransient, RetryAfter):
    """The `status` of the response means that a retry may succeed, and its Retry-After says when: in `after_s` seconds."""

    code = "status_delayed"

    def __init__(self, status: int, message: str, after_s: float) -> None:
        RetryAfter.__init__(self, after_s, message)
        self.status = status
