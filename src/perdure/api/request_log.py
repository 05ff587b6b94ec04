"""Accompanies each request: gives it an id, tells the observer of the process, and writes the access log.

Neither log nor observer is told what a client has chosen freely: a request has the template of its route, such as ``/api/executions/{workflow}/{id}``, and
no path, query or header.
"""

import logging
from time import perf_counter

from perdure.observe.log_setup import ACCESS_LOGGER
from perdure.observe.request_fields import RequestFields, current_request, request_id
from perdure.runtime.observer import Observer

logger = logging.getLogger(ACCESS_LOGGER)

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
QUIET = frozenset(("/healthz", "/readyz", "/metrics"))
"""Routes that probes ask for every few seconds."""


class AccompaniedRequest:
    """Accompanies a request for the duration of a block, which fills in its route, caller and status."""

    __slots__ = ("_began_s", "_headers", "_method", "_observed", "_observer", "_request", "_token")

    def __init__(self, method: str, headers: dict[str, str], observer: Observer | None) -> None:
        self._method, self._headers, self._observer = method if method in METHODS else "other", headers, observer

    def __enter__(self) -> RequestFields:
        self._request = RequestFields(request_id(self._headers.get("x-request-id", "")), self._method)
        self._token, self._began_s = current_request.set(self._request), perf_counter()
        self._observed = None if self._observer is None else self._observer.begin_request(self._method, self._headers)
        return self._request

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        took_s = perf_counter() - self._began_s
        if error is not None:  # it is raised again: the server answers it, or the client has gone
            self._request.status = 500 if isinstance(error, Exception) else 499
        if self._observed is not None:
            self._observed.ended(self._request.route, self._request.status)
        _log(self._request, took_s)
        current_request.reset(self._token)


def _log(request: RequestFields, took_s: float) -> None:
    level = logging.DEBUG if request.route in QUIET else logging.INFO
    if not logger.isEnabledFor(level):
        return
    took_ms = round(took_s * 1000, 1)
    about = {"method": request.method, "route": request.route, "status": request.status, "duration_ms": took_ms, "subject": request.subject}
    logger.log(level, "%s %s %d in %g ms %s", request.method, request.route, request.status, took_ms, request.subject or "-", extra=about)
