"""The reference of the definition format, made of its model: every field, what may stand in it, and what it is by default.

    python -m tests.docs.definitions

writes ``docs/reference/definitions.md``; a test compares.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perdure.programs.format import model, shapes
from perdure.programs.format.shapes import NOTHING, Field, Fields, Shape

PAGE = Path(__file__).parents[2] / "docs/reference/definitions.md"
HEADER = "<!-- made by python -m tests.docs.definitions -->"
WORDS: dict[type, str] = {
    shapes.Flag: "true or false",
    shapes.Value: "any value, with references",
    shapes.Plain: "anything, as it is",
    shapes.Steps: "a list of steps",
    shapes.Condition: "a condition",
    shapes.Id: "the id of a step",
    shapes.Schema: "a JSON Schema, or properties",
}


def said(shape: Shape) -> str:
    """What may stand in a field, in words."""
    match shape:
        case shapes.Text():
            return shape.what + (", with references" if shape.template else "")
        case shapes.Whole() | shapes.Number():
            return f"a {'whole ' if isinstance(shape, shapes.Whole) else ''}number from {shape.least}"
        case shapes.Name():
            return shape.what
        case shapes.Choice():
            values = shape.values
            return " or ".join("null" if value is None else f"`{value}`" if isinstance(value, str) else str(value).lower() for value in values)
        case shapes.Duration():
            return "a duration" + (", or a reference" if shape.template else "")
        case shapes.ListOf():
            return f"a list: {said(shape.of)}" + (", or one" if shape.sugar else "")
        case shapes.MapOf():
            return f"a mapping: {said(shape.of)}"
        case shapes.Either():
            return shape.what
        case Fields():
            return f"[{shape.what}](#{anchor(shape.what)})"
    return WORDS[type(shape)]


def anchor(name: str) -> str:
    """Where a section of this name is."""
    return name.replace(" ", "-")


def parts(shape: Shape) -> Iterator[Fields]:
    """The mappings that stand in a shape, itself first."""
    inner: list[Any] = []
    match shape:
        case Fields():
            yield shape
            inner = [field.shape for field in shape.fields]
        case shapes.ListOf() | shapes.MapOf():
            inner = [shape.of]
        case shapes.Either():
            inner = list(shape.options)
    for one in inner:
        yield from parts(one)


def table(fields: tuple[Field, ...]) -> Iterator[str]:
    """A row for each field."""
    yield "| field | what may stand there | what it is for | default |"
    yield "|---|---|---|---|"
    for field in fields:
        default = "required" if field.required else "" if field.default is NOTHING else f"`{field.default}`".replace("True", "true").replace("False", "false")
        yield f"| `{field.name}` | {said(field.shape)} | {field.doc}{beside(field)} | {default} |".replace("{}", "{ }")


def beside(field: Field) -> str:
    """The verbs beside which alone a field stands, or those beside which it does not, whichever are fewer."""
    others = [verb.name for verb in model.VERBS if verb.name not in field.verbs]
    if not field.verbs or not others:
        return ""
    words, names = ("beside", field.verbs) if len(field.verbs) <= len(others) else ("not beside", others)
    return f" ({words} {', '.join(f'`{name}`' for name in names)})"


def page() -> str:
    """The whole page."""
    lines = [
        HEADER,
        "",
        "# The definition format",
        "",
        "What a definition may say; [the guide](../guides/definitions.md) shows it by example, and",
        "`perdure schema` prints all of it as JSON Schema.",
    ]
    lines += ["", "## The document", "", *table(model.DOCUMENT.fields)]
    steps = tuple(model.step_fields().values())
    verbs = model.verbs()
    lines += [
        "",
        "## A step: its verb",
        "",
        "A step does exactly one thing.",
        "",
        "| verb | what stands behind it | what it does | ports besides error |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{verb.name}` | {said(verb.shape)} | {verb.doc} | {', '.join(verb.ports)} |" for verb in verbs.values()]
    lines += ["", "## A step: everything else", "", *table(tuple(field for field in steps if field.name not in verbs))]
    seen = {model.DOCUMENT.what}
    for one in (*model.DOCUMENT.fields, *steps):
        for inner in parts(one.shape):
            if inner.what not in seen:
                seen.add(inner.what)
                lines += ["", f"## {inner.what}", "", *table(inner.fields)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
