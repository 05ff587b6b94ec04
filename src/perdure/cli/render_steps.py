"""The steps of an execution as a tree, by path: what it does, did and waits for, how long it took, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from perdure.cli import words
from perdure.cli.render import STATUS_STYLES, Cell, Node, cell, glyph
from perdure.core.views import StepView

UNDO = "~undo"
"""Where that stands in a tree which undoes what was done."""

QUIET = {"completed"}
"""States that their glyph says well enough."""


@dataclass(frozen=True)
class Caption:
    """What a step of a definition is, in words, and what one of its passages is called: an item or a turn."""

    text: str
    passage: str = "turn"


@dataclass(frozen=True)
class Told:
    """What is told of an execution of a definition beside its steps: which version that is, and what each step is, by its id."""

    definition: str = ""
    captions: Mapping[str, Caption] = field(default_factory=dict)


@dataclass
class _Place:
    """A path on the way to becoming a node: the operation that stands there, if one does, and the paths below."""

    step: StepView | None = None
    below: dict[str, _Place] = field(default_factory=dict)


def nodes(steps: Iterable[StepView], now_s: float, unicode: bool = True, captions: Mapping[str, Caption] | None = None) -> tuple[Node, ...]:
    """The tree of all operations, in the order in which they were opened. A place where there is none (a branch, a turn) is only a name, and of a definition
    what stands in its `captions`."""
    root = _Place()
    for step in steps:
        place = root
        for part in step.path.split("/"):
            place = place.below.setdefault(part, _Place())
        place.step = step
    look = _Look(now_s, unicode, captions or {})
    return tuple(look.node(name, place) for name, place in root.below.items())


def shortened(nodes: Sequence[Node], lines_max: int) -> tuple[Node, ...]:
    """The same tree in fewer lines, if it has more than `lines_max`: of what is well, only how much there is, wherever it stands together."""
    if sum(node.lines for node in nodes) <= lines_max:
        return tuple(nodes)
    short: list[Node] = []
    for quiet, group in groupby(nodes, key=lambda node: node.quiet):
        members = list(group)
        if not quiet:
            short += [replace(node, below=shortened(node.below, 0)) for node in members]
        elif len(members) == 1:
            short.append(replace(members[0], below=()))
        else:
            short.append(Node((Cell(f"{len(members):,} completed", "dim"),), quiet=True))
    return tuple(short)


@dataclass(frozen=True)
class _Look:
    """How places become nodes."""

    now_s: float
    unicode: bool
    captions: Mapping[str, Caption]

    def node(self, name: str, place: _Place, passage: str = "turn") -> Node:
        caption = self.captions.get(name.partition("#")[0])
        look = replace(self, captions={}) if name == UNDO else self  # below it stands what undoes a step, not the step
        below = tuple(look.node(lower, one, passage if caption is None else caption.passage) for lower, one in place.below.items())
        shown = _shown(name, passage)
        step = place.step
        quiet = all(node.quiet for node in below) and (step is None or step.state in QUIET)
        is_open = any(node.open for node in below) or (step is not None and step.settled_at_s is None)
        if step is None:
            return Node((cell(shown, "dim"), cell("" if caption is None else caption.text, "dim")), (), below, quiet, is_open)
        holds = step.kind == "keep" and bool(below)  # what keeps a join, a race or a turn is nothing by itself: all of it hangs below
        cells = [glyph("waiting" if holds and is_open else step.state, self.unicode), cell(shown, "strong")]
        if not holds:
            aim = _aim(name, step) if caption is None or not below else cell(caption.text, "dim")
            cells += [aim, _state(step), *_facts(step, self.now_s)]
        note = None if step.error is None else cell(f"{step.error.type}: {words.first_line(step.error.message)}", "bad")
        notes = () if note is None or _is_said(note, below) else (note,)  # what failed in it is said once, where it happened
        return Node(tuple(cells), notes, below, quiet, is_open)


def _is_said(note: Cell, below: Iterable[Node]) -> bool:
    return any(note in node.notes or _is_said(note, node.below) for node in below)


def _shown(name: str, passage: str) -> str:
    """A part of a path as people read it: a turn or an item by its number, a note of Perdure's own by its name."""
    if not name.startswith("~"):
        return name
    return f"{passage} {name[1:]}" if name[1:].isdecimal() else name[1:]


def _aim(name: str, step: StepView) -> Cell:
    """Kind and target, as far as the name does not say the same."""
    if step.kind == "keep" and step.target:
        return cell(step.target.rstrip(": "), "dim")
    kind = "" if name.startswith(f"{step.kind}:") else step.kind
    target = "" if step.target in name else step.target
    return cell(f"{kind} {target}".strip(), "dim")


def _state(step: StepView) -> Cell:
    return Cell("" if step.state in QUIET else step.state, STATUS_STYLES.get(step.state, ""))


def _facts(step: StepView, now_s: float) -> Iterable[Cell]:
    if step.port and step.state in QUIET:
        yield cell(step.port)
    if step.attempt > 1:
        yield Cell(words.count(step.attempt, "try", "tries"), "warn")
    if step.due_s is not None and step.settled_at_s is None:
        yield Cell(f"due {words.ago(step.due_s, now_s)}")
    if step.settled_at_s is not None:
        yield Cell(words.duration(step.settled_at_s - step.opened_at_s), "dim")
    else:
        yield Cell(f"for {words.duration(now_s - step.opened_at_s)}", "dim")
