"""A shell for tests: commands run in this process as users type them, and golden files hold what they say.

What differs from run to run (times, made-up ids, names of processes, paths, versions) is replaced by words that stay the same.
Rewrite the golden files, and then read the difference, with

    PERDURE_GOLDEN=write python -m pytest tests/cli
"""

import os
import platform
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from perdure.cli.command_list import root

HERE = Path(__file__).parent
FLOWS = HERE / "flows.py"
DESK = HERE / "desk.py"
CHANGED = HERE / "changed.py"
GOLDEN = HERE / "golden"
WRITES = os.environ.get("PERDURE_GOLDEN") == "write"

STEADY = (
    (r"engine-[0-9a-f]{32}", "engine-NAME"),
    (r"\b[0-9a-f]{32}\b", "MADE-UP-ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?", "TIME"),
    (r"(?<=_s\": )\d+\.\d+", "SECONDS"),
    (r"(?<=_s\":)\d+\.\d+", "SECONDS"),
    (r"\b\d+(\.\d+)? (ms|s|min|h|d)\b( \d+ (s|min|h)\b)?", "A-WHILE"),
    (r"\bline \d+", "line N"),
    (r"(tables +version )\d+", r"\1N"),
    (r"\b\d+(\.\d+)? ([KMGT]iB|bytes)", "SIZE"),
    (r'"size_bytes": \d+', '"size_bytes": SIZE'),
    (r"\b\d+\.\d+\.\d+\b", "VERSION"),
    (rf"{re.escape(platform.node())}  ?\d+", "HOST PID"),
    (rf"{platform.system()} {platform.machine()}", "SYSTEM"),
    (r" /[^ ]+(?= can be written)", " PLACE"),
)


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """Runs commands on one database."""

    db: str

    @property
    def directory(self) -> Path:
        """Where the database is, and the shell."""
        return Path(self.db.removeprefix("sqlite:///")).parent

    def run(self, command: str, stdin: str = "") -> Said:
        """A command line, without `perdure`; FLOWS, DESK and CHANGED stand for the files with the workflows."""
        words = [word.replace("FLOWS", str(FLOWS)).replace("DESK", str(DESK)).replace("CHANGED", str(CHANGED)) for word in shlex.split(command)]
        result = CliRunner().invoke(root, ["--db", self.db, *words], input=stdin, prog_name="perdure")
        return Said(result.exit_code, result.stdout, result.stderr)


def steady(text: str, directory: Path) -> str:
    """`text` without what differs from run to run; columns are two blanks apart, for their width depends on it."""
    text = text.replace(str(directory), "DIR").replace(str(HERE), "TESTS")
    for pattern, word in STEADY:
        text = re.sub(pattern, word, text)
    return re.sub(r"(?<=\S) {2,}", "  ", text)


def transcript(command: str, said: Said, stdin: str = "") -> str:
    """The command, what it said on both outputs, and its exit code, as a golden file has it."""
    given = "".join(f"< {line}\n" for line in stdin.splitlines())
    complaints = "".join(f"! {line}\n" for line in said.err.splitlines())
    return f"$ perdure {command}\n{given}{said.out}{complaints}= {said.code}\n"


def agrees(name: str, text: str) -> None:
    """The golden file of this name says the same; or does from now on, if it is being rewritten."""
    file = GOLDEN / f"{name}.txt"
    if WRITES:
        file.write_text(text)
    assert file.exists(), f"there is no {file}; make it with PERDURE_GOLDEN=write"
    assert text == file.read_text()
