"""Says in a few words what a step of a definition does, when and how often it runs, and when an edge is taken."""

import json
from collections.abc import Mapping
from typing import Any

from perdure.definitions.expr.template import is_expression
from perdure.definitions.format.model import VERBS
from perdure.definitions.format.shapes import StepsShape
from perdure.definitions.graph.ir import AFTER, ALWAYS, IR, EachOptions, GraphNode, RepeatOptions, RoutingRule

DETAIL_MAX = 40
LABEL_MAX = 30
DEPTH_MAX = 3

OPERATORS = {"eq": "=", "neq": "≠", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤", "contains": "contains", "in": "in", "matches_re": "matches"}
UNARY_OPERATORS = {"exists": ("exists", "is missing"), "empty": ("is empty", "is not empty")}
TELLING_FIELDS = ("title", "names", "name", "type", "message", "target", "url", "prompt", "model")
"""The fields of a verb's value that describe the step best, by precedence."""

SAID_BY_VERB = frozenset(verb.name for verb in VERBS if verb.transforms or isinstance(verb.shape, StepsShape)) | {"parallel"}
"""The verbs whose value is too long to show: source texts and lists of steps."""


def step_detail(node: GraphNode) -> str:
    """Returns the verb of the step with the value that describes it best."""
    config = node.config
    match node.kind:
        case "test" | "if":
            said = condition_text(config)
        case "sleep":
            said = _duration(config)
        case "set" if isinstance(config, Mapping):
            said = ", ".join(map(str, config))
        case "parallel" if isinstance(config, Mapping) and config.get("concurrency"):
            said = f"{config['concurrency']} at a time"
        case kind if kind in SAID_BY_VERB:
            said = ""
        case _ if isinstance(config, Mapping):
            said = next((_value_text(config[key]) for key in TELLING_FIELDS if key in config), "")
        case _:
            said = _value_text(config)
    return one_line(f"{node.kind} {said}".strip(), DETAIL_MAX)


def step_modifiers(node: GraphNode) -> list[str]:
    """Returns the modifiers of the step: what it waits for, whether it is skipped, how often it runs."""
    found = [f"when {condition_text(node.when)}"] if node.when is not None else []
    if isinstance(node.each, EachOptions):
        found.append(f"each {_value_text(node.each.items)}" + (f", {node.each.concurrency} at a time" if node.each.concurrency else ""))
    if isinstance(node.repeat, RepeatOptions):
        found.append(f"{'until' if node.repeat.until else 'while'} {condition_text(node.repeat.again)}" + (f", ≤ {node.repeat.max}" if node.repeat.max else ""))
    if node.join != "all":
        found.append(f"join {node.join}")
    return [one_line(mark, DETAIL_MAX) for mark in found]


def edge_labels(ir: IR) -> list[str]:
    """Returns when each edge is taken: its port, or the conditions of its rules; empty for the default."""
    by_rule: dict[int, list[str]] = {}
    for node in ir.nodes:
        for position, rule in enumerate(node.rules):
            for edge in rule.edges:
                by_rule.setdefault(edge, []).append(_rule_text(rule, position > 0, ir.edges[edge].back))
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
        labels.append(one_line(said, LABEL_MAX))
    return labels


def condition_text(value: Any, depth: int = 0) -> str:
    """Returns a condition in a few words."""
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
            return " ".join([_value_text(ref), *(_comparison(str(operator), right) for operator, right in rest.items())])
        case {"expr": text}:
            return _value_text(value.get("source", text))
        case {"python": _}:
            return "Python condition"
    return _value_text(value)


def one_line(text: str, most: int) -> str:
    """Returns text on one line, of at most so many characters, all of them visible."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text[: most * 8]).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _rule_text(rule: RoutingRule, others_first: bool, back: bool) -> str:
    said = condition_text(rule.when) if rule.when is not None else "otherwise" if others_first else ""
    return f"{said} ≤ {rule.max}".strip() if back and rule.max else said


def _grouped(part: Any, depth: int) -> str:
    said = condition_text(part, depth + 1)
    return f"({said})" if isinstance(part, Mapping) and part.keys() & {"all", "any"} and "ref" not in part else said


def _comparison(operator: str, right: Any) -> str:
    if operator in UNARY_OPERATORS:
        return UNARY_OPERATORS[operator][right is False]
    if isinstance(right, Mapping) and operator not in OPERATORS:
        return " ".join([operator, *(_comparison(inner, value) for inner, value in right.items())])
    return f"{OPERATORS.get(operator, operator)} {_value_text(right)}"


def _duration(config: Any) -> str:
    if is_expression(config):
        return str(config["expr"])
    if isinstance(config, Mapping):
        return f"until {_value_text(config.get('until'))}"
    if not isinstance(config, int | float):
        return _value_text(config)
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if config and config % unit_s == 0:
            return f"{config // unit_s:g}{unit}"
    return f"{config:g}s"


def _value_text(value: Any) -> str:
    match value:
        case str():
            return value[:200]
        case None:
            return "null"
        case list() if len(value) <= 6 and all(isinstance(one, str | int | float) for one in value):
            return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)[:200] if isinstance(value, bool | int | float) else "…"
