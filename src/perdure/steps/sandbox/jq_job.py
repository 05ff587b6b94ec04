"""jq in a sandbox: one program over rows, whose outputs are one list."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from perdure.steps.sandbox.confined import HAS_LIMITS, allowed
from perdure.steps.sandbox.frames import MARGIN_CHARACTERS, SAID_CHARACTERS_MAX, Answer, Failure, RawJob

NO_LIMITS = "jq needs a system that can bound a process (Linux, macOS); filter with ts, python or expressions here"

NO_MODULES = "there are no modules and no files in a sandbox; write what is needed into the program"

_OF_MODULES = ("error loading data file", "module not found")
"""What jq says of modules, which would tell whether a file is there."""


class Given(msgspec.Struct):
    """What the work is given: a program, and the rows, which are still JSON."""

    program: str
    rows: list[msgspec.Raw]


read_given = msgspec.json.Decoder(Given).decode


def run_jq(job: RawJob) -> Answer:
    """All outputs of a program for each of the rows, in their order."""
    if not HAS_LIMITS:
        return Failure("absent", text=NO_LIMITS)
    given = read_given(job.given)
    with allowed(job.memory_bytes, job.wall_s):
        try:
            return _outputs(given, job.output_bytes)
        except MemoryError:
            return Failure("memory")
        except ValueError as error:
            said = str(error)[: SAID_CHARACTERS_MAX + MARGIN_CHARACTERS]
            return Failure("source", text=NO_MODULES if any(one in said for one in _OF_MODULES) else said)
        except RecursionError:
            return Failure("source", text="an output nests too deep")


def _outputs(given: Given, output_bytes: int) -> Answer:
    found: list[bytes] = []
    left_bytes = output_bytes - 2
    rows: Any = _compiled(given.program).input_text("\n".join(str(row, "utf-8") for row in given.rows))
    for output in rows:
        found.append(msgspec.json.encode(output))
        left_bytes -= len(found[-1]) + 1
        if left_bytes < -1:
            return Failure("output")
    return b"[" + b",".join(found) + b"]"


@lru_cache(maxsize=64)
def _compiled(program: str) -> Any:
    """A program, compiled: that takes longer than most programs do. It keeps nothing from one use to the next."""
    import jq  # type: ignore[import-not-found]  # it has no types

    if "\0" in program:
        raise ValueError("it has a character NUL; write it as \\u0000 in a text")
    return jq.compile(program)
