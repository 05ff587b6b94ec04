"""The steps of a definition, wherever they are nested, numbered in the order of the document, and the lists that they stand in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

VERBS = tuple(
    """
    tool call task approve listen emit sleep set test if parallel race do return fail
    ts python bash http agent agent_message llm pipeline
    """.split()  # noqa: SIM905  # a paragraph reads better than twenty lines
)

ListKind = Literal["steps", "then", "else", "do", "parallel", "race", "on_error"]
ListOrder = Literal["refs", "listed", "ports", "free"]


class Site(NamedTuple):
    """One step: its number, its verb, and the number of the list in which it stands."""

    number: int
    id: str
    verb: str
    step: Mapping[str, Any]
    list: int
    depth: int
    pointer: str

    @property
    def value(self) -> Any:
        """What stands behind the verb."""
        return self.step.get(self.verb)


class Listing(NamedTuple):
    """One list of steps: the step whose block it is (-1: the definition's own), how it orders its steps, and which they are."""

    kind: ListKind
    owner: int
    order: ListOrder
    pointer: str
    members: list[int]


class Outline:
    """All steps and lists of a definition. The list 0 is its own; the lists of one step have consecutive numbers."""

    def __init__(self, canonical: Mapping[str, Any]) -> None:
        self.order: ListOrder = canonical.get("order", "refs")
        self.sites: list[Site] = []
        self.lists: list[Listing] = []
        self.inner: dict[int, dict[ListKind, int]] = {}
        self.numbers: dict[str, int] = {}
        self.repeated: list[Site] = []
        self._gather(canonical.get("steps") or [])

    def place(self, number: int) -> Listing:
        """The list in which a step stands."""
        return self.lists[self.sites[number].list]

    def above(self, number: int) -> int:
        """The step whose block a step stands in, or -1."""
        return self.place(number).owner

    def side_by_side(self, one: int, other: int) -> tuple[int, int]:
        """The two steps of one list that the two given are, or stand in; twice the same if that is one block."""
        while self.sites[one].list != self.sites[other].list:
            depth, other_depth = self.sites[one].depth, self.sites[other].depth
            if depth >= other_depth:
                one = self.above(one)
            if other_depth >= depth:
                other = self.above(other)
        return one, other

    def _gather(self, steps: Sequence[Any]) -> None:
        waiting = [self._listed("steps", -1, "/steps", steps)]
        while waiting:
            place, depth, rest = waiting[-1]
            position, step = next(rest, (-1, None))
            if position < 0:
                waiting.pop()
                continue
            site = self._site(step, place, depth, f"{self.lists[place].pointer}/{position}")
            nested = [self._listed(kind, site.number, f"{site.pointer}/{key}", steps, depth + 1) for kind, key, steps in _blocks(site)]
            waiting.extend(reversed(nested))

    def _listed(self, kind: ListKind, owner: int, pointer: str, steps: Sequence[Any], depth: int = 0) -> tuple[int, int, Iterator[tuple[int, Any]]]:
        nested: ListOrder = "free" if kind in ("parallel", "race") else "refs" if self.order == "refs" else "listed"
        self.lists.append(Listing(kind, owner, self.order if owner < 0 else nested, pointer, []))
        number = len(self.lists) - 1
        if owner >= 0:
            self.inner.setdefault(owner, {})[kind] = number
        return number, depth, iter(enumerate(steps))

    def _site(self, step: Any, place: int, depth: int, pointer: str) -> Site:
        number = len(self.sites)
        fields: Mapping[str, Any] = step if isinstance(step, Mapping) else {}
        verb = next((verb for verb in VERBS if verb in fields), "")
        site = Site(number, str(fields.get("id") or f"{verb or 'step'}_{number + 1}"), verb, fields, place, depth, pointer)
        self.sites.append(site)
        self.lists[place].members.append(number)
        if self.numbers.setdefault(site.id, number) != number:
            self.repeated.append(site)
        return site


def _blocks(site: Site) -> Iterator[tuple[ListKind, str, Sequence[Any]]]:
    """The lists of steps in a step: what each is, the key by which it stands there, and its steps. An `if` has both of its lists, however it is written."""
    value = site.value
    match site.verb:
        case "if":
            yield "then", "then", _sequence(site.step.get("then"))
            yield "else", "else", _sequence(site.step.get("else"))
        case "do":
            yield "do", "do", _sequence(value)
        case "parallel" | "race" as kind:
            yield (kind, f"{kind}/steps", _sequence(value.get("steps"))) if isinstance(value, Mapping) else (kind, kind, _sequence(value))
    if isinstance(handlers := site.step.get("on_error"), list):
        yield "on_error", "on_error", handlers


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
