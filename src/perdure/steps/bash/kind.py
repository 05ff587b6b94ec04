"""The kind `bash`: a shell command, in the working directory of its execution, with nothing of the engine's environment.

What comes of it is ``{exit_code, signal, stdout, stderr, truncated, duration_s}``. A command that ends with another exit code than 0 fails its step, and is
not tried again unless the definition says `retry`. With ``check: false`` every exit code is data: 128 and the number of the signal, if one ended the command.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from perdure.core.errors import BadValue, CommandFailed, CommandLost, CommandRefused, NotAllowed, SandboxFailed, Timeout
from perdure.programs.code.declare import Retry
from perdure.programs.code.durations import seconds
from perdure.programs.code.info import step_info
from perdure.programs.graph.kind import Kind, Limit
from perdure.steps.bash import asking, hiding, nursery
from perdure.steps.bash.command import GRACE_S
from perdure.steps.bash.conversation import converse
from perdure.steps.bash.isolation import LEVELS, stricter
from perdure.steps.bash.streams import KEPT_CHARACTERS
from perdure.steps.deployment import Deployment

TIMEOUT_S, TIMEOUT_S_MAX = 120.0, 600.0
SHOWN = 80
SIGNALLED = 128
"""What shells add to the number of the signal by which a program ended."""

HOW = "start the engine with --allow bash, or give its definitions Deployment(allowed=Allowed(bash=True))"

EXAMPLE = """
perdure: 1
name: checksums
input: {text: {type: string, default: "to be or not to be"}}
order: listed
steps:
  - id: write
    bash: 'printf "%s" "$TEXT" > note.txt && wc -w < note.txt'
    env: {TEXT: "@input.text"}
    timeout: 30s
  - {id: sum, bash: {command: sha256sum note.txt, check: false}}   # whatever its exit code is, it is data
output: {words: "@write.stdout", sum: "@sum.stdout", exit_code: "@sum.exit_code"}
"""

CONFIG = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "object",
            "required": ["command"],
            "additionalProperties": False,
            "properties": {
                "command": {"type": "string", "minLength": 1},
                "cwd": {"type": "string", "minLength": 1},
                "check": {"type": "boolean"},
                "stdin": {},
                "isolate": {"enum": [True, False, *LEVELS]},
            },
        },
    ]
}
OUTPUT = {
    "type": "object",
    "required": ["exit_code", "signal", "stdout", "stderr", "truncated", "duration_s"],
    "properties": {
        "exit_code": {"type": "integer"},
        "signal": {"type": ["string", "null"]},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "truncated": {"type": "boolean"},
        "duration_s": {"type": "number"},
    },
}


def bash(deployment: Deployment) -> Kind:
    """The kind, for a deployment."""

    async def run(config: Any, input: Any = None, env: Any = None) -> dict[str, Any]:
        return await performed(deployment, config, input, env)

    return Kind(
        name="bash",
        run=run,
        title="Shell command",
        summary="Runs a command with bash in the working directory of the execution; values reach it through env and stdin.",
        icon="terminal",
        config=CONFIG,
        output=OUTPUT,
        limits=(
            Limit("timeout", "120 s", "600 s", "all processes of the command are ended, and the try has failed"),
            Limit("stdout, stderr", f"{KEPT_CHARACTERS:,} characters each", None, "the middle is left out, and a line there says how much"),
        ),
        idempotent=lambda config: False,
        idempotency="Never of itself: a command that was interrupted is not run again, unless the step says idempotent: true.",
        check=check,
        check_step=check_step,
        retry=Retry(fatal=(CommandFailed,)),
        timeout=TIMEOUT_S,
        example=EXAMPLE,
    )


def check(config: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with a config, beside what its shape says."""
    said, at = ({"command": config}, "") if isinstance(config, str) else (config, "/command")
    command = said.get("command") if isinstance(said, Mapping) else None
    if isinstance(command, str) and "\0" in command:
        yield at, "no NUL can stand in a command"


def check_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with a step: what it may not have, what it has twice."""
    with suppress(BadValue):  # which the format says
        if "timeout" in step and seconds(step["timeout"]) > TIMEOUT_S_MAX:
            yield "", f"a command has at most {TIMEOUT_S_MAX:g} s; start what takes longer elsewhere, and wait for it with repeat"
    if "with" in step and isinstance(said := step.get("bash"), Mapping) and "stdin" in said:
        yield "/stdin", "'with' is what the command reads as well; keep one of the two"


async def performed(deployment: Deployment, config: Any, input: Any, env: Any) -> dict[str, Any]:
    """Run a command; return what came of it. However this ends, no process of it is left.

    Raises:
        NotAllowed, CommandRefused, BadValue: it was not run.
        CommandFailed: it failed, and check: false was not said.
        Timeout: it took longer than any may.
        CommandLost: who kept it was killed, and all of it with that.
        SandboxFailed: what keeps commands fails by itself.
    """
    if not deployment.allowed.bash:
        raise NotAllowed("bash", "a shell command has the rights of the engine's own user", HOW)
    info = step_info()
    asked = asking.asked(config, input, env, deployment.work, info)
    shell = shutil.which("bash")
    if sys.platform == "win32":
        raise CommandRefused("on Windows, processes can't be kept together; run the engine in WSL")
    if shell is None:
        raise CommandRefused("there is no bash on this machine; install it, or put it into the PATH of the engine")
    shown, isolate = first_line(asked["command"]), stricter(asked["isolate"], deployment.isolate)
    if isolate == "all":
        asked["env"].setdefault("TMPDIR", asked["env"].get("HOME", ""))
    more = {"command": [shell, "-lc", asked["command"]], "isolate": isolate, "limit_s": TIMEOUT_S_MAX, "grace_s": GRACE_S}
    said = await converse({**asked, **more}, lambda progress: info.heartbeat(hiding.streams(progress, info.mask, hiding.last)))
    if why := said.get("refused"):
        raise CommandRefused(f"{shown}: {why}")
    if trace := said.get("broken"):
        raise SandboxFailed("shell command", trace.strip().rpartition("\n")[2], info.mask.text(trace))
    ended = said.get("ended")
    if ended is None or ended["status"] is None:
        raise await _lost(shown)
    if ended["why"] == "limit":
        raise Timeout(f"bash: {shown}", TIMEOUT_S_MAX)
    result = outcome(hiding.streams(ended, info.mask, hiding.kept))
    if result["exit_code"] != 0 and not (isinstance(config, Mapping) and config.get("check") is False):
        raise CommandFailed(shown, result["exit_code"], result["signal"], last_line(result["stderr"]))
    return result


async def _lost(shown: str) -> Exception:
    """Why nothing is known of a command: the processes that keep commands were killed, or fail by themselves and would again."""
    failure = await asyncio.get_running_loop().run_in_executor(None, nursery.failure)
    if failure is None:
        return CommandLost(shown)
    code, said = failure
    return SandboxFailed("shell command", f"exit code {code}", said)


def outcome(ended: Mapping[str, Any]) -> dict[str, Any]:
    """What came of a command, as its step has it."""
    status = ended["status"]
    by = None if (number := -min(0, status)) == 0 else next((one.name for one in signal.Signals if one == number), str(number))
    streams = {name: ended[name] for name in ("stdout", "stderr")}
    return {
        "exit_code": SIGNALLED + number if by else status,
        "signal": by,
        **streams,
        "truncated": ended["truncated"],
        "duration_s": ended["duration_s"],
    }


def first_line(command: str) -> str:
    """As much of a command as may stand in an error."""
    line = command.strip().partition("\n")[0]
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def last_line(stderr: str) -> str:
    """The last thing that a command said of what went wrong."""
    return next((line.strip()[:200] for line in reversed(stderr.splitlines()) if line.strip()), "")
