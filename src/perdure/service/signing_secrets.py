"""The secrets with which a deployment signs links, exports and resume tokens. The first one signs, and all of them verify, so that one can be replaced.

    PERDURE_SIGNING_SECRET           the secret that signs
    PERDURE_FORMER_SIGNING_SECRETS   those that signed before, separated by spaces or lines

Between functions they travel as one value: the secrets, each on a line.
"""

import hmac
import os
from hashlib import sha256

from perdure.core.errors import BadValue

VARIABLE, FORMER_VARIABLE = "PERDURE_SIGNING_SECRET", "PERDURE_FORMER_SIGNING_SECRETS"

SECRET_BYTES_MIN = 16


def environment_secrets() -> bytes:
    """Returns the secrets of the environment; empty if there is none that signs."""
    secret = os.environ.get(VARIABLE, "")
    former = os.environ.get(FORMER_VARIABLE, "").split() if secret else []
    return "\n".join((secret, *former)).encode()


def secrets_of(lines: bytes) -> list[bytes]:
    """Returns the secrets of a value that has them line by line, the one that signs first."""
    found = [line for line in lines.split(b"\n") if line]
    return [*found, lines] if lines not in found and lines else found


def signature(lines: bytes, domain: bytes, said: bytes, what: str) -> bytes:
    """Returns the signature of a text of a domain with the first secret. `what` the secret is for is in the message of the error.

    Raises:
        BadValue: there is no secret, or it is too short.
    """
    secret = next(iter(secrets_of(lines)), b"")
    if len(secret) < SECRET_BYTES_MIN:
        raise BadValue(f"the secret of {what}", f"{len(secret)} bytes", f"at least {SECRET_BYTES_MIN} bytes; set {VARIABLE} to a long random text")
    return digest_of(secret, domain, said)


def is_signed(lines: bytes, domain: bytes, said: bytes, by: bytes) -> bool:
    """Whether a signature of a text of a domain is one of these secrets'."""
    found = False
    for secret in secrets_of(lines):
        if len(secret) >= SECRET_BYTES_MIN and hmac.compare_digest(digest_of(secret, domain, said), by):
            found = True
    return found


def digest_of(secret: bytes, domain: bytes, said: bytes) -> bytes:
    """Returns the HMAC of a text of a domain with one secret."""
    return hmac.digest(secret, domain + b"\0" + said, sha256)
