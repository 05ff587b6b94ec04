"""A shell for tests, and the transcripts that hold what each command prints.

Commands run in this process as users type them. Their output is compared with `golden/`, which has one transcript for each group of commands in
`perdure --help`; a section of a transcript is one command with its output and exit code. What differs from run to run (times, generated ids, names of
processes, paths, versions) is replaced by fixed words. To rewrite the transcripts, and then read the difference, run

    PERDURE_GOLDEN=write python -m pytest -n0 tests/cli
"""

import os
import platform
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from perdure.cli.command_list import root

HERE = Path(__file__).parent
FLOWS = HERE / "flows.py"
APPROVAL_FLOWS = HERE / "approval_flows.py"
CHANGED = HERE / "changed_flows.py"
GOLDEN = HERE / "golden"
SECTION = r"^#### (\S+)\n"
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
        """A command line, without `perdure`; FLOWS, APPROVALS and CHANGED stand for the files with the workflows."""
        words = [word.replace("FLOWS", str(FLOWS)).replace("APPROVALS", str(APPROVAL_FLOWS)).replace("CHANGED", str(CHANGED)) for word in shlex.split(command)]
        result = CliRunner().invoke(root, ["--db", self.db, *words], input=stdin, prog_name="perdure")
        return Said(result.exit_code, result.stdout, result.stderr)

    def ok(self, command: str, stdin: str = "") -> str:
        """What a command line prints that does not fail; see `run`."""
        said = self.run(command, stdin)
        assert said.code == 0, said.err
        return said.out


def run_aside(*words: str, **environment: str | None) -> Said:
    """Runs a command in this process, which is faster than in one of its own, and in a thread: the caller may have an event loop."""
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(CliRunner().invoke, root, list(words), env=environment, prog_name="perdure").result()
    return Said(result.exit_code, result.stdout, result.stderr)


def steady(text: str, directory: Path) -> str:
    """`text` without what differs from run to run; columns are two blanks apart, for their width depends on it."""
    text = text.replace(str(directory), "DIR").replace(str(HERE), "TESTS")
    for pattern, word in STEADY:
        text = re.sub(pattern, word, text)
    return re.sub(r"(?<=\S) {2,}", "  ", text)


def transcript(command: str, said: Said, stdin: str = "") -> str:
    """The command, what it printed on both outputs, and its exit code, as a section of a transcript has it."""
    given = "".join(f"< {line}\n" for line in stdin.splitlines())
    complaints = "".join(f"! {line}\n" for line in said.err.splitlines())
    return f"$ perdure {command}\n{given}{said.out}{complaints}= {said.code}\n"


def transcript_file(text: str) -> Path:
    """The transcript of the group that the first command of `text` belongs to; what names no command is in `usage.txt`."""
    words = text.partition("\n")[0].split()[2:]
    groups = {name: title for title, names in root.sections.items() for name in names}
    title = next((groups[word] for word in words if word in groups), "usage")
    return GOLDEN / f"{title.lower().replace(' ', '_')}.txt"


def read_sections(file: Path) -> dict[str, str]:
    """The sections of a transcript by their names."""
    _, *parts = re.split(SECTION, file.read_text(), flags=re.MULTILINE) if file.exists() else [""]
    return {name: text.removesuffix("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def write_sections(file: Path, sections: dict[str, str]) -> None:
    """Writes a transcript, with its sections in the order of their names."""
    file.write_text("\n".join(f"#### {name}\n{sections[name]}" for name in sorted(sections)) + "\n")


def agrees(name: str, text: str) -> None:
    """The section of this name says the same; or does from now on, if transcripts are being rewritten."""
    file = transcript_file(text)
    sections = read_sections(file)
    if WRITES and sections.get(name) != text:
        sections[name] = text
        write_sections(file, sections)
    assert name in sections, f"{file} has no section {name}; write it with PERDURE_GOLDEN=write"
    assert text == sections[name]
