"""Access: which workers may have which tasks. A token opens some queues and tenants, or all; only its SHA-256 has to be kept."""

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path

import msgspec

from perdure.core.errors import BadValue

TOKEN = "PERDURE_WORKER_TOKEN"
LENGTH_MIN = 16
"""How long a token is at least."""


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a token opens: queues and tenants; None: all."""

    queues: frozenset[str] | None = None
    tenants: frozenset[str] | None = None


ALL = Grant()


class Access:
    """Grants by the SHA-256 of their tokens, in hexadecimal; without any, everybody may have everything."""

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        self._grants = dict(grants)

    def __bool__(self) -> bool:
        return bool(self._grants)

    def of(self, token: str | None) -> tuple[str, Grant] | None:
        """Whose a token is, and what it opens; None, if it opens nothing. It takes as long for each token."""
        if not self._grants:
            return "", ALL
        digest = sha256((token or "").encode("utf-8", "surrogateescape")).hexdigest()
        found: tuple[str, Grant] | None = None
        for one, grant in self._grants.items():
            if compare_digest(one, digest):
                found = (one, grant)
        return found if token else None


def access(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> Access:
    """What the file of tokens says, and the environment (`PERDURE_WORKER_TOKEN`, which opens all).

    The file is one token, or JSON: {"sha256 of a token": {"queues": [...], "tenants": [...]}}.

    Raises:
        BadValue: it can't be read, or a token is too short.
    """
    grants = dict[str, Grant]()
    if file is not None:
        try:
            written = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadValue("--token-file", str(file), f"a file that can be read: {error}") from error
        grants |= _listed(written, file) if written.startswith("{") else {_digest(written, f"the token in {file}"): ALL}
    if token := environment.get(TOKEN, "").strip():
        grants[_digest(token, TOKEN)] = ALL
    return Access(grants)


def _listed(written: str, file: Path) -> dict[str, Grant]:
    try:
        grants = msgspec.json.decode(written, type=dict[str, Grant])
    except msgspec.MsgspecError as error:
        raise BadValue("--token-file", str(file), f'one token, or {{"sha256 of a token": {{"queues": [...], "tenants": [...]}}}}: {error}') from error
    for digest in grants:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise BadValue("--token-file", digest, "the SHA-256 of a token, 64 hexadecimal digits: printf %s TOKEN | sha256sum")
    return grants


def _digest(token: str, what: str) -> str:
    if len(token) < LENGTH_MIN or any(character.isspace() for character in token):
        raise BadValue(what, "…", f"at least {LENGTH_MIN} characters and no spaces; openssl rand -hex 32 makes one")
    return sha256(token.encode()).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed(asked: Iterable[str] | None, served: frozenset[str], grant: Grant) -> tuple[frozenset[str], frozenset[str]]:
    """Of the queues that are asked for (None: all) those that a worker may have, and those that it may not."""
    mine = served if grant.queues is None else served & grant.queues
    wanted = mine if asked is None else frozenset(asked)
    return wanted & mine, wanted - mine
