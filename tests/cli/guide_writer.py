"""Has the guide say what the commands in it really say: runs each, in order, and writes the guide anew.

    python -m tests.cli.guide_writer

Only what stands in blocks of ``console`` is run; the first block of Python is the file that it is about, blocks of YAML are files beside it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs/guides/cli.md"
SHOWN_AS = "/home/ada/shop"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterator[str]:
    """The commands of a block."""
    return (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))


def file(text: str) -> tuple[str, str]:
    """The name and the text of the file that the guide is about."""
    found = PYTHON.search(text)
    assert found is not None
    return found[1], found[2].lstrip("\n")


class Session:
    """A shell in a directory of its own; what runs in the background ends with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir()
        script = directory / "bin/perdure"
        script.write_text(f"#!{sys.executable}\nfrom perdure.cli import main\nmain()\n")
        script.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{directory}/bin:{os.environ['PATH']}", "PYTHONPATH": str(GUIDE.parents[2] / "src")}
        self.environment.pop("PERDURE_DB", None)
        self.behind: list[subprocess.Popen[bytes]] = []

    def said(self, command: str) -> str:
        """What a command says on both outputs, as it would be seen."""
        if command.endswith("&"):
            return self.begun(command)
        ended = subprocess.run(
            ["bash", "-c", command], cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False
        )
        time.sleep(0.3)  # so that what it has brought about is there to be looked at
        return ended.stdout.decode().replace(str(self.directory), SHOWN_AS)

    def begun(self, command: str) -> str:
        """The first line of something that goes on in the background."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command.removesuffix('&')}"], cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.behind.append(process)
        assert process.stdout is not None
        return process.stdout.readline().decode()

    def end(self) -> None:
        """End what runs in the background."""
        for process in self.behind:
            process.terminate()
            process.communicate()


def rewritten(text: str) -> str:
    """The guide, with what its commands say now."""
    with tempfile.TemporaryDirectory() as place:
        session = Session(Path(place))
        name, source = file(text)
        (session.directory / name).write_text(source)
        for document, content in YAML.findall(text):
            (session.directory / document).write_text(content)

        def filled(found: re.Match[str]) -> str:
            parts = (f"$ {command}\n{session.said(command)}" for command in commands(found[1]))
            return f"```console\n{''.join(parts)}```"

        try:
            return BLOCK.sub(filled, text)
        finally:
            session.end()


if __name__ == "__main__":
    GUIDE.write_text(rewritten(GUIDE.read_text()))
