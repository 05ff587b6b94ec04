"""A definition in the form that an engine takes: its name, the tools that its steps may use, and the definitions that it may call."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.code.declarations import CallOptions, Step
from perdure.code.function_codec import FunctionCodec
from perdure.core.attributes import AttributeValue
from perdure.core.program import program_name
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.graph.step_kind import Kind


async def _definition_function(_: Any, given: dict[str, Any] = {}, /, **input: Any) -> Any:  # noqa: B006  # it is never called
    """The signature of a definition: inputs by name, or one mapping of all."""


_codec = FunctionCodec(_definition_function, skip=1)
WALK_VERSION = 1
"""The version of the walk of definitions, which executions pin besides their definition."""


VERSION_ATTRIBUTE, HASH_ATTRIBUTE, INLINE_ATTRIBUTE = "definition_version", "definition_hash", "definition_inline"
"""The attributes of an execution: the number and the hash of the version that it began with; or that its definition was given with the start."""


def version_attributes(version: str, sha256: str) -> dict[str, AttributeValue]:
    """Returns the attributes of an execution that begins with this version; without a number, with a document that was given with the start."""
    return {HASH_ATTRIBUTE: f"sha256:{sha256}", **({VERSION_ATTRIBUTE: version} if version else {INLINE_ATTRIBUTE: True})}


@dataclasses.dataclass(frozen=True)
class DefinitionRelease:
    """One version of a definition: its canonical bytes, by whose SHA-256 executions pin it."""

    name: str
    version: str
    sha256: str
    raw: bytes
    deadline_s: float | None = None
    grace_s: float | None = None


@dataclasses.dataclass(frozen=True)
class GraphWorkflow:
    """A definition as a workflow of an engine.

    `release` is started by default; `family` has the releases of all definitions that it may call, by name; `tools` the steps by their names in
    definitions; `kinds` the kinds; `secrets` finds the value of a secret; `policy` restricts it; `agent` is the name of the workflow of its agents (empty:
    none); `imports` finds the function that ``py:package.function`` names; `capabilities` are those that its executions may need (None: any);
    `connections` the names of the databases that its steps may use (None: any, because another kind than Perdure's own uses them)."""

    name: str
    release: DefinitionRelease | None = None
    tools: Mapping[str, Step[Any, Any, Any]] = dataclasses.field(default_factory=dict)
    kinds: Mapping[str, Kind] = dataclasses.field(default_factory=dict)
    secrets: Callable[[str], str | None] | None = None
    imports: Callable[[str], Step[Any, Any, Any]] | None = None
    policy: Policy = NO_POLICY
    family: Mapping[str, Sequence[DefinitionRelease]] = dataclasses.field(default_factory=dict)
    agent: str = ""
    version: int = WALK_VERSION
    deadline_s: float | None = None
    grace_s: float | None = None
    archive: bool = False
    calling: CallOptions = dataclasses.field(default_factory=CallOptions)
    sync: bool = False
    replays: tuple[int, ...] = ()
    capabilities: frozenset[str] | None = None
    connections: frozenset[str] | None = None

    @property
    def definition(self) -> bytes | None:
        """The definition that an execution pins, so that any engine can continue it."""
        return None if self.release is None else self.release.raw

    @property
    def what(self) -> Any:
        """The document, which makes the workflow what it is besides its name."""
        return self.definition

    @property
    def fn(self) -> Callable[..., Any]:
        """A function with the signature of a definition."""
        return _definition_function

    @property
    def codec(self) -> FunctionCodec:
        """The codec of the input and the result: plain data."""
        return _codec

    def place(self, tenant: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str, int]:
        """The queue in which an execution of this input begins, its lane and its priority there."""
        return self.calling.place(tenant, self.fn, args, kwargs)

    @property
    def programs(self) -> frozenset[str]:
        """The programs that an engine with this workflow may claim."""
        return frozenset(program_name(self.name, version) for version in (0, self.version))

    def tool(self, name: str) -> Step[Any, Any, Any] | None:
        """Returns the step of a name, or None."""
        if name.startswith("py:") and self.imports is not None:
            return self.imports(name)
        return self.tools.get(name)
