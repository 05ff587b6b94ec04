"""Pictures of a graph: for a terminal, as Mermaid, as SVG. The same picture shows the plan, and what has come of it so far."""

from collections.abc import Collection, Mapping

from perdure.programs.graph import draw_mermaid, draw_svg, draw_text
from perdure.programs.graph.ir import IR
from perdure.programs.graph.picture import State, picture

TEXT_STEPS_MAX = 300
MERMAID_STEPS_MAX = 300
SVG_STEPS_MAX = 1000


def text(ir: IR, states: Mapping[str, State] | None = None, taken: Collection[int] = (), columns: int = 100, steps_max: int = TEXT_STEPS_MAX) -> str:
    """The graph for a terminal, no wider than `columns`, at most `steps_max` of its steps.

    With `states`, of steps by their ids (a step without one was not reached), and `taken`, the numbers of the edges that were taken, it shows its state.
    """
    return draw_text.drawn(picture(ir, states, taken, steps_max), columns)


def mermaid(ir: IR, states: Mapping[str, State] | None = None, taken: Collection[int] = (), steps_max: int = MERMAID_STEPS_MAX) -> str:
    """The graph as a Mermaid flowchart; blocks and cycles are subgraphs. Arguments as for `text`."""
    return draw_mermaid.drawn(picture(ir, states, taken, steps_max))


def svg(ir: IR, states: Mapping[str, State] | None = None, taken: Collection[int] = (), steps_max: int = SVG_STEPS_MAX) -> str:
    """The graph as an SVG document of its own, to be read on light and dark ground; blocks are boxes. Arguments as for `text`."""
    return draw_svg.drawn(picture(ir, states, taken, steps_max))
