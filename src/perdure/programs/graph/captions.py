"""The words in a picture of a graph: what a step is called, what it does, and when an edge is taken, each in a few words."""

import json
from collections.abc import Mapping
from typing import Any

from perdure.expr.template import is_expression
from perdure.programs.graph.ir import AFTER, ALWAYS, IR, Each, Node, Repeat, Rule

TITLE_MAX = 32
DETAIL_MAX = 40
LABEL_MAX = 30
DEPTH_MAX = 3

OPERATORS = {"eq": "=", "neq": "≠", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤", "contains": "contains", "in": "in", "matches_re": "matches"}
SAID_OF = {"exists": ("exists", "is missing"), "empty": ("is empty", "is not empty")}
TELLING = ("title", "names", "name", "type", "message", "target", "url", "prompt", "model")
"""The fields of what stands behind a verb of which one says the most."""


def title(node: Node) -> str:
    """What the step is called."""
    return cut(node.name or node.id, TITLE_MAX)


def detail(node: Node) -> str:
    """What the step does: its verb, and with whom or what."""
    config = node.config
    match node.kind:
        case "test" | "if":
            said = condition(config)
        case "sleep":
            said = _duration(config)
        case "set" if isinstance(config, Mapping):
            said = ", ".join(map(str, config))
        case "parallel" if isinstance(config, Mapping) and config.get("concurrency"):
            said = f"{config['concurrency']} at a time"
        case "do" | "parallel" | "race" | "ts" | "python":
            said = ""
        case _ if isinstance(config, Mapping):
            said = next((_said(config[key]) for key in TELLING if key in config), "")
        case _:
            said = _said(config)
    return cut(f"{node.kind} {said}".strip(), DETAIL_MAX)


def marks(node: Node) -> list[str]:
    """How the step is changed: what it waits for, whether it is skipped, how often it runs."""
    found = [f"when {condition(node.when)}"] if node.when is not None else []
    if isinstance(node.each, Each):
        found.append(f"each {_said(node.each.items)}" + (f", {node.each.concurrency} at a time" if node.each.concurrency else ""))
    if isinstance(node.repeat, Repeat):
        found.append(f"{'until' if node.repeat.until else 'while'} {condition(node.repeat.again)}" + (f", ≤ {node.repeat.max}" if node.repeat.max else ""))
    if node.join != "all":
        found.append(f"join {node.join}")
    return [cut(mark, DETAIL_MAX) for mark in found]


def edge_labels(ir: IR) -> list[str]:
    """When each edge is taken: its port, or what its rules say; empty for the usual way on."""
    by_rule: dict[int, list[str]] = {}
    for node in ir.nodes:
        for position, rule in enumerate(node.rules):
            for edge in rule.edges:
                by_rule.setdefault(edge, []).append(_rule(rule, position > 0, ir.edges[edge].back))
            for edge in rule.on_max:
                by_rule.setdefault(edge, []).append(f"after {rule.max} times")
        for edge in node.default:
            by_rule.setdefault(edge, []).append("otherwise")
    labels = []
    for number, leading in enumerate(ir.edges):
        usual = "chosen" if not leading.port and number not in by_rule else "" if leading.port in (AFTER, ALWAYS) else leading.port
        said = " or ".join(dict.fromkeys(by_rule.get(number, [usual])))
        if leading.back and leading.port and (most := leading.max or ir.regions[leading.region].max):
            said = f"{said} ≤ {most}".strip()
        labels.append(cut(said, LABEL_MAX))
    return labels


def condition(value: Any, depth: int = 0) -> str:
    """A condition in a few words."""
    if depth > DEPTH_MAX:
        return "…"
    match value:
        case {"all": list(parts)}:
            return " and ".join(_grouped(part, depth) for part in parts[:4])
        case {"any": list(parts)} if "ref" not in value:
            return " or ".join(_grouped(part, depth) for part in parts[:4])
        case {"not": part}:
            return f"not {_grouped(part, depth)}"
        case {"ref": ref, **rest}:
            return " ".join([_said(ref), *(_comparison(str(operator), right) for operator, right in rest.items())])
        case {"expr": text}:
            return _said(value.get("source", text))
        case {"python": _}:
            return "as Python says"
    return _said(value)


def cut(text: str, most: int) -> str:
    """Text on one line, of at most so many characters, all of which can be seen."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text[: most * 8]).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _rule(rule: Rule, others_first: bool, back: bool) -> str:
    said = condition(rule.when) if rule.when is not None else "otherwise" if others_first else ""
    return f"{said} ≤ {rule.max}".strip() if back and rule.max else said


def _grouped(part: Any, depth: int) -> str:
    said = condition(part, depth + 1)
    return f"({said})" if isinstance(part, Mapping) and part.keys() & {"all", "any"} and "ref" not in part else said


def _comparison(operator: str, right: Any) -> str:
    if operator in SAID_OF:
        return SAID_OF[operator][right is False]
    if isinstance(right, Mapping) and operator not in OPERATORS:
        return " ".join([operator, *(_comparison(inner, value) for inner, value in right.items())])
    return f"{OPERATORS.get(operator, operator)} {_said(right)}"


def _duration(config: Any) -> str:
    if is_expression(config):
        return str(config["expr"])
    if isinstance(config, Mapping):
        return f"until {_said(config.get('until'))}"
    if not isinstance(config, int | float):
        return _said(config)
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if config and config % unit_s == 0:
            return f"{config // unit_s:g}{unit}"
    return f"{config:g}s"


def _said(value: Any) -> str:
    match value:
        case str():
            return value[:200]
        case None:
            return "null"
        case list() if len(value) <= 6 and all(isinstance(one, str | int | float) for one in value):
            return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)[:200] if isinstance(value, bool | int | float) else "…"
