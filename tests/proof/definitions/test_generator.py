"""Claims about random definitions: the same seed is the same one everywhere, they are valid, canonical, and have everything."""

import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.format.validator import definition_findings
from perdure.definitions.graph.ir import ALWAYS, IR
from tests.proof import definitions
from tests.proof.definitions import random_case, random_definition
from tests.proof.definitions.shape import Shape, Step, inside, listed, shaped

pytestmark = pytest.mark.slow

SEEDS = range(60)
DIGEST = """
from hashlib import sha256
from random import Random
import msgspec
from tests.proof.definitions import random_case
print(sha256(msgspec.json.encode([random_case(Random(seed), 12) for seed in range(15)])).hexdigest())
"""

Edges = Counter[tuple[str, str, str]]


def everywhere(steps: list[Step]) -> list[Step]:
    """All steps, those in blocks as well."""
    return [one for step in steps for one in (step, *inside(step))]


def shapes(definition: dict[str, Any]) -> list[Shape]:
    """Every list of a definition as a graph."""
    order = definition.get("order", "refs")
    found = [shaped(definition["steps"], order)]
    for step in everywhere(definition["steps"]):
        for key in ("then", "else", "do", "on_error", "parallel", "race"):
            nested = "apart" if key in ("parallel", "race") else "refs" if order == "refs" else "listed"
            found += [shaped(steps, nested)] if (steps := listed(step.get(key))) else []
    return found


def read(definition: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Its edges as the sequential reading sees them."""
    ports = {"after": "+", "always": ALWAYS, "rule": ""}
    return {(edge.source, edge.target, ports.get(edge.how, edge.port)) for shape in shapes(definition) for edge in shape.edges}


def edges(ir: IR) -> set[tuple[str, str, str]]:
    """Its edges as they were compiled; where a step both needs another and comes behind it, needing is what counts."""
    found = {(ir.nodes[edge.source].id, ir.nodes[edge.target].id, edge.port) for edge in ir.edges}
    return {(source, target, port) for source, target, port in found if port != ALWAYS or (source, target, "+") not in found}


def cycles(ir: IR) -> set[tuple[str, frozenset[str]]]:
    """Heads and members of its cycles as they were compiled."""

    def members(number: int) -> set[str]:
        inner = [other for other, region in enumerate(ir.regions) if region.kind == "cycle" and region.parent == number]
        return {ir.nodes[node].id for node in ir.regions[number].nodes}.union(*(members(one) for one in inner))

    return {(ir.nodes[region.head].id, frozenset(members(number))) for number, region in enumerate(ir.regions) if region.kind == "cycle"}


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_gives_the_same_definition_in_every_process(hash_seed: str) -> None:
    here = sha256(msgspec.json.encode([random_case(Random(seed), 12) for seed in range(15)])).hexdigest()
    environment = {**os.environ, "PYTHONPATH": str(Path(definitions.__file__).parents[3]), "PYTHONHASHSEED": hash_seed}
    there = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


@pytest.mark.parametrize("seed", SEEDS)
def test_a_definition_is_valid_and_canonical_and_both_readings_of_its_shape_agree(seed: int) -> None:
    definition = random_definition(Random(seed), 4 + seed % 20)
    assert canonical_document(definition) == definition
    assert [finding for finding in definition_findings(definition) if finding.severity == "error"] == []
    ir = compile_definition(definition)
    assert edges(ir) == read(definition)
    assert cycles(ir) == {(cycle.head, cycle.members) for shape in shapes(definition) for cycle in shape.cycles}


def test_a_hundred_seeds_have_everything() -> None:
    seen, statuses = Counter[str](), Counter[str]()
    for seed in range(100):
        case = random_case(Random(seed), 20)
        definition = case.definition
        statuses[case.prediction.facts.status] += 1
        seen.update([definition.get("order", "refs")])
        seen["undone"] += len(case.prediction.facts.undone)
        for shape in shapes(definition):
            seen["cycle"] += len(shape.cycles)
            seen["nested cycle"] += sum(one.members < other.members for one in shape.cycles for other in shape.cycles)
        for step in everywhere(definition["steps"]):
            seen.update(step.keys())
            seen.update(f"on_error: {type(step['on_error']).__name__}" for _ in range("on_error" in step))
            seen.update(f"join: {step['join']}" for _ in range("join" in step))
            seen.update(f"each: {key}" for key in step.get("each", ()))
            seen.update(f"repeat: {key}" for key in step.get("repeat", ()))
            seen.update(f"next: {key}" for key in step["next"] if isinstance(step.get("next"), dict)) if "next" in step else None
    verbs = "tool set test if do parallel race return fail approve listen emit sleep"
    modifiers = "when needs next each repeat retry timeout undo on_error"
    for wanted in (*verbs.split(), *modifiers.split(), "refs", "listed", "ports", "cycle", "nested cycle", "undone", "next: choose", "next: error"):
        assert seen[wanted], wanted
    for wanted in (
        "join: any",
        "join: each",
        "join: 2",
        "on_error: str",
        "on_error: list",
        "each: concurrency",
        "each: batch",
        "each: enough",
        "each: on_error",
        "repeat: delay",
    ):
        assert seen[wanted], wanted
    assert set(statuses) == {"completed", "failed", "cancelled"}


def test_some_of_what_is_undone_can_not_be_which_keeps_nothing_else_from_being_undone() -> None:
    steps = [step for seed in SEEDS for step in listed(random_definition(Random(seed), 12)["steps"])]
    undo = [step["undo"] for step in steps if "undo" in step]
    failing = [one for one in undo if one.get("on_error") == "continue" and one["with"]["fatal"]]
    assert 0.1 < len(failing) / len(undo) < 0.4
