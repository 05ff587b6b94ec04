"""One piece of Python in a sandbox: its ``main(input)``, whose result is made JSON where it runs. It blocks; the process may be killed meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import ModuleType
from typing import Any

import msgspec

from perdure.core.errors import OutOfMemory, OutOfTime, OutputTooLarge, SandboxLost, SourceFailed
from perdure.steps.sandbox import monty, saying
from perdure.steps.sandbox.frames import MARGIN_CHARACTERS, PRINTED_CHARACTERS_MAX
from perdure.steps.sandbox.pool import Limits

LANGUAGE = "Python"
NAME = "main"
HINT = "write def main(input): …, or async def main(input): …, which returns the result"
DEPTH_MAX = 500
SUSPENSIONS_MAX = 1_000

_SOURCE = "<python-input-0>"
_CALL = """\
import json as _json
_made = main(input)
_json.dumps(await _made if type(_made).__name__ == 'coroutine' else _made, allow_nan=False, ensure_ascii=False)"""
_UNDEFINED = f"name '{NAME}' is not defined"


class Run:
    """One run of a source, which `stop` ends from any thread."""

    def __init__(self, source: str, input: Any, limits: Limits) -> None:
        self._source, self._input, self._limits = source, input, limits
        self._asked_s = time.monotonic()
        self._guard = threading.Lock()
        self._process: int | None = None
        self._is_stopped = False
        self._printed: list[str] = []
        self._left = PRINTED_CHARACTERS_MAX + MARGIN_CHARACTERS
        self._mask = saying.mask()

    def stop(self) -> None:
        """Kill the process in which it runs, or have it not begin."""
        with self._guard:
            self._is_stopped = True
            if self._process is not None:
                os.kill(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))

    def result(self) -> tuple[Any, str]:
        """What ``main`` returned, as plain data, and what was printed.

        Raises:
            SourceFailed, OutOfTime, OutOfMemory, OutputTooLarge, SandboxLost, MissingExtra: as of every sandbox.
        """
        library = monty.library("Python in a sandbox")
        if time.monotonic() - self._asked_s > monty.WAIT_S:
            raise SandboxLost(f"all sandboxes for Python were busy for {monty.WAIT_S:g} s")
        try:
            text = self._text(library)
        except library.MontyCrashedError as crashed:
            if crashed.timed_out:
                raise OutOfTime(LANGUAGE, self._limits.wall_s, self._console()) from None
            raise monty.crashed(LANGUAGE, crashed) from None
        except (library.MontySyntaxError, library.MontyRuntimeError, library.MontyConversionError) as failed:
            raise self._failed(failed) from None
        if len(text.encode("utf-8", "replace")) > self._limits.output_bytes:
            raise OutputTooLarge(LANGUAGE, self._limits.output_bytes, self._console())
        try:
            return msgspec.json.decode(text), self._console()
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise SourceFailed(LANGUAGE, "", f"what it returned can't be kept: {error}", console=self._console()) from None

    def _text(self, library: ModuleType) -> str:
        limits = {
            "max_feed_duration_secs": self._limits.wall_s,
            "max_memory": self._limits.memory_bytes,
            "max_recursion_depth": DEPTH_MAX,
            "max_suspensions": SUSPENSIONS_MAX,
        }
        with monty.opened(library, limits, {}) as session:
            self._begun(session.worker_pid)
            try:
                session.feed_run(self._source, print_callback=self._print)
                text: str = session.feed_run(_CALL, inputs={"input": self._input}, print_callback=self._print)
                return text
            finally:
                self._begun(None)

    def _begun(self, process: int | None) -> None:
        with self._guard:
            self._process = process
            if self._is_stopped and process is not None:
                raise SandboxLost("it is not wanted any more")

    def _print(self, _: str, text: str) -> None:
        if self._left <= 0:
            return
        self._printed.append(text[: self._left])
        self._left -= len(text)

    def _console(self) -> str:
        return saying.printed("".join(self._printed), self._mask)

    def _failed(self, failed: Any) -> Exception:
        """What an error of the interpreter comes to. The source may raise those of its limits as well, and is believed."""
        type, _, text = failed.display("type-msg").partition(": ") if hasattr(failed, "display") else ("TypeError", "", str(failed))
        if type == "TimeoutError" and "time limit exceeded" in text:
            return OutOfTime(LANGUAGE, self._limits.wall_s, self._console())
        if type == "MemoryError":
            return OutOfMemory(LANGUAGE, self._limits.memory_bytes, self._console())
        if type == "NameError" and text == _UNDEFINED:
            return SourceFailed(LANGUAGE, "", f"it defines no {NAME}; {HINT}", console=self._console())
        frames = [frame for frame in failed.traceback() if frame.filename == _SOURCE] if hasattr(failed, "traceback") else []
        place = (frames[-1].line, frames[-1].column) if frames else (0, 0)
        return SourceFailed(LANGUAGE, saying.said(type, self._mask), saying.said(text, self._mask), place, self._console())
