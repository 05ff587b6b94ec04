"""The kind `file`: files below the one directory that the deployment allows, read, written, appended to and listed."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure.code.step_environment import step_info
from perdure.core.errors import NotAllowed
from perdure.definitions.format.format_schema import schema_of_shape
from perdure.definitions.format.shapes import is_template
from perdure.definitions.format.verb_shapes import FILE_SHAPE
from perdure.definitions.graph.step_kind import Kind, Limit
from perdure.definitions.kinds import text_formats
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.file import confined_directory
from perdure.definitions.kinds.file.confined_directory import FileAttempt, FileRefused
from perdure.definitions.kinds.http import http_response
from perdure.definitions.kinds.http.http_errors import ResponseRefused

READ_BYTES, BYTES_MAX = 10_000_000, 16_000_000
"""The default limit of a file that is read, and the largest file that is read or written."""

BUSY_S = 0.05
"""The wait before the next attempt to write while another process writes."""

OPERATIONS = ("read", "write", "append", "list")
BY_NAME = {".json": "json", ".csv": "csv", ".xml": "xml"}
"""The default format of a file by its extension; any other is text."""

HOW_TO_ALLOW = "start the engine with --allow file:DIRECTORY, or give its definitions Deployment(allowed=Allowed(file=DIRECTORY))"

EXAMPLE = """
perdure: 1
name: report
input: {orders: {type: array, default: [{item: tea, cents: 300}, {item: coffee, cents: 450}]}}
order: listed
steps:
  - {id: save, file: {write: reports/orders.csv, content: "@input.orders"}}
  - {id: note, file: {append: reports/log.txt, content: "saved orders.csv\\n"}}
  - {id: again, file: reports/orders.csv}
  - {id: all, file: {list: reports}}
output: {rows: "@again", first: "@{all.0.name}"}
"""

LIMITS = (
    Limit("a file that is read", f"{READ_BYTES:,} bytes", f"{BYTES_MAX:,} bytes", "the step fails"),
    Limit("a file that is written or appended to, in all", f"{BYTES_MAX:,} bytes", None, "the step fails, and the file is as it was"),
    Limit("entries of a directory that is listed", f"{confined_directory.ENTRIES_MAX:,}", None, "the step fails"),
    Limit("fields of CSV, lines, elements of XML", f"{text_formats.VALUES_MAX:,}", None, "the step fails"),
)


def file_kind(deployment: Deployment) -> Kind:
    """The kind, for a deployment."""

    async def run(config: Any, input: Any = None) -> Any:
        root = deployment.allowed.file
        if root is None:
            raise NotAllowed("file", "definitions may use no files unless the engine allows a directory", HOW_TO_ALLOW)
        said = {"read": config} if isinstance(config, str) else config
        name = next(one for one in OPERATIONS if one in said)
        return await _DONE[name](Path(root), said[name], said, input)

    return Kind(
        "file",
        run,
        title="File",
        summary="Reads, writes, appends to and lists files below the directory that the deployment allows.",
        icon="file",
        config=schema_of_shape(FILE_SHAPE),
        limits=LIMITS,
        idempotent=lambda config: isinstance(config, str) or "append" not in config,
        idempotency="Reading, listing and writing are done again after an interruption; appending only if the step says `idempotent: true`.",
        check=check,
        check_step=check_step,
        example=EXAMPLE,
    )


def check(config: Any) -> Iterator[tuple[str, str]]:
    """Yields the problems of a config beyond its JSON Schema."""
    said = {"read": config} if isinstance(config, str) else config
    if not isinstance(said, Mapping):
        return
    for name in OPERATIONS:
        if name in said and isinstance(said[name], str) and not is_template(said[name]):
            try:
                _ = confined_directory.path_parts(said[name])
            except FileRefused as refused:
                yield "" if isinstance(config, str) else f"/{name}", str(refused)
    reads, writes = "read" in said, "write" in said or "append" in said
    if "content" in said and not writes:
        yield "/content", "only what is written or appended has content; leave it out"
    if "max_bytes" in said and not reads:
        yield "/max_bytes", "it bounds what is read; leave it out"
    if "as" in said and "list" in said:
        yield "/as", "a directory is listed in one way; leave it out"
    if said.get("as") == "xml" and not reads:
        yield "/as", "XML is read, and not written; write text"


def check_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Problems of a whole step: content that is missing, duplicate or useless."""
    said = step.get("file")
    writes = isinstance(said, Mapping) and ("write" in said or "append" in said)
    if "with" in step and not writes:
        yield "", "'with' is what is written; a step that reads or lists has no use for it"
    if writes and isinstance(said, Mapping) and ("content" in said) is ("with" in step):
        yield "", "what is written stands in 'content' or in 'with', and in one of them"


async def _read(root: Path, path: str, said: Mapping[str, Any], input: Any) -> Any:
    limit = min(said.get("max_bytes", READ_BYTES), BYTES_MAX)
    raw = await asyncio.to_thread(confined_directory.read_file, root, path, limit)
    taken_as = said.get("as") or _by_name(path)
    try:
        return await asyncio.to_thread(http_response.decode_body, raw, "", taken_as, False)
    except ResponseRefused as refused:
        raise FileRefused(f"{path} can't be read as {taken_as}: {str(refused).removeprefix('its body is ')}") from None


async def _write(root: Path, path: str, said: Mapping[str, Any], input: Any) -> dict[str, Any]:
    return await _replace(root, path, lambda before: _encoded(path, said, input, True))


async def _append(root: Path, path: str, said: Mapping[str, Any], input: Any) -> dict[str, Any]:
    return await _replace(root, path, lambda before: before + _encoded(path, said, input, not before))


async def _replace(root: Path, path: str, content: Any) -> dict[str, Any]:
    info = step_info()
    work = partial(confined_directory.replace_file, root, path, content, BYTES_MAX, FileAttempt(info.key, info.attempt))
    while (size := await asyncio.to_thread(work)) is None:  # noqa: ASYNC110  # another process holds the directory, and sends no notification
        await asyncio.sleep(BUSY_S)
    return {"path": path, "size_bytes": size}


async def _list(root: Path, path: str, said: Mapping[str, Any], input: Any) -> list[dict[str, Any]]:
    return await asyncio.to_thread(confined_directory.directory_entries, root, path)


_DONE = {"read": _read, "write": _write, "append": _append, "list": _list}


def _by_name(path: str) -> str:
    return next((kind for end, kind in BY_NAME.items() if path.lower().endswith(end)), "text")


def _encoded(path: str, said: Mapping[str, Any], input: Any, is_new: bool) -> bytes:
    """The content to write, as bytes.

    Raises:
        FileRefused: it can't be written in this format.
    """
    content = said.get("content", input)
    kind = said.get("as") or ("text" if isinstance(content, str) else _by_name(path))
    try:
        return _AS[kind](content, is_new).encode() if kind != "base64" else _bytes(content)
    except (text_formats.ContentError, TypeError, UnicodeError) as error:
        raise FileRefused(f"the content of {path} can't be written as {kind}: {error}") from None


def _text(content: Any, is_new: bool) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def _json(content: Any, is_new: bool) -> str:
    return msgspec.json.encode(content).decode() + "\n"


def _csv(content: Any, is_new: bool) -> str:
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        raise text_formats.ContentError("rows are a list of mappings")
    return text_formats.csv_text(content, with_names=is_new)


def _lines(content: Any, is_new: bool) -> str:
    if not isinstance(content, list) or not all(isinstance(line, str) for line in content):
        raise text_formats.ContentError("lines are a list of texts")
    return "".join(f"{line}\n" for line in content)


_AS = {"text": _text, "json": _json, "csv": _csv, "lines": _lines}


def _bytes(content: Any) -> bytes:
    given: Any = content.get("base64") if isinstance(content, Mapping) else content
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise text_formats.ContentError(f"it is not base64: {error}") from None
