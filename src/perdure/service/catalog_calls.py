"""Finds the definitions that a definition of the catalog calls, and those that these call, so that a start can pin all of them.

A call names what it calls as a start does: ``refund``, ``refund@^2``, ``refund@sha256:…``, ``refund:production``. The catalog comes first; a name that it does
not have is that of a workflow of code, which an engine declares. In one execution and its descendants, a text means one version, whichever of them calls it;
the slug of the definition that is started, without more, means the version that is started.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from typing import NamedTuple

import msgspec

from perdure.core.errors import Ambiguous, BadValue, DefinitionDisabled, NotFound
from perdure.core.limits import DEPTH_MAX
from perdure.core.pinned_calls import PinnedCall
from perdure.core.program import program_name
from perdure.core.values import Blob
from perdure.definitions.format.definition_findings import DefinitionFinding, error_finding, warning_finding
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.plan import plan_of_definition
from perdure.definitions.graph.requirements import TOOL_PREFIX, call_targets
from perdure.runtime.holder import ProcessInfo
from perdure.service.catalog_records import read_documents
from perdure.service.catalog_references import find_version, resolve_reference
from perdure.service.missing_parts import live_processes
from perdure.service.store_access import StoreAccess

DEFINITIONS_MAX = 100
BYTES_MAX = 16 * 1024 * 1024
"""How many definitions one execution may call, directly or not, and how large they may be together."""


class CallingDefinition(NamedTuple):
    """A definition whose calls are looked for: the slug that its executions have as workflow, its number (empty: it has none), and its canonical bytes."""

    slug: str
    version: str
    canonical: bytes

    @property
    def sha256(self) -> str:
        """The hash that names it."""
        return sha256(self.canonical).hexdigest()

    @property
    def ir(self) -> IR:
        """Its intermediate form."""
        digest = self.sha256
        return plan_of_definition(digest, {digest: self.canonical}).ir

    def pinned(self, target: str) -> PinnedCall:
        """What a call by this text names."""
        limits = self.ir.limits
        return PinnedCall(target, self.slug, Blob(self.sha256, len(self.canonical)), self.version, limits.deadline_s, limits.grace_s)


class FoundCalls(msgspec.Struct, frozen=True):
    """The definitions that may be called, with their bytes by hash; `unresolved` calls, which name nothing; and calls that lead back to where they began."""

    calls: tuple[PinnedCall, ...]
    blobs: Mapping[str, bytes]
    unresolved: list[DefinitionFinding]
    circles: list[DefinitionFinding]


async def find_calls(access: StoreAccess, tenant: str, start: CallingDefinition) -> FoundCalls:
    """Finds everything that a definition may call, directly or through others.

    Raises:
        BadValue: these are too many, or too large together.
    """
    search = _CallSearch(access, tenant, start)
    await search.run()
    return FoundCalls(tuple(search.pinned.values()), search.blobs, search.unresolved, list(_circles(search.names, search.edges, start)))


class _CallSearch:
    """A search that begins with one definition, and looks at each that is called once."""

    def __init__(self, access: StoreAccess, tenant: str, start: CallingDefinition) -> None:
        self._access, self._tenant, self._start = access, tenant, start
        self._processes: list[ProcessInfo] | None = None
        self._asked = False
        self.pinned: dict[str, PinnedCall] = {}
        self.blobs: dict[str, bytes] = {}
        self.unresolved: list[DefinitionFinding] = []
        self.names: dict[str, str] = {}
        self.edges: dict[str, list[str]] = {}

    async def run(self) -> None:
        waiting, looked = deque([self._start]), set[str]()
        while waiting:
            caller = waiting.popleft()
            if caller.sha256 in looked:
                continue
            looked.add(caller.sha256)
            self.names[caller.sha256] = caller.slug
            for target, step in call_targets(caller.ir):
                if target not in self.pinned and (found := await self._resolve(caller, target, step)) is not None:
                    self.pinned[target] = found.pinned(target)
                    self.blobs[found.sha256] = found.canonical
                    waiting.append(found)
                    self._expect_within_bounds()
                if target in self.pinned:
                    self.edges.setdefault(caller.sha256, []).append(self.pinned[target].definition.sha256)

    def _expect_within_bounds(self) -> None:
        size = sum(map(len, self.blobs.values()))
        if len(self.pinned) > DEFINITIONS_MAX or size > BYTES_MAX:
            what = f"{len(self.pinned)} calls of {size:,} bytes"
            raise BadValue(f"what {self._start.slug} calls", what, f"at most {DEFINITIONS_MAX} different calls, of {BYTES_MAX // 1024**2} MiB together")

    async def _resolve(self, caller: CallingDefinition, target: str, step: str) -> CallingDefinition | None:
        """The definition that a call names; None if it is code, or nothing, which is then noted."""
        if target == self._start.slug:
            return self._start
        try:
            return await self._in_catalog(target)
        except (NotFound, Ambiguous, BadValue, DefinitionDisabled) as error:
            if not await self._may_be_code(target):
                why = f"the definition {error.slug!r} is disabled. Enable it first" if isinstance(error, DefinitionDisabled) else str(error)
                where = f"{f'step {step}' if step else 'on_failure'} of {caller.slug} calls {target!r}"
                self.unresolved.append(error_finding("unresolved_call", "", f"{where}, which no running engine has as code: {why}"))
            return None

    async def _in_catalog(self, target: str) -> CallingDefinition:
        found = await resolve_reference(self._access.store, self._tenant, target)
        if not found.definition.enabled:
            raise DefinitionDisabled(found.definition.slug)
        version = await find_version(self._access.store, self._tenant, found.definition, found.hash)
        _, canonical = await read_documents(self._access.store, self._tenant, found.definition.slug, version)
        return CallingDefinition(found.definition.slug, found.version, canonical)

    async def _may_be_code(self, target: str) -> bool:
        """Whether an engine declares a workflow of this name, or a tool. As long as no engine tells what it has, any name without a range may be one."""
        name, _, wanted = target.partition("@")
        if ":" in name or not (target == name or wanted.isdecimal()):
            return False
        if not self._asked:
            self._processes, self._asked = await live_processes(self._access.store), True
        near = None if self._processes is None else [one for one in self._processes if one.programs and one.roots is None and one.serves(self._tenant)]
        if not near:
            return True
        program = program_name(name, int(wanted) if wanted.isdecimal() else 0)
        return any(program in one.programs or any(TOOL_PREFIX + target in has for _, has in one.toolboxes) for one in near)


def _circles(names: Mapping[str, str], edges: Mapping[str, Sequence[str]], start: CallingDefinition) -> Iterator[DefinitionFinding]:
    """The first circle of calls, if there is one, as a warning: such calls are possible, and have to end by themselves."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        path: Iterable[str] = reversed(error.args[1])
        way = " → ".join(names[one] for one in path)
        said = f"{start.slug} leads to calls in a circle: {way}. Each is an execution of its own, at most {DEPTH_MAX} deep; see that a condition ends them"
        yield warning_finding("circular_calls", "", said)
