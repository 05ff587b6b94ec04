"""Isolation by Linux namespaces: a process and its descendants without a network, and with a file system that is read-only but for one directory.

A level that can't be had raises `OSError`; nothing runs with less isolation than was asked for. It can't be left from inside, neither by root nor through
nested namespaces.
"""

import ctypes
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Literal

Isolation = Literal["none", "network", "all"]
ISOLATION_LEVELS: tuple[Isolation, ...] = ("none", "network", "all")
"""The levels; each includes those before it."""

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CAPABILITIES = 24, 38, 64
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


class _Attributes(ctypes.Structure):
    """``struct mount_attr``."""

    _fields_ = (("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64), ("namespace", ctypes.c_uint64))


def stricter(one: Isolation, other: Isolation) -> Isolation:
    """The stricter of two levels."""
    return max(one, other, key=ISOLATION_LEVELS.index)


def isolate(level: Isolation, writable: Path) -> None:
    """Isolates this process, which must have one thread, and all that it starts. With `all`, only `writable` can be written to.

    Raises:
        OSError: this system does not support it, or not for this user.
    """
    if level == "none":
        return
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no namespaces")
    libc = ctypes.CDLL(None, use_errno=True)
    _apart(libc, CLONE_NEWNET | (CLONE_NEWNS if level == "all" else 0))
    _loopback()
    if level == "all":
        _only(libc, os.fsencode(writable))
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _done("no_new_privs", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _apart(libc: ctypes.CDLL, namespaces: int) -> None:
    """Enters new namespaces. An unprivileged user needs a user namespace, in which the user keeps its id; root may do without one."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | namespaces) == 0:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", file).write_text(text)
    else:
        _done("unshare", libc.unshare(namespaces))


def _loopback() -> None:
    """Brings up the loopback interface, so that programs inside can use 127.0.0.1."""
    import fcntl  # here, as not every system has it

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = struct.unpack_from("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0)))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", name, flags | IFF_UP))


def _only(libc: ctypes.CDLL, writable: bytes) -> None:
    """Makes every mount read-only but one, which is mounted again."""
    _done("mount /", libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    _done("mount_setattr /", _set(libc, b"/", AT_RECURSIVE, _Attributes(set=MOUNT_ATTR_RDONLY)))
    _done("mount", libc.mount(writable, writable, None, MS_BIND, None))
    _done("mount_setattr", _set(libc, writable, 0, _Attributes(clear=MOUNT_ATTR_RDONLY)))


def _set(libc: ctypes.CDLL, place: bytes, flags: int, attributes: _Attributes) -> int:
    return int(libc.syscall(MOUNT_SETATTR, AT_FDCWD, place, flags, ctypes.byref(attributes), ctypes.sizeof(attributes)))


def _done(what: str, answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
