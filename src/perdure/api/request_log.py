"""Accompanies each request: gives it an id, tells the observer of the process, and writes the access log.

Neither log nor observer is told what a client has chosen freely: a request has the template of its route, such as ``/api/executions/{workflow}/{id}``, and
no path, query or header.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from perdure.api.http_requests import AsgiScope
from perdure.observe.log_setup import ACCESS_LOGGER
from perdure.observe.request_fields import RequestFields, current_request, request_id
from perdure.runtime.observer import Observer

logger = logging.getLogger(ACCESS_LOGGER)

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
QUIET = frozenset(("/healthz", "/readyz", "/metrics"))
"""Routes that probes ask for every few seconds."""


@contextmanager
def accompanied_request(scope: AsgiScope, observer: Observer | None) -> Iterator[RequestFields]:
    """Accompanies a request for the duration of a block, which fills in its route, caller and status."""
    method = scope["method"] if scope["method"] in METHODS else "other"
    given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
    request = RequestFields(request_id(given), method)
    token, began_s = current_request.set(request), perf_counter()
    observed = None if observer is None else observer.begin_request(method, _headers_of(scope))
    try:
        yield request
    except BaseException as error:  # it is raised again: the server answers it, or the client has gone
        request.status = 500 if isinstance(error, Exception) else 499
        raise
    finally:
        took_s = perf_counter() - began_s
        if observed is not None:
            observed.ended(request.route, request.status)
        _log(request, took_s)
        current_request.reset(token)


def _headers_of(scope: AsgiScope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _log(request: RequestFields, took_s: float) -> None:
    level = logging.DEBUG if request.route in QUIET else logging.INFO
    if not logger.isEnabledFor(level):
        return
    took_ms = round(took_s * 1000, 1)
    about = {"method": request.method, "route": request.route, "status": request.status, "duration_ms": took_ms, "subject": request.subject}
    logger.log(level, "%s %s %d in %g ms %s", request.method, request.route, request.status, took_ms, request.subject or "-", extra=about)
