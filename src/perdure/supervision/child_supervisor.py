"""The supervisor process of one child that does tasks.

The child has the supervisor's own standard input and outputs. The child is wanted while the other end of the lifeline pipe is open. However that end closes,
also by a kill -9 of the engine, the supervisor ends the child with everything below it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from perdure.supervision.process_supervisor import GRACE_S, ProcessSupervisor
from perdure.supervision.process_tree import become_subreaper

NOT_STARTED = 127
"""The exit code for a command that could not be started."""


def run_child_supervisor(arguments: Sequence[str]) -> None:
    """Supervises a command, and exits with its exit code; `arguments` are the descriptor of the lifeline, and the command."""
    os._exit(_supervise(int(arguments[0]), arguments[1:]))


def _supervise(lifeline: int, command: Sequence[str]) -> int:
    become_subreaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Only the lifeline ends the child. These are handlers instead of SIG_IGN, because the child would inherit SIG_IGN.
        signal.signal(number, lambda *_: None)
    try:
        supervisor = ProcessSupervisor(lambda: subprocess.Popen(command, start_new_session=True), grace_s=GRACE_S)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201  # where the child would have complained
        return NOT_STARTED
    supervisor.stop_when_readable(lifeline, "unwanted")
    # The engine sees the end of an output only when no process holds it open, so the supervisor must not.
    with Path(os.devnull).open("r+b") as null_device:
        for descriptor in (0, 1, 2):
            os.dup2(null_device.fileno(), descriptor)
    supervisor.run()
    return _shell_exit_code(supervisor.status)


def _shell_exit_code(status: int | None) -> int:
    """The exit code for a wait status as shells report it: 128 plus the number of a signal."""
    code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
