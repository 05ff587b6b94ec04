"""The lines of the table: what was measured on both sides, what is wanted of it, and whether it is so."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True)
class Wanted:
    """A floor that has to be held and a goal, of the value or of the ratio."""

    floor: float
    goal: float | None = None
    of: Literal["value", "ratio"] = "ratio"
    at: Literal["most", "least"] = "most"

    def verdict(self, value: float) -> str:
        """How `value` stands to it."""
        if not self._holds(value, self.floor):
            return "NOT MET"
        return "met" if self.goal is None else "goal met" if self._holds(value, self.goal) else "floor met"

    def __str__(self) -> str:
        goal = "" if self.goal is None else f", goal {number(self.goal)}"
        return f"{'≤' if self.at == 'most' else '≥'} {number(self.floor)}{'×' if self.of == 'ratio' else ''}{goal}"

    def _holds(self, value: float, bound: float) -> bool:
        return value <= bound if self.at == "most" else value >= bound


@dataclass(frozen=True)
class Line:
    """One row. `ours` and `theirs` are one value a round, taken by turns; the ratio is the median of those of the rounds.

    `per` says what the ratio is: theirs by ours, or ours by theirs.
    """

    measure: int
    what: str
    unit: str
    ours: Sequence[float]
    against: str = ""
    theirs: Sequence[float] = ()
    per: Literal["ours", "theirs"] = "ours"
    wanted: Wanted | None = None

    @property
    def value(self) -> float:
        """The median of ours."""
        return median(self.ours)

    @property
    def ratio(self) -> float | None:
        """The median of the ratios; of sides that were not measured as often as each other, the ratio of the medians."""
        if not self.theirs:
            return None
        pairs = list(zip(self.ours, self.theirs, strict=True)) if len(self.ours) == len(self.theirs) else [(self.value, median(self.theirs))]
        return median(theirs / ours if self.per == "ours" else ours / theirs for ours, theirs in pairs)

    @property
    def verdict(self) -> str:
        """Whether what is wanted is so; empty where nothing is wanted."""
        if self.wanted is None:
            return ""
        value = self.value if self.wanted.of == "value" else self.ratio
        return "not measured" if value is None else self.wanted.verdict(value)

    def cells(self) -> tuple[str, ...]:
        """As the table shows it."""
        spread = f" ({number(min(self.ours))} to {number(max(self.ours))})" if len(self.ours) > 1 else ""
        theirs = f"{self.against} {number(median(self.theirs))}" if self.theirs else self.against
        ratio = "" if self.ratio is None else f"{number(self.ratio)}×"
        return (str(self.measure), self.what, f"{number(self.value)} {self.unit}{spread}", theirs, ratio, str(self.wanted or ""), self.verdict)

    def data(self) -> dict[str, Any]:
        """As a program reads it."""
        wanted = None if self.wanted is None else str(self.wanted)
        return {"measure": self.measure, "what": self.what, "unit": self.unit, "ours": list(self.ours), "against": self.against} | {
            "theirs": list(self.theirs),
            "ratio": self.ratio,
            "wanted": wanted,
            "verdict": self.verdict,
        }


HEADINGS = ("", "what", "Perdure", "against", "ratio", "wanted", "")


def table(lines: Sequence[Line]) -> str:
    """The lines as a Markdown table with aligned columns, to be read as it is as well."""
    rows = [HEADINGS, *(line.cells() for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    written = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    written.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(written)


def number(value: float) -> str:
    """Three digits that count, or all in front of the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
