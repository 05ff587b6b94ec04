"""Names of secrets: those that an environment variable, a file and a definition can have."""

import re

from perdure.core.errors import BadValue

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def is_name(name: str) -> bool:
    """Whether a secret may be called so."""
    return NAME.fullmatch(name) is not None


def checked(name: str) -> str:
    """The name, if a secret may be called so.

    Raises:
        BadValue: it may not.
    """
    if not is_name(name):
        raise BadValue("the name of a secret", name, "1 to 128 letters, digits, underscores, dots and dashes, of which the first is no dot or dash")
    return name
