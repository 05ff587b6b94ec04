"""Asking: what a keeper is told of a step: the command, where it runs, its environment and its input, all worked out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.programs.code.info import StepInfo
from perdure.steps.bash.isolation import LEVELS, Isolation

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIELDS = ("command", "cwd", "check", "stdin", "isolate")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
READABLE, DIGITS = 24, 32


def asked(config: Any, input: Any, env: Mapping[str, Any] | None, work: Path, info: StepInfo) -> dict[str, Any]:
    """What a keeper is told, but for the shell and its limits. The values of `env` are text as it is, and all else in JSON; None unsets a variable.

    Raises:
        BadValue: something that was given has no meaning here.
    """
    said = spelled_out(config)
    parts = directory(info.execution)
    home = str(work.absolute().joinpath(*parts))
    return {
        "lock": sha256(f"{home} {info.key}".encode("utf-8", "surrogatepass")).hexdigest(),
        "command": text(said["command"], "command"),
        "work": str(work.absolute()),
        "parts": parts,
        "cwd": text(said.get("cwd", "."), "cwd"),
        "stdin": stdin(said, input),
        "isolate": level(said.get("isolate", "none")),
        "env": environment(env, home, info),
    }


def spelled_out(config: Any) -> Mapping[str, Any]:
    """The mapping that a config is, or that its text stands for.

    Raises:
        BadValue: it is neither.
    """
    if isinstance(config, str):
        return {"command": config}
    if not isinstance(config, Mapping) or not isinstance(config.get("command"), str):
        raise BadValue("bash", type(config).__name__, "a command, or {command: …}")
    if unknown := [name for name in config if name not in FIELDS]:
        raise BadValue("bash", unknown[0], f"one of its fields {', '.join(FIELDS)}")
    return config


def level(said: Any) -> Isolation:
    """The isolation that `isolate` asks for: true is all of it.

    Raises:
        BadValue: there is none of that name.
    """
    if isinstance(said, bool):
        return LEVELS[-1] if said else LEVELS[0]
    found = next((one for one in LEVELS if one == said), None)
    if found is None:
        raise BadValue("isolate", said, f"true, or one of {', '.join(LEVELS)}")
    return found


def stdin(said: Mapping[str, Any], input: Any) -> str | None:
    """What the command reads: `stdin`, or what stands in ``with``; text as it is, and all else in JSON.

    Raises:
        BadValue: both are given.
    """
    given = said.get("stdin")
    if given is not None and input is not None:
        raise BadValue("bash", "with", "to be given beside stdin: either is what the command reads")
    given = input if given is None else given
    return None if given is None else _encodable(given if isinstance(given, str) else as_json(given), "stdin")


def environment(env: Mapping[str, Any] | None, home: str, info: StepInfo) -> dict[str, str]:
    """The whole environment of a command.

    Raises:
        BadValue: a name or a value can't stand in one.
    """
    key = info.execution
    always = {
        "PATH": SYSTEM_PATH,
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PERDURE_EXECUTION_ID": key.id,
        "PERDURE_WORKFLOW": key.workflow,
        "PERDURE_KEY": info.key,
        "PERDURE_ATTEMPT": str(info.attempt),
        "IS_WORKFLOW_SESSION": "true",
        "WORKFLOW_ID": key.workflow,
        "WORKFLOW_EXECUTION_ID": key.id,
    }
    given = {_variable(name): value for name, value in (env or {}).items()}
    unset = {name for name, value in given.items() if value is None}
    texts = {name: text(value if isinstance(value, str) else as_json(value), f"env.{name}") for name, value in given.items() if value is not None}
    return {name: value for name, value in (always | texts).items() if name not in unset}


def as_json(value: Any) -> str:
    """A value in JSON, on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _variable(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise BadValue("env", name, "the name of a variable, in which no = can stand")
    return text(name, "env")


def text(value: Any, where: str) -> str:
    """A text that a program can be given; what is wrong with one is said without repeating it.

    Raises:
        BadValue: it is none.
    """
    if not isinstance(value, str):
        raise BadValue(where, type(value).__name__, "text")
    if "\0" in value:
        raise BadValue(where, "a text with a NUL in it", "something that a program can be given; encode it, in base64 for instance")
    return _encodable(value, where)


def _encodable(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValue(where, "a text with half a character in it", "something that has an encoding in UTF-8") from None
    return value


def directory(key: Key) -> list[str]:
    """Where the working directory of an execution is, below that of the deployment."""
    return [safe(key.tenant), safe(key.workflow), safe(key.id)]


def safe(name: str) -> str:
    """A name of a directory for any text: the text itself if it is short and plain, else its beginning and a hash. No two texts have one."""
    if PLAIN_NAME.fullmatch(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:READABLE].strip("-")
    return f"{readable}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:DIGITS]}"
