"""Defines kinds: the input, the output, the limits, the idempotence and the implementation of the steps of one kind."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from perdure.code.declarations import Retry, Step, TransactionalForm
from perdure.code.durations import Duration
from perdure.core.error_text import exception_summary
from perdure.core.errors import KindFailed


class Limit(NamedTuple):
    """A limit of a kind: its default, the most that a step may set (None: it can't be changed), and what happens when it is exceeded."""

    name: str
    default: str
    most: str | None
    then: str


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """The permissions of steps of a kind, whatever a definition says. None: no restriction.

    `can_emit_to` are the ids or kinds of the steps to which they may lead, `max_fanout` to how many at once, `allowed_tools` the tools that they may use;
    with `requires_approval`, a person is asked before each.
    """

    can_emit_to: tuple[str, ...] | None = None
    max_fanout: int | None = None
    requires_approval: bool = False
    allowed_tools: tuple[str, ...] | None = None


class KindResult(msgspec.Struct, frozen=True, rename={"data": "@data", "meta": "@meta"}):
    """`run` of a kind may return this in place of plain data: `data`, the result of the step, and `meta`, small metadata for its envelope."""

    data: Any
    meta: dict[str, Any]


class CompositeUse(NamedTuple):
    """A use of the composite of this name by a step that has succeeded. The first use starts the composite with `input` (None: it exists already); searches
    find it by what it is `about`."""

    name: str
    input: Any = None
    about: str = ""


def unchanged_config(config: Any) -> Any:
    """Returns a config unchanged: the default of `Kind.written`."""
    return config


def undo_by_input(written: Any) -> dict[str, Any]:
    """Returns the arguments of a kind that undoes a step: all of them in its input. The default of `Kind.undoes`."""
    return {"config": None, "input": written}


def no_composite_use(written: Any, config: Any) -> None:
    """Counts no use: the default of `Kind.counts`."""


def always_true(_: Any) -> bool:
    """Returns True for any config."""
    return True


def no_problems(_: Any) -> Iterator[tuple[str, str]]:
    """Finds no problems."""
    return iter(())


NO_CAPABILITIES_STATED = Capabilities()
DEFAULT_RETRY = Retry()


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind, which does the work of the nodes of this name.

    `run` performs one step: an async function, or a plain one that runs in a thread, of `config` (the value of the verb with its references resolved),
    `input` (the value of ``with``) and `env`. It returns plain data or a `KindResult`; an exception fails the attempt, and `Fatal` the step. `step_info()`
    has the idempotency key. It may be cancelled at any await, and must leave nothing behind then.

    `config`, `input` and `output` are JSON Schemas (None: anything). `idempotent` decides from a config whether the step may run again after an
    interruption; `idempotency` describes the rule for people. `check` yields the problems of a config beyond its schema, as (JSON pointer, problem), with
    references not resolved yet; `check_step` does the same for the whole step. `extra` is the extra of the package that the kind needs.

    `retry` is the default retry policy; the errors in its `fatal` fail a step at once unless its definition has a `retry`.

    `written` converts a config of a definition before its references are resolved. `counts` decides from both configs, the converted and the resolved one,
    which composite the step uses, if any.

    With `repairs_answers`, the config may have a `schema` for the result, and `repairs`, how often a result that does not fit is requested again (default:
    1). `run` then receives a config without `repairs`, with `schema` as a complete JSON Schema, and from the second call on with `repair`: a list of
    ``{"answer": …, "wrong": …}``, the results so far and the problem of each. A result that is not data has its text in `meta` as ``text``, and the reason
    why the answer ended as ``finish``: after ``filter``, it is not requested again.

    With `is_told_idempotence`, the config that `run` receives has what its step declares as `idempotent`, if it declares it. Such a kind may return true from
    `idempotent` where only `run` can find out, and then refuses itself to repeat what an attempt may have done that was interrupted.

    With `joins`, an attempt may be performed within a transaction of the store, so that its writes and its outcome are one commit. `undoes` converts the
    ``with`` of an ``undo`` by the kind, as it is written, to `config` and `input`.
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
    is_told_idempotence: bool = False
    retry: Retry = DEFAULT_RETRY
    timeout: Duration | None = None
    extra: str = ""
    example: str = ""
    joins: TransactionalForm | None = None
    undoes: Callable[[Any], dict[str, Any]] = undo_by_input

    @cached_property
    def step(self) -> Step[Any, Any, Any]:
        """The kind as a step that an engine performs."""
        return self.run if isinstance(self.run, Step) else Step(self.run, name=self.name, retry=self.retry, timeout=self.timeout, form=self.joins)

    def may_repeat(self, config: Any) -> bool:
        """Whether a step of this config may run again after an interruption, unless the step decides itself.

        Raises:
            KindFailed: `idempotent` failed.
        """
        return self.step.may_repeat and bool(_call_kind_function(self, "idempotent", bool, lambda config: bool(self.idempotent(config)), config))


def written_config(kind: Kind, config: Any) -> Any:
    """Returns the result of `written` of a kind.

    Raises:
        KindFailed: it failed.
    """
    return _call_kind_function(kind, "written", object, kind.written, config)


def undo_parts(kind: Kind, written: Any) -> dict[str, Any]:
    """Returns the result of `undoes` of a kind: the arguments of an undo as they are written.

    Raises:
        KindFailed: it failed.
    """
    found: dict[str, Any] = _call_kind_function(kind, "undoes", dict, kind.undoes, written)
    return found


def undo_templates(kind: Kind, written: Any) -> dict[str, Any]:
    """Returns the arguments of an undo by a kind, with references that are still to be resolved.

    Raises:
        KindFailed: `undoes` or `written` of the kind failed.
    """
    found = undo_parts(kind, written)
    return found if found["config"] is None else {**found, "config": written_config(kind, found["config"])}


def composite_use(kind: Kind, written: Any, config: Any) -> CompositeUse | None:
    """Returns the result of `counts` of a kind.

    Raises:
        KindFailed: it failed.
    """
    found: CompositeUse | None = _call_kind_function(kind, "counts", CompositeUse | None, kind.counts, written, config)
    return found


def config_problems(kind: Kind, config: Any, step: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the problems that `check` and `check_step` of a kind find; a failure of one of them is a problem too."""
    found: list[tuple[str, str]] = []
    for name, check, given in (("check", kind.check, config), ("check_step", kind.check_step, step)):
        try:
            found += _call_kind_function(kind, name, list, lambda given, check=check: [(str(where), str(why)) for where, why in check(given)], given)
        except KindFailed as failed:
            found.append(("", str(failed)))
    return found


def _call_kind_function(kind: Kind, name: str, of: Any, function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function of the kind, which is user code that runs in the engine, and checks the type of its result."""
    try:
        found = function(*given)
        if isinstance(found, of):
            return found
        why = f"it returned {type(found).__name__}"
    except BaseException as error:  # functions of a kind are user code, which may raise anything
        why = exception_summary(error)
    raise KindFailed(kind.name, name, why)
