"""The engine's side of a supervised child: it starts a program with its supervisor, and ends both."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from perdure.supervision.child_supervisor import run_child_supervisor
from perdure.supervision.helper_process import helper_command
from perdure.supervision.process_supervisor import GIVE_UP_S, GRACE_S

LINE_BYTES_MAX = 2**16

SUPERVISOR_END_S = GRACE_S + GIVE_UP_S + 3.0
"""How long the supervisor may take to end a child before it is itself killed."""


class ChildProcess:
    """A program that was started with its supervisor.

    `process` is the supervisor. Its standard input and outputs are the child's, and so is its exit code.
    """

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        self.process = process
        self._lifeline: int | None = lifeline

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], *, piped: bool = False, cwd: str | None = None, line_bytes_max: int = LINE_BYTES_MAX
    ) -> "ChildProcess":
        """Starts a command. With `piped`, it has a standard input, and its standard error is separate; otherwise its input is empty.

        `readline` of its outputs raises ValueError for a line that is longer than `line_bytes_max`.
        """
        child_end, own_end = os.pipe()
        pipe, null_device = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *helper_command(run_child_supervisor.__module__, run_child_supervisor.__name__, [str(child_end), *command]),
                stdin=pipe if piped else null_device,
                stdout=pipe,
                stderr=pipe if piped else asyncio.subprocess.STDOUT,
                env=dict(environment),
                cwd=cwd,
                limit=line_bytes_max,
                pass_fds=(child_end,),
                start_new_session=True,  # the terminal's signals are for this process alone
            )
        )
        starting.add_done_callback(lambda _: os.close(child_end))
        try:
            return cls(await asyncio.shield(starting), own_end)
        except BaseException:
            # The start continues when this call is cancelled. The supervisor finds the lifeline closed and ends the child; wait for that.
            os.close(own_end)
            with suppress(asyncio.CancelledError):
                _ = await asyncio.wait((starting,))
            if starting.done() and not starting.exception():
                _ = await starting.result().wait()
            raise

    async def end(self) -> int:
        """Ends the child with everything that it has started, and returns its exit code. A cancelled call waits for the end all the same."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        ending = asyncio.create_task(self._wait_or_kill())
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            _ = await asyncio.wait((ending,))
            raise

    async def _wait_or_kill(self) -> int:
        try:
            async with asyncio.timeout(SUPERVISOR_END_S):
                return await self.process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            return await self.process.wait()
