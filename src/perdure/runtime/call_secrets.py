"""Resolves the secrets of a call just before it is performed, and masks them in everything that the step returns or logs.

Engines, workers and the task broker all resolve secrets here, so that none leaves the process except in the call itself.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from traceback import format_exception
from typing import Any, Protocol, runtime_checkable

import msgspec

from perdure.code.step_environment import StepControl, current_step
from perdure.core import values
from perdure.core.error_text import exception_text
from perdure.core.errors import BadValue, LogDamaged, MissingSecret
from perdure.core.secret_masks import CHARACTERS_MIN, NO_MASK, Mask, SecretFinder, find_no_secret, is_maskable
from perdure.core.thread_calls import without_stop_iteration

_LogRecordFactory = Callable[..., logging.LogRecord]

_installed: list[_LogRecordFactory] = []


def mask_log_records() -> None:
    """Masks the secrets of the current step in all log records of this process from now on. A record factory that was installed before stays in use."""
    before = logging.getLogRecordFactory()
    if before in _installed:
        return

    def masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        info = current_step.get(None)
        mask = NO_MASK if info is None else info.mask
        return _masked(record, mask) if mask else record

    _installed[:] = [masked]
    logging.setLogRecordFactory(masked)


def _masked(record: logging.LogRecord, mask: Mask) -> logging.LogRecord:
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # the message does not fit its arguments; logging would show both
        text = f"{record.msg!r} {record.args!r}"
    record.__dict__.update(msg=mask.text(text), args=())
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        record.__dict__.update(error_type=type(error).__qualname__, error_message=mask.text(exception_text(error)))
        record.exc_text, record.exc_info = mask.text("".join(format_exception(error)).rstrip("\n")), None
    if record.stack_info:
        record.stack_info = mask.text(record.stack_info)
    return record


logger = logging.getLogger("perdure.secrets")


@runtime_checkable
class TenantSecrets(Protocol):
    """A source of the secrets of many tenants."""

    def of(self, tenant: str) -> SecretFinder:
        """Returns the resolver of the secrets of one tenant. It may block, so it is called in a thread."""
        ...


SecretSource = SecretFinder | TenantSecrets
"""The source of the secrets of a process: one resolver for all tenants, or one for each."""


def secret_finder(secrets: SecretSource | None, tenant: str, own: SecretFinder | None = None) -> SecretFinder:
    """Returns the resolver of secrets for one attempt of a tenant: it asks `own` first, and then the source of the process.

    It is made for every attempt, most of which need no secret, so it does its work only when it is called.
    """
    if secrets is None and own is None:
        return find_no_secret
    mask_log_records()  # also for steps without secrets in their arguments: they may ask for one by name
    return _AttemptSecrets(secrets, tenant, own)


class _AttemptSecrets:
    """The secrets that one attempt finds. The source is asked for those of the tenant once, and only when one is needed: that may block and fail."""

    __slots__ = ("_of_process", "_own", "_secrets", "_tenant")

    def __init__(self, secrets: SecretSource | None, tenant: str, own: SecretFinder | None) -> None:
        self._secrets, self._tenant, self._own = secrets, tenant, own
        self._of_process: SecretFinder | None = None

    def __call__(self, name: str) -> str | None:
        if self._own is not None and (found := self._own(name)) is not None:
            return found
        if self._of_process is None:
            secrets = self._secrets
            self._of_process = secrets.of(self._tenant) if isinstance(secrets, TenantSecrets) else secrets or find_no_secret
        return self._of_process(name)


def with_secrets(raw: bytes, places: Sequence[str], find: SecretFinder) -> tuple[bytes, Mask]:
    """Puts secrets into encoded arguments, and returns them with the mask that hides the secrets. `places` are JSON pointers into the named arguments.

    It blocks if `find` does. A secret that is too short to be masked is put in as well, with a warning.

    Raises:
        MissingSecret, BadValue: a secret is not found, or is not text.
        LogDamaged: the arguments have nothing at one of the places.
    """
    args, named = msgspec.msgpack.decode(raw)
    known: dict[str, str] = {}

    def value(mark: Any) -> Any:
        match mark:
            case {"@text": list(parts)}:
                return "".join(part if isinstance(part, str) else str(value(part)) for part in parts)
            case {"@secret": str(name)}:
                if name not in known:
                    known[name] = _find_secret(name, find)
                return known[name]
        return mark

    for place in places:
        try:
            _put_at(named, [part.replace("~1", "/").replace("~0", "~") for part in place.split("/")[1:]], value)
        except (LookupError, TypeError, ValueError) as error:
            raise LogDamaged(f"the call has a secret at {place}, where its arguments have nothing") from error
    return values.encode((args, named), "the arguments of a step with its secrets"), Mask(known.values())


async def resolve_secrets(raw: bytes, life: StepControl, threads: Executor | None) -> bytes:
    """Returns the arguments of a step with its secrets, which a thread resolves. From then on, they are masked in all output of the step."""
    found, life.mask = await asyncio.get_running_loop().run_in_executor(threads, without_stop_iteration(with_secrets), raw, life.places, life.find)
    return found


def _find_secret(name: str, find: SecretFinder) -> str:
    found = find(name)
    if found is None:
        raise MissingSecret(name)
    if not isinstance(found, str):
        raise BadValue(f"the value of the secret {name}", type(found).__name__, "text; correct the source of secrets")
    if not is_maskable(found):
        logger.warning("could not mask the secret %s in the output of steps: it has fewer than %d characters. Set a longer one", name, CHARACTERS_MIN)
    return found


def _put_at(holder: Any, place: list[str], value: Callable[[Any], Any]) -> None:
    """Replaces the reference at a place by the value of its secret."""
    for part in place[:-1]:
        holder = holder[int(part) if isinstance(holder, list) else part]
    last: Any = int(place[-1]) if isinstance(holder, list) else place[-1]
    holder[last] = value(holder[last])
