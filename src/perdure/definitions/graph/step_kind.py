"""Kinds: what a step of one kind takes and gives, what bounds it, whether it may be done twice, and what does it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from perdure.code.declarations import Retry, Step
from perdure.code.durations import Duration
from perdure.core.error_text import exception_summary
from perdure.core.errors import KindFailed


class Limit(NamedTuple):
    """What bounds a step of a kind: how much it may have unless it says otherwise, how much at most (None: it can't say otherwise), and what happens then."""

    name: str
    default: str
    most: str | None
    then: str


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What steps of a kind may do, whatever a definition says. None: nothing is said about it.

    `can_emit_to` are the ids or kinds of the steps to which they may lead, `max_fanout` to how many at once, `allowed_tools` the tools that they may use;
    with `requires_approval`, a person is asked before each.
    """

    can_emit_to: tuple[str, ...] | None = None
    max_fanout: int | None = None
    requires_approval: bool = False
    allowed_tools: tuple[str, ...] | None = None


class KindResult(msgspec.Struct, frozen=True, rename={"data": "@data", "meta": "@meta"}):
    """What `run` of a kind may return in place of plain data: `data`, which is the step's, and in `meta` what it came by, small, for its envelope."""

    data: Any
    meta: dict[str, Any]


class CompositeUse(NamedTuple):
    """What a step that has succeeded adds a use to: the composite of this name, begun with `input` by the first who uses it (None: there is one already), and
    found by what it is `about`."""

    name: str
    input: Any = None
    about: str = ""


def unchanged_config(config: Any) -> Any:
    """A config in which nothing has to be changed before its references are resolved."""
    return config


def no_composite_use(written: Any, config: Any) -> None:
    """Of no step a use is counted."""


def always_true(_: Any) -> bool:
    """Say yes of any config."""
    return True


def no_problems(_: Any) -> Iterator[tuple[str, str]]:
    """Find nothing wrong with anything."""
    return iter(())


NO_CAPABILITIES_STATED = Capabilities()
DEFAULT_RETRY = Retry()


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of steps.

    `run` does the work of one: an async function, or a plain one that runs in a thread, of `config` (what stands behind the verb, its references
    resolved), `input` (what stands in ``with``) and `env`. It returns plain data, or a `Result`; what it raises fails the try, and `Fatal` the step.
    `step_info()` tells it the idempotency key. It may be cancelled at any await, and then has to leave nothing behind.

    `config`, `input` and `output` are JSON Schemas (None: anything). `idempotent` says of a config whether a step of it may be done again when it is not
    known how far it came; `idempotency` says the rule to people. `check` gives what is wrong with a config beyond its schema, as (JSON pointer, what);
    references in it are not resolved yet; `check_step` the same of the whole step as it is written. `extra` is the extra of the package that it takes.

    `retry` is how a step is tried again; the errors in its `fatal` fail a step at once unless its definition says `retry`.

    `written` makes of a config, as it stands in a definition, the one whose references are resolved. `counts` says of both, the one that `written` has made and
    the one that came of it, what a step of it counts as a use of, if of anything.

    With `repairs_answers`, the config may have a `schema` for the result, and `repairs`, how often a result that does not fit is asked for again (1 unless it
    says otherwise). `run` then gets a config without `repairs`, with `schema` as a complete JSON Schema, and from the second call on with `repair`: a list of
    ``{"answer": …, "wrong": …}``, the results so far and what is wrong with each. A result that is no data has its text in the `meta` as ``text``, and why
    the answer ended in ``finish``: after ``filter``, it is not asked for again.
    """

    name: str
    run: Callable[..., Any]
    title: str = ""
    summary: str = ""
    icon: str = ""
    version: str = "1"
    config: Mapping[str, Any] | None = None
    input: Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    ports: tuple[str, ...] = ("success", "error")
    limits: tuple[Limit, ...] = ()
    idempotent: Callable[[Any], bool] = always_true
    idempotency: str = ""
    capabilities: Capabilities = NO_CAPABILITIES_STATED
    check: Callable[[Any], Iterator[tuple[str, str]]] = no_problems
    check_step: Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]] = no_problems
    written: Callable[[Any], Any] = unchanged_config
    counts: Callable[[Any, Any], CompositeUse | None] = no_composite_use
    repairs_answers: bool = False
    retry: Retry = DEFAULT_RETRY
    timeout: Duration | None = None
    extra: str = ""
    example: str = ""

    @cached_property
    def step(self) -> Step[Any, Any, Any]:
        """It, as the step that an engine performs."""
        return self.run if isinstance(self.run, Step) else Step(self.run, name=self.name, retry=self.retry, timeout=self.timeout)

    def may_repeat(self, config: Any) -> bool:
        """Whether a step of this config may be done again after an interruption, if it does not say so itself.

        Raises:
            KindFailed: `idempotent` failed.
        """
        return self.step.may_repeat and bool(_call_kind_function(self, "idempotent", bool, lambda config: bool(self.idempotent(config)), config))


def written_config(kind: Kind, config: Any) -> Any:
    """What the `written` of a kind makes of a config.

    Raises:
        KindFailed: it failed.
    """
    return _call_kind_function(kind, "written", object, kind.written, config)


def composite_use(kind: Kind, written: Any, config: Any) -> CompositeUse | None:
    """What the `counts` of a kind says of a config.

    Raises:
        KindFailed: it failed.
    """
    found: CompositeUse | None = _call_kind_function(kind, "counts", CompositeUse | None, kind.counts, written, config)
    return found


def config_problems(kind: Kind, config: Any, step: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What `check` and `check_step` of a kind find wrong with a step; that one of them failed is wrong with it too."""
    found: list[tuple[str, str]] = []
    for name, check, given in (("check", kind.check, config), ("check_step", kind.check_step, step)):
        try:
            found += _call_kind_function(kind, name, list, lambda given, check=check: [(str(where), str(why)) for where, why in check(given)], given)
        except KindFailed as failed:
            found.append(("", str(failed)))
    return found


def _call_kind_function(kind: Kind, name: str, of: Any, function: Callable[..., Any], *given: Any) -> Any:
    """What a function of the kind says, which is code of the user and runs in the engine."""
    try:
        found = function(*given)
        if isinstance(found, of):
            return found
        why = f"it returned {type(found).__name__}"
    except BaseException as error:
        why = exception_summary(error)
    raise KindFailed(kind.name, name, why)
