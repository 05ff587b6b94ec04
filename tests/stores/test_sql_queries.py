"""SQL in files: every statement has a name, a description and a use, and every name that code uses has a statement."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import perdure
from perdure.stores.sql_queries import SqlQueries, read_statements

SOURCE = Path(perdure.__file__).parent
PACKAGES = ["stores.sqlite", "stores.postgres"]
"""The packages whose module `statements` has their statements as `SQL`."""
WITHOUT_NAMES = {"tables.sql", "triggers.sql"}
"""Files of statements that create things; in Postgres, migrations do."""
COMPLETE = re.compile(r"(SELECT .*\bFROM|INSERT (OR \w+ )?INTO|UPDATE .*\bSET|DELETE FROM|WITH .*\bSELECT)\b.*(?<! = )\Z", re.DOTALL)
"""A statement, unless it ends where a value follows."""
SLOT = re.compile(r"\{(\w+)\}")


def uses(package: str) -> Iterator[str]:
    """Yields the statements that the modules of a package use."""
    for path in (SOURCE / package.replace(".", "/")).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "SQL":
                yield node.attr


def named_files(package: str) -> list[Path]:
    """The files of a package whose statements have names."""
    return [path for path in (SOURCE / package.replace(".", "/")).rglob("*.sql") if path.name not in WITHOUT_NAMES and path.parent.name != "migrations"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_statement_that_code_uses_is_in_a_file_and_every_statement_in_a_file_is_used(package: str) -> None:
    texts: dict[str, str] = {}
    for path in named_files(package):
        texts |= read_statements(path.read_text(encoding="utf-8"), path.name)
    used = set(uses(package))
    within = {name for text in texts.values() for name in SLOT.findall(text)} & {*texts}
    assert used - {*texts} == set(), "code uses statements that no file has"
    assert {*texts} - used - within == set(), "files have statements that nothing uses"
    assert {*import_module(f"perdure.{package}.statements").SQL} == {*texts}, "the module `statements` does not read every file"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_complete_statement_is_in_code(package: str) -> None:
    paths = (SOURCE / package.replace(".", "/")).rglob("*.py")
    found = [f"{path.name}:{line}: {text}" for path in paths for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))) if COMPLETE.match(text)]
    assert not found, "write it into a .sql file of the package, with a name and a description: " + "; ".join(found)


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the texts of a module, with their lines; without the parts of f-strings, which compose statements."""
    composed = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in composed:
            yield node.lineno, node.value


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package in `tmp_path`, in which a test writes files of statements."""
    (tmp_path / "statements_of_a_test").mkdir()
    (tmp_path / "statements_of_a_test/__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "statements_of_a_test"
    sys.modules.pop("statements_of_a_test", None)


def test_a_statement_is_read_by_name_without_its_description() -> None:
    script = "-- The file.\n\n-- name: first\n-- What it does.\nSELECT 1,\n    2;\n\n-- name: second\n-- Another.\nSELECT 3\n"
    assert read_statements(script, "one.sql") == {"first": "SELECT 1,\n    2", "second": "SELECT 3"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("-- name: one\nSELECT 1;", "lacks its description"),
        ("-- name: one\n-- What it does.\n", "lacks its text"),
        ("-- name: one two\n-- What it does.\nSELECT 1;", "is no name"),
        ("-- name: one\n-- What.\nSELECT 1;\n-- name: one\n-- What.\nSELECT 2;", "is one twice"),
    ],
)
def test_a_statement_without_a_name_description_or_text_is_refused(script: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_statements(script, "one.sql")


def write(tmp_path: Path, **files: str) -> None:
    """Writes files of statements, each statement with a description."""
    for name, script in files.items():
        (tmp_path / f"statements_of_a_test/{name}.sql").write_text(re.sub(r"(-- name: .*\n)", r"\1-- What it does.\n", script), encoding="utf-8")


def test_a_statement_within_another_one_is_filled_in_and_other_slots_stay(tmp_path: Path, package: str) -> None:
    write(tmp_path, one="-- name: columns\na, {more}\n", two="-- name: more\nb\n-- name: read\nSELECT {columns} FROM t WHERE {wanted};\n")
    queries = SqlQueries(package, "one.sql", "two.sql")
    assert queries.read.format(wanted="a = 1") == "SELECT a, b FROM t WHERE a = 1"
    assert [*queries] == ["columns", "more", "read"]


def test_an_unknown_statement_is_an_error_that_says_where_it_belongs(tmp_path: Path, package: str) -> None:
    write(tmp_path, one="-- name: known\nSELECT 1;\n")
    with pytest.raises(AttributeError, match=r"no SQL statement is named 'unknown'; add it to a \.sql file"):
        _ = SqlQueries(package, "one.sql").unknown


def test_two_files_with_one_name_and_a_statement_within_itself_are_refused(tmp_path: Path, package: str) -> None:
    write(tmp_path, one="-- name: read\nSELECT 1;\n", two="-- name: read\nSELECT 2;\n", three="-- name: a\n{b}\n-- name: b\n{a}\n")
    with pytest.raises(ValueError, match="two SQL statements 'read'"):
        SqlQueries(package, "one.sql", "two.sql")
    with pytest.raises(ValueError, match="contains itself"):
        SqlQueries(package, "three.sql")
