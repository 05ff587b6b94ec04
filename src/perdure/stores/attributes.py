"""Attributes as text: where a database can tell rows but no rows in rows, a head has them in one column, in hexadecimal digits."""

from perdure.core.attributes import Indexed


def from_hex(told: str | None) -> Indexed:
    """The attributes in ``name=value,name=value``, in order of name; None says that there are none."""
    pairs = (one.partition("=") for one in told.split(",")) if told else ()
    return tuple(sorted((bytes.fromhex(name).decode(), bytes.fromhex(value)) for name, _, value in pairs))
