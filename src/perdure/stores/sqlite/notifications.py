"""Notifications between processes of one host, by UDP on the loopback interface.

A datagram only says that something has changed. Each process listens at one port, in one thread that sleeps in the kernel. A datagram is the token of the
listener, which other programs can't know, and one byte: what the notification is about. It may be lost, like any notification. Where there is no
loopback interface there are no notifications, and engines poll once a second anyway.
"""

import logging
import os
import secrets
import socket
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from perdure.stores.sqlite.forks_and_threads import start_daemon_thread

logger = logging.getLogger("perdure.stores")

WAKE_UP, CHANGE, MEMBERSHIP = 1, 2, 4
"""The subject of a notification: something may be ready; an execution has ended or needs attention; a process has come or gone."""

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 8


class ListenerAddress(NamedTuple):
    """Where a listener receives notifications."""

    port: int
    token: bytes


_listener_guard = Lock()
_socket: socket.socket | None = None
_listeners: dict[bytes, Callable[[int], None]] = {}


def start_listening(callback: Callable[[int], None]) -> ListenerAddress | None:
    """Calls `callback`, in the listening thread, with what each notification is about. Returns None where there is no loopback interface."""
    with _listener_guard:
        listening = _open()
    if listening is None:
        return None
    token = secrets.token_bytes(TOKEN_BYTES)
    _listeners[token] = callback
    return ListenerAddress(listening.getsockname()[1], token)


def stop_listening(listener: ListenerAddress) -> None:
    """Ends the calls for a listener."""
    _listeners.pop(listener.token, None)


def notify(listener: ListenerAddress, about: int) -> None:
    """Sends a notification to a listener, if that is possible at the moment."""
    with _listener_guard:
        sending = _open()
    if sending is None:
        return
    try:
        sending.sendto(listener.token + bytes((about,)), socket.MSG_DONTWAIT, (LOOPBACK, listener.port))
    except OSError as error:
        logger.debug("a notification was lost: %s", error)


def _open() -> socket.socket | None:
    global _socket
    if _socket is None:
        opened = None
        try:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            opened.bind((LOOPBACK, 0))
        except OSError as error:
            if opened is not None:
                opened.close()
            logger.debug("there is no loopback interface, so processes do not notify each other and only poll: %s", error)
            return None
        _socket = opened
        start_daemon_thread(_receive, "perdure-notify", opened)
    return _socket


def _receive(listening: socket.socket) -> None:
    while True:
        try:
            datagram = listening.recv(TOKEN_BYTES + 2)
        except ConnectionError:  # An earlier notification reached no listener (Windows reports that here).
            continue
        callback = _listeners.get(datagram[:TOKEN_BYTES]) if len(datagram) == TOKEN_BYTES + 1 else None
        if callback is not None:
            callback(datagram[-1])


def _forget_in_child() -> None:
    """Closes the socket in a forked child, which has no listening thread and must have a port of its own."""
    global _listener_guard, _socket
    _listener_guard = Lock()
    if _socket is not None:
        _socket.close()
    _socket = None
    _listeners.clear()


os.register_at_fork(after_in_child=_forget_in_child)
