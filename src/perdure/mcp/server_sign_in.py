"""Signing in to servers that ask for OAuth: a person once, in a browser, or the program itself by client credentials.

What a person has signed in to is kept in ``.perdure/mcp/NAME.oauth``, for this user alone, and renewed from there. A program that finds nothing there does not
open a browser: it says what to do. This module imports the library, so it is imported with the first connection.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastmcp.client.auth import ClientCredentialsOAuthProvider, OAuth
from key_value.aio.stores.filetree import FileTreeStore, FileTreeV1CollectionSanitizationStrategy, FileTreeV1KeySanitizationStrategy

from perdure.mcp.server_configs import SIGN_IN_S, McpServer, ServerAuth, with_secrets


class SignInNeededError(Exception):
    """Nobody has signed in to the server on this machine, or it does not accept that any more."""


class _KeptSignIn(OAuth):
    """What a person has signed in to. Without `opens_browser`, nobody is asked."""

    def __init__(self, server: str, opens_browser: bool, **given: Any) -> None:
        super().__init__(**given)
        self._server, self._opens_browser = server, opens_browser

    async def redirect_handler(self, authorization_url: str) -> None:
        """See `OAuth.redirect_handler`."""
        if not self._opens_browser:
            raise SignInNeededError(f"nobody has signed in to {self._server} here, or not any more. Sign in: perdure tools mcp.json --sign-in {self._server}")
        sys.stderr.write(f"Sign in to {self._server} in your browser: {authorization_url}\n")
        await super().redirect_handler(authorization_url)


def auth_of(server: McpServer, about: ServerAuth, secrets: Mapping[str, str], directory: Path, *, opens_browser: bool = False) -> Any:
    """How requests to a server are authorized. Only with `opens_browser` is a person asked to sign in, if that is needed."""
    scopes = list(about.scopes) or None
    known = with_secrets({"id": about.client_id, "secret": about.client_secret}, secrets)
    if about.type == "client_credentials":
        return ClientCredentialsOAuthProvider(client_id=known["id"], client_secret=known["secret"], scopes=scopes, issuer=about.issuer or None)
    return _KeptSignIn(
        server.name,
        opens_browser,
        scopes=scopes,
        client_name="Perdure",
        token_storage=_kept(directory / f"{server.name}.oauth"),
        client_id=known["id"] or None,
        client_secret=known["secret"] or None,
        issuer=about.issuer or None,
        callback_timeout=SIGN_IN_S,
    )


def _kept(directory: Path) -> FileTreeStore:
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    return FileTreeStore(
        data_directory=directory,
        key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(directory),
        collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(directory),
    )
