"""Neutral graphs as definitions: business workflows that other engines run, read as steps in the order ports, with mocked work.

    python -m tests.definitions.graph.neutral_graphs ../shared/data/graphs/asl.jsonl

What decides and what fails is an input, so that every way through a graph can be asked for: `choices` gives each branch the ports that it takes,
one after the other, and `fails` how often each step fails.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from perdure.definitions.format.model import ROOTS
from tests.proof.definitions import Decision, OutsideEvents, ScheduledMessage

Json = dict[str, Any]

TURNS_MAX = 100
TURNS = 3
ITEMS = ["one", "two", "three"]
WORK = {"task", "agent", "mcp", "script", "jq", "subworkflow"}
NOTHING: Json = {"do": []}


class Imported(NamedTuple):
    """A definition; the id in it of each node; the ports of each branch; the steps whose failing leads somewhere; and what had to be decided."""

    definition: Json
    ids: Mapping[str, str]
    ports: Mapping[str, Sequence[str]]
    fallible: Sequence[str]
    decisions: Sequence[str]
    script: OutsideEvents


def read(path: Path) -> list[Json]:
    """The graphs of a file."""
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def imported(graph: Json) -> Imported:
    """The graph as a definition in the order ports."""
    return _Importer(graph).imported()


def scripts(found: Imported, worlds: int) -> Iterator[OutsideEvents]:
    """Worlds in which branches go other ways each time, and steps whose failing leads somewhere fail in every second."""
    for number in range(worlds):
        random = Random(number)
        choices = {branch: random.sample(list(ports), len(ports)) for branch, ports in found.ports.items()}
        fails = {step: 99 if number % 2 and random.random() < 0.5 else 0 for step in found.fallible}
        decisions = {title: one for title, one in found.script.decisions.items() if not (number % 3 == 2 and title in found.fallible)}
        yield OutsideEvents({"choices": choices, "fails": fails, "many": ITEMS[: random.randint(1, 3)]}, found.script.messages, decisions)


class _Importer:
    def __init__(self, graph: Json, visit: Any = None) -> None:
        self._graph = graph
        self._visit = visit
        self._nodes: dict[str, Json] = {}
        self._edges: list[Json] = []
        self._ids: dict[str, str] = {}
        self._ports: dict[str, list[str]] = {}
        self._fallible: list[str] = []
        self._decisions: list[str] = []
        self._asks: dict[str, Decision] = {}
        self._messages: list[ScheduledMessage] = []
        self._steps: list[Json] = []
        self._clock = count()

    def imported(self) -> Imported:
        """Everything flat but bodies of foreach, and forks whose failing leads somewhere: these are blocks."""
        self._flatten(self._graph)
        start = self._graph["start"]
        back = _back_edges(list(self._nodes), self._edges, start)
        blocks = {name for name, node in self._nodes.items() if node["kind"] == "fork" and self._from(name, "error")}
        held = {name: self._held(name) for name in blocks}
        hidden = {one for names in held.values() for one in names}
        self._edges += [{"from": name, "to": self._meets(name), "port": "success"} for name in blocks]
        for name, node in self._nodes.items():
            if name not in hidden:
                step = {"id": self._id(name), "name": name, **(self._block(name) if name in blocks else self._verb(node))}
                self._steps.append(step | self._next(name, [edge for edge in self._edges if edge["from"] == name and edge["to"] not in hidden], back))
        self._steps.sort(key=lambda step: step["name"] != start)
        self._hang_unreached(start)
        definition = {"perdure": 1, "name": re.sub(r"[@/:\s]+", "-", self._graph.get("name") or self._graph["id"]).strip("-"), "order": "ports"}
        definition |= {"input": {name: {} for name in ("choices", "fails", "many")}, "limits": {"max_hops": 100_000}, "steps": self._steps}
        return Imported(definition, self._ids, self._ports, self._fallible, self._decisions, OutsideEvents({}, self._messages, self._asks))

    def _flatten(self, graph: Json) -> None:
        """Nodes and edges, with the body of a loop in place of it: its steps, and behind them a branch that leads back or on."""
        for node in graph["nodes"]:
            self._nodes[node["id"]] = node
        self._edges += [dict(edge) for edge in graph["edges"]]
        for node in graph["nodes"]:
            if node["kind"] == "loop":
                self._unroll(node)

    def _unroll(self, node: Json) -> None:
        name, body = node["id"], node["body"]
        self._flatten(body)
        names = [one["id"] for one in body["nodes"]]
        first = next(one for one in names if not any(edge["to"] == one for edge in body["edges"]))
        for edge in self._edges:
            if edge["to"] == name:
                edge["to"] = first
        if self._graph["start"] == name:
            self._graph = {**self._graph, "start": first}
        for one in names:
            if not any(edge["from"] == one and edge["port"] in ("success", "done", "default") for edge in body["edges"]):
                port = "default" if self._nodes[one]["kind"] == "branch" else "success"
                self._edges.append({"from": one, "to": name, "port": port})
        for edge in self._edges:
            if edge["from"] == name:
                edge["port"] = "leave"
        self._edges.append({"from": name, "to": first, "port": "again"})
        self._nodes[name] = {**node, "kind": "branch"}
        self._decide(f"loop {name}: its body, and behind that a branch which leads back or on")

    # what a node does

    def _verb(self, node: Json) -> Json:
        kind, step_id = node["kind"], self._id(node["id"])
        if kind in WORK:
            return self._work(node, step_id)
        match kind:
            case "branch":
                ports = [edge["port"] for edge in self._edges if edge["from"] == node["id"]]
                if "default" not in ports and "leave" not in ports:
                    self._decide(f"{node['id']}: it has no default; if no case holds, the way ends there")
                self._ports[step_id] = list(dict.fromkeys([*ports, *(() if "default" in ports or "leave" in ports else ("none",))]))
                return {"tool": "TAKE", "with": {"value": f"@input.choices.{step_id}", "nth": self._visit or f"@{step_id}.visit?", "takes_s": self._seconds()}}
            case "fork":
                return NOTHING
            case "join":
                return self._joining(node)
            case "set":
                return {"set": {step_id: _constant(node.get("Result"))}}
            case "timer":
                return {"sleep": node.get("Seconds", 1)}
            case "wait":
                return self._waiting(node, step_id)
            case "human":
                return self._asking(node, step_id)
            case "emit":
                return {"emit": {"body": {"event": node["id"]}}}
            case "foreach":
                return self._each(node)
            case "end" | "fail":
                return self._ending(node)
        raise ValueError(f"{node['id']}: a node of kind {kind!r} has no place in a definition")

    def _joining(self, node: Json) -> Json:
        """All that leads there is waited for; what is named beside that, or not named, is told."""
        sources = {edge["from"] for edge in self._edges if edge["to"] == node["id"]}
        if named := set(node.get("joinOn") or ()):
            for one in sorted(named - sources):
                self._decide(f"{node['id']}: it waits for {one}, from which no edge leads there; the edges are taken")
            for one in sorted(sources - named):
                self._decide(f"{node['id']}: it does not name {one}, from which an edge leads there; the edges are taken")
        return NOTHING

    def _work(self, node: Json, step_id: str) -> Json:
        step: Json = {"tool": "ECHO", "with": {"value": node.get("resource") or node["type"], "takes_s": self._seconds()}}
        if self._from(node["id"], "error"):
            step["with"]["fails"] = f"@input.fails.{step_id}"
            self._fallible.append(step_id)
        if retries := node.get("Retry"):
            if len(retries) > 1:
                self._decide(f"{node['id']}: of {len(retries)} ways of trying again, the first is taken; there is one for each step")
            one = retries[0]
            step["retry"] = {"max": one.get("MaxAttempts", 3) + 1, "wait": one.get("IntervalSeconds", 1), "factor": one.get("BackoffRate", 2)}
        if "TimeoutSeconds" in node:
            step["timeout"] = node["TimeoutSeconds"]
        if node.get("optional"):
            step["on_error"] = "go_on"
        return step

    def _waiting(self, node: Json, step_id: str) -> Json:
        if found := re.match(r"(\d+) sec", str((node.get("input") or {}).get("duration", ""))):
            return {"sleep": int(found[1])}
        self._messages.append(ScheduledMessage(self._seconds(), step_id, None))
        self._decide(f"{node['id']}: a wait that has no end of its own is a message that is listened for")
        return {"listen": {"names": [step_id]}}

    def _asking(self, node: Json, step_id: str) -> Json:
        self._asks[step_id] = Decision(self._seconds(), True)
        asked: Json = {"title": step_id}
        if "TimeoutSeconds" in node:
            asked["timeout"] = node["TimeoutSeconds"]
            if self._from(node["id"], "error"):
                self._fallible.append(step_id)
        return {"approve": asked}

    def _each(self, node: Json) -> Json:
        each = {"in": "@input.many"} | ({"concurrency": node["MaxConcurrency"]} if node.get("MaxConcurrency") else {})
        if body := node.get("body"):
            return {"do": self._within(body, "@index")._listed(body["start"], ""), "each": each}
        self._decide(f"{node['id']}: what is done for each is only known when it runs; one mocked step stands for it")
        return {"tool": "ECHO", "with": {"value": "@item", "takes_s": self._seconds(), "nth": "@index"}, "each": each} | (
            {"on_error": "go_on"} if node.get("optional") else {}
        )

    def _ending(self, node: Json) -> Json:
        status = (node.get("input") or {}).get("terminationStatus", "COMPLETED")
        if node["kind"] == "end" and status == "COMPLETED":
            return {"return": None}
        why = node.get("Cause") or (node.get("input") or {}).get("terminationReason") or node["id"]
        return {"fail": {"message": str(why).replace("@", "@@"), "type": node.get("Error") or status.title()}}

    def _within(self, graph: Json, visit: Any) -> "_Importer":
        """An importer of the steps of a block. What they have been decided to be is told to this one."""
        inner = _Importer(graph, visit)
        inner._flatten(graph)
        inner._ids, inner._ports, inner._fallible, inner._decisions = self._ids, self._ports, self._fallible, self._decisions
        inner._asks, inner._messages, inner._clock = self._asks, self._messages, self._clock
        return inner

    def _seconds(self) -> float:
        """How long mocked work takes: no two of a graph the same."""
        return round(1.0 + 0.1713 * next(self._clock), 4)

    # where it leads

    def _next(self, name: str, edges: Sequence[Json], back: Sequence[Json]) -> Json:
        if not edges:
            return {}
        kind = self._nodes[name]["kind"]
        if kind == "branch":
            return {"next": [self._rule(edge, back) for edge in edges]}
        if kind == "fork" and not self._from(name, "error"):
            return {"next": [self._id(edge["to"]) for edge in edges]}
        ports: dict[str, Json] = {}
        for edge in edges:
            for port in self._step_ports(kind, edge):
                to = [*ports.get(port, {"to": []})["to"], self._id(edge["to"])]
                ports[port] = {"to": to} | ({"max": TURNS_MAX} if edge in back else {})
        return {"next": ports}

    def _step_ports(self, kind: str, edge: Json) -> Sequence[str]:
        failing = edge["port"] == "error"
        if kind == "human":
            return ("error", "timeout", "rejected") if failing else ("approved",)
        if failing and edge.get("errors") not in (None, ["States.ALL"]):
            self._decide(f"{edge['from']}: errors {', '.join(edge['errors'])} lead to {edge['to']}; an error edge takes them all")
        return ("error",) if failing else ("success",)

    def _rule(self, edge: Json, back: Sequence[Json]) -> Json:
        rule: Json = {} if edge["port"] in ("default", "leave") else {"when": {"ref": "@self.taken", "eq": edge["port"]}}
        return rule | {"to": [self._id(edge["to"])]} | ({"max": TURNS_MAX} if edge in back else {})

    def _hang_unreached(self, start: str) -> None:
        """What stands behind an end is kept behind it: a step to which nothing leads would begin at once."""
        reached = _reached(start, self._edges, "")
        names = list(self._nodes)
        for name in names:
            if name not in reached and not any(edge["to"] == name for edge in self._edges) and name in {step["name"] for step in self._steps}:
                before = next(step for step in reversed(self._steps) if {"return", "fail"} & set(step))
                before["next"] = {"skipped": {"to": [self._id(name)]}}
                self._decide(f"{name}: nothing leads there; it is kept behind the end {before['name']}")

    # bodies: lists of steps

    def _listed(self, start: str, stop: str) -> list[Json]:
        """The steps from `start` up to `stop`, one behind the other."""
        steps: list[Json] = []
        name = start
        while name and name != stop:
            node = self._nodes[name]
            step: Json = {"id": self._id(name), "name": name}
            after = self._meets(name)
            if node["kind"] == "fork":
                steps.append(step | self._block(name))
            elif node["kind"] == "branch":
                steps += [step | self._verb(node), self._ifs(name, after)]
            else:
                caught = self._from(name, "error") and self._targets(name) == [after]
                steps.append(step | self._verb(node) | ({"on_error": "go_on"} if caught else {}))
            name = after
        return steps

    def _block(self, name: str) -> Json:
        """A fork as a block: a list for each branch, up to where they meet."""
        join = self._meets(name)
        branches = [edge["to"] for edge in self._edges if edge["from"] == name and edge["port"].startswith("branch")]
        inner = self._within({"nodes": list(self._nodes.values()), "edges": self._edges}, self._visit or 0)
        lists = [{"id": f"{self._id(name)}_{number}", "do": inner._listed(branch, join)} for number, branch in enumerate(branches)]
        if self._from(name, "error"):
            for one in self._inside(lists):
                self._may_fail(one)
        return {"parallel": {"steps": lists}}

    def _may_fail(self, step: Json) -> None:
        """Have a step fail when it is asked to; one that only sets variables becomes mocked work for that."""
        if "set" in step:
            del step["set"]
            step |= {"tool": "ECHO", "with": {"takes_s": self._seconds()}}
        if step.get("tool") == "ECHO" and "fails" not in step["with"]:
            step["with"]["fails"] = f"@input.fails.{step['id']}"
            self._fallible.append(step["id"])

    def _ifs(self, name: str, after: str) -> Json:
        """A branch in a list: an if for each of its ports but the default, one in the other."""
        edges = [edge for edge in self._edges if edge["from"] == name]
        default = [edge for edge in edges if edge["port"] == "default"]
        found = self._listed(default[0]["to"], after) if default else []
        for edge in reversed([edge for edge in edges if edge not in default]):
            condition = {"ref": f"@{self._id(name)}.taken", "eq": edge["port"]}
            found = [{"id": f"{self._id(name)}_{edge['port'].replace(':', '_')}", "if": condition, "then": self._listed(edge["to"], after), "else": found}]
        return found[0]

    def _inside(self, steps: Sequence[Json]) -> Iterator[Json]:
        for step in steps:
            yield step
            for key in ("do", "then", "else"):
                yield from self._inside(step.get(key, ()))

    def _meets(self, name: str) -> str:
        """The first node that all ways on from here lead through, of a fork its join; "" if there is none."""
        if f"{name}.join" in self._nodes:
            return f"{name}.join"
        targets = self._targets(name, "branch" if self._nodes[name]["kind"] == "fork" else "")
        ways = [_ordered(target, self._edges) for target in targets]
        return next(
            (one for one in (ways[0] if ways else ()) if all(one in way and self._all_through(target, one) for way, target in zip(ways, targets, strict=True))),
            "",
        )

    def _all_through(self, start: str, through: str) -> bool:
        """Whether every way from `start` to its end leads through a node."""
        ends = {name for name in self._nodes if not any(edge["from"] == name for edge in self._edges)}
        return start == through or not (_reached(start, self._edges, through) & ends)

    def _held(self, name: str) -> list[str]:
        join = self._meets(name)
        return [one for edge in self._edges if edge["from"] == name and edge["port"].startswith("branch") for one in _reached(edge["to"], self._edges, join)]

    # small things

    def _targets(self, name: str, ports: str = "") -> list[str]:
        return list(dict.fromkeys(edge["to"] for edge in self._edges if edge["from"] == name and edge["port"].startswith(ports)))

    def _from(self, name: str, port: str) -> bool:
        return any(edge["from"] == name and edge["port"] == port for edge in self._edges)

    def _id(self, name: str) -> str:
        """An id that a step may have: of letters, digits and dashes, and no other's."""
        if name not in self._ids:
            plain = re.sub(r"\W+", "_", name).strip("_")
            plain = plain if plain[:1].isalpha() else f"n_{plain}"
            number, found = 1, f"{plain}_" if plain in ROOTS else plain
            while found in self._ids.values():
                number, found = number + 1, f"{plain}_{number + 1}"
            self._ids[name] = found
        return self._ids[name]

    def _decide(self, what: str) -> None:
        if what not in self._decisions:
            self._decisions.append(what)


def _constant(value: Any) -> Any:
    """Plain data as a template that has no references."""
    match value:
        case str():
            return value.replace("@", "@@")
        case list():
            return [_constant(one) for one in value]
        case dict():
            return {key: _constant(one) for key, one in value.items()}
    return value


def _ordered(start: str, edges: Sequence[Json]) -> list[str]:
    """What can be reached from here, nearest first."""
    found = [start]
    for name in found:
        found += dict.fromkeys(edge["to"] for edge in edges if edge["from"] == name and edge["to"] not in found)
    return found


def _reached(start: str, edges: Sequence[Json], without: str) -> set[str]:
    return set(_ordered(start, [edge for edge in edges if without not in (edge["to"], edge["from"])])) - {without}


def _back_edges(names: Sequence[str], edges: Sequence[Json], start: str) -> list[Json]:
    """Edges to a node through which every way to their source leads."""
    dominated = {name: set(names) - _reached(start, edges, name) if name != start else set(names) for name in names}
    reached = _reached(start, edges, "")
    return [edge for edge in edges if edge["from"] in dominated[edge["to"]] & reached]


def main(arguments: Sequence[str]) -> None:
    """Print what had to be decided about each graph of these files."""
    for argument in arguments:
        for number, graph in enumerate(read(Path(argument))):
            found = imported(graph)
            sys.stdout.write(f"{Path(argument).stem} {number}: {len(graph['nodes'])} nodes, {len(found.definition['steps'])} steps\n")
            sys.stdout.writelines(f"    {decision}\n" for decision in found.decisions)


if __name__ == "__main__":
    main(sys.argv[1:])
