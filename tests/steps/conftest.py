"""What tests of all kinds of steps are given."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.steps.bash import kind
from tests.steps.bash.shell import SHORT_GRACE_S
from tests.steps.http.server import Server
from tests.steps.kinds import Place


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """What steps of all kinds reach; commands have a short grace."""
    monkeypatch.setattr(kind, "GRACE_S", SHORT_GRACE_S)
    async with Server() as server:
        yield Place(server.url(), tmp_path).served_by(server)
