"""Checks what a trigger is to be, and reads the triggers that a definition declares.

A definition's trigger without a name has one that follows from what it is, such as ``webhook-release``, so that it is the same trigger in the next version.
"""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core.errors import BadExpression, BadValue
from perdure.definitions.expr.condition import compile_condition
from perdure.definitions.format.validator import cron_problem
from perdure.definitions.format.verb_shapes import HTTP_METHODS
from perdure.service.secrets.secret_sources import checked_secret_name
from perdure.service.triggers.trigger_input import checked_mapping
from perdure.service.triggers.trigger_records import (
    LATEST_S,
    TIMED_SCHEMES,
    TOLERANCE_S,
    EventConfig,
    ManualConfig,
    ScheduleConfig,
    TriggerConfig,
    Verification,
    WebhookConfig,
)

NAME_CHARACTERS_MAX = 120
PATH = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")
PATH_CHARACTERS_MAX = 200
OPEN_PATH_BYTES = 16
"""The random bytes in a path that anybody who knows it may send to."""

SECRET_REFERENCE = re.compile(r"@secrets\.(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
ACTIVE_MAX, QUEUED_MAX = 10_000, 1_000_000
"""The greatest limits of a webhook: each start counts up to their sum."""

RESPOND_WITHIN_MAX_S = 60.0
EVENTS_MAX = 32
ONCE_MAX = 1_000
INTERVAL_MIN_S = 1.0
DELAY_MAX_S = 10 * 366 * 86_400
CATCH_UP_MAX = QUEUED_TICKS_MAX = 1_000
BREAK_AFTER_MAX = 100


class DeclaredTrigger(NamedTuple):
    """A trigger as its definition declares it."""

    name: str
    config: TriggerConfig
    mapping: dict[str, str]
    input: dict[str, Any]
    enabled: bool


def checked_trigger_name(name: str) -> str:
    """Returns the name of a trigger.

    Raises:
        BadValue: it is empty, too long, or has control characters.
    """
    if not name.strip() or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise BadValue("/name", name, f"a text of 1 to {NAME_CHARACTERS_MAX} characters without control characters")
    return name


def checked_config(config: TriggerConfig, present_path: str = "") -> TriggerConfig:
    """Returns what a trigger is to be, completed: a webhook whose senders are not verified by a signature has a path that nobody can guess, which it keeps if
    that is its `present_path`.

    Raises:
        BadValue: a field is not valid, or does not fit the others.
        BadExpression: a condition can't be read.
    """
    match config:
        case WebhookConfig():
            return _checked_webhook(config, present_path)
        case ScheduleConfig():
            _check_schedule(config)
        case EventConfig():
            _check_event(config)
    return config


def secret_name_of(text: str, where: str) -> str:
    """Returns the name of a secret that is given by its name or by a reference, ``@secrets.NAME``.

    Raises:
        BadValue: it is neither.
    """
    found = SECRET_REFERENCE.fullmatch(text)
    if found is None:
        raise BadValue(where, "a text", "a reference such as @secrets.HOOK: a trigger holds no secrets. Set it with perdure secret set HOOK")
    return checked_secret_name(found["name"])


def _checked_webhook(config: WebhookConfig, present_path: str) -> WebhookConfig:
    if not re.fullmatch(HTTP_METHODS, config.method):
        raise BadValue("/config/method", config.method, f"one of {HTTP_METHODS.replace('|', ', ')}")
    for name in config.headers:
        if not HEADER_NAME.fullmatch(name):
            raise BadValue(f"/config/headers/{name}", name, "the name of a header")
    if config.delivery_header and not HEADER_NAME.fullmatch(config.delivery_header):
        raise BadValue("/config/deliveryHeader", config.delivery_header, "the name of a header")
    for field, value, most in (("activeMax", config.active_max, ACTIVE_MAX), ("queuedMax", config.queued_max, QUEUED_MAX)):
        if not 0 <= value <= most:
            raise BadValue(f"/config/{field}", value, f"a number from 0 to {most:,}")
    if config.active_max + config.queued_max < 1:
        raise BadValue("/config/queuedMax", 0, "at least 1 without activeMax: it is how many executions may be there that have not ended")
    if not 0 < config.respond_within_s <= RESPOND_WITHIN_MAX_S:
        raise BadValue("/config/respondWithinSeconds", config.respond_within_s, f"a time of up to {RESPOND_WITHIN_MAX_S:g} s, for which the sender waits")
    if config.secret:
        if config.verify is not None:
            raise BadValue("/config/secret", "a text", "given without verify, which names its secrets itself")
        signed = Verification(scheme="generic", secrets=(secret_name_of(config.secret, "/config/secret"),))
        return _checked_webhook(msgspec.structs.replace(config, secret="", verify=signed), present_path)
    if config.verify is None:
        raise BadValue("/config/verify", None, "given: a scheme such as github with its secret, or {scheme: none} if anybody who knows the path may send")
    verify = _checked_verification(config.verify)
    if config.path and (not PATH.fullmatch(config.path) or len(config.path) > PATH_CHARACTERS_MAX):
        raise BadValue("/config/path", config.path, f"names of letters, digits, _, . and - with / between them, of up to {PATH_CHARACTERS_MAX} characters")
    path = config.path
    if verify.scheme in ("none", "bearer") and len(path.rpartition("/")[2]) < 2 * OPEN_PATH_BYTES:
        is_kept = present_path.rpartition("/")[0] == path and len(present_path.rpartition("/")[2]) == 2 * OPEN_PATH_BYTES
        path = present_path if is_kept else f"{path}/{secrets.token_hex(OPEN_PATH_BYTES)}".lstrip("/")
    if not path:
        raise BadValue("/config/path", config.path, "a path, behind /webhooks/")
    return msgspec.structs.replace(config, path=path, verify=verify)


def _checked_verification(verify: Verification) -> Verification:
    if (verify.scheme == "none") == bool(verify.secrets):
        raise BadValue("/config/verify/secrets", list(verify.secrets), "the names of one or several secrets; none with the scheme none")
    for name in verify.secrets:
        _ = checked_secret_name(name)
    generic = {name: getattr(verify, name) for name in ("header", "prefix", "timestamp_header") if getattr(verify, name)}
    if verify.scheme == "generic" and not verify.header:
        return _checked_verification(msgspec.structs.replace(verify, header="X-Signature"))
    allowed = {"generic": {"header", "prefix", "timestamp_header"}, "bearer": {"header", "prefix"}}.get(verify.scheme, set())
    if wrong := sorted(generic.keys() - allowed):
        raise BadValue(f"/config/verify/{wrong[0]}", generic[wrong[0]], f"not given with the scheme {verify.scheme}, which has its own")
    if verify.encoding != "hex" and verify.scheme != "generic":
        raise BadValue("/config/verify/encoding", verify.encoding, f"not given with the scheme {verify.scheme}: only generic can have another encoding")
    signs_time = verify.scheme in TIMED_SCHEMES or bool(verify.timestamp_header)
    if verify.tolerance_s != TOLERANCE_S and not signs_time:
        unless = " without a timestamp_header" if verify.scheme == "generic" else ""
        raise BadValue("/config/verify/tolerance", verify.tolerance_s, f"not given with the scheme {verify.scheme}{unless}, which signs no time")
    for name in ("header", "timestamp_header"):
        if getattr(verify, name) and not HEADER_NAME.fullmatch(getattr(verify, name)):
            raise BadValue(f"/config/verify/{name}", getattr(verify, name), "the name of a header")
    return verify


def _check_schedule(config: ScheduleConfig) -> None:
    given = [name for name in ("cron", "every_s", "once") if getattr(config, name)]
    if len(given) != 1:
        raise BadValue("/config", given or "none", "exactly one of cron, everySeconds and once")
    if config.cron and (why := cron_problem(config.cron)):
        raise BadValue("/config/cron", config.cron, f"a cron expression: {why}")
    if config.every_s is not None and config.every_s < INTERVAL_MIN_S:
        raise BadValue("/config/everySeconds", config.every_s, "at least one second")
    if len(config.once) > ONCE_MAX:
        raise BadValue("/config/once", len(config.once), f"at most {ONCE_MAX:,} times")
    if wrong := [one for one in config.once if one.tzinfo is None or not 0 <= one.timestamp() <= LATEST_S]:
        raise BadValue("/config/once", wrong[0], "a time from 1970 to 9999 with its zone")
    for field, value, most in (
        ("everySeconds", config.every_s or 0, DELAY_MAX_S),
        ("jitterSeconds", config.jitter_s, DELAY_MAX_S),
        ("catchUp", config.catch_up, CATCH_UP_MAX),
        ("queuedMax", config.queued_max, QUEUED_TICKS_MAX),
        ("breakAfter", config.break_after, BREAK_AFTER_MAX),
    ):
        if not 0 <= value <= most:
            raise BadValue(f"/config/{field}", value, f"a number from 0 to {most:,}")
    try:
        _ = ZoneInfo(config.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadValue("/config/timezone", config.timezone, "a time zone such as Europe/London") from None
    if config.starts_at_s is not None and config.ends_at_s is not None and config.starts_at_s >= config.ends_at_s:
        raise BadValue("/config/endsAt", config.ends_at_s, "a time after startsAt")
    if (config.target == "orchestrator") != bool(config.prompt.strip()):
        raise BadValue("/config/prompt", config.prompt, "a text with target orchestrator, and not given with any other")
    if config.queued_max < 1:
        raise BadValue("/config/queuedMax", config.queued_max, "at least one")


def _check_event(config: EventConfig) -> None:
    if not config.on or len(config.on) > EVENTS_MAX or not all(one.strip() for one in config.on):
        raise BadValue("/config/on", list(config.on), f"1 to {EVENTS_MAX} names of events, such as completed, failed, or a name that code emits under")
    for row in config.where:
        if compile_condition(row, "false").python:
            raise BadValue("/config/where", row, "a condition without Python: rows, groups, or an expression in CEL")


# Triggers of a definition


def declared_triggers(document: Mapping[str, Any]) -> list[DeclaredTrigger]:
    """The triggers of a canonical definition, which was checked when it was read. Paths are as they were written: see `checked_config`.

    Raises:
        BadValue: one can't be set up, or two have the same name.
    """
    found: dict[str, DeclaredTrigger] = {}
    for number, given in enumerate(document.get("triggers") or ()):
        one = _declared(given, f"/document/triggers/{number}")
        if found.setdefault(one.name, one) is not one:
            raise BadValue(f"/document/triggers/{number}/name", one.name, "a name that no other trigger of the definition has; give each a name")
    return list(found.values())


def _declared(given: Mapping[str, Any], where: str) -> DeclaredTrigger:
    kind = next(name for name in _READERS if name in given)
    fields = dict(given[kind])
    try:
        mapping = dict(fields.pop("map", {}))
        config = _READERS[kind](fields, where)
        _ = checked_config(config)
        fixed = dict(given.get("with") or {})
        checked_mapping(mapping, fixed)
        name = checked_trigger_name(given.get("name") or _default_name(kind, config))
    except (BadValue, BadExpression) as error:
        raise BadValue(where, given[kind], "a trigger that can be set up", f"{where}: {error}") from error
    return DeclaredTrigger(name, config, mapping, fixed, given.get("enabled", True))


def _default_name(kind: str, config: TriggerConfig) -> str:
    match config:
        case WebhookConfig():
            return f"{kind}-{config.path}"[:NAME_CHARACTERS_MAX]
        case ScheduleConfig():
            return f"{kind}-{config.cron or config.every_s or 'once'}"[:NAME_CHARACTERS_MAX]
        case EventConfig():
            return f"{kind}-{config.of}-{'-'.join(config.on)}"[:NAME_CHARACTERS_MAX]
    return kind


def _seconds(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """The fields with durations in seconds, under the names that say so."""
    return {f"{name}_s" if name in names else name: duration_seconds(value, name) if name in names else value for name, value in fields.items()}


def _read_schedule(fields: dict[str, Any], where: str) -> TriggerConfig:
    times: dict[str, Any] = {f"{name}_at_s": _time_s(fields.pop(name), f"{where}/schedule/{name}") for name in ("starts", "ends") if name in fields}
    if "once" in fields:
        times["once"] = tuple(datetime.fromtimestamp(_time_s(one, f"{where}/schedule/once"), UTC) for one in fields.pop("once"))
    return msgspec.convert(_seconds(fields, "every", "jitter") | times, ScheduleConfig)


def _time_s(text: str, where: str) -> float:
    try:
        return time_with_zone(text)
    except ValueError:
        raise BadValue(where, text, "a time with its zone, such as 2027-01-01T09:00:00Z") from None


def time_with_zone(text: str) -> float:
    """The moment that a text names, in seconds since 1970.

    Raises:
        ValueError: it names none, or says nothing of the zone.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found.timestamp()


def _read_webhook(fields: dict[str, Any], where: str) -> TriggerConfig:
    about = dict(fields.pop("verify", {"scheme": "none"}))
    given: str | Sequence[str] = about.pop("secret", ())
    names = (given,) if isinstance(given, str) else tuple(given)
    about["secrets"] = tuple(secret_name_of(one, f"{where}/webhook/verify/secret") for one in names)
    return msgspec.convert(_seconds(fields, "respond_within") | {"verify": _seconds(about, "tolerance")}, WebhookConfig)


def _read_manual(fields: dict[str, Any], where: str) -> TriggerConfig:
    return ManualConfig()


def _read_event(fields: dict[str, Any], where: str) -> TriggerConfig:
    on = fields.get("on", ())
    return msgspec.convert(fields | {"on": (on,) if isinstance(on, str) else tuple(on)}, EventConfig)


_READERS: dict[str, Callable[[dict[str, Any], str], TriggerConfig]] = {
    "schedule": _read_schedule,
    "webhook": _read_webhook,
    "manual": _read_manual,
    "event": _read_event,
}
