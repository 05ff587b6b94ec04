"""Resolves the names of nested_steps, in conditions and as ``{{name}}`` in values, and lists the steps with the variables they store.

A name is a variable that the execution receives, or one that steps store by `outputVariable`. A variable that a single step stores outside of loops is that
step's result. One that several steps store, or one in a loop, becomes a variable that is set after each of them. A variable that is declared nowhere becomes
an optional input.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.dialects.foreign_document import FindingCollector, ForeignFields, StepNames, kind_of_value
from perdure.dialects.reference_syntax import EmbeddedReference, ReferencePath, escape_template, reference_text, template_text

VARIABLE_KEYS = frozenset(("type", "default", "required", "description", "enum", "title", "format", "minimum", "maximum", "pattern", "items", "properties"))
VARIABLE_SPACES = ("variables", "outputs", "steps", "inputs", "input")

_CHAIN = r"""[A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\]|\["[^"\\]*"\]|\['[^'\\]*'\])*"""
_NAME = re.compile(_CHAIN)
_BRACES = re.compile(rf"\{{\{{\s*({_CHAIN})\s*\}}\}}")
_KEY = re.compile(r"""\.?([A-Za-z_0-9][\w-]*)|\[(\d+)\]|\["([^"\\]*)"\]|\['([^'\\]*)'\]""")


class StoringStep(NamedTuple):
    """A step that stores its result: its id, whether it repeats, and whether it may be skipped."""

    step: str
    looped: bool
    maybe: bool


class NestedStepsVariables:
    """The meaning of the names in one document."""

    def __init__(self, names: StepNames, notes: FindingCollector) -> None:
        self.names, self._notes = names, notes
        self.inputs: dict[str, Any] = {}
        self._declared: set[str] = set()
        self.writers: dict[str, list[StoringStep]] = {}
        self.maybe: set[str] = set()
        self._items: list[dict[str, str]] = []

    def declare(self, variables: dict[str, Any]) -> None:
        """Adds the declared variables: each an initial value, or {type, default, required}."""
        for name, value in variables.items():
            if isinstance(value, dict) and value and value.keys() <= VARIABLE_KEYS and value.keys() & {"type", "default", "required"}:
                schema = {key: item for key, item in value.items() if key != "required"}
                self.inputs[name] = schema if value.get("required") is True or "default" in value else {**schema, "default": None}
            else:
                self.inputs[name] = {"default": value}
        self._declared.update(self.inputs)

    def enter(self, items: dict[str, str]) -> None:
        """Brings the names of a loop into scope."""
        self._items.append(items)

    def leave(self) -> None:
        """Removes the names of a loop from the scope."""
        self._items.pop()

    def is_set(self, name: str) -> bool:
        """Whether what is stored by this name is a variable that is set."""
        writers = self.writers.get(name, [])
        return bool(writers) and (len(writers) > 1 or writers[0].looped or name in self._declared)

    def vars(self) -> dict[str, Any]:
        """The variables that are set, before they are."""
        return {name: None for name in self.writers if self.is_set(name)}

    def begun(self) -> dict[str, Any]:
        """The first values of those variables that are inputs as well."""
        return {name: f"@{reference_text('input', [name])}" for name in self.writers if name in self._declared}

    def outputs(self) -> dict[str, Any]:
        """All that steps store, as the output of the workflow."""
        return {name: self._whole(*self._stored(name, [])) for name in self.writers}

    def value(self, value: Any, pointer: str) -> Any:
        """A value with names in double braces, as a template."""
        match value:
            case str():
                return self._text(value, pointer)
            case list():
                return [self.value(item, joined_pointer(pointer, index)) for index, item in enumerate(value)]
            case dict():
                return {str(key): self.value(item, joined_pointer(pointer, str(key))) for key, item in value.items()}
            case _:
                return value

    def items(self, text: str, pointer: str) -> str:
        """Returns what a name, in braces or not, refers to; text that is not a name is noted."""
        found = self.named(text, pointer)
        return self._whole(*found) if found else escape_template(text)

    def named(self, text: str, pointer: str) -> tuple[str, list[str | int], bool] | None:
        """The same as a root or a step, a path, and whether there may be nothing."""
        found = _BRACES.fullmatch(text.strip()) or _NAME.fullmatch(text.strip())
        if found is None:
            self._notes.error("bad_reference", pointer, f"{text[:60]!r} is not the name of a variable; write one, such as 'files' or '{{{{files}}}}'")
            return None
        return self._chain(found[0], pointer)

    def _chain(self, text: str, pointer: str) -> tuple[str, list[str | int], bool]:
        keys = _keys(text.strip("{} "))
        return self.meant(str(keys[0]), keys[1:], pointer)

    def used(self, text: str) -> str:
        """The first name in braces in a text that means something; empty if there is none."""
        return next((found[0] for found in _BRACES.finditer(text) if self._known(_keys(found[1]))), "")

    def meant(self, name: str, path: list[str | int], pointer: str) -> tuple[str, list[str | int], bool]:
        """The target of a name: a root or a step, a path, and whether it may be missing. An unknown name becomes an input."""
        for items in reversed(self._items):
            if name in items:
                return items[name], path, False
        space = name if name in VARIABLE_SPACES and path and name not in self.writers and name not in self.inputs and name not in self.names else ""
        if space:
            name, path = str(path[0]), path[1:]
        if name in self.writers and space not in ("steps", "inputs", "input"):
            return self._stored(name, path)
        if name in self.names and (space == "steps" or (name not in self.inputs and not space)):
            called = self.names[name]
            return called, path[1:] if space and path[:1] in (["output"], ["outputs"]) else path, called in self.maybe
        if space == "steps":
            near = closest_name(name, self.names)
            self._notes.error("unknown_reference", pointer, f"there is no step {name[:60]!r}{f'; did you mean {near!r}?' if near else ''}", near)
        elif name not in self.inputs:
            self.inputs[name] = {"default": None}
        return "input", [name, *path], False

    def _stored(self, name: str, path: list[str | int]) -> tuple[str, list[str | int], bool]:
        if self.is_set(name):
            return "vars", [name, *path], False
        writer = self.writers[name][0]
        return writer.step, path, writer.maybe

    def _text(self, text: str, pointer: str) -> str:
        whole = _BRACES.fullmatch(text.strip())
        if whole and self._known(_keys(whole[1])):
            return self._whole(*self._chain(whole[1], pointer))
        pieces: list[str | EmbeddedReference] = []
        behind = 0
        for found in _BRACES.finditer(text):
            if self._known(_keys(found[1])):
                pieces += [text[behind : found.start()], EmbeddedReference(self._whole(*self._chain(found[1], pointer))[1:])]
                behind = found.end()
        return template_text([*pieces, text[behind:]])

    def _known(self, keys: list[str | int]) -> bool:
        name = str(keys[0])
        named = name in self.writers or name in self.inputs or name in self.names or any(name in items for items in self._items)
        return named or (name in VARIABLE_SPACES and len(keys) > 1)

    def _whole(self, name: str, path: ReferencePath, maybe: bool) -> str:
        return f"@{reference_text(name, path)}{'?' if maybe else ''}"


def _keys(text: str) -> list[str | int]:
    """The name and the keys that a chain is made of."""
    return [int(found[2]) if found[2] is not None else _key(next(one for one in found.groups() if one is not None)) for found in _KEY.finditer(text)]


def _key(text: str) -> str | int:
    return int(text) if text.isdecimal() and len(text) < 10 else text


NESTED_FIELDS = ("then", "else", "steps")
BRANCH_FIELDS = ("then", "else")


class ListedStep(NamedTuple):
    """A step, what it is called, and the lists of steps in it, by the fields that hold them."""

    called: str
    step: ForeignFields
    inside: dict[str, list[ListedStep]]


class _EnclosingStep(NamedTuple):
    """The block that holds a list of steps: whether it repeats the list, and whether it may skip it."""

    path: str = "step"
    looped: bool = False
    maybe: bool = False


class NestedStepsListing:
    """Goes through all steps of a document, nested ones too, and checks of each what is checked of any."""

    def __init__(self, top: ForeignFields, names: StepNames, variables: NestedStepsVariables, notes: FindingCollector) -> None:
        self._names, self._variables, self._notes = names, variables, notes
        self.steps = self._list(top.listed("steps"), top.at("steps"), _EnclosingStep())

    def _list(self, steps: list[Any], pointer: str, around: _EnclosingStep) -> list[ListedStep]:
        found = []
        for index, value in enumerate(steps):
            step = ForeignFields(value, f"{pointer}/{index}", self._notes)
            path = f"{around.path}[{index}]"
            given = step.text("id") or path
            called = self._names.give(given, step.at("id"))
            if around.maybe:
                self._variables.maybe.add(called)
            if name := step.text("outputVariable"):
                self._variables.writers.setdefault(name, []).append(StoringStep(called, around.looped, around.maybe))
            type_name = step.any("type")
            if not isinstance(type_name, str) or not type_name:
                self._notes.error("missing_field", step.at("type"), f"each step has a type, as text; found {kind_of_value(type_name)}")
            looped = around.looped or type_name == "loop"
            maybe = around.maybe or step.has("when") or type_name == "loop"
            inside = {
                field: self._list(step.listed(field), step.at(field), _EnclosingStep(f"{path}.{field}", looped, maybe or field in BRANCH_FIELDS))
                for field in NESTED_FIELDS
                if step.has(field)
            }
            found.append(ListedStep(called, step, inside))
        return found
