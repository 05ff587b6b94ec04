"""Definitions as workflows: a document in YAML or JSON, with the tools that its steps use, is run like any workflow.

Documents can refer to contents as ``cas://sha256:…``; `ContentDirectory` reads these from files that are named after their SHA-256.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from perdure.code.declarations import Step
from perdure.core.error_text import exception_summary
from perdure.core.errors import BadValue, MissingCapabilities, MissingExtra
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.graph.graph_run import PYTHON_CONDITION
from perdure.definitions.graph.graph_workflow import DefinitionRelease, GraphWorkflow
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.plan import plan_of_definition
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.graph.requirements import AGENT_VERBS, Requirement, engine_capabilities, named_tools, requirements_of
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds import config_checks
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment, connection_sources
from perdure.definitions.kinds.kind_registry import KindRegistry, is_extra_installed, missing_modules
from perdure.dialects import definition_reader
from perdure.workflow_function import Workflow

ALGORITHM = "sha256:"
DATA = (".json", ".yaml", ".yml")
SUFFIXES = ("", *DATA, ".py", ".ts", ".txt")
"""The suffixes that the name of a content file may have. Files of `DATA` are parsed; a file without a suffix is parsed if it is JSON, and is text otherwise."""

_NAME = re.compile(r"[\w.:+=-]{1,255}")
_HASH = re.compile(r"[0-9a-f]{64}")


class ContentDirectory(Mapping[str, Any]):
    """The contents in a directory, one file each, read on access. A file that is named by a full SHA-256 must match it."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise BadValue("blobs", str(directory), "a directory of files named like the references to them, such as sha256:2c26… or 2c26….json")

    def __getitem__(self, ref: str) -> Any:
        if (file := self._file(ref)) is None:
            raise KeyError(ref)
        raw, name = file.read_bytes(), ref.removeprefix(ALGORITHM)
        if _HASH.fullmatch(name) and sha256(raw).hexdigest() != name:
            raise BadValue("blobs", str(file), f"the content whose SHA-256 is {name}; this file was changed, put the right one there")
        return _content(file, raw)

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, str) and self._file(ref) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(file.name for file in self._directory.iterdir() if file.is_file()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _file(self, ref: str) -> Path | None:
        if not _NAME.fullmatch(ref) or set(ref) == {"."}:
            return None
        names = (ref, ref.removeprefix(ALGORITHM))
        files = (self._directory / f"{name}{suffix}" for name in names for suffix in SUFFIXES)
        return next((file for file in files if file.is_file()), None)


def _content(file: Path, raw: bytes) -> Any:
    """The content of a file: parsed data, or text."""
    if file.suffix in DATA or raw.lstrip()[:1] in (b"{", b"["):
        read = parse_document(raw)
        if not read.findings:
            return read.document
        if file.suffix in DATA:
            raise BadValue("blobs", str(file), f"YAML or JSON: {read.findings[0].message}")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadValue("blobs", str(file), f"text: byte {error.start} is not UTF-8") from error


NO_BLOBS: Mapping[str, Any] = {}
Tools = Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]


class Definition(Workflow[..., Any]):
    """A workflow that is a document. Its executions carry the document along, so a change of the file does not affect those in progress."""

    def __init__(self, graph: GraphWorkflow, read: definition_reader.ReadDefinition, calls: Sequence[Workflow[..., Any]]) -> None:
        super().__init__(graph, lambda: calls)  # type: ignore[arg-type]  # a GraphWorkflow has every attribute of a CodeWorkflow that Workflow uses
        self.read = read

    @property
    def graph(self) -> GraphWorkflow:
        """The workflow as engines run it."""
        return self.code  # type: ignore[return-value]  # __init__ takes a GraphWorkflow

    @cached_property
    def ir(self) -> IR:
        """The intermediate form of the document."""
        sha256 = self.read.hash.removeprefix("sha256:")
        return plan_of_definition(sha256, {sha256: definition_bytes(self.read.canonical)}).ir

    def lacks(self) -> list[Requirement]:
        """Returns what its steps need and this process lacks: tools, workflows and definitions that they call, kinds, and extras that kinds need."""
        graph = self.graph
        known = {"tool": graph.tools, "kind": {*graph.kinds, *AGENT_VERBS}, "workflow": {*graph.family, *(one.code.name for one in self._uses())}}
        found = list[Requirement]()
        for need in requirements_of(self.ir):
            if need.what == "connection":
                found += [] if graph.connections is None or need.name in graph.connections else [need]
            elif need.name.startswith("py:"):
                _ = imported(need.name)
            elif need.what == "tool" and need.name not in graph.tools and self._undoes(need, graph.kinds):
                extra = graph.kinds[need.name].extra
                found += [] if is_extra_installed(extra) else [Requirement("extra", extra, need.id)]
            elif need.name not in known[need.what] and not (need.id == "" and need.name in graph.tools):
                found.append(need)
            elif need.what == "kind" and need.name in graph.kinds and not is_extra_installed(extra := graph.kinds[need.name].extra):
                found.append(Requirement("extra", extra, need.id))
        agents = [node for node in self.ir.nodes if node.kind in AGENT_VERBS and node.kind not in graph.kinds and isinstance(node.config, Mapping)]
        if agents:
            from perdure.definitions.kinds.agents.built_in_tools import ToolContext  # imported here because most definitions have no agents

            around = ToolContext(graph.tools, graph.kinds, {one.code.name: one for one in self._uses()})
            found += [Requirement("tool", name, node.id) for node in agents for name in named_tools(node.config) if around.find(name) is None]
        return found

    async def _run(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return await super()._run(verb, args, kwargs)
        except MissingCapabilities as error:
            missing = next((need for need in self.lacks() if need.what == "extra"), None)
            if missing is None:
                raise
            raise MissingExtra(f"step {missing.id} of {self.code.name}", ", ".join(missing_modules(missing.name)), missing.name) from error

    def _undoes(self, need: Requirement, kinds: Mapping[str, Kind]) -> bool:
        """Whether the required tool is in fact a kind that undoes the step."""
        return need.name in kinds and any(node.id == need.id and node.undo is not None and node.undo.tool == need.name for node in self.ir.nodes)

    def __repr__(self) -> str:
        return f"<definition {self.graph.name}@{self.read.canonical.get('version', '1.0.0')}>"

    @classmethod
    def load(cls, file: str | Path, **options: Any) -> Definition:
        """Reads the definition in a file; see `of` for the options.

        Raises:
            BadDefinition: it is not valid; the error lists everything that is wrong.
        """
        path = Path(file)
        return cls.of(path.read_text(encoding="utf-8"), name=path.stem, **options)

    @classmethod
    def of(
        cls,
        document: str | bytes | Mapping[str, Any],
        *,
        tools: Tools = (),
        calls: Sequence[Workflow[..., Any]] = (),
        kinds: Mapping[str, Callable[..., Any] | Kind] | None = None,
        deployment: Deployment = NOTHING_MORE,
        policy: Policy | Mapping[str, Any] = NO_POLICY,
        secrets: Mapping[str, str] | Callable[[str], str | None] | None = None,
        connections: Mapping[str, Any] | None = None,
        blobs: Mapping[str, Any] | str | Path = NO_BLOBS,
        name: str = "",
    ) -> Definition:
        """Reads the definition in a text, or in plain data.

        `tools` are the functions or steps that its steps may use, by name; `calls` the workflows and definitions that it may call. `kinds` replaces
        registered kinds: each value is a `Kind`, or a function of `config`, `input`, and `env` if there is one. `deployment` says what steps may reach where
        they run, `policy` what the definition may do. `secrets` has secrets by name, or is a function that finds them; they take precedence over those of
        the process. `connections` are databases for its `sql` steps by name, besides those of the deployment. `blobs` has the contents that the document
        refers to as ``cas://…``, by reference, or is the directory that holds them. `name` applies if the document has no name.

        Raises:
            BadDefinition: it is not valid; the error lists everything that is wrong.
        """
        find = secrets.get if isinstance(secrets, Mapping) else secrets
        deployment = deployment_with(deployment, find, connections or {})
        registry = step_kinds(kinds, deployment)
        toolbox = tool_steps(tools)
        read = config_checks.read_checked(document, name, registry, blobs if isinstance(blobs, Mapping) else ContentDirectory(blobs), toolbox)
        raw, sha256 = definition_bytes(read.canonical), read.hash.removeprefix("sha256:")
        plan = plan_of_definition(sha256, {sha256: raw})
        release = DefinitionRelease(plan.ir.name, plan.ir.version, sha256, raw, plan.ir.limits.deadline_s, plan.ir.limits.grace_s)
        rules = policy if isinstance(policy, Policy) else Policy.read(policy)
        graph = GraphWorkflow(
            name=plan.ir.name,
            release=release,
            tools=toolbox,
            kinds=registry,
            secrets=find,
            imports=imported,
            policy=rules,
            family=_family(release, calls),
            agent=f"{plan.ir.name}.agent",
            deadline_s=release.deadline_s,
            grace_s=release.grace_s,
            connections=None if kinds and "sql" in kinds else frozenset(connection_sources(deployment)),
        )
        graph = dataclasses.replace(graph, capabilities=engine_capabilities(graph, registry.ready()))
        return cls(graph, read, [*calls, _agents(graph, deployment, calls)] if _has_agents(plan.ir, read.canonical, registry) else calls)


def deployment_with(deployment: Deployment, find: Callable[[str], str | None] | None, connections: Mapping[str, Any]) -> Deployment:
    """The deployment with the secrets and the connections of a definition."""
    if find is not None and deployment.secret is NOTHING_MORE.secret:
        deployment = dataclasses.replace(deployment, secret=find)
    return dataclasses.replace(deployment, connections={**deployment.connections, **connections}) if connections else deployment


def _family(release: DefinitionRelease, calls: Sequence[Workflow[..., Any]]) -> dict[str, list[DefinitionRelease]]:
    """The releases that a definition may call, by name: itself, those of `calls`, and what these may call."""
    family: dict[str, list[DefinitionRelease]] = {release.name: [release]}
    for one in calls:
        if isinstance(one, Definition) and one.graph.release is not None:
            family.setdefault(one.graph.name, []).append(one.graph.release)
            for known, releases in one.graph.family.items():
                family.setdefault(known, []).extend(other for other in releases if other not in family[known])
    return family


def _has_agents(ir: IR, document: Mapping[str, Any], kinds: Mapping[str, Kind]) -> bool:
    """Whether a definition has agents that no replaced kind performs, or may add some by editing itself."""
    wanted = {name for name in AGENT_VERBS if name not in kinds}
    return any(node.kind in wanted for node in ir.nodes) or bool(wanted and document.get("allow", {}).get("self_edit"))


def _agents(graph: GraphWorkflow, deployment: Deployment, calls: Sequence[Workflow[..., Any]]) -> Workflow[..., Any]:
    """The workflow that runs a definition's agents."""
    from perdure.definitions.kinds.agents.agent_workflow import definition_agents  # imported here because most definitions have no agents
    from perdure.definitions.kinds.agents.built_in_tools import ToolContext

    around = ToolContext(graph.tools, graph.kinds, {one.code.name: one for one in calls}, deployment)
    return Workflow(definition_agents(graph.agent, around, deployment, graph.policy), lambda: calls)


def step_kinds(kinds: Mapping[str, Callable[..., Any] | Kind] | None, deployment: Deployment) -> KindRegistry:
    """The kinds that steps of definitions may have, with `kinds` in place of registered ones."""
    return KindRegistry(deployment, [Kind(PYTHON_CONDITION, _evaluated_conditions), *(_kind(name, one) for name, one in (kinds or {}).items())])


def _kind(name: str, one: Callable[..., Any] | Kind) -> Kind:
    return one if isinstance(one, Kind) else Kind(name, one)


def _evaluated_conditions(sources: list[str], output: Any, context: dict[str, Any]) -> list[bool]:
    """Evaluates conditions in Python. It runs in a thread, because it blocks."""
    from perdure.definitions.kinds.sandbox.python_conditions import evaluate_conditions  # imported here because it needs an optional library

    return evaluate_conditions(sources, output, context)


def tool_steps(tools: Tools) -> dict[str, Step[Any, Any, Any]]:
    """Tools by name: steps by their own names, functions by theirs.

    Raises:
        BadValue: one of them is no function, or two have one name.
    """
    named = tools.items() if isinstance(tools, Mapping) else [(_name(one), one) for one in tools]
    found: dict[str, Step[Any, Any, Any]] = {}
    for name, one in named:
        if name in found and found[name].fn is not getattr(one, "fn", one):
            raise BadValue("tools", name, "a name that one tool has; give the others another, as {name: function}")
        found[name] = dataclasses.replace(one, name=name) if isinstance(one, Step) else Step(one, name=name)
    return found


def _name(tool: Any) -> str:
    name = tool.name if isinstance(tool, Step) else getattr(tool, "__name__", "")
    if not callable(tool) or not name:
        raise BadValue("tools", tool, "a function or a step, or {name: function}")
    return str(name)


def imported(name: str) -> Step[Any, Any, Any]:
    """The step of ``py:package.module.function``.

    Raises:
        BadValue: it cannot be imported.
    """
    module, _, attribute = name.removeprefix("py:").rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
    except BaseException as error:  # the module is the user's, and may raise anything
        raise BadValue("call", name, f"a function that can be imported: {exception_summary(error)}") from error
    return dataclasses.replace(found, name=name) if isinstance(found, Step) else Step(found, name=name)
