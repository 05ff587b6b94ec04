"""Programs in jq, compiled in a sandbox before anything runs: whether they can be read, found when a definition is."""

from __future__ import annotations

import asyncio
import threading
from functools import lru_cache

from perdure.core.errors import MissingExtra, OutOfMemory, OutOfTime, SandboxFailed, SandboxLost, SourceFailed
from perdure.steps.sandbox import pool

LIMITS = pool.Limits(wall_s=5.0, memory_bytes=256 * 1024 * 1024, output_bytes=1024)


def problem(program: str) -> str:
    """Why a program can't be read, in a sentence; empty if it can, or if no sandbox is to be had here: then it is found when it runs."""
    try:
        return _problem(program)
    except (MissingExtra, SandboxFailed, SandboxLost):
        return ""


@lru_cache(maxsize=512)
def _problem(program: str) -> str:
    found = list[BaseException]()

    def compile_it() -> None:
        try:
            asyncio.run(pool.run("jq", {"program": program, "rows": []}, LIMITS))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=compile_it, name="perdure jq")  # as a loop may run in this one
    thread.start()
    thread.join()
    match found:
        case [SourceFailed() | OutOfTime() | OutOfMemory() as error]:
            return str(error)
        case [error]:
            raise error
    return ""
