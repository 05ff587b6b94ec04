"""The release: real commands from a checkout to archives with their checksums, a person who decides between, and tests that fail."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.definitions.kinds.bash.bash_kind import SYSTEM_PATH

EXAMPLE = Path(__file__).parents[2] / "examples" / "release.yaml"
LACKING = [name for name in ("bash", "git", "gzip", "tar", "python3", "sha256sum") if shutil.which(name, path=SYSTEM_PATH) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"it takes {', '.join(LACKING)}")


class ReleaseDirectory:
    """A shell in a directory of its own, in which releases are made."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def perdure(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "perdure.cli", "--db", f"sqlite:///{self.directory}/perdure.db", *words]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=60, check=False)

    def release(self, *more: str) -> "subprocess.CompletedProcess[str]":
        return self.perdure("run", str(EXAMPLE), "--allow", "bash", "--work", "work", "--id", "r1", *more)

    @property
    def work(self) -> Path:
        """The working directory of its commands."""
        return self.directory / "work" / "default" / "release" / "r1"


@pytest.fixture
def release_directory(tmp_path: Path) -> ReleaseDirectory:
    return ReleaseDirectory(tmp_path)


@pytest.mark.slow
def test_it_is_tested_packed_approved_looked_at_and_published(release_directory: ReleaseDirectory) -> None:
    asked = release_directory.release("--no-wait")
    assert asked.returncode == 31, asked.stderr
    assert sorted(archive.name for archive in (release_directory.work / "dist").iterdir()) == ["greeting-1.0.0-amd64.tar.gz", "greeting-1.0.0-arm64.tar.gz"]
    assert not (release_directory.work / "published").exists()
    assert release_directory.perdure("approve", "r1", "--as", "ada", "-i", "channel=beta", "--no-wait").returncode == 0
    ended = release_directory.release()
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert (result["channel"], result["said"]) == ("beta", "Hello world\n") and re.fullmatch(r"[0-9a-f]{7,}\n", result["commit"])
    published = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in (release_directory.work / "published" / "beta").glob("*.tar.gz")}
    assert result["checksums"] == "".join(f"{digest}  {name}\n" for name, digest in sorted(published.items())) and len(published) == 2
    assert (release_directory.release().stdout, list(release_directory.directory.rglob(".part"))) == (ended.stdout, [])


@pytest.mark.slow
def test_when_its_tests_fail_nothing_is_packed_and_the_failure_says_which(release_directory: ReleaseDirectory) -> None:
    ended = release_directory.release("-i", "broken=true")
    assert ended.returncode == 40
    assert "TestsFail: the tests of 1.0.0 fail" in ended.stderr and "Hello Ada" in ended.stderr
    assert not (release_directory.work / "dist").exists()


@pytest.mark.slow
def test_without_leave_no_command_is_run(release_directory: ReleaseDirectory) -> None:
    ended = release_directory.perdure("run", str(EXAMPLE), "--work", "work")
    assert ended.returncode == 40 and "not_allowed: bash is not allowed here" in ended.stderr
    assert not (release_directory.directory / "work").exists()
