"""What a process that serves the API knows of itself: its version, when it began, its parts, and the settings that people ask for. No secret is among them."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec


class ServerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A process that serves the API. `roles` are its parts (empty: it does not say), and `settings` what it was started with, by the names of its options.

    `logs_url` is the template of the address at which its logs are read (empty: it does not know one).
    """

    version: str
    started_at_s: float
    roles: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    logs_url: str = ""


def package_version() -> str:
    """The version of this package; empty if it runs from sources that were never installed."""
    try:
        return version("perdure")
    except PackageNotFoundError:
        return ""


NO_SERVER = ServerDescription(version=package_version(), started_at_s=0.0)
"""There is no server: the store is open in the process that asks."""
