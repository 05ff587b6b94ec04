"""What is where in SVG pictures."""

from itertools import combinations
from xml.etree import ElementTree as ET

from perdure.definitions.graph.ir import IR

Box = tuple[float, float, float, float]
SLACK = 0.06


def rectangles(drawn: str) -> dict[str, Box]:
    """Where the boxes of the steps are, by their ids: left, top, right and bottom."""
    found = {}
    for group in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}g"):
        x, y, wide, high = (float(str(group[1].get(name))) for name in ("x", "y", "width", "height"))
        found[str(group[0].text).partition(":")[0]] = x, y, x + wide, y + high
    return found


def overlapping(drawn: str, ir: IR) -> list[str]:
    """The steps that are not there, and the pairs of boxes that stand on top of each other, though neither stands within the other."""
    boxes = rectangles(drawn)
    found = [f"{node.id} is not shown" for node in ir.nodes if node.id not in boxes]
    pairs = combinations(boxes, 2)
    return found + [f"{one} and {other} overlap" for one, other in pairs if not (apart(boxes[one], boxes[other]) or _nested(boxes[one], boxes[other]))]


def apart(one: Box, other: Box) -> bool:
    """Whether two boxes have nothing in common."""
    return one[2] <= other[0] + SLACK or other[2] <= one[0] + SLACK or one[3] <= other[1] + SLACK or other[3] <= one[1] + SLACK


def within(one: Box, other: Box) -> bool:
    """Whether one box is inside of the other."""
    return other[0] < one[0] and other[1] < one[1] and one[2] < other[2] and one[3] < other[3]


def _nested(one: Box, other: Box) -> bool:
    return within(one, other) or within(other, one)
