"""The HTTP request that is being answered, for the logs of what is done for it."""

import os
import re
from contextvars import ContextVar

import msgspec

UNKNOWN_ROUTE = "(unknown)"
"""The route of a request that has none. What was asked for is not told: it may hold anything."""

_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)


class RequestFields(msgspec.Struct):
    """A request: its id, method, the template of its route, the tenant and subject of its caller, and the status of its answer."""

    id: str
    method: str
    route: str = UNKNOWN_ROUTE
    tenant: str = ""
    subject: str = ""
    status: int = 500


current_request: ContextVar[RequestFields] = ContextVar("perdure_request")


def request_id(given: str) -> str:
    """Returns the id that a request gives itself, if that is fit for logs and headers; else a new one."""
    return given if _ID.fullmatch(given) else os.urandom(16).hex()
