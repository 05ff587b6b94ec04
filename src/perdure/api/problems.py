"""Errors as HTTP answers: RFC 9457 problem details, with the code of the error, and what to do next."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perdure.core import errors as e
from perdure.core.paths import Key

NO_PLACES: Mapping[str, str] = {}
MEDIA_TYPE = "application/problem+json"

STATUSES: dict[type[Exception], int] = {
    e.Unauthenticated: 401,
    e.Forbidden: 403,
    e.NotFound: 404,
    e.Removed: 410,
    e.TooLarge: 413,
    e.TooManyActive: 429,
    e.BadValue: 422,
    e.BadName: 422,
    e.Unencodable: 422,
    e.BadDefinition: 422,
    e.BadExpression: 422,
    e.IdempotencyKeyReused: 422,
    e.LinkRefused: 403,
    e.ExportRefused: 422,
    e.WrongVerb: 409,
    e.Timeout: 504,
    e.StoreUnavailable: 503,
    e.IssuerUnavailable: 503,
    e.StoreError: 500,
    e.WorkflowError: 409,
    e.ProgrammingError: 409,
}
"""The status of the answer to an error: that of the first of its classes that is here."""


class Refusal(Exception):  # an expected outcome on its way to the answer
    """A request that no operation has seen: the status, the code, what happened, what to do next, and where in the request the mistake is."""

    def __init__(self, status: int, code: str, message: str, next: str, headers: tuple[tuple[bytes, bytes], ...] = (), *, where: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.next, self.headers, self.where = status, code, message, next, headers, where


def status_of(kind: type[BaseException]) -> int:
    """Returns the status of the answer to an error of a class."""
    return next((STATUSES[one] for one in kind.__mro__ if one in STATUSES), 500)


def problem_of(error: e.PerdureError, places: Mapping[str, str] = NO_PLACES) -> dict[str, Any]:
    """Returns the problem details of an error. `places` are those of arguments in the request by their names in Python."""
    status, detail = status_of(type(error)), str(error)
    found: dict[str, Any] = {"type": "about:blank", "title": error.code.replace("_", " "), "status": status, "detail": detail, "code": error.code}
    if where := _place_of(error):
        found["where"] = place = places.get(where, where)
        if detail.startswith(f"{where}: "):
            found["detail"] = f"{place}{detail.removeprefix(where)}"
    if isinstance(error, e.Ambiguous):
        found["candidates"] = _shown_keys(error.candidates)
    if isinstance(error, e.TooManyActive) and error.present:
        found["inTheWay"] = _shown_keys(error.present)
    if isinstance(error, e.BadDefinition):
        found["findings"] = [msgspec.to_builtins(finding, str_keys=True) for finding in error.findings]
    return found


def _shown_keys(keys: Iterable[object]) -> list[Any]:
    return [{"workflow": one.workflow, "id": one.id} if isinstance(one, Key) else str(one) for one in keys]


def _place_of(error: e.PerdureError) -> str:
    """Returns where in a request a mistake is; empty if the error does not say it."""
    match error:
        case e.BadValue():
            return error.where or error.what
        case e.BadName():
            return error.what
        case e.Unencodable() | e.TooLarge() | e.BadExpression():
            return error.where
        case e.BadDefinition():
            return error.where or "/document"
        case e.ExportRefused():
            return "/raw"
    return ""


def not_allowed(method: str, methods: Iterable[str]) -> Refusal:
    """Returns the refusal of a request whose path takes other methods; one that takes GET takes HEAD too."""
    names = ", ".join("GET, HEAD" if one == "GET" else one for one in methods)
    return Refusal(405, "method_not_allowed", f"{method} is not allowed here", f"use {names}", ((b"allow", names.encode()),))


def missing_library(missing: ImportError) -> Refusal:
    """Returns the refusal of a request for MCP where the library of the protocol is not installed."""
    return Refusal(501, "missing_extra", str(e.MissingExtra("MCP", missing.name or "mcp", "mcp")), "ask the person who runs the server")


def refusal_problem(refusal: Refusal) -> dict[str, Any]:
    """Returns the problem details of a refused request."""
    found = {
        "type": "about:blank",
        "title": refusal.code.replace("_", " "),
        "status": refusal.status,
        "detail": refusal.message,
        "code": refusal.code,
        "next": refusal.next,
    }
    return found | ({"where": refusal.where} if refusal.where else {})
