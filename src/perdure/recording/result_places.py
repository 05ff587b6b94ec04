"""Finds the places in results, and in the input, at which something stands that is wanted for an argument.

Each value of each result is looked up once, in tables by hash; nothing is compared with every other. Values that say little, such as small numbers, are only
kept where the name of the place fits an argument that has them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.definitions.expr.references import SEGMENTS_MAX, ValuePath
from perdure.recording.argument_targets import ANCHOR_CHARACTERS, Table, TargetIndex, Wanted, folded, packed_structure, structure_shape
from perdure.recording.literal_calls import INPUT, LiteralCall
from perdure.recording.value_spellings import times_of

VISITED_MAX = 8_000_000
"""The most values of results that are read in one search."""

KEPT_OF_RESULT_MAX = 8
KEPT_MAX = 32
"""How many places with one value are kept, of one result and in all."""

COMPARISONS_MAX = 2_000_000
"""The most comparisons of texts that begin alike."""

PACKED_BYTES_MAX = 100_000_000
"""The most bytes of lists and mappings that are compared with those in arguments."""

Node = tuple[Any, str | int] | None
_FIRST_SECOND, _LAST_MILLISECOND = 10**9, 42 * 10**11


class ValuePlace(NamedTuple):
    """A value in the result of a call, by its number, or in the input (-1). `order` grows with the order in which values were read: outer before inner ones.

    `fields` is the path without the indexes of lists.
    """

    source: int
    path: ValuePath
    value: Any
    order: int = 0
    fields: tuple[str, ...] = ()


class ResultScan:
    """Reads results for what an index wants. `places` has what was found, by the table and the key of the index.

    `visited` counts the values that were read, by source, and `comparisons` the look-ups that are more than one in a table. `is_partial` says that there was
    more than the limits allow. `is_fit` says whether a value that says little may be meant by a field.
    """

    def __init__(self, index: TargetIndex, is_fit: Callable[[int, Any, str, Sequence[Wanted]], bool]) -> None:
        self._index, self._is_fit = index, is_fit
        self.places: dict[Table, dict[Any, list[ValuePlace]]] = {table: {} for table in ("texts", "numbers", "flags", "anchors", "days", "structures")}
        self.visited: dict[int, int] = {}
        self.comparisons = 0
        self.is_partial = False
        self._visited = self._packed = self._found = 0
        self._kept: dict[tuple[Any, ...], int] = {}
        self._fits: dict[tuple[Any, ...], bool] = {}
        self._full: set[tuple[Any, ...]] = set()
        self._unfit: set[tuple[Any, Any]] = set()
        self._marks, self._numbers, self._days, self._flags = index.marks(), dict(index.numbers), dict(index.days), dict(index.flags)

    def read(self, calls: Sequence[LiteralCall], input: Mapping[str, Any] | None) -> None:
        """Reads the input and the results of the calls that have not failed."""
        if input is not None:
            self._read(INPUT, dict(input))
        for number, call in enumerate(calls):
            if not call.failed:
                self._read(number, call.result)

    def _read(self, source: int, value: Any) -> None:
        before = self._visited
        if isinstance(value, dict | list):
            self._walk(source, value)
        elif value is not None:
            self._visited += 1
            self._look_up(source, value, None, None)
        self.visited[source] = self._visited - before

    def _walk(self, source: int, root: dict[str, Any] | list[Any]) -> None:
        marks, numbers, days, flags, has_structures = self._marks, self._numbers, self._days, self._flags, bool(self._index.structures)
        unfit = self._unfit
        self._look_up_structure(source, root, None)
        visited, left = 0, VISITED_MAX - self._visited
        waiting: list[tuple[Any, Node, int]] = [(root, None, 1)]
        while waiting:
            one, node, depth = waiting.pop()
            visited += len(one)
            if visited > left:
                self.is_partial = True
                break
            inner: list[tuple[Any, Node, int]] | None = None
            for key, value in one.items() if type(one) is dict else enumerate(one):
                kind = type(value)
                if kind is str:
                    if value[-ANCHOR_CHARACTERS:].lower() in marks or (days and value[:10] in days):
                        self._look_up(source, value, node, key)
                elif kind is int or kind is float:
                    if (value in numbers and (value, key) not in unfit) or (days and _FIRST_SECOND < value < _LAST_MILLISECOND):
                        self._look_up(source, value, node, key)
                elif kind is dict or kind is list:
                    if value and depth < SEGMENTS_MAX:
                        inner = [] if inner is None else inner
                        inner.append((value, (node, key), depth + 1))
                        if has_structures:
                            self._look_up_structure(source, value, (node, key))
                elif kind is bool and value in flags:
                    self._look_up(source, value, node, key)
            if inner is not None:
                waiting.extend(reversed(inner))
        self._visited += visited

    def _look_up(self, source: int, value: Any, node: Node, key: str | int | None) -> None:
        """Keeps the place of a value for each key of the index that it has."""
        field = key if type(key) is str else _field_of(node)
        if type(value) is not bool and (value, field) in self._unfit:
            return
        found: list[tuple[Table, Any]] = []
        is_unfit = type(value) is int or type(value) is float
        for table, look_up, wanted in self._entries(value):
            is_unfit = is_unfit and table != "days" and source != INPUT and not self._fits_weak(source, table, look_up, field, wanted)
            if (table, look_up, source) in self._full or (table, look_up) in self._full:
                continue
            if self._fits_weak(source, table, look_up, field, wanted) and self._is_kept(source, table, look_up):
                found.append((table, look_up))
        if is_unfit:
            self._unfit.add((value, field))
        if found:
            self._found += 1
            path = _path_of_node(node if key is None else (node, key))
            place = ValuePlace(source, path, value, self._found, (*(one for one in path if isinstance(one, str)),))
            for table, look_up in found:
                self.places[table].setdefault(look_up, []).append(place)

    def _entries(self, value: Any) -> Iterator[tuple[Table, Any, Sequence[Wanted]]]:
        index = self._index
        if type(value) is bool:
            yield "flags", value, index.flags.get(value, ())
            return
        if type(value) is not str:
            if value in self._numbers:
                yield "numbers", value, index.numbers[value]
        else:
            if (text := folded(value)) in index.texts:
                yield "texts", text, index.texts[text]
            if len(text) >= ANCHOR_CHARACTERS:
                yield from (("anchors", key, ()) for key in self._anchored(text))
        if self._days and (type(value) is not str or value[:10] in self._days):
            for time in times_of(value):
                if (day := time.day.isoformat()) in self._days:
                    yield "days", day, index.days[day]

    def _anchored(self, text: str) -> Iterator[tuple[str, int]]:
        """Yields the texts, each with the position at which a folded text ends in it."""
        for key in self._index.anchors.get(text[-ANCHOR_CHARACTERS:], ()):
            self.comparisons += 1
            if self.comparisons > COMPARISONS_MAX:
                self.is_partial = True
                return
            whole, end = key
            start = end - len(text)
            if start >= 0 and len(whole) > len(text) and whole[start:end].lower() == text and not (text[0].isalnum() and start and whole[start - 1].isalnum()):
                yield key

    def _look_up_structure(self, source: int, value: Any, node: Node) -> None:
        wanted = self._index.structures.get(structure_shape(value))
        if wanted is None or self._packed > PACKED_BYTES_MAX:
            self.is_partial = self.is_partial or wanted is not None
            return
        packed = packed_structure(value)
        self.comparisons += 1
        self._packed += 64 + len(packed or b"")
        if packed in wanted and self._is_kept(source, "structures", packed):
            self._found += 1
            self.places["structures"].setdefault(packed, []).append(ValuePlace(source, _path_of_node(node), value, self._found))

    def _is_kept(self, source: int, table: Table, key: Any) -> bool:
        """Returns whether a further place with a value is kept: the first ones are, of each result and in all. After that it is not looked up any more."""
        of_result, of_all = self._kept.get((table, key, source), 0), self._kept.get((table, key), 0)
        if of_result >= KEPT_OF_RESULT_MAX or of_all >= KEPT_MAX:
            self._full.add((table, key, source) if of_all < KEPT_MAX else (table, key))
            if of_all >= KEPT_MAX:
                self._forget(table, key)
            return False
        self._kept[table, key, source], self._kept[table, key] = of_result + 1, of_all + 1
        return True

    def _forget(self, table: Table, key: Any) -> None:
        match table:
            case "texts" if len(key) < ANCHOR_CHARACTERS:
                self._marks.discard(key)
            case "numbers":
                _ = self._numbers.pop(key, None)
            case "days":
                _ = self._days.pop(key, None)
            case "flags":
                _ = self._flags.pop(key, None)

    def _fits_weak(self, source: int, table: Table, key: Any, field: str, wanted: Sequence[Wanted]) -> bool:
        known = (source == INPUT, table, key, field)
        fits = self._fits.get(known)
        if fits is None:
            fits = self._fits[known] = not wanted or self._is_fit(source, key, field, wanted)
        return fits


def _field_of(node: Node) -> str:
    while node is not None:
        node, key = node
        if type(key) is str:
            return key
    return ""


def _path_of_node(node: Node) -> ValuePath:
    path: list[str | int] = []
    while node is not None:
        node, key = node
        path.append(key)
    return (*reversed(path),)
