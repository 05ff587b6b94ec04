"""Names the content of `src/` by the hash that git gives its tree, with or without git: `git rev-parse HEAD:src`."""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def source_hash(directory: Path = ROOT / "src") -> str:
    """The hash of the tree that git would write for a directory, without caches of bytecode; 12 hexadecimal digits."""
    return _tree(directory).hex()[:12]


def _tree(directory: Path) -> bytes:
    entries = [(path.name + "/" * path.is_dir(), path) for path in directory.iterdir() if path.name != "__pycache__" and path.suffix != ".pyc"]
    lines = [_entry(path) for _, path in sorted(entries) if path.is_file() or any(_files(path))]
    return _object("tree", b"".join(lines))


def _entry(path: Path) -> bytes:
    if path.is_dir():
        return b"40000 " + path.name.encode() + b"\0" + _tree(path)
    mode = b"100755 " if os.access(path, os.X_OK) else b"100644 "
    return mode + path.name.encode() + b"\0" + _object("blob", path.read_bytes())


def _files(directory: Path) -> list[Path]:
    """Its files; git knows no directory without any."""
    return [path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"]


def _object(kind: str, content: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).digest()
