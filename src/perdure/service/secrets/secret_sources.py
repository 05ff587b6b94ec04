"""Reads secrets from the environment and from files, and checks the names of secrets.

The variable `PERDURE_SECRET_NAME` is the secret `NAME`. Files are a directory with one file per secret, as container platforms mount them, or one file with
lines NAME=value, JSON or YAML. They are read on each lookup, so changes take effect at once.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.core.errors import BadValue

SECRET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def is_secret_name(name: str) -> bool:
    """Whether the text is a valid name of a secret."""
    return SECRET_NAME.fullmatch(name) is not None


def checked_secret_name(name: str) -> str:
    """Returns the name if it is valid.

    Raises:
        BadValue: it is not.
    """
    if not is_secret_name(name):
        raise BadValue("the name of a secret", name, "1 to 128 letters, digits, underscores, dots and dashes, of which the first is no dot or dash")
    return name


ENVIRONMENT_PREFIX = "PERDURE_SECRET_"


def secret_from_environment(name: str) -> str | None:
    """The value of a secret in the environment; None if it is not set, or empty."""
    return (os.environ.get(ENVIRONMENT_PREFIX + name) or None) if is_secret_name(name) else None


def secret_names_in_environment() -> list[str]:
    """The names of the secrets that the environment sets."""
    return sorted(
        name for key, value in os.environ.items() if value and key.startswith(ENVIRONMENT_PREFIX) and is_secret_name(name := key[len(ENVIRONMENT_PREFIX) :])
    )


logger = logging.getLogger("perdure.secrets")

OTHERS_MAY_READ = 0o077
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class SecretFiles:
    """The secrets at `path`, a directory or a file. Warns once if other users than the owner may read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warned = False

    def find(self, name: str) -> str | None:
        """The value of a secret; None if there is none of that name. It may block.

        Raises:
            BadValue: nothing exists at the path, or it cannot be read.
        """
        if not is_secret_name(name):
            return None
        if not self.path.is_dir():
            return self._all().get(name)
        file = self.path / name
        return _without_final_newline(self._read(file)) if file.is_file() else None

    def names(self) -> list[str]:
        """The names of the secrets at the path."""
        if not self.path.is_dir():
            return sorted(name for name in self._all() if is_secret_name(name))
        return sorted(file.name for file in self.path.iterdir() if is_secret_name(file.name) and file.is_file())

    def _all(self) -> Mapping[str, str]:
        raw = self._read(self.path)
        match self.path.suffix.lower():
            case ".json":
                return self._texts(_parse_json(raw, self.path))
            case ".yaml" | ".yml":
                return self._texts(_parse_yaml(raw, self.path))
        return parse_env_lines(raw, self.path)

    def _texts(self, found: Any) -> Mapping[str, str]:
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise BadValue("the file of secrets", str(self.path), "a mapping of names to texts; put numbers in quotes")
        return found

    def _read(self, file: Path) -> str:
        try:
            mode = file.stat().st_mode
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise BadValue("PERDURE_SECRETS_PATH", str(self.path), "a directory or a file that is there") from None
        except (OSError, UnicodeDecodeError) as error:
            what = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise BadValue("the file of secrets", str(file), f"one that can be read: {what}") from None
        if mode & OTHERS_MAY_READ and not self._warned:
            self._warned = True
            logger.warning("the file of secrets %s is not private: users other than its owner may read it. Run chmod go= %s", file, file)
        return text


def parse_env_lines(text: str, file: Path) -> dict[str, str]:
    r"""Parses lines NAME=value; lines that begin with # are skipped. In double quotes, ``\n`` and the like are escapes.

    Raises:
        BadValue: a line is invalid. The error names its number and does not show its text.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (parts := _LINE.fullmatch(line)) is None:
            raise BadValue("the file of secrets", f"line {number} of {file}", "NAME=value, or a comment behind a #")
        name, value = parts.groups()
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), value[1:-1])
        elif len(value) >= 2 and value[0] == value[-1] == "'":
            value = value[1:-1]
        else:
            value = re.sub(r"\s+#.*$", "", value)
        found[name] = value
    return found


def _without_final_newline(text: str) -> str:
    """Strips the line break that editors add to a single line. Text of several lines, such as a PEM key, keeps it."""
    if text.count("\n") == 1 and text.endswith("\n"):
        return text[:-1].removesuffix("\r")
    return text


def _parse_json(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        at = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadValue("the file of secrets", str(file), f"JSON{at}") from None


def _parse_yaml(text: str, file: Path) -> Any:
    from perdure.definitions.format.document_parser import read_yaml  # imported here because it loads a large library

    document, _, findings = read_yaml(text)
    if findings:
        raise BadValue("the file of secrets", str(file), f"YAML{f' (line {findings[0].line})' if findings[0].line else ''}")
    return document
