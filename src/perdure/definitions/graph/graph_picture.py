"""The content of a picture of a graph, independent of how it is drawn: boxes, the lines between them, their labels and their states."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from perdure.core.views import StepState
from perdure.definitions.expr.template import is_expression
from perdure.definitions.format.model import VERBS
from perdure.definitions.format.shapes import StepsShape
from perdure.definitions.graph.ir import AFTER, ALWAYS, IR, EachOptions, GraphNode, RepeatOptions, RoutingRule

TITLE_MAX = 32
DETAIL_MAX = 40
LABEL_MAX = 30
DEPTH_MAX = 3

OPERATORS = {"eq": "=", "neq": "≠", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤", "contains": "contains", "in": "in", "matches_re": "matches"}
UNARY_OPERATORS = {"exists": ("exists", "is missing"), "empty": ("is empty", "is not empty")}
TELLING_FIELDS = ("title", "names", "name", "type", "message", "target", "url", "prompt", "model")
"""The fields of a verb's value that describe the step best, by precedence."""

SAID_BY_VERB = frozenset(verb.name for verb in VERBS if verb.transforms or isinstance(verb.shape, StepsShape)) | {"parallel"}
"""The verbs whose value is too long to show: source texts and lists of steps."""


def step_title(node: GraphNode) -> str:
    """Returns the title of the step."""
    return one_line(node.name or node.id, TITLE_MAX)


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


PictureState = StepState | Literal["not_taken", "not_reached"]

MOST_ACTIVE: tuple[StepState, ...] = ("performing", "ending", "retrying", "interrupted", "parked", "waiting", "waiting_approval")
"""The states of open operations, by precedence: what has several open operations has the first of their states."""

STATE_SIGNS: dict[PictureState, str] = {
    "completed": "✓",
    "performing": "▶",
    "ending": "▶",
    "retrying": "↻",
    "interrupted": "⚡",
    "parked": "‖",
    "waiting": "…",
    "waiting_approval": "?",
    "skipped": "–",
    "failed": "✗",
    "abandoned": "⚠",
    "cancelled": "⊘",
    "not_taken": "×",
    "not_reached": "○",
}
STATE_WORDS: dict[PictureState, str] = {"waiting_approval": "waiting for approval", "not_taken": "not taken", "not_reached": "not reached"}


class PictureEdge(NamedTuple):
    """All edges from one step to another: when they are taken, whether they lead back, and whether one was taken."""

    source: int
    target: int
    label: str
    back: bool
    taken: bool


class PictureGroup(NamedTuple):
    """The steps of one list, with those of its cycles, ordered so that each comes after the steps that lead to it; and the lines between them."""

    caption: str
    steps: Sequence[int]
    lines: Sequence[PictureEdge]


class GraphPicture(NamedTuple):
    """A graph as it is shown. `groups` are the lists of steps by the numbers of their regions, `inside` the lists of each step. `left_out` counts the steps
    that are not shown."""

    ir: IR
    groups: Mapping[int, PictureGroup]
    inside: Mapping[int, Sequence[int]]
    states: Mapping[int, PictureState]
    left_out: int

    @property
    def is_plan(self) -> bool:
        """Whether the picture shows no states."""
        return not self.states


def make_picture(ir: IR, states: Mapping[str, PictureState] | None = None, taken: Collection[int] = (), steps_max: int = 1000) -> GraphPicture:
    """Makes the picture of a graph. With `states` of steps by id and `taken` edges by number, it also shows the state of an execution.

    At most `steps_max` steps are shown, the first ones.
    """
    lists = _lists(ir)
    home = [lists[node.region] for node in ir.nodes]
    shown = _first_steps(ir, home, steps_max)
    kept = {number for steps in shown.values() for number in steps}
    lines: dict[int, list[PictureEdge]] = {}
    for line in _picture_edges(ir, frozenset(taken)):
        if line.source in kept and line.target in kept:
            lines.setdefault(home[line.source], []).append(line)
    inside: dict[int, list[int]] = {}
    groups = {0: PictureGroup("", shown.get(0, []), lines.get(0, []))}
    for region, outer in enumerate(lists):
        if outer == region and region and ir.regions[region].head in kept:
            groups[region] = PictureGroup(_caption(ir, region), shown.get(region, []), lines.get(region, []))
            inside.setdefault(ir.regions[region].head, []).append(region)
    known: dict[int, PictureState] = {} if states is None else {number: states.get(node.id, "not_reached") for number, node in enumerate(ir.nodes)}
    return GraphPicture(ir, groups, inside, known, len(ir.nodes) - len(kept))


def _lists(ir: IR) -> list[int]:
    """Returns for each region the list that it belongs to: itself, or for a cycle the list around it."""
    found = [-1] * len(ir.regions)
    for number in range(len(ir.regions)):
        way = [number]
        while ir.regions[way[-1]].kind == "cycle" and found[way[-1]] < 0:
            way.append(ir.regions[way[-1]].parent)
        outer = found[way[-1]] if found[way[-1]] >= 0 else way[-1]
        for region in way:
            found[region] = outer
    return found


def _first_steps(ir: IR, home: Sequence[int], steps_max: int) -> dict[int, list[int]]:
    """Returns the steps that are shown, by list: the first ones of each, as many as there is room for; outer lists before the lists inside of them."""
    members: dict[int, list[int]] = {}
    for number, region in enumerate(home):
        members.setdefault(region, []).append(number)
    edges: dict[int, list[tuple[int, int]]] = {}
    for edge in ir.edges:
        if not edge.back:
            edges.setdefault(home[edge.source], []).append((edge.source, edge.target))
    found: dict[int, list[int]] = {}
    kept: set[int] = set()
    room = steps_max
    for region in sorted(members):
        if region and ir.regions[region].head not in kept:
            continue
        found[region] = _in_order(members[region], edges.get(region, []))[: max(room, 0)]
        kept.update(found[region])
        room -= len(found[region])
    return found


def _in_order(steps: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Orders steps so that each comes after the steps that lead to it, and close to them where possible."""
    after: dict[int, list[int]] = {}
    open_edges = dict.fromkeys(steps, 0)
    for source, target in edges:
        after.setdefault(source, []).append(target)
        open_edges[target] += 1
    waiting = [number for number in reversed(steps) if not open_edges[number]]
    found = []
    while waiting:
        number = waiting.pop()
        found.append(number)
        for target in reversed(after.get(number, ())):
            open_edges[target] -= 1
            if not open_edges[target]:
                waiting.append(target)
    return found


def _picture_edges(ir: IR, taken: frozenset[int]) -> Iterator[PictureEdge]:
    """Yields one line for all edges from one step to another."""
    labels = edge_labels(ir)
    joined: dict[tuple[int, int, bool], list[int]] = {}
    for number, edge in enumerate(ir.edges):
        joined.setdefault((edge.source, edge.target, edge.back), []).append(number)
    for (source, target, back), edges in joined.items():
        said = list(dict.fromkeys(labels[number] for number in edges))
        yield PictureEdge(source, target, "" if "" in said else one_line(" / ".join(said), LABEL_MAX), back, not taken.isdisjoint(edges))


def _caption(ir: IR, region: int) -> str:
    """Returns the role of a list in its step; empty if it is obvious."""
    head = ir.nodes[ir.regions[region].head]
    if head.on_error == region:
        return "on error"
    return ("then", "else")[head.bodies.index(region)] if head.kind == "if" else ""
