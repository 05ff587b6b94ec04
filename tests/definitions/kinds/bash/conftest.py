"""What tests of commands are given."""

from pathlib import Path

import pytest

from perdure.definitions.kinds.bash import bash_kind
from tests.definitions.kinds.bash.command_runner import SHORT_GRACE_S, CommandRunner


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandRunner:
    """A shell whose commands have a short grace."""
    monkeypatch.setattr(bash_kind, "GRACE_S", SHORT_GRACE_S)
    return CommandRunner(tmp_path / "work")
