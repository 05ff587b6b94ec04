"""A directory with the contents that definitions refer to as ``cas://sha256:…``, one a file, named like the reference with or without ``sha256:``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.core.errors import BadValue
from perdure.programs.format.parse import parsed

ALGORITHM = "sha256:"
DATA = (".json", ".yaml", ".yml")
SUFFIXES = ("", *DATA, ".py", ".ts", ".txt")
"""How the name of a file may end. Files of data are read as such; one without a suffix is data if it is JSON, and text otherwise."""

_NAME = re.compile(r"[\w.:+=-]{1,255}")
_HASH = re.compile(r"[0-9a-f]{64}")


class ContentDirectory(Mapping[str, Any]):
    """The contents in a directory, read when they are asked for. A file that is named by a whole SHA-256 has to have it."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise BadValue("blobs", str(directory), "a directory of files named like the references to them, such as sha256:2c26… or 2c26….json")

    def __getitem__(self, ref: str) -> Any:
        if (file := self._file(ref)) is None:
            raise KeyError(ref)
        raw, name = file.read_bytes(), ref.removeprefix(ALGORITHM)
        if _HASH.fullmatch(name) and sha256(raw).hexdigest() != name:
            raise BadValue("blobs", str(file), f"the content whose SHA-256 is {name}; this file was changed, put the right one there")
        return _content(file, raw)

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, str) and self._file(ref) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(file.name for file in self._directory.iterdir() if file.is_file()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _file(self, ref: str) -> Path | None:
        if not _NAME.fullmatch(ref) or set(ref) == {"."}:
            return None
        names = (ref, ref.removeprefix(ALGORITHM))
        files = (self._directory / f"{name}{suffix}" for name in names for suffix in SUFFIXES)
        return next((file for file in files if file.is_file()), None)


def _content(file: Path, raw: bytes) -> Any:
    """What is in a file: data, or text."""
    if file.suffix in DATA or raw.lstrip()[:1] in (b"{", b"["):
        read = parsed(raw)
        if not read.findings:
            return read.document
        if file.suffix in DATA:
            raise BadValue("blobs", str(file), f"YAML or JSON: {read.findings[0].message}")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadValue("blobs", str(file), f"text: byte {error.start} is not UTF-8") from error
