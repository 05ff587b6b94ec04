"""Keeper: starts one command, reads what it says, and ends with all of its processes.

It is asked by a mapping, in JSON behind its length, on a socket, and answers there in lines of JSON: ``{}`` before it starts the command, so that who
does not hear it knows that nothing was started; ``{"progress": ...}`` now and then; and at last ``{"ended": ...}``, or ``{"refused": why}`` if the command
could not be started, or ``{"broken": traceback}``. When the socket is closed from the other side, or the engine's process ends, nobody wants the result
any more.
"""

import json
import select
import socket
import sys
import time
import traceback
from errno import EADDRINUSE
from typing import Any

from perdure.steps.bash.command import GIVE_UP_S, GRACE_S, Command, Refused
from perdure.steps.bash.processes import adopt

CHUNK_BYTES = 1 << 16
LENGTH_BYTES = 8


class Unwanted(Exception):  # an expected outcome on its way to where it is handled
    """Nobody wants the result any more."""


def keep(control: socket.socket, engine: int | None) -> bool:
    """Do what is asked on `control`, while the process of the descriptor `engine` lives; return whether nothing is left of it."""
    adopt()
    try:
        asked = _asked(control)
        lock = _alone(asked["lock"], control)
        _tell(control, {})
        command = Command(asked)
        command.ends_with(control)
        if engine is not None:
            command.ends_with(engine)
        ended = command.run(lambda progress: _show(control, progress))
        if lock is not None:
            lock.close()
    except Refused as why:
        _tell(control, {"refused": str(why)})
        return True
    except Unwanted:
        return True
    except Exception:  # a defect, which is for the engine to tell
        _tell(control, {"broken": traceback.format_exc()})
        return False
    _tell(control, {"ended": ended})
    return command.clean


def _asked(control: socket.socket) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_exactly(control, int.from_bytes(_exactly(control, LENGTH_BYTES), "big")))
    return found


def _exactly(control: socket.socket, size_bytes: int) -> bytes:
    found = bytearray()
    while len(found) < size_bytes:
        if not (some := control.recv(min(size_bytes - len(found), CHUNK_BYTES))):
            raise Unwanted
        found += some
    return bytes(found)


def _tell(control: socket.socket, said: dict[str, Any]) -> None:
    try:
        control.sendall(json.dumps(said).encode() + b"\n")
    except OSError:  # the engine has gone, and hears nothing
        return


def _show(control: socket.socket, progress: dict[str, Any]) -> None:
    if select.select([], [control], [], 0)[1]:  # an engine that does not listen is not waited for
        _tell(control, {"progress": progress})


def _alone(name: str, control: socket.socket) -> socket.socket | None:
    """Wait until no other try of the step has processes on this machine; from then on, none begins before this one has ended.

    The name is an address, which the system frees when its holder ends, however that is; where there are no such addresses, nothing is waited for.
    """
    if sys.platform != "linux":
        return None
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    until_s = time.monotonic() + 2 * (GRACE_S + GIVE_UP_S)
    while True:
        try:
            lock.bind(f"\0perdure.{name}")
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            if select.select([control], [], [], 0.02)[0]:
                raise Unwanted from None
            if time.monotonic() > until_s:
                raise Refused("an earlier try of this step still has processes that do not end; end them, and run it again") from None
        else:
            return lock
