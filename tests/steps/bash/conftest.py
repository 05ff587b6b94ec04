"""What tests of commands are given."""

from pathlib import Path

import pytest

from perdure.steps.bash import kind
from tests.steps.bash.shell import SHORT_GRACE_S, Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell whose commands have a short grace."""
    monkeypatch.setattr(kind, "GRACE_S", SHORT_GRACE_S)
    return Shell(tmp_path / "work")
