"""TypeScript and JavaScript in a sandbox: the default export of a source, called with an input in a context of its own, of which nothing is left."""

from __future__ import annotations

import re
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from perdure.steps.sandbox.confined import allowed, peak_bytes
from perdure.steps.sandbox.frames import Answer, Failure, RawJob
from perdure.steps.sandbox.typescript import STACK_BYTES_MAX, Refused, Stripper, place

BACKSTOP_BYTES = 256_000_000
"""What the process may take beside the memory of the context, which the interpreter bounds itself: texts on their way, and stripping types."""

NEVER_SETTLED = "the promise that it returned never settles: nothing is left that could settle it, as there are no timers and nothing to wait for in a sandbox"

ABSENT = {
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
"""What people miss in a sandbox, and what to do instead."""

_NO_MODULE = "could not load module"
_THROWS = re.compile(r"throw|reject|eval|Function")
_FRAME = re.compile(r"<input>:(\d+):(\d+)")
_MISSING = re.compile(r"'?(\w+)'? is not defined")


class Given(msgspec.Struct):
    """What the work is given: a source, and an input, which is still JSON."""

    source: str
    input: msgspec.Raw


class _Told(msgspec.Struct):
    """What the context says of an error."""

    type: str
    text: str
    stack: str


read_given = msgspec.json.Decoder(Given).decode
read_told = msgspec.json.Decoder(_Told).decode


def run_js(job: RawJob) -> Answer:
    """What the default export makes of the input, and what was printed meanwhile."""
    given, end_s = read_given(job.given), time.monotonic() + job.wall_s
    with allowed(BACKSTOP_BYTES + job.memory_bytes + 4 * job.output_bytes, job.wall_s):
        try:
            made = stripper().stripped(given.source, job.wall_s)
            return _Run(job, given, made, end_s).answer()
        except Refused as refused:
            return refused.failure
        except MemoryError:
            return Failure("memory")


@cache
def stripper() -> Stripper:
    """What strips types in this process."""
    return Stripper()


@cache
def _host() -> tuple[str, str]:
    """What stands around a source, and what that takes when something is printed or goes wrong."""
    here = Path(__file__).parent
    return _bare((here / "host.js").read_text(encoding="utf-8")), _bare((here / "telling.js").read_text(encoding="utf-8"))


def _bare(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if not line.strip().startswith("//"))


@cache
def _first_bytes() -> int:
    """How much memory the process has taken before its first source."""
    return peak_bytes()


def prepare() -> None:
    """Read what is needed while files can be."""
    _ = stripper(), _host(), _first_bytes()


class _Run:
    """One context, and what comes of it."""

    def __init__(self, job: RawJob, given: Given, made: str, end_s: float) -> None:
        import quickjs  # type: ignore[import-untyped]  # it has no types

        self._failed = quickjs.JSException
        self._job, self._given, self._made, self._end_s = job, given, made, end_s
        self._context: Any = quickjs.Context()
        self._context.set_memory_limit(job.memory_bytes)
        self._context.set_max_stack_size(STACK_BYTES_MAX)
        host, rest = _host()
        self._host: Any = self._context.eval(host)(rest)

    def answer(self) -> Answer:
        """Run the source to its end."""
        try:
            self._limit()
            self._host("run", self._context.eval(self._made), str(self._given.input, "utf-8"), self._job.output_bytes)
            while not (outcome := self._host("outcome")):
                self._limit()
                if not self._context.execute_pending_job():
                    return self._failure(Failure("source", text=NEVER_SETTLED))
            return self._answer(outcome)
        except self._failed as error:
            return self._failure(self._why(str(error)))
        except _Late:
            return self._failure(Failure("time"))
        except UnicodeError:  # an error's text has half a character
            return self._failure(Failure("source", text="an error that can't be shown"))

    def _limit(self) -> None:
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise _Late
        self._context.set_time_limit(left_s)

    def _answer(self, outcome: str) -> Answer:
        match outcome[0]:
            case "=":
                raw = outcome[1:].encode()
                if len(raw) > self._job.output_bytes:
                    return self._failure(Failure("output"))
                return b'{"value":' + raw + b',"console":' + self._console_text().encode() + b"}"
            case ">":
                return self._failure(Failure("output"))
            case "m":
                return self._failure(Failure("memory"))
            case "0":
                return self._failure(self._null())
        told = read_told(outcome[1:])
        if told.type == "InternalError" and told.text == "out of memory":
            return self._failure(Failure("memory"))
        return self._failure(self._placed(told))

    def _null(self) -> Failure:
        """Null was thrown: by the source, or by the interpreter, which had no memory left for an error."""
        took_much = peak_bytes() - _first_bytes() >= self._job.memory_bytes // 2
        if took_much or not _THROWS.search(self._given.source):
            return Failure("memory")
        return Failure("source", text="null was thrown")

    def _why(self, said: str) -> Failure:
        """What an error came to that the source did not catch, or could not."""
        first, _, stack = said.partition("\n")
        match first:
            case "InternalError: interrupted":
                return Failure("time")
            case "InternalError: out of memory":
                return Failure("memory")
        type, _, text = first.partition(": ")
        return self._placed(_Told(type, text, stack) if text else _Told("", type, stack))

    def _placed(self, told: _Told) -> Failure:
        """An error, with the place in the source where it was raised, and what to do about what is missing."""
        text, found = told.text, _FRAME.search(told.stack)
        if told.type == "ReferenceError" and (missing := _MISSING.match(text)) and (instead := ABSENT.get(missing[1])):
            text = f"there is no {missing[1]} in a sandbox: {instead}"
        elif _NO_MODULE in text:
            text = f"there are no modules in a sandbox; {text}"
        where = place(self._given.source, self._made, int(found[1]), int(found[2])) if found else (0, 0)
        return Failure("source", told.type, text, *where)

    def _failure(self, failure: Failure) -> Answer:
        return msgspec.structs.replace(failure, console=msgspec.json.decode(self._console_text(), type=str))

    def _console_text(self) -> str:
        """What was printed, as JSON; nothing, if the context has no memory left to say it."""
        self._context.set_time_limit(1.0)
        try:
            text: str = self._host("printed")
        except self._failed:
            return '""'
        return text


class _Late(Exception):
    """The time is over, between two pieces of the source."""
