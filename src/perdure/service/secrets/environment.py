"""Secrets in the environment: `PERDURE_SECRET_NAME` is the secret `NAME`."""

import os

from perdure.service.secrets.names import is_name

PREFIX = "PERDURE_SECRET_"


def find(name: str) -> str | None:
    """The value of a secret; None if it is not set, or empty."""
    return (os.environ.get(PREFIX + name) or None) if is_name(name) else None


def names() -> list[str]:
    """The names of those that are set."""
    return sorted(name for key, value in os.environ.items() if value and key.startswith(PREFIX) and is_name(name := key[len(PREFIX) :]))
