"""The registry of kinds: Perdure's own, and those that installed packages add by the entry point ``perdure.kinds``.

A kind is imported when a step of it first runs, or when it is described.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from perdure.core.errors import BadValue
from perdure.definitions.format import model
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "perdure.kinds"
"""The entry points by which packages bring kinds: each a `Kind`, or a function of a `Deployment` that returns one."""

OWN_KINDS: dict[str, str] = {
    "bash": "perdure.definitions.kinds.bash.bash_kind:bash_kind",
    "http": "perdure.definitions.kinds.http.http_kind:http_kind",
    "openapi": "perdure.definitions.kinds.openapi.openapi_kind:openapi_kind",
    "sql": "perdure.definitions.kinds.sql.sql_kind:sql_kind",
    "file": "perdure.definitions.kinds.file.file_kind:file_kind",
    "llm": "perdure.definitions.kinds.models.llm_kind:llm_kind",
    "ts": "perdure.definitions.kinds.sandbox.ts_kind:ts_kind",
    "python": "perdure.definitions.kinds.sandbox.python_kind:python_kind",
    "pipeline": "perdure.definitions.kinds.pipeline.pipeline_kind:pipeline_kind",
}
"""Perdure's own kinds, each a function of a deployment: ``module:function``."""


OWN_EXTRAS = {"http": "http", "openapi": "http", "llm": "agents", "ts": "sandbox", "python": "sandbox"}
"""The extras of the package that Perdure's own kinds take, as each of them says."""

EXTRA_MODULES: Mapping[str, tuple[str, ...]] = {
    "agents": ("pydantic_ai",),
    "definitions": ("cel_expr_python", "jsonschema_rs", "re2"),
    "http": ("httpx2",),
    "sandbox": ("jq", "pydantic_monty", "quickjs"),
}
"""By an extra of the package, modules that it brings."""


class KindRegistry(Mapping[str, Kind]):
    """The kinds of one deployment by name. `given` take precedence over others of the same name."""

    def __init__(self, deployment: Deployment = NOTHING_MORE, given: Iterable[Kind] = ()) -> None:
        self.deployment = deployment
        self._made: dict[str, Kind] = {kind.name: kind for kind in given}

    def __getitem__(self, name: str) -> Kind:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._made, *OWN_KINDS, *entry_point_kinds())))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._made or name in OWN_KINDS or _is_brought(name)

    def ready(self) -> list[str]:
        """The kinds that can be used: those that are loaded, and Perdure's own whose extras are installed. Imports nothing."""
        extras = {**OWN_EXTRAS, **{name: kind.extra for name, kind in self._made.items()}}
        return [name for name in dict.fromkeys((*self._made, *OWN_KINDS)) if is_extra_installed(extras.get(name, ""))]

    def _make(self, name: str) -> Kind:
        if name in OWN_KINDS:
            module, _, function = OWN_KINDS[name].partition(":")
            found: Kind = getattr(import_module(module), function)(self.deployment)
            return found
        if not _is_brought(name):
            raise KeyError(name)
        return _brought(entry_point_kinds()[name], self.deployment)


def _brought(entry: EntryPoint, deployment: Deployment) -> Kind:
    """The kind behind an entry point. Errors of the package name it."""
    by = entry.dist.name if entry.dist is not None else "a package"
    where = f"the entry point {entry.name} of {ENTRY_POINT_GROUP}, from {by}"
    try:
        found = entry.load()
        kind = found if isinstance(found, Kind) else found(deployment)
    except Exception as error:  # of code that is not ours, whatever it is
        raise BadValue(where, entry.value, f"to be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(kind, Kind) or kind.name != entry.name:
        raise BadValue(where, getattr(kind, "name", type(kind).__name__), f"a Kind called {entry.name}, or a function of a Deployment that returns it")
    return kind


def is_extra_installed(extra: str) -> bool:
    """Whether the modules of an extra are installed; true without an extra."""
    return not missing_modules(extra)


def missing_modules(extra: str) -> list[str]:
    """The modules of an extra that are not installed; none without an extra."""
    return [module for module in EXTRA_MODULES.get(extra, ()) if find_spec(module) is None]


def _is_brought(name: object) -> bool:
    """Whether a package adds the kind. A package can't replace a verb of the format, so entry points are not searched for those."""
    return name not in model.verbs_by_name() and name in entry_point_kinds()


@cache
def entry_point_kinds() -> Mapping[str, EntryPoint]:
    """The kinds that installed packages bring, by name."""
    from importlib.metadata import entry_points  # here, as it takes much, and most definitions need nothing of it

    return {one.name: one for one in entry_points(group=ENTRY_POINT_GROUP)}
