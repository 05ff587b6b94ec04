"""The kind `bash`: a shell command in the working directory of its execution, with nothing of the engine's environment.

Its result is ``{exit_code, signal, stdout, stderr, truncated, duration_s}``. An exit code other than 0 fails the step, which is retried only if the
definition says `retry`. With ``check: false`` every exit code is data; a command that a signal ended has 128 plus the signal's number.

The engine masks secrets in the output, as the supervisor does not know them. A masked stream also loses what may be left of a secret beside a cut.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.code.declarations import Retry
from perdure.code.durations import duration_seconds
from perdure.code.step_environment import StepInfo, step_info
from perdure.core.errors import BadValue, CommandFailed, CommandLost, CommandRefused, NotAllowed, SandboxFailed, Timeout
from perdure.core.paths import Key
from perdure.core.secret_masks import Mask
from perdure.definitions.graph.step_kind import Kind, Limit
from perdure.definitions.kinds.bash import fork_server_client
from perdure.definitions.kinds.bash.command_supervisor import KEPT_CHARACTERS, LAST_CHARACTERS
from perdure.definitions.kinds.bash.fork_server_client import run_supervised
from perdure.definitions.kinds.bash.isolation import ISOLATION_LEVELS, Isolation, stricter
from perdure.definitions.kinds.deployment import Deployment
from perdure.supervision.process_supervisor import GRACE_S


def masked_streams(said: Mapping[str, Any], mask: Mask, hide: Callable[[str, Mask], str]) -> dict[str, Any]:
    """A report of a supervisor with its streams masked."""
    return {**said, **{name: hide(said[name], mask) for name in ("stdout", "stderr") if mask}}


def masked_output(text: str, mask: Mask) -> str:
    """The kept text of a stream without secrets, and without the rest of a secret that the cut in the middle has parted."""
    if len(text) <= KEPT_CHARACTERS:
        return mask.text(text)
    half = KEPT_CHARACTERS // 2
    head, tail = mask.cut(text[:half], text[-half:])
    return f"{head}{text[half:-half]}{tail}"


def masked_last_lines(text: str, mask: Mask) -> str:
    """The last lines of a stream without secrets, and without the rest of a secret at their beginning."""
    if len(text) < LAST_CHARACTERS // 2:  # so short, they begin where a line does
        return mask.text(text)
    return mask.cut("", text)[1]


SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFIG_FIELDS = ("command", "cwd", "check", "stdin", "isolate")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
READABLE, DIGITS = 24, 32


def command_request(config: Any, input: Any, env: Mapping[str, Any] | None, work: Path, info: StepInfo) -> dict[str, Any]:
    """The request for a supervisor, except for the shell and its limits. Values of `env` that are text stay as they are, others become JSON; None unsets a
    variable.

    Raises:
        BadValue: a value can't be used.
    """
    said = config_mapping(config)
    parts = directory_parts(info.execution)
    home = str(work.absolute().joinpath(*parts))
    return {
        "lock": sha256(f"{home} {info.key}".encode("utf-8", "surrogatepass")).hexdigest(),
        "command": checked_text(said["command"], "command"),
        "work": str(work.absolute()),
        "parts": parts,
        "cwd": checked_text(said.get("cwd", "."), "cwd"),
        "stdin": stdin_text(said, input),
        "isolate": isolation_level(said.get("isolate", "none")),
        "env": command_environment(env, home, info),
    }


def config_mapping(config: Any) -> Mapping[str, Any]:
    """The config as a mapping; text is short for its `command`.

    Raises:
        BadValue: it is neither a mapping nor text.
    """
    if isinstance(config, str):
        return {"command": config}
    if not isinstance(config, Mapping) or not isinstance(config.get("command"), str):
        raise BadValue("bash", type(config).__name__, "a command, or {command: …}")
    if unknown := [name for name in config if name not in CONFIG_FIELDS]:
        raise BadValue("bash", unknown[0], f"one of its fields {', '.join(CONFIG_FIELDS)}")
    return config


def isolation_level(said: Any) -> Isolation:
    """The level that `isolate` names; true is the strictest.

    Raises:
        BadValue: there is no such level.
    """
    if isinstance(said, bool):
        return ISOLATION_LEVELS[-1] if said else ISOLATION_LEVELS[0]
    found = next((one for one in ISOLATION_LEVELS if one == said), None)
    if found is None:
        raise BadValue("isolate", said, f"true, or one of {', '.join(ISOLATION_LEVELS)}")
    return found


def stdin_text(said: Mapping[str, Any], input: Any) -> str | None:
    """The standard input of the command: `stdin` or ``with``. Text stays as it is, anything else becomes JSON.

    Raises:
        BadValue: both are present.
    """
    given = said.get("stdin")
    if given is not None and input is not None:
        raise BadValue("bash", "with", "allowed beside stdin: the command reads one of the two")
    given = input if given is None else given
    return None if given is None else _encodable(given if isinstance(given, str) else as_json(given), "stdin")


def command_environment(env: Mapping[str, Any] | None, home: str, info: StepInfo) -> dict[str, str]:
    """The whole environment of a command.

    Raises:
        BadValue: a name or a value can't be part of an environment.
    """
    key = info.execution
    always = {
        "PATH": SYSTEM_PATH,
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PERDURE_EXECUTION_ID": key.id,
        "PERDURE_WORKFLOW": key.workflow,
        "PERDURE_IDEMPOTENCY_KEY": info.key,
        "PERDURE_ATTEMPT": str(info.attempt),
        "IS_WORKFLOW_SESSION": "true",
        "WORKFLOW_ID": key.workflow,
        "WORKFLOW_EXECUTION_ID": key.id,
    }
    given = {_variable(name): value for name, value in (env or {}).items()}
    unset = {name for name, value in given.items() if value is None}
    texts = {name: checked_text(value if isinstance(value, str) else as_json(value), f"env.{name}") for name, value in given.items() if value is not None}
    return {name: value for name, value in (always | texts).items() if name not in unset}


def as_json(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _variable(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise BadValue("env", name, "the name of a variable, which contains no =")
    return checked_text(name, "env")


def checked_text(value: Any, where: str) -> str:
    """A text that can be passed to a program. The errors do not repeat the text, which may hold a secret.

    Raises:
        BadValue: it can't be passed.
    """
    if not isinstance(value, str):
        raise BadValue(where, type(value).__name__, "text")
    if "\0" in value:
        raise BadValue(where, "text with a NUL character", "a value that a program can take; encode it, for instance in base64")
    return _encodable(value, where)


def _encodable(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValue(where, "text with a lone surrogate", "text that can be encoded in UTF-8") from None
    return value


def directory_parts(key: Key) -> list[str]:
    """The path of an execution's working directory below that of the deployment."""
    return [directory_name(key.tenant), directory_name(key.workflow), directory_name(key.id)]


def directory_name(name: str) -> str:
    """A directory name for any text: the text itself if it is short and plain, else its beginning and a hash. Different texts get different names."""
    if PLAIN_NAME.fullmatch(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:READABLE].strip("-")
    return f"{readable}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:DIGITS]}"


TIMEOUT_S, TIMEOUT_S_MAX = 120.0, 600.0
SHOWN_CHARACTERS_MAX = 80
SIGNALLED = 128
"""Shells report the number of a fatal signal plus this as the exit code."""

HOW_TO_ALLOW = "start the engine with --allow bash, or give its definitions Deployment(allowed=Allowed(bash=True))"

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
                "isolate": {"enum": [True, False, *ISOLATION_LEVELS]},
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


def bash_kind(deployment: Deployment) -> Kind:
    """The kind `bash` of a deployment."""

    async def run(config: Any, input: Any = None, env: Any = None) -> dict[str, Any]:
        return await run_command(deployment, config, input, env)

    return Kind(
        name="bash",
        run=run,
        title="Shell command",
        summary="Runs a command with bash in the working directory of the execution; values reach it through env and stdin.",
        icon="terminal",
        config=CONFIG,
        output=OUTPUT,
        limits=(
            Limit("timeout", "120 s", "600 s", "all processes of the command are ended, and the attempt has failed"),
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
    """Yields the problems of a config beyond its JSON Schema."""
    said, at = ({"command": config}, "") if isinstance(config, str) else (config, "/command")
    command = said.get("command") if isinstance(said, Mapping) else None
    if isinstance(command, str) and "\0" in command:
        yield at, "no NUL can stand in a command"


def check_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Problems of a whole step: a timeout that is too long, and two sources of standard input."""
    with suppress(BadValue):  # which the format says
        if "timeout" in step and duration_seconds(step["timeout"]) > TIMEOUT_S_MAX:
            yield "", f"a command has at most {TIMEOUT_S_MAX:g} s; start what takes longer elsewhere, and wait for it with repeat"
    if "with" in step and isinstance(said := step.get("bash"), Mapping) and "stdin" in said:
        yield "/stdin", "'with' is what the command reads as well; keep one of the two"


async def run_command(deployment: Deployment, config: Any, input: Any, env: Any) -> dict[str, Any]:
    """Runs a command and returns its result. However this ends, no process of the command is left.

    Raises:
        NotAllowed, CommandRefused, BadValue: the command was not started.
        CommandFailed: its exit code is not 0, and the config does not have check: false.
        Timeout: it exceeded the longest time that a command may take.
        CommandLost: its supervisor was killed, and the command with it.
        SandboxFailed: the supervisor or the fork server has a defect.
    """
    if not deployment.allowed.bash:
        raise NotAllowed("bash", "a shell command has the rights of the engine's own user", HOW_TO_ALLOW)
    info = step_info()
    asked = command_request(config, input, env, deployment.work, info)
    shell = shutil.which("bash")
    if sys.platform == "win32":
        raise CommandRefused("on Windows, processes can't be kept together; run the engine in WSL")
    if shell is None:
        raise CommandRefused("there is no bash on this machine; install it, or put it into the PATH of the engine")
    shown, isolate = first_line(asked["command"]), stricter(asked["isolate"], deployment.isolate)
    if isolate == "all":
        asked["env"].setdefault("TMPDIR", asked["env"].get("HOME", ""))
    more = {"command": [shell, "-lc", asked["command"]], "isolate": isolate, "limit_s": TIMEOUT_S_MAX, "grace_s": GRACE_S}
    said = await run_supervised({**asked, **more}, lambda progress: info.heartbeat(masked_streams(progress, info.mask, masked_last_lines)))
    if why := said.get("refused"):
        raise CommandRefused(f"{shown}: {why}")
    if trace := said.get("broken"):
        raise SandboxFailed("shell command", trace.strip().rpartition("\n")[2], info.mask.text(trace))
    ended = said.get("ended")
    if ended is None or ended["status"] is None:
        raise await _lost(shown)
    if ended["why"] == "limit":
        raise Timeout(f"bash: {shown}", TIMEOUT_S_MAX)
    result = command_result(masked_streams(ended, info.mask, masked_output))
    if result["exit_code"] != 0 and not (isinstance(config, Mapping) and config.get("check") is False):
        raise CommandFailed(shown, result["exit_code"], result["signal"], last_line(result["stderr"]))
    return result


async def _lost(shown: str) -> Exception:
    """The error for a command without a result: its supervisor was killed, or the fork server fails by itself and would again."""
    failure = await asyncio.get_running_loop().run_in_executor(None, fork_server_client.fork_server_failure)
    if failure is None:
        return CommandLost(shown)
    code, said = failure
    return SandboxFailed("shell command", f"exit code {code}", said)


def command_result(ended: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a command, as the step returns it."""
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
    """The beginning of a command, short enough for an error message."""
    line = command.strip().partition("\n")[0]
    return line if len(line) <= SHOWN_CHARACTERS_MAX else f"{line[: SHOWN_CHARACTERS_MAX - 1]}…"


def last_line(stderr: str) -> str:
    """The last line of standard error, for an error message."""
    return next((line.strip()[:200] for line in reversed(stderr.splitlines()) if line.strip()), "")
