"""What a node of seed 004 does, as a verb with its input, and what bounds, repeats and undoes it."""

from __future__ import annotations

from typing import Any

from perdure.programs.format.dialects.contents import Contents
from perdure.programs.format.dialects.graph004 import Graph
from perdure.programs.format.dialects.handover004 import MIGRATION, handed_over
from perdure.programs.format.dialects.http004 import HTTP, is_request, request
from perdure.programs.format.dialects.reading import Fields, Notes, is_number, kind, seconds, tidy, without_nothing
from perdure.programs.format.dialects.routes004 import HUMAN, Routed
from perdure.programs.format.dialects.spelling import escaped, literal, whole
from perdure.programs.format.dialects.values004 import Values
from perdure.programs.format.finding import closest

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
"""What the end of an approval's time comes to. Without a policy it is not approved, and goes the way of a rejection."""

_HOUR_S = 3600
_IGNORED = ("node_id", "id", "type", "dependencies", "dependents", "branch", "loop", "wait_for_all", "is_terminal", "metadata", "position")


class Nodes:
    """Reads the nodes of one document. `hops_max` is the largest bound of hops that one of them has named so far."""

    def __init__(self, graph: Graph, values: Values, notes: Notes, contents: Contents) -> None:
        self._graph, self._values, self._notes, self._contents = graph, values, notes, contents
        self.hops_max: int | None = None

    def read(self, node: Fields, called: str, routed: Routed) -> dict[str, Any]:
        """A node as a step that goes on as `routed` says."""
        kind = node.text("type", default="task")
        step: dict[str, Any] = {"id": called} | without_nothing({"name": node.text("name", "display_name"), "note": node.text("description")})
        if join := self._graph.joins.get(called):
            step["join"] = join
        if called in self._graph.unreached:
            step["when"] = False
        config = self._config(node)
        timeout_s = self._timeout_s(node)
        if kind in HUMAN:
            step |= self._human(node, called, config, timeout_s)
            node.ignore("rejection_path")
        else:
            step |= self._done(kind, node, called, config)
            if timeout_s:
                step["timeout"] = timeout_s
        if retry := _retry(node):
            step["retry"] = retry
        if compensator := node.inside("compensator"):
            step["undo"] = self._undo(compensator)
        node.ignore(*_IGNORED)
        return step | routed.fields

    def _config(self, node: Fields) -> Fields:
        """The node's config: what its `config_ref` refers to, and over that what stands in it."""
        config, given = node.inside("config"), node.any("config_ref")
        ref = given.get("cas_ref") if isinstance(given, dict) else given
        found: Any = None
        if isinstance(given, dict):
            about = Fields(given, node.at("config_ref"), self._notes)
            about.ignore("type_url", "cas_ref")
            about.left()
        if isinstance(ref, str) and ref:
            found = self._contents.find(ref, node.at("config_ref"), (dict,), "a config, which is a mapping")
        elif given is not None and not isinstance(given, dict):
            self._notes.error("wrong_type", node.at("config_ref"), f"expected {{type_url, cas_ref}} or a reference, found {kind(given)}")
        if found is not None:
            return Fields({**found, **(config.value if config else {})}, node.at("config_ref"), self._notes)
        return config or Fields({}, node.at("config"), self._notes)

    def _done(self, kind: str, node: Fields, called: str, config: Fields) -> dict[str, Any]:
        """What does the work of a node, and its input."""
        if kind == MIGRATION:
            return handed_over(config, self._graph.before(called), self._contents)
        if kind == HTTP and is_request(config):
            return {"http": request(config, self._values, is_judged=any(node.has(name) for name in ("branch", "loop")))}
        return self._work(kind, node, called, config) | self._input(config, called)

    def _work(self, kind: str, node: Fields, called: str, config: Fields) -> dict[str, Any]:
        if kind == "agent":
            return {"agent": self._agent(node, called, config)}
        if kind != "task":
            return {"task": {"type": kind}}
        given = node.any("config_ref")
        type_url = given.get("type_url") if isinstance(given, dict) else None
        return {"tool": config.text("action") or (type_url.partition("/")[0] if isinstance(type_url, str) else "") or called}

    def _input(self, config: Fields, called: str) -> dict[str, Any]:
        """Its config with its references; without any, what comes before it."""
        left = {name: value for name, value in config.value.items() if name not in config_of_its_own(config)}
        return {"with": {name: self._values.read(value, config.at(name)) for name, value in left.items()} if left else self._payload(called)}

    def _payload(self, called: str) -> Any:
        """What comes before a node: the execution's input, an output, a mapping of outputs, or the latest output where several lead to it one by one."""
        sources = self._graph.sources[called]
        if self._graph.is_entry(called):
            return "@input"
        if len(sources) == 1:
            return whole("last" if called in self._graph.looped else sources[0])
        return whole("last") if called in self._graph.joins else {source: whole(source) for source in sources}

    def _agent(self, node: Fields, called: str, config: Fields) -> dict[str, Any]:
        settings = node.inside("agent_config") or Fields({}, node.at("agent_config"), self._notes)
        prompt = settings.text("prompt") or config.text("prompt")
        branch = node.value.get("branch")
        if not prompt and isinstance(branch, dict) and branch.get("type") == "agent_driven":
            prompt = "Decide which of the next steps this goes to, and why."
        found: dict[str, Any] = {"prompt": self._values.read(prompt or f"Do what {called} is for.", settings.at("prompt"))}
        if tools := settings.texts("available_tools", "tools"):
            found["tools"] = tools
        settings.ignore("prompt", "available_tools", "tools")
        asked = ("prompt", "available_tools", "tools")
        return found | {name: literal(value) for name, value in settings.value.items() if name not in asked}

    def _human(self, node: Fields, called: str, config: Fields, timeout_s: float | None) -> dict[str, Any]:
        settings = node.inside("human_config") or config
        hours = settings.number("timeout_hours")
        if hours and timeout_s:
            where = node.at(node.name_of("timeout_ms", "limits", "timeout_sec"))
            self._notes.warning("said_twice", where, "'timeout_hours' says how long people have, and counts; leave this out")
        waits_s = tidy(hours * _HOUR_S) if hours else timeout_s
        policy = settings.text("escalation_policy")
        if policy and policy not in ESCALATION:
            near = closest(policy, ESCALATION)
            self._notes.error("unknown_value", settings.at("escalation_policy"), f"expected one of {', '.join(ESCALATION)}, found {policy[:40]!r}", near)
        title = settings.text("title", "prompt", "message") or config.text("title", "prompt", "message") or node.text("name")
        approve: dict[str, Any] = {"title": self._values.read(title, settings.at("title")) if title else f"Approve {escaped(called)}?"}
        approve["details"] = self._payload(called)
        approve |= without_nothing({"assignees": [literal(one) for one in settings.texts("approvers", "approver")]})
        if form := settings.any("form", "schema"):
            approve["form"] = form
        if waits_s:
            approve |= {"timeout": waits_s, "on_timeout": ESCALATION.get(policy, "reject")}
        shown = settings.text("approval_ui_url")
        settings.left()
        config.left()
        return {"approve": approve, **({"ui": {"approval_ui_url": shown}} if shown else {})}

    def _undo(self, compensator: Fields) -> dict[str, Any]:
        undo: dict[str, Any] = {"tool": compensator.text("action", "tool")}
        if not undo["tool"]:
            self._notes.error("missing_field", compensator.at("action"), "a compensator names the action that undoes the node")
        given = compensator.any("config", "input")
        undo["with"] = "@self" if given is None else self._values.read(given, compensator.at("config"))
        timeout_s = compensator.number("timeout_sec", "timeout_s") or seconds(compensator.number("timeout_ms"))
        undo |= without_nothing({"timeout": timeout_s, "retry": _retry(compensator)})
        compensator.left()
        return undo

    def _timeout_s(self, node: Fields) -> float | int | None:
        limits = node.inside("limits") or Fields({}, node.at("limits"), self._notes)
        hops = limits.whole("max_hops", least=1)
        self.hops_max = max(hops or 0, self.hops_max or 0) or None
        found = seconds(node.number("timeout_ms")) or limits.number("deadline_s") or node.number("timeout_sec")
        limits.left()
        return found


def config_of_its_own(config: Fields) -> tuple[str, ...]:
    """The fields of a config that say what is done, and are no input of it."""
    return ("action",) if config.has("action") else ()


def _retry(fields: Fields) -> dict[str, Any]:
    """How it is tried again: a number of tries, or {max_attempts, backoff_ms, multiplier}."""
    given = fields.any("retry")
    if is_number(given):
        most = fields.whole("retry", least=1)
        return {"max": most} if most else {}
    if (retry := fields.inside("retry")) is None:
        return {}
    found = {"max": retry.whole("max_attempts", least=1), "wait": seconds(retry.number("backoff_ms")), "factor": retry.number("multiplier")}
    retry.left()
    return without_nothing(found)
