"""Signed texts: a value that anybody can read and only a holder of a secret of the deployment can make, as text that is safe in a URL."""

import base64
from typing import Any, TypeVar

import msgspec

from perdure.core.errors import LinkRefused
from perdure.service.signing_secrets import is_signed, signature

T = TypeVar("T")


def signed_text(secret: bytes, domain: bytes, value: Any) -> str:
    """Returns the signed text of a value of a domain.

    Raises:
        BadValue: there is no secret, or it is too short.
    """
    said = text_of(msgspec.msgpack.encode(value))
    return f"{said}.{text_of(signature(secret, domain, said.encode(), 'links'))}"


def read_signed_text(secret: bytes, domain: bytes, signed: str, kind: type[T]) -> T:
    """Verifies a signed text of a domain, and returns its value.

    Raises:
        LinkRefused: the signature is not of this deployment.
    """
    said, _, by = signed.partition(".")
    try:
        if is_signed(secret, domain, said.encode(), bytes_of(by)):
            return msgspec.msgpack.decode(bytes_of(said), type=kind)
    except (ValueError, msgspec.MsgspecError):
        pass  # what can't be read was not signed here
    raise LinkRefused("it was not signed with the secret of this deployment, or was cut short")


def text_of(raw: bytes) -> str:
    """Returns bytes as text that is safe in a URL."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def bytes_of(shown: str) -> bytes:
    """Returns the bytes of a text that `text_of` has made.

    Raises:
        ValueError: it is none.
    """
    raw = base64.b64decode(shown.encode("ascii", "strict") + b"=" * (-len(shown) % 4), altchars=b"-_", validate=True)
    if text_of(raw) != shown:
        raise ValueError("the same bytes have another text")
    return raw
