"""Connections of users to the file of a store that passes the conformance suite."""

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest


class FileUsers:
    """Connects to the database below `directory`, and closes what it has opened after each test."""

    directory: Path

    @pytest.fixture(autouse=True)
    def _connections(self) -> Iterator[None]:
        with ExitStack() as self.connections:
            yield

    async def user_connection(self) -> tuple[Any, Callable[[str], Awaitable[object]]]:
        """See `RecordSuite.user_connection`."""
        (file,) = self.directory.rglob("perdure.db")
        connection = self.connections.enter_context(closing(sqlite3.connect(file, isolation_level=None)))

        async def execute(sql: str) -> object:
            return connection.execute(sql)

        return connection, execute
