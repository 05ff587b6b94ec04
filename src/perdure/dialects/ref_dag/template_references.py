"""The references of ref_dag: ``@step.items[0][1]``, ``@step.items.0.id``, ``@input.field``, ``@item``, ``@index``, ``@ctx.execution_id``.

A text that is one reference keeps the type of its value. Inside text a reference is inserted if the document knows its name; any other @ is text. Roots are
whole words: ``@inputData`` is a step.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.definitions.expr.references import ROOTS
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.dialects.foreign_document import FindingCollector, StepNames
from perdure.dialects.reference_syntax import EmbeddedReference, escape_template, reference_text, template_text, whole_reference

_SEGMENT = r"(?:\.[\w]+(?:-+\w+)*|\[\d+\])"
_WHOLE = re.compile(rf"@([^.\[\]@{{}}]+?)({_SEGMENT}*)")
_INSIDE = re.compile(rf"@([A-Za-z_]\w*(?:-+\w+)*)({_SEGMENT}*)")
_KEY = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_NATIVE = re.compile(r"@@|@\{([^}]*)\}")
_ROOTS = {"input": "input", "item": "item", "index": "index"}
_NATIVE_PATH = re.compile(r"""(?P<name>[^\W\d][\w-]*)(?P<path>(?:\.\w[\w-]*|\[\d+\])*)""")
_ENVELOPE = re.compile(r"""steps\["(?P<name>(?:[^"\\]|\\.)*)"\]\.output\.data(?P<path>(?:\.\w[\w-]*|\[\d+\])*)""")


class RefDagReferences:
    """Resolves the references of one document by the names of its steps."""

    def __init__(self, names: StepNames, notes: FindingCollector) -> None:
        self._names, self._notes = names, notes

    def value(self, value: Any, pointer: str, each: bool) -> Any:
        """A value with references, as a template. `each`: it belongs to a step that runs once per item."""
        match value:
            case str():
                return self._text(value, pointer, each)
            case list():
                return [self.value(item, joined_pointer(pointer, index), each) for index, item in enumerate(value)]
            case dict():
                return {str(key): self.value(item, joined_pointer(pointer, str(key)), each) for key, item in value.items()}
            case _:
                return value

    def ref(self, text: str, pointer: str, each: bool) -> str:
        """The reference that a `ref` is, as one of a definition."""
        if (found := _WHOLE.fullmatch(text)) is None:
            self._notes.error("bad_reference", pointer, f"{text[:60]!r} is not a reference; write '@step.field', '@input.field', '@item' or '@index'")
            return escape_template(text)
        name, path = self._meant(found[1], _path(found[2]), pointer, each)
        return whole_reference(name, path)

    def _text(self, text: str, pointer: str, each: bool) -> str:
        if text.startswith("@") and (found := _WHOLE.fullmatch(text)) and (self._knows(found[1]) or _INSIDE.fullmatch(text)):
            return whole_reference(*self._meant(found[1], _path(found[2]), pointer, each))
        pieces: list[str | EmbeddedReference] = []
        behind = 0
        for found in _INSIDE.finditer(text):
            if not self._knows(found[1]):
                continue
            if text[found.start() - 1 : found.start()].isalnum():
                self._notes.warning(
                    "reference_in_word",
                    pointer,
                    f"'@{found[1]}' is read as a reference, although it is within a word; if it is text, such as an e-mail address, write @@",
                )
            pieces += [text[behind : found.start()], EmbeddedReference(reference_text(*self._meant(found[1], _path(found[2]), pointer, each)))]
            behind = found.end()
        return template_text([*pieces, text[behind:]])

    def _knows(self, name: str) -> bool:
        return name in self._names or name in _ROOTS or name == "ctx"

    def _meant(self, name: str, path: list[str | int], pointer: str, each: bool) -> tuple[str, list[str | int]]:
        if name in _ROOTS:
            if name != "input" and not each:
                self._notes.error("item_outside_each", pointer, f"@{name} is only available in a step with forEach")
            return _ROOTS[name], path
        if name == "ctx" and path == ["execution_id"]:
            return "execution", ["id"]
        if name == "ctx" and name not in self._names:
            self._notes.error("unknown_reference", pointer, "@ctx has only the field execution_id", "@ctx.execution_id")
            return "execution", ["id"]
        return self._names[name], path


def _path(text: str) -> list[str | int]:
    keys = [key[1] or key[2] for key in _KEY.finditer(text)]
    return [int(key) if key.isdecimal() and len(key) < 10 else key for key in keys]


def write_reference(value: Any, pointer: str, notes: FindingCollector) -> Any:
    """A template as this dialect writes it; what it refers to and the dialect does not know is noted."""
    match value:
        case str():
            if value.startswith("@") and not value.startswith(("@@", "@{")):
                return "@" + _written(value[1:], pointer, notes)
            return _NATIVE.sub(lambda found: "@" if found[0] == "@@" else "@" + _written(found[1].strip(), pointer, notes), value)
        case list():
            return [write_reference(item, joined_pointer(pointer, index), notes) for index, item in enumerate(value)]
        case dict():
            return {key: write_reference(item, joined_pointer(pointer, key), notes) for key, item in value.items()}
        case _:
            return value


def _written(text: str, pointer: str, notes: FindingCollector) -> str:
    if found := _ENVELOPE.fullmatch(text):
        return found["name"].replace('\\"', '"').replace("\\\\", "\\") + found["path"]
    found = _NATIVE_PATH.fullmatch(text)
    if found is None or (found["name"] in ROOTS - {"input", "item", "index"} and text != "execution.id"):
        notes.error("unsayable", pointer, f"ref_dag cannot express '@{text[:60]}'")
        return text
    return "ctx.execution_id" if text == "execution.id" else text
