"""The common part of all kinds that run source text: their time limit, and the record of their console output."""

from __future__ import annotations

from perdure.core.errors import SandboxLimit, SourceFailed
from perdure.definitions.graph.step_kind import Limit
from perdure.definitions.kinds.sandbox import masked_console
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits

WALL_S = 10.0
WALL_MAX_S = 60.0
MARGIN_S = 0.5
"""How long before the timeout of the step the source is stopped, at most, so that the step fails with the printed output and is not attempted again."""

KEPT_BYTES_MAX = 48 * 1024

SOURCE_CHARACTERS_MAX = 256 * 1024
"""How long a source may be."""

SOURCE_LIMITS = (
    Limit("source", f"{SOURCE_CHARACTERS_MAX:,} characters", None, "it is refused when the definition is read"),
    Limit("time", "10 s", "60 s (timeout)", "it is killed, and the step fails with `out_of_time`"),
    Limit("memory", "64 MB", None, "it is killed, and the step fails with `out_of_memory`"),
    Limit("result", "16 MiB of JSON", None, "the step fails with `output_too_large`"),
    Limit("printed", "64 K characters", None, "the rest is not kept"),
)

SOURCE_IDEMPOTENCY = "yes: it reaches nothing, so doing it again changes nothing"


def step_limits() -> SandboxLimits:
    """The limits of the current step, from its timeout if it has one."""
    info = masked_console.current_step_info()
    timeout_s = None if info is None else info.timeout_s
    if timeout_s is None:
        return SandboxLimits(WALL_S)
    return SandboxLimits(min(WALL_MAX_S, max(timeout_s - MARGIN_S, timeout_s * 0.8)))


def source_error(language: str, source: object, hint: str) -> SourceFailed | None:
    """Why something is no source, whatever it is written in."""
    if not isinstance(source, str):
        return SourceFailed(language, "", f"it is not text; {hint}")
    if len(source) > SOURCE_CHARACTERS_MAX:
        return SourceFailed(language, "", f"it has {len(source):,} characters, and at most {SOURCE_CHARACTERS_MAX:,} are allowed; pass data in `with`")
    return None


def record_console(console: str) -> None:
    """Records console output, masked and cut to its end, as the progress ``{"console": text}`` of the current step."""
    info = masked_console.current_step_info()
    if not console or info is None:
        return
    raw = console.encode("utf-8", "replace")
    kept = console if len(raw) <= KEPT_BYTES_MAX else "…" + raw[-KEPT_BYTES_MAX:].decode("utf-8", "ignore")
    info.heartbeat({"console": kept}, keep=True)


def with_console_recorded(failed: SourceFailed | SandboxLimit) -> SourceFailed | SandboxLimit:
    """Records the console of an error, and returns the error without its traceback; its text holds the position in the source."""
    record_console(failed.console)
    return failed.with_traceback(None)
