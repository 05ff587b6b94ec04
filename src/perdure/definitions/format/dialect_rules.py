"""How the dialects differ in meaning, as one table.

Every dialect is read as the same kind of definition and compiled to the same intermediate form. What still depends on the dialect is a field of
`DialectRules`; the format, the graph and the service ask for the field and never for the dialect's name. The defaults are the rules of native definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.definitions.expr.template import Expressions


class DialectRules(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of one dialect where dialects differ."""

    expressions: Expressions = "cel"
    """Which expressions values may hold. A native value may be `{expr: CEL}`; in a dialect, data of that form stays data."""

    missing_in_value: Literal["error", "null"] = "error"
    missing_in_condition: Literal["error", "null", "false"] = "error"

    free_step_ids: bool = False
    """A step's id is any printable text, also the name of a root; native ids are words."""

    declared_names_only: bool = True
    """Inputs and variables that the definition does not declare are errors, in references, in triggers and in the input of an execution."""

    unknown_steps_allowed: bool = False
    """A reference to a step, an input or a variable that does not exist is no error; it is missing when it is read."""

    strict_order: bool = True
    """Reading a result that can not exist yet, and a join that has nothing to choose from, are errors."""

    source_is_native: bool = True
    """The author wrote the definition in the native format, so a finding can carry a fix of the text."""

    roots_everywhere: bool = False
    """A reference may begin with any root anywhere, also where the root has no value."""

    references_in_bash: bool = True
    """`@name` in a command is reported as a reference, which a command can't hold; otherwise an @ has no meaning there."""

    entry_is_first_step: bool = False
    """The execution begins at the first step alone, rather than at each step that no transition leads to."""

    items_in_cycles: bool = False
    """`@item` is also the item of a loop that transitions make."""

    cycles_bounded_by_hops: bool = False
    """A cycle needs no bound of its own, since `limits.max_hops` ends it."""

    rejection_fails: bool = True
    """A rejected approval whose port leads nowhere ends what holds the step; otherwise only the path ends."""

    decision_merged_into_payload: bool = False
    """The result of an approval is the payload that reached it, with the decision in it."""

    each_over_null_is_empty: bool = False
    return_true_takes_input: bool = False
    """`return: true` returns the step's input also if there is none, as null."""

    failed_undo_continues: bool = False
    """After an undo that failed for good the others still run, unless its own `on_error` says otherwise; by default the execution needs attention."""

    patched_as_nodes: bool = False
    """A patch of `/nodes` and `/edges` means those of a document of the dialect, rather than the steps of the definition."""


_FOREIGN = DialectRules(
    expressions="none",
    missing_in_value="null",
    missing_in_condition="null",
    free_step_ids=True,
    declared_names_only=False,
    strict_order=False,
    source_is_native=False,
    roots_everywhere=True,
)

RULES: Mapping[str, DialectRules] = {
    "": DialectRules(),
    "ref_dag": msgspec.structs.replace(_FOREIGN, each_over_null_is_empty=True, return_true_takes_input=True),
    "nested_steps": msgspec.structs.replace(_FOREIGN, references_in_bash=False),
    "port_graph": msgspec.structs.replace(
        _FOREIGN,
        expressions="braces",
        unknown_steps_allowed=True,
        entry_is_first_step=True,
        items_in_cycles=True,
        cycles_bounded_by_hops=True,
        rejection_fails=False,
        each_over_null_is_empty=True,
    ),
    "token_graph": msgspec.structs.replace(
        _FOREIGN,
        missing_in_condition="false",
        items_in_cycles=True,
        cycles_bounded_by_hops=True,
        rejection_fails=False,
        decision_merged_into_payload=True,
        failed_undo_continues=True,
        patched_as_nodes=True,
    ),
}
"""The rules of native definitions, under the empty name, and of each dialect."""

DIALECTS = tuple(name for name in RULES if name)


def document_rules(document: Any) -> DialectRules:
    """The rules of a definition's document, which may be invalid: one that names an unknown dialect has those that most dialects share."""
    if not isinstance(document, Mapping) or "dialect" not in document:
        return RULES[""]
    dialect = document["dialect"]
    return RULES.get(dialect, _FOREIGN) if isinstance(dialect, str) and dialect else _FOREIGN
