"""Lists the kinds of steps that definitions may use in this process, and describes the format and its conditions, as editors need them."""

from typing import Any

import msgspec

from perdure.core.errors import BadDefinition, BadValue
from perdure.definitions.expr.condition import AGGREGATES, OF_NOTHING, OPERATORS, QUANTIFIERS
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.format_schema import format_schema
from perdure.definitions.format.reference_scope import ScopedReference, references_at
from perdure.definitions.kinds import control_descriptions, kind_descriptions
from perdure.definitions.kinds.control_descriptions import CATEGORIES, KindCategory
from perdure.definitions.kinds.kind_descriptions import KindDescription
from perdure.definitions.kinds.kind_registry import KindRegistry
from perdure.dialects import read_foreign


class ListedStepKind(KindDescription, frozen=True, kw_only=True):
    """A kind with its `category` in a palette and its `snippet`: a step of it, as data."""

    category: KindCategory
    snippet: dict[str, Any]


class KindList(msgspec.Struct, frozen=True):
    """Descriptions of kinds in order of name, and what was wrong with those of packages that can't be loaded."""

    items: list[ListedStepKind]
    problems: list[str]


class ConditionOperator(msgspec.Struct, frozen=True):
    """An operator of a row of a condition: its name, what stands on its right side, and whether it accepts that the left value is missing."""

    name: str
    title: str
    takes: str
    accepts_missing: bool


class FormatDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The format of definitions: its JSON Schema, and the words of conditions.

    A row of a condition has a `ref` and one of `operators`; between them may stand one of `quantifiers`, or of `aggregates` of many values. Rows are grouped by
    `groups`.
    """

    schema: dict[str, Any]
    operators: list[ConditionOperator]
    aggregates: list[str]
    quantifiers: list[str]
    groups: list[str]


_TITLES = {
    "eq": ("is", "value"),
    "neq": ("is not", "value"),
    "gt": ("is greater than", "number or text"),
    "gte": ("is at least", "number or text"),
    "lt": ("is less than", "number or text"),
    "lte": ("is at most", "number or text"),
    "in": ("is one of", "list"),
    "contains": ("contains", "value"),
    "starts_with": ("starts with", "text"),
    "ends_with": ("ends with", "text"),
    "matches_re": ("matches the pattern", "pattern"),
    "exists": ("is there", "flag"),
    "empty": ("is empty", "flag"),
}
"""The operators in words, and what each takes on its right side."""


def list_kinds() -> KindList:
    """Describes all kinds. Their modules are loaded for it."""
    registry, problems = KindRegistry(), list[str]()
    found = [*kind_descriptions.built_in_verbs().values(), *control_descriptions.control_verbs().values()]
    for name in registry:
        try:
            found.append(kind_descriptions.describe_kind(registry[name]))
        except BadValue as error:
            problems.append(str(error))
    return KindList(sorted(map(_listed, found), key=lambda one: one.name), sorted(problems))


def _listed(one: KindDescription) -> ListedStepKind:
    fields = {name: getattr(one, name) for name in KindDescription.__struct_fields__}
    return ListedStepKind(category=CATEGORIES.get(one.name, "packages"), snippet=control_descriptions.example_step(one), **fields)


def references_in_scope(document: bytes, step: str, field: str = "with") -> list[ScopedReference]:
    """Lists the references that a field of a step of a document may use, with the schemas of their values. The document need not be valid, but has to parse.

    Raises:
        BadDefinition: the text can't be parsed.
        NotFound: it has no step of this id.
    """
    parsed = parse_document(document)
    if parsed.findings:
        raise BadDefinition(parsed.findings)
    foreign = read_foreign(parsed.document, None, "")
    found = parsed.document if foreign is None else foreign.document
    results = {one.name: one.output for one in list_kinds().items if one.output}
    return references_at(found if isinstance(found, dict) else {}, step, field, results)


def describe_format() -> FormatDescription:
    """Describes the format and its conditions."""
    return FormatDescription(
        schema=format_schema(),
        operators=[ConditionOperator(name, *_TITLES[name], accepts_missing=name in OF_NOTHING) for name in OPERATORS],
        aggregates=list(AGGREGATES),
        quantifiers=sorted(QUANTIFIERS),
        groups=["all", "any", "not"],
    )
