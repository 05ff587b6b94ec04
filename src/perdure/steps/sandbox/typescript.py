"""TypeScript as JavaScript: its types are stripped, and its exports made properties, by sucrase, in a context of its own that runs nothing of what it is given.

Lines stay where they are. Columns move where something was stripped, so a column is told only where that can be undone.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

from perdure.steps.sandbox.frames import Failure

PREFIX = "(function (module, exports, require) {"
"""What stands before a source, on its first line."""

SUFFIX = "\n})"
MEMORY_BYTES_MAX = 128_000_000
STACK_BYTES_MAX = 1_000_000
KEPT_MAX = 256
KEPT_CHARACTERS_MAX = 4_000_000

# The last call makes one piece of the text: QuickJS keeps long strings that were joined as a tree, which the binding can't read.
_TRANSFORM = """(source) => sucrase.transform(source, {
    transforms: ["typescript", "imports"], production: true, preserveDynamicImport: true, disableESTransforms: true,
}).code.toWellFormed()"""
_PLACE = re.compile(r" \((\d+):(\d+)\)$")


class Refused(Exception):
    """The source is no TypeScript, or stripping it took too much; `failure` says which."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Stripper:
    """Strips sources of their types, and remembers those that it was given last."""

    def __init__(self) -> None:
        self._bundle = (Path(__file__).parent / "sucrase.js").read_text(encoding="ascii")
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._characters = 0
        self._begin()

    def _begin(self) -> None:
        import quickjs  # type: ignore[import-untyped]  # it has no types

        self._context = quickjs.Context()
        self._context.set_memory_limit(MEMORY_BYTES_MAX)
        self._context.set_max_stack_size(STACK_BYTES_MAX)
        self._context.eval(self._bundle)
        self._transform: Any = self._context.eval(_TRANSFORM)

    def stripped(self, source: str, within_s: float) -> str:
        """The JavaScript of a source: an expression, a function of ``module``, ``exports`` and ``require``.

        Raises:
            Refused: there is none.
        """
        made = self._kept.get(source)
        if made is not None:
            self._kept.move_to_end(source)
            return made
        made = f"{PREFIX}{self._stripped(source, within_s)}{SUFFIX}"
        if len(made) < KEPT_CHARACTERS_MAX // 4:
            self._keep(source, made)
        return made

    def _stripped(self, source: str, within_s: float) -> str:
        import quickjs

        if "\0" in source:
            raise Refused(Failure("source", "SyntaxError", "it has a character NUL; write it as \\u0000 in a text"))
        self._context.set_time_limit(within_s)
        try:
            made: str = self._transform(source)
        except quickjs.JSException as error:
            said = str(error).partition("\n")[0]
            if said.startswith("SyntaxError: ") and (place := _PLACE.search(said)):
                raise Refused(Failure("source", "SyntaxError", said[13 : place.start()], int(place[1]), int(place[2]))) from None
            self._begin()  # what was interrupted may be half done
            raise Refused(_met(said)) from None
        except UnicodeError:
            raise Refused(Failure("source", "SyntaxError", "it has half a character (a lone surrogate)")) from None
        return made

    def _keep(self, source: str, made: str) -> None:
        self._kept[source] = made
        self._characters += len(source) + len(made)
        while len(self._kept) > KEPT_MAX or self._characters > KEPT_CHARACTERS_MAX:
            old, text = self._kept.popitem(last=False)
            self._characters -= len(old) + len(text)


def _met(said: str) -> Failure:
    if "interrupted" in said:
        return Failure("time")
    if "out of memory" in said or said == "null":  # null is thrown where there is no memory for an error
        return Failure("memory")
    return Failure("source", "SyntaxError", "it nests too deep" if "call stack" in said else said)


def place(source: str, made: str, line: int, column: int) -> tuple[int, int]:
    """Where in a source is what stands at a line and a column of its JavaScript; (line, 0) where the column isn't known, (0, 0) if it isn't in it at all."""
    lines, made_lines = source.split("\n"), made.split("\n")
    if not 1 <= line <= min(len(lines), len(made_lines)):
        return 0, 0
    before, after = lines[line - 1], made_lines[line - 1]
    same = 0
    while same < min(len(before), len(after)) and before[-1 - same] == after[-1 - same]:
        same += 1
    if column - 1 >= len(after) - same:
        return line, column - len(after) + len(before)
    return line, column if after[:column] == before[:column] else 0
