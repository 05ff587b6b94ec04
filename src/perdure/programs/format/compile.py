"""Compile: a canonical definition becomes the IR, which the walk goes over; or a list of what is wrong with it.

The lists of steps become regions of the same numbers, steps nodes numbered in the order of the document; cycles are regions behind those of the lists.
What stands behind a verb becomes `Node.config` as it is, but for blocks (see `nodes`), whose steps are regions, and calls that say more than whom:
``{"target": ..., "wait": ..., "undo": ...}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.errors import BadDefinition
from perdure.programs.format.canonical import hash_of
from perdure.programs.format.cycles import Loops
from perdure.programs.format.draft import Draft
from perdure.programs.format.finding import Finding, joined
from perdure.programs.format.flow import check_acyclic, check_effects, check_joins, check_reached, circled
from perdure.programs.format.model import ROOTS
from perdure.programs.format.names import check_output
from perdure.programs.format.nodes import constant_s, node, retry
from perdure.programs.format.order import wire
from perdure.programs.format.ports import FREE, must_lead_on, ports
from perdure.programs.format.regions import placed
from perdure.programs.format.undo_bounds import check_undo_bounds
from perdure.programs.graph.ir import IR, Limits, Node, OnFailure


def compiled(canonical: Mapping[str, Any]) -> IR:
    """The IR of a canonical definition.

    Raises:
        BadDefinition: it can't be run; all that is wrong with it is in `findings`.
    """
    draft, found = _drafted(canonical)
    _refuse(draft)
    regions, edges, standing = placed(draft, found)
    nodes, head = _nodes(draft, standing), _head(draft, canonical)
    _refuse(draft)
    return msgspec.structs.replace(head, nodes=nodes, edges=edges, regions=regions)


def findings(canonical: Mapping[str, Any]) -> list[Finding]:
    """All that is wrong with a canonical definition: what `compiled` would say, and what is worth a warning."""
    draft, found = _drafted(canonical)
    if not _errors(draft):
        _nodes(draft, placed(draft, found)[2])
        _head(draft, canonical)
    return draft.found


def _refuse(draft: Draft) -> None:
    if errors := _errors(draft):
        raise BadDefinition(errors)


def _errors(draft: Draft) -> list[Finding]:
    return [one for one in draft.found if one.severity == "error"]


def _drafted(canonical: Mapping[str, Any]) -> tuple[Draft, Loops]:
    """The edges and cycles of a definition, and all that can be said against them."""
    draft = Draft(canonical)
    _check_ids(draft)
    wire(draft)
    _check_ports(draft)
    check_joins(draft)
    check_output(draft, canonical.get("output"))
    check_acyclic(draft)
    found = circled(draft) if draft.outline.order == "ports" and draft.outline.sites else Loops([-1] * len(draft.outline.sites), [], set(), [], [])
    if not _errors(draft):
        check_reached(draft)
        check_effects(draft)
        check_undo_bounds(draft, found)
    return draft, found


def _check_ids(draft: Draft) -> None:
    for site in draft.outline.repeated:
        first = draft.outline.sites[draft.outline.numbers[site.id]]
        text = f"the id {site.id!r} is taken by the step at {first.pointer}; give each its own"
        draft.error("duplicate_id", joined(site.pointer, "id"), text)
    for site in draft.outline.sites:
        if site.id in ROOTS:
            draft.error("root_as_id", joined(site.pointer, "id"), f"@{site.id} means something else already; call the step otherwise, such as {site.id}_1")


def _check_ports(draft: Draft) -> None:
    for number, found in draft.port_maps.items():
        site = draft.outline.sites[number]
        named = list(dict.fromkeys([*(route.port for route in found.routes if route.port), *found.ended]))
        if site.verb and site.verb not in FREE:
            known = ports(site.verb, site.step)
            for name in named:
                if name not in known:
                    text = f"{site.verb} has no port {name!r}; it has {', '.join(known)}"
                    draft.error("unknown_port", joined(site.pointer, "next", name), text, draft.suggestion(name, known))
        for name in must_lead_on(site.verb, site.step, named):
            text = f"nothing says what is next when {site.id!r} comes to {name}; add {name} to next, with [] if nothing is"
            draft.warning("port_without_target", joined(site.pointer, "next"), text)


def _nodes(draft: Draft, standing: Sequence[int]) -> tuple[Node, ...]:
    draft.left_by_max = {source for source, _, port in draft.edges if port == "max"}
    return tuple(node(draft, site, standing[site.number]) for site in draft.outline.sites)


def _head(draft: Draft, canonical: Mapping[str, Any]) -> IR:
    """The IR but for its graph."""
    declared = canonical.get("input")
    schemas = declared if isinstance(declared, Mapping) else {}
    limits, on_failure = canonical.get("limits") or {}, canonical.get("on_failure") or {}
    counts = {field: limits[field] for field in ("max_steps", "max_hops", "max_fanout", "max_bytes") if field in limits}
    return IR(
        name=str(canonical.get("name") or ""),
        hash=hash_of(dict(canonical)),
        version=str(canonical.get("version") or "1.0.0"),
        order=canonical.get("order", "refs"),
        dialect=canonical.get("dialect", ""),
        input=dict(schemas),
        required=tuple(name for name, schema in schemas.items() if not (isinstance(schema, Mapping) and "default" in schema)),
        variables=canonical.get("vars"),
        output=canonical.get("output"),
        has_output="output" in canonical,
        limits=Limits(
            **counts,
            deadline_s=constant_s(draft, limits.get("deadline"), "/limits/deadline"),
            grace_s=constant_s(draft, limits.get("grace"), "/limits/grace"),
        ),
        retry=retry(draft, canonical.get("retry"), "/retry"),
        on_failure=OnFailure(on_failure.get("undo", True), str(on_failure.get("call") or "")),
        archive=canonical.get("archive") is True,
    )
