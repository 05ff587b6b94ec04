"""The references of seed 004 in a node's config: ``$nodes.x.y`` as a whole value, ``${$nodes.x.y}`` inside of text.

``$inputs.x`` is what the execution was given.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.programs.format.dialects.reading import Names, Notes
from perdure.programs.format.dialects.spelling import Inside, escaped, mixed, reference, whole
from perdure.programs.format.finding import closest, joined

_CHAIN = r"""(?:\.[\w-]+|\[\d+\]|\["[^"\\]*"\]|\['[^'\\]*'\])"""
_WHOLE = re.compile(rf"\$(nodes|inputs?)({_CHAIN}*)|\$\{{\s*\$(nodes|inputs?)({_CHAIN}*)\s*\}}")
_INSIDE = re.compile(rf"\$\{{\s*\$(nodes|inputs?)({_CHAIN}*)\s*\}}")
_KEY = re.compile(r"""\.([\w-]+)|\[(\d+)\]|\["([^"\\]*)"\]|\['([^'\\]*)'\]""")


class Values:
    """What the values in the config of one document's nodes refer to."""

    def __init__(self, names: Names, notes: Notes) -> None:
        self._names, self._notes = names, notes

    def read(self, value: Any, pointer: str) -> Any:
        """A value, as a template."""
        match value:
            case str():
                return self._text(value, pointer)
            case list():
                return [self.read(item, joined(pointer, index)) for index, item in enumerate(value)]
            case dict():
                return {str(key): self.read(item, joined(pointer, str(key))) for key, item in value.items()}
            case _:
                return value

    def _text(self, text: str, pointer: str) -> str:
        if found := _WHOLE.fullmatch(text):
            meant = self._meant(found[1] or found[3], found[2] if found[1] else found[4], pointer)
            return whole(*meant) if meant else escaped(text)
        pieces: list[str | Inside] = []
        behind = 0
        for found in _INSIDE.finditer(text):
            if meant := self._meant(found[1], found[2], pointer):
                pieces += [text[behind : found.start()], Inside(reference(*meant))]
                behind = found.end()
        return mixed([*pieces, text[behind:]])

    def _meant(self, root: str, chain: str, pointer: str) -> tuple[str, list[str | int]] | None:
        path: list[str | int] = [int(key[2]) if key[2] is not None else next(one for one in key.groups() if one is not None) for key in _KEY.finditer(chain)]
        if root != "nodes":
            return "input", path
        if not path:
            self._notes.error("bad_reference", pointer, "$nodes alone is no reference; write $nodes.NODE.field")
            return None
        node = str(path[0])
        if node not in self._names:
            near = closest(node, self._names)
            self._notes.error("unknown_reference", pointer, f"there is no node {node[:60]!r}{f'; did you mean {near!r}?' if near else ''}", near)
        return self._names[node], path[1:]
