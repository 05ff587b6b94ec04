"""Options of a start or a call, given by `workflow.with_(...)`. They are never among the arguments, so a workflow's parameters may have any name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypedDict, Unpack, get_args

from perdure.code.declarations import CallOptions, Retry, checked_name
from perdure.code.declared_queues import Queue, queue_of_executions
from perdure.code.durations import Duration, duration_seconds
from perdure.core.attributes import AttributeValues, checked_attributes
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.operations import OnCancel

DEFAULT_TENANT = "default"
PRIORITY_MAX = 2**31 - 1
SHOWN_CHARACTERS_MAX = 40


class WithOptions(TypedDict, total=False):
    """The options of `with_`; None leaves an option unchanged."""

    id: str | None
    name: str | None
    tenant: str | None
    delay: Duration | None
    deadline: Duration | None
    grace: Duration | None
    queue: str | Queue | None
    lane: str | None
    priority: int | None
    attributes: AttributeValues | None
    strict: bool | None
    ttl: Duration | None
    debounce: Duration | None
    singleton: bool | None
    undo: bool | None
    on_cancel: OnCancel | None
    retry: Retry | None
    connection: Any
    db: str | None


WITH_OPTIONS = frozenset(WithOptions.__annotations__)
STEP_OPTIONS = frozenset(("name", "retry", "timeout", "queue", "lane", "priority", "idempotent", "grace"))

_ANYWHERE = frozenset(("id", "deadline", "grace", "queue", "lane", "priority", "attributes"))
_FOR_CHILDREN = frozenset(("name", "undo", "on_cancel", "retry"))
_FOR_STARTS = frozenset(("tenant", "delay", "strict", "ttl", "debounce", "singleton", "connection"))

TAKES: Mapping[str, frozenset[str]] = {
    "client.start": _ANYWHERE | _FOR_STARTS,
    "client.run": _ANYWHERE | _FOR_STARTS,
    "app.start": _ANYWHERE | _FOR_STARTS,
    "app.run": _ANYWHERE | _FOR_STARTS,
    "world.start": _ANYWHERE | _FOR_STARTS - {"connection"},
    "world.run": _ANYWHERE | _FOR_STARTS - {"connection"},
    "run": _ANYWHERE | _FOR_STARTS - {"debounce", "singleton", "connection"} | {"db"},
    "arun": _ANYWHERE | _FOR_STARTS - {"debounce", "singleton", "connection"} | {"db"},
    "ctx.call": _ANYWHERE | _FOR_CHILDREN,
    "ctx.attempt": _ANYWHERE | _FOR_CHILDREN,
    "ctx.start": _ANYWHERE | {"name"},
}
"""The options that have an effect, by the verb that takes them; a verb refuses others."""


@dataclasses.dataclass(frozen=True)
class NamedWorkflow:
    """A workflow that is known by its name only, with options: what ``client.workflow("order")`` returns, for `client.start` and `client.run`.

    With a `reference`, it is the version of a definition in the catalog that this names: what ``client.definition("invoice@^1")`` returns. With a `document`,
    it is that definition, up to the step `until` if there is one: what ``client.document(text)`` returns.
    """

    name: str
    calling: CallOptions = dataclasses.field(default_factory=CallOptions)
    reference: str = ""
    document: bytes = b""
    until: str = ""

    @property
    def is_of_catalog(self) -> bool:
        """Whether the service prepares the start: it finds what the definition calls in the catalog."""
        return bool(self.reference or self.document)

    def with_(self, **options: Unpack[WithOptions]) -> NamedWorkflow:
        """Returns the same workflow with other options, those of `Workflow.with_`: ``client.start(client.workflow("order").with_(id="o1"), "o1", 500)``.

        Raises:
            BadValue, BadName: an option is unknown, or its value is not accepted.
        """
        return dataclasses.replace(self, calling=with_options(self.calling, options, self.name))


def with_options(calling: CallOptions, options: Mapping[str, Any], workflow: str) -> CallOptions:
    """Returns `calling` with these options added.

    Raises:
        BadValue, BadName: an option is unknown, or its value is not accepted.
    """
    for option in options:
        if option not in WITH_OPTIONS:
            raise BadValue(f"{workflow}.with_", option, f"an option{_near(option)}")
    given = {option: value for option, value in options.items() if value is not None}
    fields: dict[str, Any] = {_FIELDS.get(option, option): _READ.get(option, _as_it_is)(value, option) for option, value in given.items()}
    if "queue" in given:
        fields["queue"], fields["line"] = queue_of_executions(given["queue"])
        checked_name(fields["queue"], "queue")
    found = dataclasses.replace(calling, **fields, given=calling.given | given.keys())
    if (found.debounce_s is not None and (found.singleton or found.strict)) or (found.singleton and found.strict):
        both = sorted(found.given & {"debounce", "singleton", "strict"})
        raise BadValue(f"{workflow}.with_", both, "a valid combination; give only one of debounce, singleton and strict")
    _ = found.rule, found.line and found.line.ranked(found.priority)
    return found


def _as_it_is(value: Any, _: str) -> Any:
    return value


def _on_cancel(value: Any, option: str) -> OnCancel:
    if value not in get_args(OnCancel):
        raise BadValue(option, value, f"one of {', '.join(get_args(OnCancel))}")
    found: OnCancel = value
    return found


def _retry(value: Any, option: str) -> Retry:
    if not isinstance(value, Retry):
        raise BadValue(option, value, "a Retry, such as Retry(max=3)")
    if value.is_selective:
        expected = "a policy that retries every failure of a child, which has only the name of its error: leave only=, fatal= and should_retry= out"
        raise BadValue("retry of a child", value, f"{expected}, or call it with retry=Retry(max=1), catch ChildFailed, and decide")
    return value


def _flag(value: Any, option: str) -> bool:
    if not isinstance(value, bool):
        raise BadValue(option, value, "True or False")
    return value


def checked_priority(value: Any, option: str) -> int:
    """Returns a priority: a whole number of 32 bits, or its negative.

    Raises:
        BadValue: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > PRIORITY_MAX:
        raise BadValue(option, value, f"a whole number from {-PRIORITY_MAX} to {PRIORITY_MAX}")
    return value


_FIELDS = {"delay": "delay_s", "deadline": "deadline_s", "grace": "grace_s", "ttl": "ttl_s", "debounce": "debounce_s"}
_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "id": checked_name,
    "name": lambda value, _: checked_name(value, "operation"),
    "tenant": checked_name,
    "delay": duration_seconds,
    "deadline": duration_seconds,
    "grace": duration_seconds,
    "ttl": duration_seconds,
    "debounce": duration_seconds,
    "attributes": lambda value, _: checked_attributes(value),
    "on_cancel": _on_cancel,
    "retry": _retry,
    "priority": checked_priority,
    "strict": _flag,
    "singleton": _flag,
    "undo": _flag,
}


def refuse_ineffective_options(calling: CallOptions, verb: str, workflow: str) -> None:
    """Refuses options that have no effect for this verb.

    Raises:
        WrongVerb: there is such an option.
    """
    if not calling.given <= TAKES[verb]:
        option = min(calling.given - TAKES[verb])
        raise WrongVerb(f"{verb} does not take {workflow}.with_({option}=...)", f"{_use(option, workflow)}; leave {option}= out here")


def _use(option: str, workflow: str) -> str:
    if option in _FOR_CHILDREN:
        return f"{option}= is for children: ctx.call({workflow}.with_({option}=...), ...)"
    if option == "db":
        return f"db= is for {workflow}.with_(db=...).run(...); a client or a test world has its own store, and a child is in the store of its parent"
    return f"{option}= is for starts from outside: client.start({workflow}.with_({option}=...), ...)"


def refuse_options_among_arguments(workflow: str, verb: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses options among the arguments of a workflow or step whose function has no parameters of these names.

    Raises:
        WrongVerb: there is such an option; the message shows the correct call.
    """
    known = STEP_OPTIONS if verb == "ctx.step" else WITH_OPTIONS
    if kwargs.keys().isdisjoint(known):
        return
    parameters = signature(fn).parameters.values()
    names = {one.name for one in parameters if one.kind not in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)}
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return
    if found := {option: kwargs[option] for option in kwargs if option in known and option not in names}:
        raise misplaced_options(workflow, verb, found, args, {name: value for name, value in kwargs.items() if name not in found})


def misplaced_options(workflow: str, verb: str, options: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> WrongVerb:
    """Returns the error about options among the arguments; its message shows the correct call."""
    whole = f"{workflow}.with_({', '.join(f'{name}={_shown(value)}' for name, value in options.items())})"
    rest = [*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())]
    call = f"{whole}.{verb}({', '.join(rest)})" if "." not in verb else f"{verb}({', '.join([whole, *rest])})"
    what = f"{workflow}.{verb}" if "." not in verb else f"{verb} of {workflow}"
    return WrongVerb(f"{what} has no argument {' or '.join(map(repr, options))}", f"pass options by with_: {call}")


def _shown(value: Any) -> str:
    text = repr(value)
    return "..." if len(text) > SHOWN_CHARACTERS_MAX or text.startswith("<") else text


def _near(option: str, known: Collection[str] = WITH_OPTIONS) -> str:
    from difflib import get_close_matches  # imported late, because only mistakes need it

    near = get_close_matches(option, sorted(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(known))}"
