"""Makes of a definition one that ends at a step, so that it can be tried up to there.

The execution returns the result of the step when the step has settled for the first time. In the order of references, steps that it does not need are left out.
In the other orders, what runs beside it goes on until it is reached, and what runs then is ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.core.errors import BadValue
from perdure.definitions.format.canonical_form import normalized_copy
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.format.definition_findings import closest_name, pointer_parts, value_at_pointer
from perdure.definitions.format.model import verbs_by_name
from perdure.definitions.format.step_tree import PlacedStep, placed_steps, verb_of
from perdure.definitions.graph.ir import IR

END = "end_here"
"""The id of the step that ends the execution; with a number behind it, if there is one of this id."""

AT_ONCE = ("parallel", "race")
"""The fields whose steps begin together."""


def ending_after(document: dict[str, Any], step: str) -> dict[str, Any]:
    """Returns a copy of a canonical definition that returns the result of `step`, by its id, once it has settled. It has to be checked again.

    Raises:
        BadValue: there is no such step.
    """
    found: dict[str, Any] = normalized_copy(document)
    every = {one.id: one for one in placed_steps(found)}
    one = every.get(step)
    if one is None:
        meant = closest_name(step, every)
        raise BadValue("until", step, f"the id of a step of the document{f'; did you mean {meant!r}?' if meant else ''}")
    order = found.get("order", "refs")
    if order == "refs":
        _keep_what_it_needs(found, one)
        found.pop("output", None)
    if verb_of(one.step) in ("return", "fail"):
        return found
    end = {"id": _free_id(END, every), "name": f"Run up to {step}", "return": f"@{step}"}
    if order == "ports" and one.container == "/steps":
        apart = _apart_without(compile_definition(found), step)
        one.step["next"] = {port: {"to": [end["id"]]} for port in _ports(one.step)}
        for sibling in found["steps"]:
            if sibling["id"] in apart:
                sibling.pop("next", None)
                sibling["when"] = False
    _insert(found, one, end)
    return found


def _apart_without(ir: IR, step: str) -> set[str]:
    """The steps, outside of any block, that are reached only through the step. If it led nowhere, they would begin at once."""
    outside = {number for number, node in enumerate(ir.nodes) if not _is_in_block(ir, node.region)}
    leads: dict[int, list[int]] = {}
    for edge in ir.edges:
        if ir.nodes[edge.source].id != step:
            leads.setdefault(edge.source, []).append(edge.target)
    return {ir.nodes[number].id for number in outside - _reached(ir.regions[0].entries, leads)}


def _reached(starts: Iterable[int], leads: Mapping[int, Sequence[int]]) -> set[int]:
    """The numbers from which one comes to others, and those."""
    reached = set(starts)
    added = [*reached]
    while added:
        further = {*leads.get(added.pop(), ())} - reached
        reached |= further
        added += further
    return reached


def _is_in_block(ir: IR, region: int) -> bool:
    while region > 0:
        if ir.regions[region].kind == "body":
            return True
        region = ir.regions[region].parent
    return False


def _ports(step: dict[str, Any]) -> Iterable[str]:
    """The ports by which a step may settle, but for errors."""
    ports = {*verbs_by_name()[verb_of(step)].ports, "success"}
    if "each" in step:
        ports.add("done")
    if "repeat" in step:
        ports |= {"done", "max"}
    return sorted(ports - {"error", "skipped"})


def _insert(document: dict[str, Any], one: PlacedStep, end: dict[str, Any]) -> None:
    siblings: list[Any] = value_at_pointer(document, one.container)
    if one.around and one.around[-1][1] in AT_ONCE:
        siblings[one.index] = {"id": f"{end['id']}_of_{one.id}", "do": [one.step, end]}
    else:
        siblings.insert(one.index + 1, end)


def _keep_what_it_needs(document: dict[str, Any], one: PlacedStep) -> None:
    """Leaves out the steps on which the step, or the block around it, does not depend."""
    ir = compile_definition(document)
    first = pointer_parts(one.pointer)[1]
    numbers = {node.id: number for number, node in enumerate(ir.nodes)}
    needs: dict[int, list[int]] = {}
    for edge in ir.edges:
        needs.setdefault(edge.target, []).append(edge.source)
    needed = _reached([numbers[document["steps"][int(first)]["id"]]], needs)
    document["steps"] = [step for step in document["steps"] if numbers[step["id"]] in needed]


def _free_id(wanted: str, taken: Iterable[str]) -> str:
    known, id, number = set(taken), wanted, 1
    while id in known:
        number += 1
        id = f"{wanted}_{number}"
    return id
