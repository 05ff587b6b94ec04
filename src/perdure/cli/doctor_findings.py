"""What an examination of a database finds."""

from typing import Literal

import msgspec


class DoctorFinding(msgspec.Struct, frozen=True):
    """One examined fact: whether it is well, what was found, and what to do about it."""

    mark: Literal["ok", "warn", "bad"]
    what: str
    found: str
    advice: str = ""
