"""The kind ``ts``: TypeScript or JavaScript in a sandbox.

The source exports a function by default, plain or async: ``export default function (input) { … }`` or ``export default (input) => …``. It is given the input of
the step, and what it returns, as JSON, is the step's result; ``undefined`` is null. What JSON has no word for (NaN, a BigInt, a function, a Map, a cycle) is an
error; integers beyond 2^53 are rounded, as JavaScript does.

There is the language, as of ES2023: no modules, no network, no files, no environment, no timers. ``console.log``, ``info``, ``warn``, ``error`` and ``debug``
keep what they are given. Types are stripped and not checked; there are enums, and no namespaces and decorators. The clock and ``Math.random()`` are real, as
the result is remembered. Nothing is left from one call to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from perdure.core.errors import SandboxLimit, SourceFailed
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.sandbox import masked_console, sandbox_pool, source_limits

EXAMPLE = """\
perdure: 1
name: greet
input:
  names: {type: array, default: [Ada, Grace, Ada]}
steps:
  - id: count
    ts: |
      type Counts = Record<string, number>

      export default function (input: {names: string[]}): Counts {
        const counts: Counts = {}
        for (const name of input.names) counts[name] = (counts[name] ?? 0) + 1
        console.log(`${input.names.length} names`)
        return counts
      }
    with: {names: "@input.names"}
output: "@count"
# {"Ada": 2, "Grace": 1}
"""

LANGUAGE = "TypeScript"
HINT = "write export default function (input) { … }"

_EXPORTS = re.compile(r"export\s+default\b|\bas\s+default\b|exports\s*\.\s*default\b")


async def run_typescript(config: Any, input: Any = None, env: Any = None) -> Any:
    """The result of the default export of the source `config` for the input.

    Raises:
        SourceFailed: the source can't be parsed, threw an error, or returned a value that is not JSON.
        OutOfTime, OutOfMemory, OutputTooLarge: it exceeded a limit.
        SandboxLost: there was no sandbox; the step may be retried.
    """
    if wrong := source_limits.source_error(LANGUAGE, config, HINT):
        raise wrong
    try:
        found = await sandbox_pool.run_job("js", {"source": config, "input": input}, source_limits.step_limits())
    except (SourceFailed, SandboxLimit) as failed:
        raise source_limits.with_console_recorded(failed) from None
    source_limits.record_console(masked_console.masked_console(found["console"], masked_console.secret_mask()))
    return found["value"]


def check_typescript(config: Any) -> Iterator[tuple[str, str]]:
    """The problems of a source that are visible without running it."""
    if wrong := source_limits.source_error(LANGUAGE, config, HINT):
        yield "", str(wrong)
    elif not _EXPORTS.search(config):
        yield "", f"it exports no function by default; {HINT}"


def ts_kind(deployment: Deployment) -> Kind:
    """The kind, which is the same wherever it is deployed."""
    return Kind(
        "ts",
        run_typescript,
        title="TypeScript",
        summary="A function in TypeScript or JavaScript, in a sandbox: JSON in, JSON out, and nothing of the world.",
        icon="braces",
        limits=source_limits.SOURCE_LIMITS,
        idempotency=source_limits.SOURCE_IDEMPOTENCY,
        check=check_typescript,
        extra="sandbox",
        example=EXAMPLE,
    )
