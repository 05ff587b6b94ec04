"""The tables of the seeds say of each claim where it is shown; the tests, rows and cases that they name are there."""

import re
from pathlib import Path

import pytest

from tests.definitions.graph.semantics.test_semantics import NOUNS
from tests.seeds.test_runs import NAMED

TESTS = Path(__file__).parents[1]
TABLES = sorted(Path(__file__).parent.glob("test_seed_*.py"))
LINE = re.compile(r"(\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*) +(.+)")
NAME = re.compile(r"((?:\w+/)*\btest_\w+)(:?)|(;)|\bbelow\b")
NOT_BUILT = {
    "test_seed_000": set[int](),
    "test_seed_001": {2},
    "test_seed_002": {12, 13, 14, 15, 16},
    "test_seed_003": {42, 51},
    "test_seed_004": {4, 15, 133, 135, 142, 143, 151, 152, 156, 165},
}
"""The claims of which a table says that something is not built."""


def table(file: Path) -> str:
    """The table of a seed."""
    return file.read_text().split('"""', 2)[1]


def entries(text: str) -> list[tuple[list[int], str]]:
    """Its lines: the claims, and where they are shown."""
    found: list[tuple[list[int], str]] = []
    for line in text.partition("claim   where\n")[2].splitlines():
        if match := LINE.fullmatch(line):
            found.append(([number for part in match[1].split(",") for number in span(part)], match[2]))
        elif line:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return found


def span(part: str) -> range:
    """The numbers of ``7`` or ``7-9``."""
    first, _, last = part.strip().partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_every_test_that_a_table_names_is_there(file: Path) -> None:
    written = {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", file.read_text())}
    modules = {file.stem for file in TESTS.rglob("test_*.py")}
    told = set(re.findall(r"\btest_\w+", table(file)))
    assert told - modules
    assert told <= written | modules, f"named, and not there: {told - written - modules}"


def places(file: Path) -> list[tuple[str, str]]:
    """The modules that a table names, by the ends of their paths, each with a test that it names there, or with nothing."""
    found = list[tuple[str, str]]()
    for _, where in entries(table(file)):
        module, before = "", list[str]()
        for match in NAME.finditer(f"{where};"):
            name, is_module, ends = match.groups()
            if ends:
                module, before = "", []
            elif name is None:
                found += [(file.stem, one) for one in before]
            elif is_module or "/" in name:
                module = name
                found.append((name, ""))
            elif module:
                found.append((module, name))
            else:
                before.append(name)
    return found


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_every_test_is_in_the_module_that_a_table_names_for_it(file: Path) -> None:
    modules = {f"/{one.relative_to(TESTS).with_suffix('').as_posix()}": one.read_text() for one in TESTS.rglob("test_*.py")}
    named = places(file)
    assert (file.stem, "") not in named and any(module == file.stem for module, _ in named)
    for module, name in named:
        texts = [text for path, text in modules.items() if path.endswith(f"/{module}")]
        assert texts, f"there is no module {module}"
        assert not name or any(f"def {name}(" in text for text in texts), f"{module} has no {name}"


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_what_is_not_built_is_what_is_listed_here(file: Path) -> None:
    found = entries(table(file))
    assert {number for numbers, where in found for number in numbers if "not built: " in where} == NOT_BUILT[file.stem]
    vague = re.compile(r"\b(later|planned|not yet|future|to come|missing)\b", re.IGNORECASE)
    assert [(numbers, where) for numbers, where in found if vague.search(re.sub(r'"[^"]*"', "", where))] == []


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_every_row_and_every_case_that_a_table_names_is_there(file: Path) -> None:
    rows = {row.claim for module in NOUNS for row in module.ROWS}
    whole = " ".join(table(file).split())
    assert set(re.findall(r'\brow "([^"]+)"', whole)) <= rows
    assert set(re.findall(r"\bcase (\d\d\d_\w+)", whole)) <= set(NAMED)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_a_table_says_of_each_claim_just_once_where_it_is_shown_or_why_not(file: Path) -> None:
    text = table(file)
    bounds = re.match(r"Seed \d+, claims (\d+) to (\d+) ", text)
    assert bounds, "it says which claims it is about"
    found = entries(text)
    assert sorted(number for numbers, _ in found for number in numbers) == list(range(int(bounds[1]), int(bounds[2]) + 1))
    assert all(where.strip() for _, where in found)
