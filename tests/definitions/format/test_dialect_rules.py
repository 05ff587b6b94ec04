"""The differences between dialects are in one table, and nothing else asks which dialect a definition is in."""

import ast
from pathlib import Path

import pytest

import perdure
from perdure.definitions.format.dialect_rules import DIALECTS, RULES, document_rules

PACKAGE = Path(perdure.__file__).parent
NAMING = {"definitions/format/dialect_rules.py", "definitions/graph/ir.py"}
"""The table, and the type of the stored field."""


@pytest.mark.slow
def test_no_module_outside_of_the_dialects_and_the_table_names_a_dialect() -> None:
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (name := path.relative_to(PACKAGE).as_posix()).startswith("dialects/") and name not in NAMING
        if any(dialect in (source := path.read_text()) for dialect in DIALECTS if dialect)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and node.value in DIALECTS
    ]
    assert not found, "ask a field of DialectRules instead:\n" + "\n".join(found)


def test_each_dialect_has_rules_and_native_definitions_have_the_defaults() -> None:
    assert set(RULES) == {"", "ref_dag", "nested_steps", "port_graph", "token_graph"}
    assert [name for name, rules in RULES.items() if rules.expressions == "cel"] == [""]


@pytest.mark.parametrize("document", [{"dialect": "no such"}, {"dialect": 3}, {"dialect": ["ref_dag"]}, {"dialect": None}])
def test_a_document_of_an_unknown_dialect_is_checked_by_what_dialects_share(document: object) -> None:
    assert document_rules(document).expressions == "none"
    assert not document_rules(document).strict_order


@pytest.mark.parametrize("document", [{}, None, [], "text"])
def test_a_document_without_a_dialect_is_native(document: object) -> None:
    assert document_rules(document) is RULES[""]
