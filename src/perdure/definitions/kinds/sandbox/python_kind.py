"""One piece of Python in a sandbox: its ``main(input)``, whose result is made JSON where it runs. It blocks; the process may be killed meanwhile.

What can be seen of the source of a ``python`` step without running it. The sandbox reads it as well; this tells its author earlier, and within bounds.

The kind ``python``: Python in a sandbox.

The source defines ``def main(input): …``, or ``async def main(input): …``. It is given the input of the step, and what it returns, as JSON, is the step's
result; tuples are lists. What JSON has no word for (NaN, a set, bytes, an object, a cycle) is an error.

The language is that of `pydantic-monty`, a subset of Python: functions, classes, comprehensions, exceptions, f-strings, ``async``; no generators and no
``with``. There are the modules that reach nothing, such as ``json``, ``re``, ``math``, ``datetime``, ``collections``, ``itertools``, ``decimal``, ``hashlib``
and ``base64``, and no others; files, the environment and the network are refused, and sleeping takes no time. ``print`` keeps what it is given. The clock and
``random`` are real, as the result is remembered. Nothing is left from one call to the next.
"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from perdure.core.errors import OutOfMemory, OutOfTime, OutputTooLarge, SandboxLimit, SandboxLost, SourceFailed
from perdure.definitions.expr.python_syntax import PARSED_CHARACTERS_MAX, PythonProblem, parse_python
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.sandbox import masked_console, monty_pool, source_limits
from perdure.definitions.kinds.sandbox.job_protocol import MARGIN_CHARACTERS, PRINTED_CHARACTERS_MAX
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits

LANGUAGE = "Python"
ENTRY_FUNCTION = "main"
HINT = "write def main(input): …, or async def main(input): …, which returns the result"
DEPTH_MAX = 500
SUSPENSIONS_MAX = 1_000

_SOURCE = "<python-input-0>"
_CALL = """\
import json as _json
_made = main(input)
_json.dumps(await _made if type(_made).__name__ == 'coroutine' else _made, allow_nan=False, ensure_ascii=False)"""
_UNDEFINED = f"name '{ENTRY_FUNCTION}' is not defined"


class PythonRun:
    """One run of a source, which `stop` ends from any thread."""

    def __init__(self, source: str, input: Any, limits: SandboxLimits) -> None:
        self._source, self._input, self._limits = source, input, limits
        self._asked_s = time.monotonic()
        self._guard = threading.Lock()
        self._process: int | None = None
        self._is_stopped = False
        self._printed: list[str] = []
        self._left = PRINTED_CHARACTERS_MAX + MARGIN_CHARACTERS
        self._mask = masked_console.secret_mask()

    def stop(self) -> None:
        """Kills the process in which it runs, or have it not begin."""
        with self._guard:
            self._is_stopped = True
            if self._process is not None:
                os.kill(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))

    def result(self) -> tuple[Any, str]:
        """The result of ``main`` as plain data, and the console output.

        Raises:
            SourceFailed, OutOfTime, OutOfMemory, OutputTooLarge, SandboxLost, MissingExtra: as of every sandbox.
        """
        library = monty_pool.monty_library("Python in a sandbox")
        if time.monotonic() - self._asked_s > monty_pool.WAIT_S:
            raise SandboxLost(f"all sandboxes for Python were busy for {monty_pool.WAIT_S:g} s")
        try:
            text = self._text(library)
        except library.MontyCrashedError as crashed:
            if crashed.timed_out:
                raise OutOfTime(LANGUAGE, self._limits.wall_s, self._console()) from None
            raise monty_pool.crash_error(LANGUAGE, crashed) from None
        except (library.MontySyntaxError, library.MontyRuntimeError, library.MontyConversionError) as failed:
            raise self._failed(failed) from None
        if len(text.encode("utf-8", "replace")) > self._limits.output_bytes:
            raise OutputTooLarge(LANGUAGE, self._limits.output_bytes, self._console())
        try:
            return msgspec.json.decode(text), self._console()
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise SourceFailed(LANGUAGE, "", f"its result can't be stored: {error}", console=self._console()) from None

    def _text(self, library: ModuleType) -> str:
        limits = {
            "max_feed_duration_secs": self._limits.wall_s,
            "max_memory": self._limits.memory_bytes,
            "max_recursion_depth": DEPTH_MAX,
            "max_suspensions": SUSPENSIONS_MAX,
        }
        with monty_pool.monty_session(library, limits, {}) as session:
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
                raise SandboxLost("its result is no longer needed")

    def _print(self, _: str, text: str) -> None:
        if self._left <= 0:
            return
        self._printed.append(text[: self._left])
        self._left -= len(text)

    def _console(self) -> str:
        return masked_console.masked_console("".join(self._printed), self._mask)

    def _failed(self, failed: Any) -> Exception:
        """The error for an exception of the interpreter. The source can raise the errors of the limits too; they are taken at their word."""
        type, _, text = failed.display("type-msg").partition(": ") if hasattr(failed, "display") else ("TypeError", "", str(failed))
        if type == "TimeoutError" and "time limit exceeded" in text:
            return OutOfTime(LANGUAGE, self._limits.wall_s, self._console())
        if type == "MemoryError":
            return OutOfMemory(LANGUAGE, self._limits.memory_bytes, self._console())
        if type == "NameError" and text == _UNDEFINED:
            return SourceFailed(LANGUAGE, "", f"it defines no {ENTRY_FUNCTION}; {HINT}", console=self._console())
        frames = [frame for frame in failed.traceback() if frame.filename == _SOURCE] if hasattr(failed, "traceback") else []
        place = (frames[-1].line, frames[-1].column) if frames else (0, 0)
        return SourceFailed(LANGUAGE, masked_console.masked_error(type, self._mask), masked_console.masked_error(text, self._mask), place, self._console())


_DEFINES = re.compile(rf"^(?:async[ \t]+)?def[ \t]+{ENTRY_FUNCTION}[ \t]*\(", re.MULTILINE)


def source_problem(source: str) -> SourceFailed | None:
    """Why a source would fail before it does anything, as far as that can be seen; one that is long is not parsed here."""
    if len(source) > PARSED_CHARACTERS_MAX:
        return None if _DEFINES.search(source) else _undefined()
    match parse_python(source):
        case PythonProblem(why, line, column):
            return SourceFailed(LANGUAGE, "SyntaxError", why, (line, column))
        case tree:
            return _signature(tree)


def _signature(tree: ast.Module) -> SourceFailed | None:
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == ENTRY_FUNCTION]
    if not functions:
        return _undefined()
    taken = functions[-1].args
    required = len(taken.posonlyargs) + len(taken.args) - len(taken.defaults)
    if required > 1 or not (taken.posonlyargs or taken.args or taken.vararg) or None in taken.kw_defaults:
        return SourceFailed(LANGUAGE, "", f"{ENTRY_FUNCTION} can't be called with one argument; {HINT}", (functions[-1].lineno, 0))
    return None


def _undefined() -> SourceFailed:
    return SourceFailed(LANGUAGE, "", f"it defines no {ENTRY_FUNCTION}; {HINT}")


EXAMPLE = """\
perdure: 1
name: greet
input:
  names: {type: array, default: [Ada, Grace, Ada]}
steps:
  - id: count
    python: |
      from collections import Counter

      def main(input):
          print(len(input["names"]), "names")
          return dict(Counter(input["names"]))
    with: {names: "@input.names"}
output: "@count"
# {"Ada": 2, "Grace": 1}
"""


async def run_python(config: Any, input: Any = None, env: Any = None) -> Any:
    """The result of the ``main`` of the source `config` for the input.

    Raises:
        SourceFailed: the source can't be parsed, raised an error, or returned a value that is not JSON.
        OutOfTime, OutOfMemory, OutputTooLarge: it exceeded a limit.
        SandboxLost: there was no sandbox; the step may be retried.
    """
    if monty_pool.is_forked():
        raise SandboxLost("this process was forked from one that has its sandboxes; start processes by spawn, or run Python in the parent")
    if wrong := source_limits.source_error(LANGUAGE, config, HINT):
        raise wrong
    running = PythonRun(config, input, source_limits.step_limits())
    try:
        value, console = await asyncio.get_running_loop().run_in_executor(_threads(), running.result)
    except (SourceFailed, SandboxLimit) as failed:
        raise source_limits.with_console_recorded(failed) from None
    except asyncio.CancelledError:
        running.stop()
        raise
    source_limits.record_console(console)
    return value


@cache
def _threads() -> ThreadPoolExecutor:
    """As many as there are sandboxes, each of which waits for one."""
    return ThreadPoolExecutor(monty_pool.monty_processes_max(), "perdure-python")


def check_python(config: Any) -> Iterator[tuple[str, str]]:
    """The problems of a source that are visible without running it."""
    wrong = source_limits.source_error(LANGUAGE, config, HINT) or source_problem(config)
    if wrong is not None:
        yield "", str(wrong)


def python_kind(deployment: Deployment) -> Kind:
    """The kind, which is the same wherever it is deployed."""
    return Kind(
        "python",
        run_python,
        title="Python",
        summary="A function in Python, in a sandbox: JSON in, JSON out, and nothing of the world.",
        icon="braces",
        limits=source_limits.SOURCE_LIMITS,
        idempotency=source_limits.SOURCE_IDEMPOTENCY,
        check=check_python,
        extra="sandbox",
        example=EXAMPLE,
    )
