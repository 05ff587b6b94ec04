"""What an engine is given of a definition: its name, the tools that its steps may use, and the definitions that it may call."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.code.declarations import CallOptions, Step
from perdure.code.function_codec import FunctionCodec
from perdure.core.program import program_name
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.graph.step_kind import Kind


async def _definition_function(_: Any, given: dict[str, Any] = {}, /, **input: Any) -> Any:  # noqa: B006  # it is never called
    """What a definition takes: by name, or all of it as one mapping, in which any name may stand."""


_codec = FunctionCodec(_definition_function, skip=1)
WALK_VERSION = 1
"""Of how definitions are walked; the version that their executions pin, beside their definition."""


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
    """A definition as a workflow that an engine knows. `release` is what is started if nobody says otherwise; `family` are the releases of all
    definitions that it may call, by name; `tools` the steps by the names by which definitions call them, `kinds` the kinds of steps; `secrets` finds the
    value of a secret; `policy` says what it may do; `agent` is the name of the workflow that its agents are (empty: there is none);
    `imports` finds the function that ``py:package.function`` names; `capabilities` are what its executions may need (None: whatever they need)."""

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

    @property
    def definition(self) -> bytes | None:
        """What an execution is started with, so that any engine can go on with it."""
        return None if self.release is None else self.release.raw

    @property
    def what(self) -> Any:
        """What it is, beside its name: its document."""
        return self.definition

    @property
    def fn(self) -> Callable[..., Any]:
        """What stands for its function: it takes what a definition takes, by name."""
        return _definition_function

    @property
    def codec(self) -> FunctionCodec:
        """How its input and its result are kept: as plain data."""
        return _codec

    def place(self, tenant: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str, int]:
        """The queue in which an execution of this input begins, its lane and its priority there."""
        return self.calling.place(tenant, self.fn, args, kwargs)

    @property
    def programs(self) -> frozenset[str]:
        """What an engine that has it may claim."""
        return frozenset(program_name(self.name, version) for version in (0, self.version))

    def tool(self, name: str) -> Step[Any, Any, Any] | None:
        """The step of a name, if there is one here."""
        if name.startswith("py:") and self.imports is not None:
            return self.imports(name)
        return self.tools.get(name)
