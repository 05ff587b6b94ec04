"""A guarded network for steps: each name is resolved once, each of its addresses is checked, and the connection goes to a checked address.

Therefore neither a name that resolves differently a moment later, nor a redirect, nor an unusual spelling of an address passes the guard.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any

import httpcore2

from perdure.code.step_environment import Resource
from perdure.definitions.kinds.http.http_client import trusted_authorities
from perdure.definitions.kinds.http.http_errors import AddressRefused
from perdure.definitions.kinds.http.http_targets import Address, ReachableAddresses, literal_address, special_use

CONNECTIONS_MAX, IDLE_MAX, IDLE_S = 256, 64, 10.0
"""The limits of the connection pool: the most connections, the most idle ones, and how long these are kept."""

TRY_NEXT_S = 2.0
"""The connection timeout of an address if the host has others."""


@cache
def guarded_connections(allowed: tuple[str, ...]) -> Resource[httpcore2.AsyncConnectionPool]:
    """The connection pool of the steps of one engine with equal permissions."""

    async def opens() -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=await asyncio.to_thread(_trusted, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=IDLE_MAX,
            keepalive_expiry=IDLE_S,
            network_backend=GuardedBackend(ReachableAddresses.of(allowed)),
        )

    return Resource("http", opens)


@cache
def _trusted(*places: str | None) -> ssl.SSLContext:
    """Returns the trusted certificates of the system, or of the configured files. They are read once."""
    return trusted_authorities()


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to permitted addresses only."""

    def __init__(self, reach: ReachableAddresses) -> None:
        self._reach = reach
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to the first address of a host that accepts one.

        Raises:
            AddressRefused: the host has an address that may not be reached.
            httpcore2.ConnectError: it has none, or none takes a connection.
        """
        addresses = await _looked_up(host, port)
        for address in addresses:
            if not self._reach.allows(host, port, address):
                # The addresses of a name are known to those who run this network alone: an author who is refused does not learn them.
                what = f"{address}, which is {special_use(address)}, and" if str(address) == host else f"{host} leads to an address that is"
                raise AddressRefused(f"{what} not allowed here; who runs the engine can allow http:{host}")
        failed: Exception | None = None
        for number, address in enumerate(addresses, 1):
            try:
                wait_s = timeout if number == len(addresses) else TRY_NEXT_S
                return GuardedStream(await self._network.connect_tcp(str(address), port, wait_s, local_address, socket_options))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore2.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuses.

        Raises:
            AddressRefused: always.
        """
        raise AddressRefused(f"{path} is not a host")

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)


class GuardedStream(httpcore2.AsyncNetworkStream):
    """A connection that is closed if its TLS handshake fails or is interrupted, and reused only if no unread data is left in it."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._is_retired = False

    def retire(self) -> None:
        """Marks the connection as not reusable."""
        self._is_retired = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The bytes that have arrived, up to a maximum; empty at the end."""
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Sends all of it."""
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Closes it."""
        await self._inner.aclose()

    async def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None) -> httpcore2.AsyncNetworkStream:
        """The encrypted connection."""
        try:
            return GuardedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        """Information about the stream. The pool asks whether an idle connection `is_readable`, and then drops it."""
        if info == "is_readable" and (self._is_retired or self._has_decrypted()):
            return True
        return self._inner.get_extra_info(info)

    def _has_decrypted(self) -> bool:
        """Whether there is something to be read that has left the socket, and is no longer seen there."""
        encrypted = self._inner.get_extra_info("ssl_object")
        if encrypted is None:
            return False
        try:
            return bool(encrypted.read(1))
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            return True


async def close_response(answer: httpcore2.Response) -> None:
    """Closes a response. Its connection is reused only if nothing follows the response: further bytes would be read as the response to the next request."""
    try:
        behind, _ = answer.stream._stream._connection._h11_state.trailing_data  # type: ignore[union-attr]  # the library says it in no other way
    except AttributeError:
        behind = b"unknown"
    connection = answer.extensions.get("network_stream")
    if behind and isinstance(connection, GuardedStream):
        connection.retire()
    await answer.aclose()


async def _looked_up(host: str, port: int) -> list[Address]:
    """The addresses of a host, in the order in which they are to be tried."""
    if (address := literal_address(host)) is not None:
        return [address]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"{host} has no address: {error}") from error
    addresses = (literal_address(str(one[4][0])) for one in found)
    return list(dict.fromkeys(address for address in addresses if address is not None))
