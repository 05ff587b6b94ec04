"""Secrets at work: just before a call is performed, each is put where a mark stands for it, in this process and in no log.

Whoever performs calls, or lends them to workers in other languages, does so by `revealed`, and hides what it was given in whatever comes back.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cache
from typing import Any, Protocol, runtime_checkable

import msgspec

from perdure.core import values
from perdure.core.errors import BadValue, LogDamaged, MissingSecret
from perdure.core.masks import CHARACTERS_MIN, Find, Mask, maskable, nothing
from perdure.core.thread_calls import carried
from perdure.programs.code.info import StepLife
from perdure.runtime.masked_logs import mask_logs

logger = logging.getLogger("perdure.secrets")


@runtime_checkable
class ByTenant(Protocol):
    """Finds the secrets of many tenants."""

    def of(self, tenant: str) -> Find:
        """What finds those of one. It may block, so it is called in a thread."""
        ...


Secrets = Find | ByTenant
"""What a process finds secrets by: one function for all tenants, or one for each."""


def finding(secrets: Secrets | None, tenant: str, own: Find | None = None) -> Find:
    """What finds a secret for a tenant: its `own`, else what the process has."""
    if secrets is None and own is None:
        return nothing
    mask_logs()  # a step may also ask for one by its name
    if own is None and not isinstance(secrets, ByTenant):
        return nothing if secrets is None else secrets

    @cache
    def others() -> Find:  # not before one is looked for: `of` may block, and fail
        return secrets.of(tenant) if isinstance(secrets, ByTenant) else secrets or nothing

    def find(name: str) -> str | None:
        found = None if own is None else own(name)
        return others()(name) if found is None else found

    return find


def revealed(raw: bytes, places: Sequence[str], find: Find) -> tuple[bytes, Mask]:
    """Encoded arguments with the secrets at these places of the named ones, each a JSON pointer, and what hides those again.

    It may block, as `find` does. A secret that is too short to be hidden is put in as well, and a warning says so.

    Raises:
        MissingSecret, BadValue: nothing finds a secret of a name, or it is no text.
        LogDamaged: nothing stands at a place.
    """
    args, named = msgspec.msgpack.decode(raw)
    known: dict[str, str] = {}

    def value(mark: Any) -> Any:
        match mark:
            case {"@text": list(parts)}:
                return "".join(part if isinstance(part, str) else str(value(part)) for part in parts)
            case {"@secret": str(name)}:
                if name not in known:
                    known[name] = _found(name, find)
                return known[name]
        return mark

    for place in places:
        try:
            _put(named, [part.replace("~1", "/").replace("~0", "~") for part in place.split("/")[1:]], value)
        except (LookupError, TypeError, ValueError) as error:
            raise LogDamaged(f"a call is said to be given a secret at {place}, and nothing stands there") from error
    return values.encode((args, named), "the arguments of a step with its secrets"), Mask(known.values())


async def reveal(raw: bytes, life: StepLife, threads: Executor | None) -> bytes:
    """The arguments of a step with its secrets, found in a thread; from then on they are hidden in what it says."""
    found, life.mask = await asyncio.get_running_loop().run_in_executor(threads, carried(revealed), raw, life.places, life.find)
    return found


def _found(name: str, find: Find) -> str:
    found = find(name)
    if found is None:
        raise MissingSecret(name)
    if not isinstance(found, str):
        raise BadValue(f"the value of the secret {name}", type(found).__name__, "text; mend what finds it")
    if not maskable(found):
        logger.warning("the secret %s has fewer than %d characters, so it is not hidden in what steps say; set a longer one", name, CHARACTERS_MIN)
    return found


def _put(holder: Any, place: list[str], value: Callable[[Any], Any]) -> None:
    """Have what stands at a place be its value."""
    for part in place[:-1]:
        holder = holder[int(part) if isinstance(holder, list) else part]
    last: Any = int(place[-1]) if isinstance(holder, list) else place[-1]
    holder[last] = value(holder[last])
