"""The architecture page names files, functions and classes that exist, and layers as the rules of the tree have them."""

import re
from functools import cache
from pathlib import Path

import pytest

from perdure.stores.sql_queries import read_statements
from tests import tidy
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/architecture.md"
PACKAGE = ROOT / "src/perdure"
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[\w./]+\.(?:py|sql|lua|md)|[\w/]+/")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
ROW = re.compile(r"^\| [^|]+ \| `([^`|]+)` \| ([^|]*)\|$", re.MULTILINE)

OF_USERS = {"body", "perdure", "greet.run", "handle.send", "idempotent", "now", "program", "when", "ctx.step", "ctx.listen", "ctx.join", "ctx.map", "ctx.race"}
"""What users write: the examples of the page."""


@cache
def names_in(path: Path) -> frozenset[str]:
    """The classes and functions of a module, and its methods, as `Class.method`; of a file of SQL, its statements."""
    if path.suffix == ".sql":
        return frozenset(read_statements(path.read_text(encoding="utf-8"), path.name))
    return frozenset(name for name, _ in tidy.definitions_of(tidy.parsed(path.read_text(encoding="utf-8"))))


@cache
def all_names() -> frozenset[str]:
    """Every class, function, method, SQL statement, module and package, and the parts of each."""
    found = {part for path in PACKAGE.rglob("*.py") for part in path.relative_to(PACKAGE).with_suffix("").parts}
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql")):
        found |= names_in(path) | {name.rpartition(".")[2] for name in names_in(path)}
    return frozenset(found)


def missing(text: str) -> list[str]:
    """The files and names in a page that do not exist."""
    found = []
    for file, functions in ROW.findall(text):
        if not FILE.fullmatch(file):
            continue
        if not (PACKAGE / file).exists():
            found.append(file)
        elif file.endswith((".py", ".sql")):
            found += [f"{file}: {name}" for name in CODE.findall(functions) if FILE.fullmatch(name) is None and name not in names_in(PACKAGE / file)]
    for span in CODE.findall(FENCED.sub("", text)):
        if FILE.fullmatch(span):
            if not any((root / span).exists() for root in (ROOT, PACKAGE)):
                found.append(span)
        elif NAME.fullmatch(span) and span not in OF_USERS | all_names():
            found.append(span)
    return found


@pytest.mark.slow
def test_every_file_and_function_of_the_page_exists() -> None:
    assert missing(PAGE.read_text(encoding="utf-8")) == []


def test_a_file_or_function_that_is_gone_is_found() -> None:
    text = "| a | `core/decision.py` | `decide`, `gone` |\n| b | `core/gone.py` | `decide` |\n\n`Engine` and `Engined` and `tests/tidy.py` and `gone/`\n"
    assert missing(text) == ["core/decision.py: gone", "core/gone.py", "gone", "core/gone.py", "Engined", "gone/"]


def test_the_page_has_every_package() -> None:
    text = PAGE.read_text(encoding="utf-8")
    packages = [path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}/" not in text] == []


def test_the_table_answers_at_least_twenty_questions() -> None:
    _, _, table = PAGE.read_text(encoding="utf-8").partition("## Where do I find…")
    assert len(ROW.findall(table)) >= 20
