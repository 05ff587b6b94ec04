"""What tests of all kinds of steps are given."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.definitions.kinds.bash import bash_kind
from tests.definitions.kinds.bash.command_runner import SHORT_GRACE_S
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer
from tests.definitions.kinds.kind_table import KindEnvironment


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KindEnvironment]:
    """What steps of all kinds reach; commands have a short grace."""
    monkeypatch.setattr(bash_kind, "GRACE_S", SHORT_GRACE_S)
    async with MisbehavingServer() as server:
        yield KindEnvironment(server.url(), tmp_path).served_by(server)
