"""The expressions of a document of seed 003: each is read once, where it stands, and remembered for what is to be said about them all."""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.core.errors import BadExpression
from perdure.expr import braces
from perdure.programs.format.dialects.reading import Names, Notes
from perdure.programs.format.dialects.spelling import escaped
from perdure.programs.format.finding import joined


class Seen(NamedTuple):
    """A name in an expression: in which step, where, and the path behind the name."""

    step: str
    pointer: str
    name: str
    path: tuple[str | int, ...]


class Texts:
    """Reads values and conditions. `names` are what the steps are called; `seen` is all that the expressions name."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.names = Names(notes)
        self.seen: list[Seen] = []

    def value(self, value: Any, pointer: str, step: str) -> Any:
        """A value with ``{{ }}`` in it, as a definition has it; where there is no step, nothing may be in it."""
        match value:
            case str() if "{{" in value and not step:
                self._notes.error("template_in_variable", pointer, "variables are there before the first step, so {{ }} can't be read here: use set_variables")
                return None
            case str() if "{{" in value:
                return self._text(value, pointer, step)
            case str():
                return escaped(value)
            case list():
                return [self.value(item, joined(pointer, index), step) for index, item in enumerate(value)]
            case dict():
                for key in value:
                    if "{{" in str(key):
                        self._notes.warning("template_in_key", joined(pointer, str(key)), "names of fields are taken as they are: {{ }} is not read in them")
                return {str(key): self.value(item, joined(pointer, str(key)), step) for key, item in value.items()}
            case _:
                return value

    def condition(self, value: str, pointer: str, step: str) -> dict[str, Any]:
        """A condition, as a definition has it."""
        try:
            expression = braces.condition(value)
        except BadExpression as error:
            self._notes.error("bad_expression", pointer, f"{error.what}; {error.hint}")
            return {"braces": "false"}
        self._note(expression, pointer, step)
        return {"braces": braces.renamed(value, self._otherwise(expression), whole=True)}

    def _text(self, value: str, pointer: str, step: str) -> str | None:
        try:
            expression = braces.text(value)
        except BadExpression as error:
            self._notes.error("bad_expression", pointer, f"{error.what}; {error.hint}")
            return None
        self._note(expression, pointer, step)
        return braces.renamed(value, self._otherwise(expression))

    def _otherwise(self, expression: braces.Expression) -> dict[str, str]:
        """The steps in an expression that are called otherwise in the definition."""
        steps = {str(path[0]) for name, path in expression.names if name == "steps" and path}
        return {original: self.names[original] for original in steps if self.names[original] != original}

    def _note(self, expression: braces.Expression, pointer: str, step: str) -> None:
        self.seen.extend(Seen(step, pointer, name, path) for name, path in expression.names)
