"""The headers ``ETag``, ``If-None-Match`` and ``If-Match``.

The tag of a result is its version: the field whose type is `Version`. It is the number of changes of a record, or of events of an execution. ``If-Match`` on
a change of a record becomes the `revision` that the operation expects, so it is checked in the commit. An execution changes by itself, and is changed by
messages, so there it is checked when the request arrives.
"""

import re
from typing import Any

from perdure.api.http_requests import ApiRequest, Headers
from perdure.api.problems import Refusal
from perdure.core.errors import StaleRecord
from perdure.core.paths import Key
from perdure.operations.operation_table import Operation
from perdure.service.store_access import StoreAccess

_TAG = re.compile(r'\s*(?P<weak>W/)?"(?P<text>[\x21\x23-\x7e\x80-\xff]*)"\s*')
_NEXT = "read it again, and repeat the change if it still makes sense"


def version_headers(operation: Operation, result: Any) -> Headers:
    """Returns the header with the tag of a result, if it has a version. What has none yet (0) changes without one."""
    name = operation.version_field
    version = None if name is None or result is None else getattr(result, name)
    return ((b"etag", f'"{version}"'.encode()),) if version else ()


def is_known(request: ApiRequest, headers: Headers) -> bool:
    """Returns whether the ``If-None-Match`` of a request has the tag of the answer, so that the client has this version already."""
    wanted = request.header("if-none-match")
    if not wanted or request.method not in ("GET", "HEAD") or (tag := dict(headers).get(b"etag")) is None:
        return False
    return wanted.strip() == "*" or tag.decode().strip('"') in _tags(wanted, weak=True)


async def expect_version(access: StoreAccess, operation: Operation, request: ApiRequest, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with the revision that ``If-Match`` names; of an execution, checks its version.

    Raises:
        Refusal: what is changed is at another version, or has none, or the header can't be read; or the request has ``If-None-Match``, which is for reads.
    """
    if request.method in ("GET", "HEAD"):
        return arguments
    if request.header("if-none-match"):
        expected = 'send If-Match with the ETag of what you have read, or with "0" if it may not exist yet' if operation.expects_version else "leave it out"
        raise Refusal(400, "bad_request", f"If-None-Match has no meaning for {operation.name}, which is no read; nothing was changed", expected)
    wanted = request.header("if-match").strip()
    if not wanted:
        return arguments
    if not operation.expects_version:
        raise Refusal(400, "bad_request", f"If-Match has no meaning for {operation.name}, which changes nothing that has a version", "leave it out")
    if wanted == "*":
        return arguments
    versions = [int(text) for text in _tags(wanted, weak=False) if text.isdecimal() and len(text) < 19]
    key = arguments.get("key")
    if isinstance(key, Key):
        version = (await access.head(key)).version
        if version not in versions:
            raise Refusal(412, "stale", f"the execution is at version {version} now, and the request expects {wanted}; nothing was changed", _NEXT)
        return arguments
    if len(versions) != 1:
        raise Refusal(412, "stale", f"the request expects {wanted}, which is no version; nothing was changed", "send the ETag of what you have read")
    return {**arguments, "revision": versions[0]}


def stale_refusal(error: StaleRecord) -> Refusal:
    """Returns the answer to a change whose ``If-Match`` names a revision that has passed."""
    return Refusal(412, error.code, str(error), _NEXT)


def _tags(text: str, *, weak: bool) -> list[str]:
    found = []
    for part in text.split(","):
        if (tag := _TAG.fullmatch(part)) is None:
            raise Refusal(400, "bad_request", f"{text!r} is no list of entity tags", 'send them as in "7", with their quotation marks')
        if weak or not tag["weak"]:
            found.append(tag["text"])
    return found
