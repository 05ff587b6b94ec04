"""A bank with accounts in a file of its own, which knows nothing of workflows.

Each booking has a reference, which is its idempotency key: asked again with the same reference, the bank answers as before and books nothing. A booking can
be cancelled by its reference, also one that never arrived, which is then refused if it arrives later.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

TABLES = """
CREATE TABLE IF NOT EXISTS accounts (number TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0));
CREATE TABLE IF NOT EXISTS bookings (reference TEXT PRIMARY KEY, account TEXT, cents INTEGER NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0);
"""


class InvalidAccountError(Exception):
    """The bank has no such account."""


class InsufficientFundsError(Exception):
    """The account has less than the amount."""


class BookingCancelledError(Exception):
    """The booking was cancelled before it arrived."""


class Bank:
    """The bank. A request takes `delay_s` after it has been booked, so that a process may be killed between the booking and the answer."""

    def __init__(self, file: Path, delay_s: float = 0.0) -> None:
        self.file, self.delay_s = file, delay_s

    def open_accounts(self, cents: dict[str, int]) -> None:
        """Opens accounts with their balances; an account that exists keeps its own."""
        with self._transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO accounts VALUES (?, ?)", cents.items())

    def withdraw(self, account: str, cents: int, reference: str) -> str:
        """Takes money from an account and returns the transaction id.

        Raises:
            InvalidAccountError, InsufficientFundsError, BookingCancelledError: nothing was booked.
        """
        return "W" + self._book(account, -cents, reference)

    def deposit(self, account: str, cents: int, reference: str) -> str:
        """Adds money to an account and returns the transaction id.

        Raises:
            InvalidAccountError, BookingCancelledError: nothing was booked.
        """
        return "D" + self._book(account, cents, reference)

    def cancel(self, reference: str) -> None:
        """Reverses the booking with this reference, or keeps it from being booked later. Repeated, it does nothing."""
        with self._transaction() as connection:
            row = connection.execute("SELECT account, cents, cancelled FROM bookings WHERE reference = ?", (reference,)).fetchone()
            if row is None:
                connection.execute("INSERT INTO bookings VALUES (?, NULL, 0, 1)", (reference,))
            elif not row[2]:
                connection.execute("UPDATE accounts SET cents = cents - ? WHERE number = ?", (row[1], row[0]))
                connection.execute("UPDATE bookings SET cancelled = 1 WHERE reference = ?", (reference,))
        time.sleep(self.delay_s)

    def balances(self) -> dict[str, int]:
        """Returns what each account holds, in cents."""
        with self._transaction() as connection:
            return dict(connection.execute("SELECT number, cents FROM accounts ORDER BY number").fetchall())

    def bookings(self) -> list[tuple[str, int, bool]]:
        """Returns the reference, the amount in cents and whether it was cancelled, of each booking in the order of their arrival."""
        with self._transaction() as connection:
            rows = connection.execute("SELECT reference, cents, cancelled FROM bookings ORDER BY rowid").fetchall()
        return [(reference, cents, bool(cancelled)) for reference, cents, cancelled in rows]

    def _book(self, account: str, cents: int, reference: str) -> str:
        with self._transaction() as connection:
            booked = connection.execute("SELECT rowid, cancelled FROM bookings WHERE reference = ?", (reference,)).fetchone()
            if booked is None:
                balance = connection.execute("SELECT cents FROM accounts WHERE number = ?", (account,)).fetchone()
                if balance is None:
                    raise InvalidAccountError(f"The account number {account} is invalid.")
                if balance[0] + cents < 0:
                    raise InsufficientFundsError(f"The account {account} has insufficient funds to complete this transaction.")
                connection.execute("UPDATE accounts SET cents = cents + ? WHERE number = ?", (cents, account))
                number = connection.execute("INSERT INTO bookings (reference, account, cents) VALUES (?, ?, ?)", (reference, account, cents)).lastrowid
            elif booked[1]:
                raise BookingCancelledError(f"The booking {reference} was cancelled.")
            else:
                number = booked[0]
        time.sleep(self.delay_s)
        return str(number)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file, timeout=30, isolation_level=None)) as connection:
            connection.executescript(TABLES)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
