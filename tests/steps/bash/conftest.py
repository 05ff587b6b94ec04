"""What tests of commands are given."""

from pathlib import Path

import pytest

from perdure.steps.bash import kind
from tests.steps.bash.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell whose commands have a short grace."""
    monkeypatch.setattr(kind, "GRACE_S", 0.4)
    return Shell(tmp_path / "work")
