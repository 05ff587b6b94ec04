"""Reads the nodes of token_graph as verbs with their input, bounds, repetition and undo.

**References** in a config are ``$nodes.x.y`` and ``$inputs.x`` as a whole value, or ``${$nodes.x.y}`` inside text.

**HTTP.** A node of type `http` with a URL is a request with `params` as its query; without a URL it is work for a worker. If its loop or branch reads
``output.status``, an answer of any status is its output; otherwise a status from 400 is a failure.

**OpenAPI.** A node `openapi_action` with the URL of a document calls one of its operations.

**Handover.** A `migration` becomes three steps: its transform, which computes the input of the other version from ``{input, results, from_version,
to_version}`` in a sandbox; a call of the other version; and a return of its result. The log therefore pins the version, a failure there undoes the work
here, and the other version runs once wherever the process is killed. Without a transform the other version receives the input of the execution.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.dialects.foreign_document import (
    Document,
    FindingCollector,
    ForeignFields,
    StepNames,
    is_number,
    kind_of_value,
    ms_to_s,
    whole_if_exact,
    without_empty,
)
from perdure.dialects.reference_syntax import EmbeddedReference, escape_template, literal_value, reference_text, template_text, whole_reference
from perdure.dialects.token_graph.condition_reader import CONTENT_SCHEME, ReferencedContents
from perdure.dialects.token_graph.node_routes import HUMAN_TYPES, RoutedNode, TokenGraph

_CHAIN = r"""(?:\.[\w-]+|\[\d+\]|\["[^"\\]*"\]|\['[^'\\]*'\])"""
_WHOLE = re.compile(rf"\$(nodes|inputs?)({_CHAIN}*)|\$\{{\s*\$(nodes|inputs?)({_CHAIN}*)\s*\}}")
_INSIDE = re.compile(rf"\$\{{\s*\$(nodes|inputs?)({_CHAIN}*)\s*\}}")
_KEY = re.compile(r"""\.([\w-]+)|\[(\d+)\]|\["([^"\\]*)"\]|\['([^'\\]*)'\]""")


class TokenGraphValueReader:
    """Resolves the references in the configs of one document's nodes."""

    def __init__(self, names: StepNames, notes: FindingCollector) -> None:
        self._names, self._notes = names, notes

    def read(self, value: Any, pointer: str) -> Any:
        """A value, as a template."""
        match value:
            case str():
                return self._text(value, pointer)
            case list():
                return [self.read(item, joined_pointer(pointer, index)) for index, item in enumerate(value)]
            case dict():
                return {str(key): self.read(item, joined_pointer(pointer, str(key))) for key, item in value.items()}
            case _:
                return value

    def _text(self, text: str, pointer: str) -> str:
        if found := _WHOLE.fullmatch(text):
            meant = self._meant(found[1] or found[3], found[2] if found[1] else found[4], pointer)
            return whole_reference(*meant) if meant else escape_template(text)
        pieces: list[str | EmbeddedReference] = []
        behind = 0
        for found in _INSIDE.finditer(text):
            if meant := self._meant(found[1], found[2], pointer):
                pieces += [text[behind : found.start()], EmbeddedReference(reference_text(*meant))]
                behind = found.end()
        return template_text([*pieces, text[behind:]])

    def _meant(self, root: str, chain: str, pointer: str) -> tuple[str, list[str | int]] | None:
        path: list[str | int] = [int(key[2]) if key[2] is not None else next(one for one in key.groups() if one is not None) for key in _KEY.finditer(chain)]
        if root != "nodes":
            return "input", path
        if not path:
            self._notes.error("bad_reference", pointer, "$nodes alone is not a reference; write $nodes.NODE.field")
            return None
        node = str(path[0])
        if node not in self._names:
            near = closest_name(node, self._names)
            self._notes.error("unknown_reference", pointer, f"there is no node {node[:60]!r}{f'; did you mean {near!r}?' if near else ''}", near)
        return self._names[node], path[1:]


HTTP_TYPE = "http"
HTTP_FIELDS = {"url": "url", "method": "method", "headers": "headers", "params": "query", "query": "query", "body": "body", "json": "json", "form": "form"}
"""The fields of a config, with their names in a definition."""

HTTPS_SCHEME = "https://"
"""That of a URL which says none, as ``api.example/search``."""


def is_http_request(config: ForeignFields) -> bool:
    """Whether a config says where a request goes."""
    return isinstance(config.value.get("url"), str)


def read_http_request(config: ForeignFields, values: TokenGraphValueReader, is_judged: bool) -> dict[str, Any]:
    """The request in a config. Other fields are left out with a warning."""
    found = {HTTP_FIELDS[name]: values.read(config.any(name), config.at(name)) for name in config.value if name in HTTP_FIELDS and config.has(name)}
    url = str(found["url"])
    if "://" not in url.partition("?")[0] and not url.startswith("@"):
        found["url"] = HTTPS_SCHEME + url
    config.left(HTTP_FIELDS)
    return found | ({"accept": "any"} if is_judged else {})


def http_node_config(http: Any, value: Callable[[Any], Any]) -> dict[str, Any]:
    """A request as the config of a node; `value` writes a template."""
    fields: dict[str, Any] = {"url": http} if isinstance(http, str) else http
    return {"params" if name == "query" else name: value(given) for name, given in fields.items() if name != "accept"}


OPENAPI_ACTION = "openapi_action"
"""The type, or the action of a task, that calls an operation of an API; agents have a tool of this name."""

OPENAPI_FIELDS = {"openapi_url": "url", "operation_id": "operation", "params": "params", "auth_profile": "auth"}
"""The fields of its config, with their names in a definition."""


def is_openapi_action(kind: str, config: ForeignFields) -> bool:
    """Whether a node calls an operation of an API that a document describes."""
    is_called_so = kind == OPENAPI_ACTION or (kind == "task" and config.value.get("action") == OPENAPI_ACTION)
    return is_called_so and isinstance(config.value.get("openapi_url"), str)


def read_openapi_action(config: ForeignFields, values: TokenGraphValueReader) -> dict[str, Any]:
    """The operation in a config. Other fields are left out with a warning."""
    constant = ("operation_id", "auth_profile")
    found = {
        OPENAPI_FIELDS[name]: config.text(name) if name in constant else values.read(config.any(name), config.at(name))
        for name in config.value
        if name in OPENAPI_FIELDS and config.has(name)
    }
    url = str(found["url"])
    if "://" not in url.partition("?")[0] and not url.startswith("@"):
        found["url"] = HTTPS_SCHEME + url
    config.ignore("action")
    config.left(OPENAPI_FIELDS)
    return found


def openapi_node_config(openapi: Document, value: Callable[[Any], Any]) -> dict[str, Any]:
    """An operation as the config of a node; `value` writes a template."""
    names = {ours: theirs for theirs, ours in OPENAPI_FIELDS.items()}
    return {names[name]: given if name in ("operation", "auth") else value(given) for name, given in openapi.items()}


MIGRATION_TYPE = "migration"
VERSION_PATTERN = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")

_PYTHON = re.compile(r"^\s*(?:async\s+)?def\s+main\s*\(", re.MULTILINE)


def read_handover(config: ForeignFields, before: Iterable[str], contents: ReferencedContents) -> Document:
    """Reads the code of such a node: it makes the input of the other version from the input of the execution and the outputs of the nodes `before` it."""
    versions = {name: config.text(name) for name in ("from_version", "to_version")}
    for name, version in versions.items():
        if not VERSION_PATTERN.fullmatch(version) and (version or name == "to_version"):
            config.notes.error("bad_version", config.at(name), f"expected a version such as 2.0, found {version[:40]!r}")
    if versions["to_version"] and versions["to_version"] == versions["from_version"]:
        config.notes.error("same_version", config.at("to_version"), "a handover must name another version; the same one would come here again and again")
    given = {"input": "@input", "results": {id: f"{whole_reference(id)}?" for id in before}, **without_empty(versions)}
    source = _handover_source(config, contents)
    config.left()
    return {**source, "with": given} if source else {"do": []}


def _handover_source(config: ForeignFields, contents: ReferencedContents) -> Document:
    """The transform by its language; nothing if there is none."""
    given = config.text("transform")
    if given.startswith(CONTENT_SCHEME):
        given = contents.find(given, config.at("transform"), (str,), "a source text") or ""
    return {("python" if _PYTHON.search(given) else "ts"): given} if given else {}


def route_handover(node: ForeignFields, called: str, name: str, names: StepNames, leads_to: tuple[str, ...]) -> RoutedNode:
    """How a node of this type goes on: by the call of the other version of the workflow `name`, and the return. It leads nowhere else."""
    config = node.inside("config") or ForeignFields({}, node.at("config"), node.notes)
    if leads_to:
        text = f"the execution goes on in another version here, so this can't lead to {leads_to[0][:60]!r}: put that into the other version"
        node.notes.error("unsupported", node.pointer, text)
    call, end = names.free(f"{called}_to"), names.free(f"{called}_end")
    reading = whole_reference(called) if config.text("transform") else "@input"
    added = ({"id": call, "call": f"{name}@{config.text('to_version')}", "with": reading, "next": end}, {"id": end, "return": whole_reference(call)})
    return RoutedNode({"next": call}, (), added=added, is_terminal=True)


def version_before(nodes: Mapping[str, ForeignFields]) -> str:
    """The version that the document is of, as its nodes of this type say; empty if none does."""
    for node in nodes.values():
        config = node.value.get("config")
        if node.value.get("type") == MIGRATION_TYPE and isinstance(config, dict) and (found := VERSION_PATTERN.fullmatch(str(config.get("from_version", "")))):
            return ".".join(part or "0" for part in found.groups())
    return ""


def handovers_of(definition: Document) -> Iterator[tuple[str, Document, tuple[str, str]]]:
    """Of each handover in a definition: the id of its step, the node's config, and the ids of the steps behind it."""
    steps = {step["id"]: step for step in definition["steps"]}
    for step in definition["steps"]:
        call = steps.get(_only(step.get("next")), {})
        end = steps.get(_only(call.get("next")), {})
        name, _, to = str(call.get("call", "")).partition("@")
        if name != definition["name"] or "return" not in end or not to:
            continue
        given = step.get("with") or {}
        source = step.get("python") or step.get("ts")
        before = given.get("from_version") if source else None
        yield step["id"], without_empty({"from_version": before, "to_version": to, "transform": source}), (call["id"], end["id"])


def _only(following: Any) -> str:
    match following:
        case str():
            return following
        case [str(one)]:
            return one
    return ""


ESCALATION = {
    "auto_approve": "approve",
    "auto_approve_after_timeout": "approve",
    "approve": "approve",
    "auto_reject": "reject",
    "auto_reject_after_timeout": "reject",
    "reject": "reject",
    "timeout": "reject",
    "fail": "fail",
}
"""The effect of an expired approval. Without a policy it counts as a rejection."""

_HOUR_S = 3600
_IGNORED = ("node_id", "id", "type", "dependencies", "dependents", "branch", "loop", "wait_for_all", "is_terminal", "metadata", "position")


class TokenGraphNodeReader:
    """Reads the nodes of one document. `hops_max` is the largest bound of hops that one of them has named so far."""

    def __init__(self, graph: TokenGraph, values: TokenGraphValueReader, notes: FindingCollector, contents: ReferencedContents) -> None:
        self._graph, self._values, self._notes, self._contents = graph, values, notes, contents
        self.hops_max: int | None = None

    def read(self, node: ForeignFields, called: str, routed: RoutedNode) -> dict[str, Any]:
        """A node as a step that goes on as `routed` says."""
        kind = node.text("type", default="task")
        step: dict[str, Any] = {"id": called} | without_empty({"name": node.text("name", "display_name"), "note": node.text("description")})
        if join := self._graph.joins.get(called):
            step["join"] = join
        if called in self._graph.unreached:
            step["when"] = False
        config = self._config(node)
        timeout_s = self._timeout_s(node)
        if kind in HUMAN_TYPES:
            step |= self._human(node, called, config, timeout_s)
            node.ignore("rejection_path")
        else:
            step |= self._done(kind, node, called, config)
            if timeout_s:
                step["timeout"] = timeout_s
        if retry := _read_retry(node):
            step["retry"] = retry
        if compensator := node.inside("compensator"):
            step["undo"] = self._undo(compensator)
        node.ignore(*_IGNORED)
        return step | routed.fields

    def _config(self, node: ForeignFields) -> ForeignFields:
        """The node's config: the content of its `config_ref`, overridden by its own fields."""
        config, given = node.inside("config"), node.any("config_ref")
        ref = given.get("cas_ref") if isinstance(given, dict) else given
        found: Any = None
        if isinstance(given, dict):
            about = ForeignFields(given, node.at("config_ref"), self._notes)
            about.ignore("type_url", "cas_ref")
            about.left()
        if isinstance(ref, str) and ref:
            found = self._contents.find(ref, node.at("config_ref"), (dict,), "a config, which is a mapping")
        elif given is not None and not isinstance(given, dict):
            self._notes.error("wrong_type", node.at("config_ref"), f"expected {{type_url, cas_ref}} or a reference, found {kind_of_value(given)}")
        if found is not None:
            return ForeignFields({**found, **(config.value if config else {})}, node.at("config_ref"), self._notes)
        return config or ForeignFields({}, node.at("config"), self._notes)

    def _done(self, kind: str, node: ForeignFields, called: str, config: ForeignFields) -> dict[str, Any]:
        """Returns the verb that does the work of a node, and its input."""
        if kind == MIGRATION_TYPE:
            return read_handover(config, self._graph.before(called), self._contents)
        if kind == HTTP_TYPE and is_http_request(config):
            return {"http": read_http_request(config, self._values, is_judged=any(node.has(name) for name in ("branch", "loop")))}
        if is_openapi_action(kind, config):
            return {"openapi": read_openapi_action(config, self._values)}
        return self._work(kind, node, called, config) | self._input(config, called)

    def _work(self, kind: str, node: ForeignFields, called: str, config: ForeignFields) -> dict[str, Any]:
        if kind == "agent":
            return {"agent": self._agent(node, called, config)}
        if kind != "task":
            return {"task": {"type": kind}}
        given = node.any("config_ref")
        type_url = given.get("type_url") if isinstance(given, dict) else None
        return {"tool": config.text("action") or (type_url.partition("/")[0] if isinstance(type_url, str) else "") or called}

    def _input(self, config: ForeignFields, called: str) -> dict[str, Any]:
        """The config with its references; without a config, the outputs of its predecessors."""
        left = {name: value for name, value in config.value.items() if name not in config_of_its_own(config)}
        return {"with": {name: self._values.read(value, config.at(name)) for name, value in left.items()} if left else self._payload(called)}

    def _payload(self, called: str) -> Any:
        """The input without a config: the execution's input, an output, a mapping of outputs, or the latest output where several lead here one by one."""
        sources = self._graph.sources[called]
        if self._graph.is_entry(called):
            return "@input"
        if len(sources) == 1:
            return whole_reference("last" if called in self._graph.looped else sources[0])
        return whole_reference("last") if called in self._graph.joins else {source: whole_reference(source) for source in sources}

    def _agent(self, node: ForeignFields, called: str, config: ForeignFields) -> dict[str, Any]:
        settings = node.inside("agent_config") or ForeignFields({}, node.at("agent_config"), self._notes)
        prompt = settings.text("prompt") or config.text("prompt")
        branch = node.value.get("branch")
        if not prompt and isinstance(branch, dict) and branch.get("type") == "agent_driven":
            prompt = "Decide which of the next steps this goes to, and why."
        found: dict[str, Any] = {"prompt": self._values.read(prompt or f"Do what {called} is for.", settings.at("prompt"))}
        if tools := settings.texts("available_tools", "tools"):
            found["tools"] = tools
        settings.ignore("prompt", "available_tools", "tools")
        asked = ("prompt", "available_tools", "tools")
        return found | {name: literal_value(value) for name, value in settings.value.items() if name not in asked}

    def _human(self, node: ForeignFields, called: str, config: ForeignFields, timeout_s: float | None) -> dict[str, Any]:
        settings = node.inside("human_config") or config
        hours = settings.number("timeout_hours")
        if hours and timeout_s:
            where = node.at(node.name_of("timeout_ms", "limits", "timeout_sec"))
            self._notes.warning("said_twice", where, "'timeout_hours' is used instead; remove this")
        waits_s = whole_if_exact(hours * _HOUR_S) if hours else timeout_s
        policy = settings.text("escalation_policy")
        if policy and policy not in ESCALATION:
            near = closest_name(policy, ESCALATION)
            self._notes.error("unknown_value", settings.at("escalation_policy"), f"expected one of {', '.join(ESCALATION)}, found {policy[:40]!r}", near)
        title = settings.text("title", "prompt", "message") or config.text("title", "prompt", "message") or node.text("name")
        approve: dict[str, Any] = {"title": self._values.read(title, settings.at("title")) if title else f"Approve {escape_template(called)}?"}
        approve["details"] = self._payload(called)
        approve |= without_empty({"assignees": [literal_value(one) for one in settings.texts("approvers", "approver")]})
        if form := settings.any("form", "schema"):
            approve["form"] = form
        if waits_s:
            approve |= {"timeout": waits_s, "on_timeout": ESCALATION.get(policy, "reject")}
        shown = settings.text("approval_ui_url")
        settings.left()
        config.left()
        return {"approve": approve, **({"ui": {"approval_ui_url": shown}} if shown else {})}

    def _undo(self, compensator: ForeignFields) -> dict[str, Any]:
        undo: dict[str, Any] = {"tool": compensator.text("action", "tool")}
        if not undo["tool"]:
            self._notes.error("missing_field", compensator.at("action"), "a compensator needs the action that undoes the node")
        given = compensator.any("config", "input")
        undo["with"] = "@self" if given is None else self._values.read(given, compensator.at("config"))
        timeout_s = compensator.number("timeout_sec", "timeout_s") or ms_to_s(compensator.number("timeout_ms"))
        undo |= without_empty({"timeout": timeout_s, "retry": _read_retry(compensator)})
        compensator.left()
        return undo

    def _timeout_s(self, node: ForeignFields) -> float | int | None:
        limits = node.inside("limits") or ForeignFields({}, node.at("limits"), self._notes)
        hops = limits.whole("max_hops", least=1)
        self.hops_max = max(hops or 0, self.hops_max or 0) or None
        found = ms_to_s(node.number("timeout_ms")) or limits.number("deadline_s") or node.number("timeout_sec")
        limits.left()
        return found


def config_of_its_own(config: ForeignFields) -> tuple[str, ...]:
    """The fields of a config that say what is done, and are no input of it."""
    return ("action",) if config.has("action") else ()


def _read_retry(fields: ForeignFields) -> dict[str, Any]:
    """Reads a retry policy: a number of attempts, or {max_attempts, backoff_ms, multiplier}."""
    given = fields.any("retry")
    if is_number(given):
        most = fields.whole("retry", least=1)
        return {"max": most} if most else {}
    if (retry := fields.inside("retry")) is None:
        return {}
    found = {"max": retry.whole("max_attempts", least=1), "wait": ms_to_s(retry.number("backoff_ms")), "factor": retry.number("multiplier")}
    retry.left()
    return without_empty(found)
