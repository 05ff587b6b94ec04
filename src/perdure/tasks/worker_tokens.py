"""Decides which workers may lease which tasks. A token grants some queues and tenants, or all of them; the operator keeps only its SHA-256."""

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

import msgspec

from perdure.core.errors import BadValue

TOKEN_VARIABLE = "PERDURE_WORKER_TOKEN"
TOKEN_LENGTH_MIN = 16
"""The shortest length of a token, in characters."""


class TokenGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queues and tenants that a token grants; None grants all."""

    queues: frozenset[str] | None = None
    tenants: frozenset[str] | None = None


FULL_GRANT = TokenGrant()


class WorkerAccess:
    """The grants of tokens, by the SHA-256 of each token in hexadecimal. Without any grants, every worker may lease every task."""

    def __init__(self, grants: Mapping[str, TokenGrant]) -> None:
        self._grants = dict(grants)

    def __bool__(self) -> bool:
        return bool(self._grants)

    def of(self, token: str | None) -> tuple[str, TokenGrant] | None:
        """Returns the identity and the grant of a token, or None if it grants nothing. The time that it takes does not depend on the token."""
        if not self._grants:
            return "", FULL_GRANT
        digest = sha256((token or "").encode("utf-8", "surrogateescape")).hexdigest()
        found: tuple[str, TokenGrant] | None = None
        for one, grant in self._grants.items():
            if compare_digest(one, digest):
                found = (one, grant)
        return found if token else None


def load_worker_access(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> WorkerAccess:
    """Reads the grants from a file of tokens and from `PERDURE_WORKER_TOKEN`, which grants all.

    The file is one token, or JSON: {"sha256 of a token": {"queues": [...], "tenants": [...]}}.

    Raises:
        BadValue: it can't be read, or a token is too short.
    """
    grants = dict[str, TokenGrant]()
    if file is not None:
        try:
            written = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadValue("--token-file", str(file), f"a file that can be read: {error}") from error
        grants |= _parse_grants(written, file) if written.startswith("{") else {_token_digest(written, f"the token in {file}"): FULL_GRANT}
    if token := environment.get(TOKEN_VARIABLE, "").strip():
        grants[_token_digest(token, TOKEN_VARIABLE)] = FULL_GRANT
    return WorkerAccess(grants)


def _parse_grants(written: str, file: Path) -> dict[str, TokenGrant]:
    try:
        grants = msgspec.json.decode(written, type=dict[str, TokenGrant])
    except msgspec.MsgspecError as error:
        raise BadValue("--token-file", str(file), f'one token, or {{"sha256 of a token": {{"queues": [...], "tenants": [...]}}}}: {error}') from error
    for digest in grants:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise BadValue("--token-file", digest, "the SHA-256 of a token, 64 hexadecimal digits: printf %s TOKEN | sha256sum")
    return grants


def _token_digest(token: str, what: str) -> str:
    if len(token) < TOKEN_LENGTH_MIN or any(character.isspace() for character in token):
        raise BadValue(what, "…", f"at least {TOKEN_LENGTH_MIN} characters and no spaces; openssl rand -hex 32 makes one")
    return sha256(token.encode()).hexdigest()


def allowed_queues(asked: Iterable[str] | None, served: frozenset[str] | None, grant: TokenGrant) -> tuple[frozenset[str], frozenset[str]]:
    """Divides the requested queues (None: all) into those that a worker may use and those that it may not. With `served`, only these queues are there."""
    wanted = None if asked is None else frozenset(asked)
    limits = [limit for limit in (served, grant.queues) if limit is not None]
    mine = frozenset.intersection(*limits) if limits else wanted or frozenset()
    wanted = mine if wanted is None else wanted
    return wanted & mine, wanted - mine
