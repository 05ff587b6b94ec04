"""Completions of steps from outside: the token that its holder needs, and the message that completes.

A token is derived from the seed of its execution, which is drawn at random when that is started, so that no store has to keep it. It names one attempt of one
operation. What derives it is slow on purpose: a holder of one token can't find the seed, and with it other tokens.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import pbkdf2_hmac
from hmac import compare_digest

import msgspec

from perdure.core import values
from perdure.core.errors import BadValue, ErrorInfo, Undecodable
from perdure.core.execution import Execution
from perdure.core.paths import Key, Path, Segment, path_text

DERIVATION_ROUNDS = 10_000
SECRET_BYTES = 16


class ExternalAttempt(msgspec.Struct, frozen=True, array_like=True):
    """One attempt of a step that is completed from outside: the operation at `path` of the execution `key`, and the `number` of the attempt, from 1."""

    key: Key
    path: Path
    number: int

    @classmethod
    def waiting_at(cls, key: Key, path: Path) -> "ExternalAttempt | None":
        """Returns the attempt of the execution `key` that a receive at `path` belongs to; None if the path is that of another receive."""
        match path:
            case (*above, ("completion", int(number))) | (*above, ("completion", int(number)), ("heartbeat", int())):
                return cls(key, tuple(above), number)
        return None

    @property
    def request(self) -> Path:
        """The path of the step that makes the request."""
        return (*self.path, ("request", self.number))

    @property
    def completion(self) -> Path:
        """The path of the receive of the completion."""
        return (*self.path, ("completion", self.number))

    @property
    def failure(self) -> Path:
        """The path of the note that the attempt has failed."""
        return (*self.path, ("failure", self.number))

    @property
    def message_name(self) -> str:
        """The name of the message that completes this attempt."""
        return f"completion of {path_text(self.request)}"

    def waits(self, execution: Execution) -> list[Path]:
        """Returns the receives of this attempt that were opened: the first, and one more after each heartbeat."""
        found, path = list[Path](), self.completion
        while path in execution.open or path in execution.settled:
            found.append(path)
            path = self.wait_after(len(found))
        return found

    def wait_after(self, heartbeats: int) -> Path:
        """Returns the path of the receive that follows so many heartbeats."""
        return (*self.completion, ("heartbeat", heartbeats)) if heartbeats else self.completion

    def token(self, seed: int) -> str:
        """Returns the token of this attempt, for the seed of its execution."""
        return urlsafe_b64encode(values.encode((self.key, self.path, self.number, self._secret(seed)), "a token")).rstrip(b"=").decode()

    def _secret(self, seed: int) -> bytes:
        return pbkdf2_hmac("sha256", str(seed).encode(), values.encode(self, "an attempt"), DERIVATION_ROUNDS, SECRET_BYTES)


class CompletionToken(msgspec.Struct, frozen=True):
    """A token as it was read: the attempt that it names, and the secret that shows whether it was given to anybody."""

    attempt: ExternalAttempt
    secret: bytes

    def fits(self, seed: int) -> bool:
        """Returns whether the token was made for this attempt of an execution with this seed."""
        return compare_digest(self.secret, self.attempt._secret(seed))


def read_token(text: str) -> CompletionToken:
    """Reads a token.

    Raises:
        BadValue: the text is not one.
    """
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        key, path, number, secret = values.decode(raw, tuple[Key, tuple[Segment, ...], int, bytes], "a token")
    except (ValueError, TypeError, Undecodable) as error:
        raise bad_token(text) from error
    return CompletionToken(ExternalAttempt(key, path, number), secret)


def bad_token(text: object) -> BadValue:
    """Returns the error about a token that was given to nobody."""
    return BadValue("token", text, "a token that a step of this database was given: pass it on as it is")


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The message that completes an attempt: with the encoded `value`, or with an `error`; after one that is `final` there is no further attempt.

    A `heartbeat` completes nothing. `id` tells a message from others with the same content.
    """

    id: str = ""
    value: bytes = values.ENCODED_NONE
    error: ErrorInfo | None = None
    final: bool = False
    heartbeat: bool = False
