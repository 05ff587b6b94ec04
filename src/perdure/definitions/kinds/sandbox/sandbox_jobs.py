"""The jobs of a sandbox process: jq programs over rows, and TypeScript or JavaScript with one input.

TypeScript becomes JavaScript by sucrase, which strips types and turns exports into properties, in a JavaScript context of its own that never runs the source.
Lines stay where they are. Columns move where something was stripped, so an error names a column only if it can be mapped back. The default export is then
called in a fresh context, which is discarded afterwards.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from perdure.definitions.kinds.sandbox.job_protocol import ERROR_CHARACTERS_MAX, MARGIN_CHARACTERS, JobAnswer, JobFailure, RawSandboxJob
from perdure.definitions.kinds.sandbox.process_limits import HAS_LIMITS, peak_bytes, resource_limits

NO_LIMITS = "jq needs a system that can bound a process (Linux, macOS); filter with ts, python or expressions here"

NO_MODULES = "there are no modules and no files in a sandbox; write what is needed into the program"

_OF_MODULES = ("error loading data file", "module not found")
"""Error texts of jq about modules. They are replaced, as they would reveal whether a file exists."""


class JqInput(msgspec.Struct):
    """The input of a jq job: a program, and rows that are still JSON."""

    program: str
    rows: list[msgspec.Raw]


decode_jq_input = msgspec.json.Decoder(JqInput).decode


def run_jq(job: RawSandboxJob) -> JobAnswer:
    """The outputs of a program for all rows, in order."""
    if not HAS_LIMITS:
        return JobFailure("absent", text=NO_LIMITS)
    given = decode_jq_input(job.given)
    with resource_limits(job.memory_bytes, job.wall_s):
        try:
            return _outputs(given, job.output_bytes)
        except MemoryError:
            return JobFailure("memory")
        except ValueError as error:
            said = str(error)[: ERROR_CHARACTERS_MAX + MARGIN_CHARACTERS]
            return JobFailure("source", text=NO_MODULES if any(one in said for one in _OF_MODULES) else said)
        except RecursionError:
            return JobFailure("source", text="an output is nested too deeply")


def _outputs(given: JqInput, output_bytes: int) -> JobAnswer:
    found: list[bytes] = []
    left_bytes = output_bytes - 2
    rows: Any = _compiled(given.program).input_text("\n".join(str(row, "utf-8") for row in given.rows))
    for output in rows:
        found.append(msgspec.json.encode(output))
        left_bytes -= len(found[-1]) + 1
        if left_bytes < -1:
            return JobFailure("output")
    return b"[" + b",".join(found) + b"]"


@lru_cache(maxsize=64)
def _compiled(program: str) -> Any:
    """A compiled program. Compiling takes longer than most programs run, and a compiled program keeps no state."""
    import jq  # type: ignore[import-not-found]  # it has no types

    if "\0" in program:
        raise ValueError("it has a character NUL; write it as \\u0000 in a text")
    return jq.compile(program)


TYPESCRIPT_PREFIX = "(function (module, exports, require) {"
"""The text in front of a source, on its first line."""

TYPESCRIPT_SUFFIX = "\n})"
MEMORY_BYTES_MAX = 128_000_000
STACK_BYTES_MAX = 1_000_000
KEPT_MAX = 256
KEPT_CHARACTERS_MAX = 4_000_000

# The last call makes one piece of the text: QuickJS keeps long strings that were joined as a tree, which the binding can't read.
_TRANSFORM = """(source) => sucrase.transform(source, {
    transforms: ["typescript", "imports"], production: true, preserveDynamicImport: true, disableESTransforms: true,
}).code.toWellFormed()"""
_PLACE = re.compile(r" \((\d+):(\d+)\)$")


class TypescriptRejected(Exception):
    """The source is not valid TypeScript, or stripping it exceeded a limit; `failure` says which."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class TypeStripper:
    """Strips the types of sources, and caches the latest results."""

    def __init__(self) -> None:
        self._bundle = (Path(__file__).parent / "sucrase.js").read_text(encoding="ascii")
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._characters = 0
        self._begin()

    def _begin(self) -> None:
        import quickjs  # type: ignore[import-untyped]  # it has no types

        self._context = quickjs.Context()
        self._context.set_memory_limit(MEMORY_BYTES_MAX)
        self._context.set_max_stack_size(STACK_BYTES_MAX)
        self._context.eval(self._bundle)
        self._transform: Any = self._context.eval(_TRANSFORM)

    def stripped(self, source: str, within_s: float) -> str:
        """The JavaScript of a source: an expression that is a function of ``module``, ``exports`` and ``require``.

        Raises:
            TypescriptRejected: there is none.
        """
        made = self._kept.get(source)
        if made is not None:
            self._kept.move_to_end(source)
            return made
        made = f"{TYPESCRIPT_PREFIX}{self._stripped(source, within_s)}{TYPESCRIPT_SUFFIX}"
        if len(made) < KEPT_CHARACTERS_MAX // 4:
            self._keep(source, made)
        return made

    def _stripped(self, source: str, within_s: float) -> str:
        import quickjs

        if "\0" in source:
            raise TypescriptRejected(JobFailure("source", "SyntaxError", "it has a character NUL; write it as \\u0000 in a text"))
        self._context.set_time_limit(within_s)
        try:
            made: str = self._transform(source)
        except quickjs.JSException as error:
            said = str(error).partition("\n")[0]
            if said.startswith("SyntaxError: ") and (place := _PLACE.search(said)):
                raise TypescriptRejected(JobFailure("source", "SyntaxError", said[13 : place.start()], int(place[1]), int(place[2]))) from None
            self._begin()  # what was interrupted may be half done
            raise TypescriptRejected(_met(said)) from None
        except UnicodeError:
            raise TypescriptRejected(JobFailure("source", "SyntaxError", "it has a lone surrogate")) from None
        return made

    def _keep(self, source: str, made: str) -> None:
        self._kept[source] = made
        self._characters += len(source) + len(made)
        while len(self._kept) > KEPT_MAX or self._characters > KEPT_CHARACTERS_MAX:
            old, text = self._kept.popitem(last=False)
            self._characters -= len(old) + len(text)


def _met(said: str) -> JobFailure:
    if "interrupted" in said:
        return JobFailure("time")
    if "out of memory" in said or said == "null":  # null is thrown where there is no memory for an error
        return JobFailure("memory")
    return JobFailure("source", "SyntaxError", "it is nested too deeply" if "call stack" in said else said)


def source_position(source: str, made: str, line: int, column: int) -> tuple[int, int]:
    """The position in the source of a position in its JavaScript; (line, 0) if the column is unknown, (0, 0) if it is not in the source."""
    lines, made_lines = source.split("\n"), made.split("\n")
    if not 1 <= line <= min(len(lines), len(made_lines)):
        return 0, 0
    before, after = lines[line - 1], made_lines[line - 1]
    same = 0
    while same < min(len(before), len(after)) and before[-1 - same] == after[-1 - same]:
        same += 1
    if column - 1 >= len(after) - same:
        return line, column - len(after) + len(before)
    return line, column if after[:column] == before[:column] else 0


BACKSTOP_BYTES = 256_000_000
"""Memory of the process beyond that of the context, which the interpreter limits itself: texts in transit, and stripping types."""

NEVER_SETTLED = "the promise that it returned never settles: nothing is left that could settle it, as there are no timers and nothing to wait for in a sandbox"

MISSING_GLOBALS = {
    "fetch": "send requests in a step of kind http",
    "XMLHttpRequest": "send requests in a step of kind http",
    "require": "there are no modules",
    "process": "give it what it needs in `with`",
    "Buffer": "use Uint8Array, btoa and atob",
    "setTimeout": "there are no timers; wait in a step of kind sleep",
    "setInterval": "there are no timers; repeat the step",
    "setImmediate": "there are no timers; use queueMicrotask",
    "URL": "take it apart with a regular expression",
    "crypto": "there are no random bytes but Math.random()",
    "structuredClone": "use JSON.parse(JSON.stringify(value))",
    "TextEncoder": "use encodeURIComponent",
    "Intl": "there are no locales",
}
"""Globals that people expect and a sandbox does not have, with what to do instead."""

_NO_MODULE = "could not load module"
_THROWS = re.compile(r"throw|reject|eval|Function")
_FRAME = re.compile(r"<input>:(\d+):(\d+)")
_MISSING = re.compile(r"'?(\w+)'? is not defined")


class JavascriptInput(msgspec.Struct):
    """The input of a JavaScript job: a source, and an input that is still JSON."""

    source: str
    input: msgspec.Raw


class _JavascriptError(msgspec.Struct):
    """An error as the context reports it."""

    type: str
    text: str
    stack: str


decode_javascript_input = msgspec.json.Decoder(JavascriptInput).decode
decode_error = msgspec.json.Decoder(_JavascriptError).decode


def run_js(job: RawSandboxJob) -> JobAnswer:
    """The result of the default export for the input, and the console output."""
    given, end_s = decode_javascript_input(job.given), time.monotonic() + job.wall_s
    with resource_limits(BACKSTOP_BYTES + job.memory_bytes + 4 * job.output_bytes, job.wall_s):
        try:
            made = stripper().stripped(given.source, job.wall_s)
            return _JavascriptRun(job, given, made, end_s).answer()
        except TypescriptRejected as refused:
            return refused.failure
        except MemoryError:
            return JobFailure("memory")


@cache
def stripper() -> TypeStripper:
    """The type stripper of this process."""
    return TypeStripper()


@cache
def _host() -> tuple[str, str]:
    """The code around each source, and the code that reports its console and errors."""
    here = Path(__file__).parent
    return _bare((here / "host.js").read_text(encoding="utf-8")), _bare((here / "telling.js").read_text(encoding="utf-8"))


def _bare(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if not line.strip().startswith("//"))


@cache
def _first_bytes() -> int:
    """The memory of the process before its first source."""
    return peak_bytes()


def preload_javascript() -> None:
    """Reads all files that are needed, while files can still be opened."""
    _ = stripper(), _host(), _first_bytes()


class _JavascriptRun:
    """One run of a source in a context of its own."""

    def __init__(self, job: RawSandboxJob, given: JavascriptInput, made: str, end_s: float) -> None:
        import quickjs

        self._failed = quickjs.JSException
        self._job, self._given, self._made, self._end_s = job, given, made, end_s
        self._context: Any = quickjs.Context()
        self._context.set_memory_limit(job.memory_bytes)
        self._context.set_max_stack_size(STACK_BYTES_MAX)
        host, rest = _host()
        self._host: Any = self._context.eval(host)(rest)

    def answer(self) -> JobAnswer:
        """Runs the source to its end."""
        try:
            self._limit()
            self._host("run", self._context.eval(self._made), str(self._given.input, "utf-8"), self._job.output_bytes)
            while not (outcome := self._host("outcome")):
                self._limit()
                if not self._context.execute_pending_job():
                    return self._failure(JobFailure("source", text=NEVER_SETTLED))
            return self._answer(outcome)
        except self._failed as error:
            return self._failure(self._why(str(error)))
        except _TimeOver:
            return self._failure(JobFailure("time"))
        except UnicodeError:  # an error's text has half a character
            return self._failure(JobFailure("source", text="an error that can't be shown"))

    def _limit(self) -> None:
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise _TimeOver
        self._context.set_time_limit(left_s)

    def _answer(self, outcome: str) -> JobAnswer:
        match outcome[0]:
            case "=":
                raw = outcome[1:].encode()
                if len(raw) > self._job.output_bytes:
                    return self._failure(JobFailure("output"))
                return b'{"value":' + raw + b',"console":' + self._console_text().encode() + b"}"
            case ">":
                return self._failure(JobFailure("output"))
            case "m":
                return self._failure(JobFailure("memory"))
            case "0":
                return self._failure(self._null())
        told = decode_error(outcome[1:])
        if told.type == "InternalError" and told.text == "out of memory":
            return self._failure(JobFailure("memory"))
        return self._failure(self._placed(told))

    def _null(self) -> JobFailure:
        """The failure when null was thrown: by the source, or by the interpreter when it had no memory for an error."""
        took_much = peak_bytes() - _first_bytes() >= self._job.memory_bytes // 2
        if took_much or not _THROWS.search(self._given.source):
            return JobFailure("memory")
        return JobFailure("source", text="null was thrown")

    def _why(self, said: str) -> JobFailure:
        """The failure for an error that the source did not catch, or could not catch."""
        first, _, stack = said.partition("\n")
        match first:
            case "InternalError: interrupted":
                return JobFailure("time")
            case "InternalError: out of memory":
                return JobFailure("memory")
        type, _, text = first.partition(": ")
        return self._placed(_JavascriptError(type, text, stack) if text else _JavascriptError("", type, stack))

    def _placed(self, told: _JavascriptError) -> JobFailure:
        """The failure for an error, with its position in the source, and advice if a global is missing."""
        text, found = told.text, _FRAME.search(told.stack)
        if told.type == "ReferenceError" and (missing := _MISSING.match(text)) and (instead := MISSING_GLOBALS.get(missing[1])):
            text = f"there is no {missing[1]} in a sandbox: {instead}"
        elif _NO_MODULE in text:
            text = f"there are no modules in a sandbox; {text}"
        where = source_position(self._given.source, self._made, int(found[1]), int(found[2])) if found else (0, 0)
        return JobFailure("source", told.type, text, *where)

    def _failure(self, failure: JobFailure) -> JobAnswer:
        return msgspec.structs.replace(failure, console=msgspec.json.decode(self._console_text(), type=str))

    def _console_text(self) -> str:
        """The console output as JSON; empty if the context has no memory left to return it."""
        self._context.set_time_limit(1.0)
        try:
            text: str = self._host("printed")
        except self._failed:
            return '""'
        return text


class _TimeOver(Exception):
    """The time is over between two jobs of the context."""
