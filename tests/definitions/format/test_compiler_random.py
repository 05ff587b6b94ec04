"""Random definitions: each compiles to a sound IR or is refused with findings, and nothing else ever comes of one; what is structured always compiles."""

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadDefinition
from perdure.definitions.graph.ir import decode_ir, encode_ir
from tests.definitions.format.short_definitions import Step, compile_definition, compile_findings, definition, tool
from tests.definitions.graph.ir_invariants import broken

pytestmark = pytest.mark.slow

CONDITION = {"ref": "@self.x"}


@st.composite
def wirings(draw: st.DrawFn) -> dict[str, Any]:
    """Definitions in the order ports with any ways between their steps."""
    count = draw(st.integers(1, 8))
    ids = [f"s{number}" for number in range(count)]
    targets = st.lists(st.sampled_from(ids), max_size=3, unique=True)
    bound = st.sampled_from([{"max": 1}, {"max": 2}, {"max": 3, "on_max": [ids[0]]}, {"endless": True}])
    rule = st.builds(lambda to, bound, when: {"to": to, **bound, **when}, targets, bound, st.sampled_from([{}, {"when": CONDITION}]))
    port = st.builds(lambda to, bound: {"to": to, **bound}, targets, bound)
    following = st.one_of(
        targets,
        st.lists(rule, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["success", "error"]), port, min_size=1),
        st.builds(lambda chosen, default: {"choose": chosen, "default": default}, st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True), targets),
    )
    steps = [
        tool(id, next=draw(following), needs=draw(st.lists(st.sampled_from([*ids[:at], *ids[at + 1 :]] or ["none"]), max_size=int(at > 4))))
        for at, id in enumerate(ids)
    ]
    return definition("ports", *steps, **draw(st.sampled_from([{}, {}, {"dialect": "port_graph"}, {"dialect": "token_graph"}])))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wirings())
def test_any_wiring_compiles_to_a_sound_ir_or_is_refused(document: dict[str, Any]) -> None:
    errors = [one for one in compile_findings(document) if one.severity == "error"]
    if errors:
        with pytest.raises(BadDefinition):
            compile_definition(document)
        return
    ir = compile_definition(document)
    assert broken(ir) == []
    assert decode_ir(encode_ir(ir)) == ir


class Structure:
    """Steps wired as blocks of a program would be: in a row, side by side, round and round, so that each loop has one way in."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.steps = draw, list[Step]()

    def piece(self, depth: int) -> tuple[int, list[int]]:
        """A piece: its first step, and those that lead on from it."""
        kind = self.draw(st.sampled_from(["step", "row", "fork", "loop"])) if depth else "step"
        if kind == "row":
            first, ends = self.piece(depth - 1)
            second, after = self.piece(depth - 1)
            self.lead(ends, second)
            return first, after
        if kind == "fork":
            top = self.step()
            branches = [self.piece(depth - 1) for _ in range(2)]
            for first, _ in branches:
                self.lead([top], first)
            return top, [end for _, ends in branches for end in ends]
        if kind == "loop":
            first, ends = self.piece(depth - 1)
            last = self.step()
            self.lead(ends, last)
            self.steps[last]["next"].append({"when": CONDITION, "to": [f"s{first}"], "max": 2})
            return first, [last]
        only = self.step()
        return only, [only]

    def step(self) -> int:
        self.steps.append(tool(f"s{len(self.steps)}", next=[]))
        return len(self.steps) - 1

    def lead(self, ends: list[int], to: int) -> None:
        for end in ends:
            self.steps[end]["next"].append({"to": [f"s{to}"]})


@st.composite
def structures(draw: st.DrawFn) -> dict[str, Any]:
    """Structured definitions, their steps written in any order but for the first."""
    structure = Structure(draw)
    first, _ = structure.piece(draw(st.integers(1, 4)))
    rest = draw(st.permutations([step for number, step in enumerate(structure.steps) if number != first]))
    return definition("ports", structure.steps[first], *rest)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(structures())
def test_what_is_structured_always_compiles_and_its_regions_nest(document: dict[str, Any]) -> None:
    ir = compile_definition(document)
    assert broken(ir) == []
    assert 0 in ir.regions[ir.nodes[0].region].entries
    backs = {edge.target for edge in ir.edges if edge.back}
    assert backs == {region.head for region in ir.regions if region.kind == "cycle"}


@st.composite
def nests(draw: st.DrawFn) -> dict[str, Any]:
    """Definitions in the orders refs and listed with blocks in blocks, whose steps read those before them."""
    count = 0

    def steps(depth: int, around: tuple[str, ...] = ()) -> list[Step]:
        nonlocal count
        made = []
        for _ in range(draw(st.integers(1, 3))):
            id = f"s{count}"
            count += 1
            before = [name for number in range(int(id[1:])) if (name := f"s{number}") not in around]
            field: dict[str, Any] = {}
            if before:
                field = draw(st.sampled_from([{}, {"needs": [draw(st.sampled_from(before))]}, {"with": f"@{draw(st.sampled_from(before))}.x?"}]))
            inside = depth - 1, (*around, id)
            verb = draw(st.sampled_from(["tool", "do", "if", "parallel", "race", "on_error"])) if depth else "tool"
            block: dict[str, Any] = {"tool": "T"}
            if verb == "if":
                block = {"if": {"ref": "@input"}, "then": steps(*inside), "else": steps(*inside) if draw(st.booleans()) else []}
            elif verb == "parallel":
                block = {"parallel": {"steps": steps(*inside)}}
            elif verb == "on_error":
                block = {"tool": "T", "on_error": steps(*inside)}
            elif verb != "tool":
                block = {verb: steps(*inside)}
            made.append({"id": id, **field, **block})
        return made

    return definition(draw(st.sampled_from(["refs", "listed"])), *steps(draw(st.integers(0, 2))))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nests())
def test_any_nest_whose_steps_read_those_before_them_compiles_to_a_sound_ir(document: dict[str, Any]) -> None:
    errors = {one.code for one in compile_findings(document) if one.severity == "error"}
    assert errors <= {"never_together", "needs_nothing"}
    assume(not errors)
    assert broken(compile_definition(document)) == []


LARGE = 10_000


@pytest.mark.parametrize(
    "document",
    [
        definition("refs", *(tool(f"s{number}", with_=f"@s{number - 1}" if number else 1) for number in range(LARGE))),
        definition(
            "ports",
            *(tool(f"s{number}", next=[f"s{after}" for after in range(number // 5 * 5 + 5, min(number // 5 * 5 + 10, LARGE))]) for number in range(LARGE)),
        ),
    ],
    ids=["a chain of reads", "layers of ports"],
)
def test_ten_thousand_steps_take_no_time(document: dict[str, Any]) -> None:
    began_s = time.process_time()
    assert len(compile_definition(document).nodes) == LARGE
    assert time.process_time() - began_s < 5
