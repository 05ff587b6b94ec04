"""Streams: what is kept of what a command says. Whatever and however much it is, it costs the same memory at most."""

import codecs

KEPT_CHARACTERS = 64 * 1024
"""How much of each stream is kept: half of it from the beginning, half from the end."""

LAST_LINES, LAST_CHARACTERS = 5, 500
"""How much of a stream its watchers are shown."""


class Stream:
    """One output of a command, as text: bytes that are no UTF-8 stand as U+FFFD."""

    def __init__(self, kept_characters: int = KEPT_CHARACTERS) -> None:
        self._half = kept_characters // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = self._tail = ""
        self.characters = 0

    def take(self, raw: bytes, final: bool = False) -> None:
        """Go on with these bytes; with `final`, they are the last."""
        text = self._decoder.decode(raw, final)
        self.characters += len(text)
        if (room := self._half - len(self._head)) > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail = text[-self._half :] if len(text) >= self._half else (self._tail + text)[-self._half :]

    @property
    def left_out(self) -> int:
        """How many characters of it are not kept."""
        return self.characters - len(self._head) - len(self._tail)

    @property
    def text(self) -> str:
        """What is kept of it, with a line in the middle that says how much is not, if it is not all."""
        between = f"\n[... {self.left_out:,} characters left out ...]\n" if self.left_out else ""
        return f"{self._head}{between}{self._tail}"

    @property
    def last(self) -> str:
        """Its last lines."""
        shown = (self._head[-LAST_CHARACTERS:] + self._tail[-LAST_CHARACTERS:])[-LAST_CHARACTERS:]
        return "\n".join(shown.splitlines()[-LAST_LINES:])
