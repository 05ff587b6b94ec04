"""The reference of the definition format, made of its model: every field, what may stand in it, and what it is by default.

    python -m tests.docs.definitions

writes ``docs/reference/definitions.md``; a test compares.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perdure.definitions.format import model, shapes
from perdure.definitions.format.shapes import NOTHING, FieldsShape, FormatField, Shape

PAGE = Path(__file__).parents[2] / "docs/reference/definitions.md"
HEADER = "<!-- made by python -m tests.docs.definitions -->"
WORDS: dict[type, str] = {
    shapes.FlagShape: "true or false",
    shapes.ValueShape: "any value, with references",
    shapes.PlainShape: "anything, as it is",
    shapes.StepsShape: "a list of steps",
    shapes.ConditionShape: "a condition",
    shapes.IdShape: "the id of a step",
    shapes.SchemaShape: "a JSON Schema, or properties",
}


def said(shape: Shape) -> str:
    """What may stand in a field, in words."""
    match shape:
        case shapes.TextShape():
            return shape.what + (", with references" if shape.template else "")
        case shapes.WholeShape() | shapes.NumberShape():
            return f"a {'whole ' if isinstance(shape, shapes.WholeShape) else ''}number from {shape.least}"
        case shapes.NameShape():
            return shape.what
        case shapes.ChoiceShape():
            values = shape.values
            return " or ".join("null" if value is None else f"`{value}`" if isinstance(value, str) else str(value).lower() for value in values)
        case shapes.DurationShape():
            return "a duration" + (", or a reference" if shape.template else "")
        case shapes.ListShape():
            return f"a list: {said(shape.of)}" + (", or one" if shape.sugar else "")
        case shapes.MapShape():
            return f"a mapping: {said(shape.of)}"
        case shapes.EitherShape():
            return shape.what
        case FieldsShape():
            return f"[{shape.what}](#{anchor(shape.what)})"
    return WORDS[type(shape)]


def anchor(name: str) -> str:
    """Where a section of this name is."""
    return name.replace(" ", "-")


def parts(shape: Shape) -> Iterator[FieldsShape]:
    """The mappings that stand in a shape, itself first."""
    inner: list[Any] = []
    match shape:
        case FieldsShape():
            yield shape
            inner = [field.shape for field in shape.fields]
        case shapes.ListShape() | shapes.MapShape():
            inner = [shape.of]
        case shapes.EitherShape():
            inner = list(shape.options)
    for one in inner:
        yield from parts(one)


def table(fields: tuple[FormatField, ...]) -> Iterator[str]:
    """A row for each field."""
    yield "| field | what may stand there | what it is for | default |"
    yield "|---|---|---|---|"
    for field in fields:
        default = "required" if field.required else "" if field.default is NOTHING else f"`{field.default}`".replace("True", "true").replace("False", "false")
        yield f"| `{field.name}` | {said(field.shape)} | {field.doc}{beside(field)} | {default} |".replace("{}", "{ }")


def beside(field: FormatField) -> str:
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
    verbs = model.verbs_by_name()
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
